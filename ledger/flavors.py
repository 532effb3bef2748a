"""Choosing flavors for a workload (admission 5.3 and 5.4, preemption 1.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ledger.amounts import add, subtract
from ledger.assignment import (
    Assignment,
    Attempt,
    Blocker,
    Mode,
    PodSetAssignment,
    ResourceAssignment,
    SearchMode,
)
from ledger.cluster_queue import NEVER, ClusterQueueNode, ResourceGroup
from ledger.requests import PodSetRequests, fnv1a_order
from ledger.selectors import UnparsableAffinity
from ledger.tree import available, borrow_level, potential
from ledger.workloads import PassedOver, Shortage, WorkloadState

PODS: Final = "pods"

GranularMode = tuple[SearchMode, int]
"""How a flavor can be had, and the height up to which it borrows for that."""

# Python 3.11 takes longer to look up a member of an enumeration than to call a function.
_NO_FIT: Final = SearchMode.NO_FIT
_NO_CANDIDATES: Final = SearchMode.NO_CANDIDATES
_FIT: Final = SearchMode.FIT
_FITS: Final = Mode.FIT
_PREEMPTS: Final = Mode.PREEMPT
_NOTHING: Final = Blocker.NONE

_BEST: Final[GranularMode] = (_FIT, 0)
_WORST: Final[GranularMode] = (_NO_FIT, 2**31)


class SearchRules(NamedTuple):
    """What of the Configuration and of the cluster a flavor search depends on.

    `mismatch(state, pod set index, flavor)` says why a pod set cannot use a flavor (5.3.6), or None; `simulate` is the
    victim search for one flavor-resource (5.4.5).
    """

    mismatch: Callable[[WorkloadState, int, str], str | None]
    simulate: Callable[[ClusterQueueNode, WorkloadState, int, int, int], GranularMode]
    fair_sharing: bool
    fungibility: bool
    ignore_undeclared: bool


class FlavorSearch:
    """One search for one workload in one ClusterQueue; `start` is the flavor memory (5.5), `pinned` 5.7.3."""

    __slots__ = ("_queue", "_result", "_rules", "_start", "_state", "pinned")

    def __init__(
        self,
        queue: ClusterQueueNode,
        state: WorkloadState,
        rules: SearchRules,
        *,
        start: Sequence[Mapping[str, int]] = (),
        pinned: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        self._queue = queue
        self._state = state
        self._rules = rules
        self._start = start if rules.fungibility else ()
        self.pinned = pinned

    def assign(self, pod_sets: Sequence[PodSetRequests]) -> Assignment:
        """5.3: flavors for pod sets of the given sizes, in spec order, until one fails."""
        self._result = result = Assignment()
        covers_pods = PODS in self._queue.group_of
        vectors = [
            {**pod_set.requests, PODS: pod_set.count} if covers_pods else pod_set.requests for pod_set in pod_sets
        ]
        for members in self._pod_set_groups(pod_sets):
            requests = vectors[members[0]] if len(members) == 1 else _sum_vectors([vectors[i] for i in members])
            flavors, mode, complete = self._assign_group(members, requests)
            for index in members:
                pod_set, own, lowest = pod_sets[index], flavors, mode
                if len(members) > 1:
                    own = {resource: flavors[resource] for resource in vectors[index] if resource in flavors}
                    if mode is _PREEMPTS:
                        lowest = min((a.mode for a in own.values()), default=Mode.NO_FIT)
                result.append(PodSetAssignment(pod_set.name, pod_set.count, vectors[index], own, lowest))
            if not complete:
                return result
        return result

    def _pod_set_groups(self, pod_sets: Sequence[PodSetRequests]) -> list[list[int]]:
        """5.3.2: pod sets that name the same group stand together, at the position of the first."""
        if len(pod_sets) == 1:
            return [[0]]
        spec_sets = self._state.workload.spec.pod_sets
        groups: list[list[int]] = []
        named: dict[str, list[int]] = {}
        for index in range(len(pod_sets)):
            request = spec_sets[index].topology_request
            name = request.pod_set_group_name if request is not None else None
            if name and name in named:
                named[name].append(index)
                continue
            groups.append([index])
            if name:
                named[name] = groups[-1]
        return groups

    def _assign_group(
        self, members: list[int], requests: Mapping[str, int]
    ) -> tuple[dict[str, ResourceAssignment], Mode, bool]:
        """5.3.3, 5.3.4: a flavor for every resource of the group, its mode, and whether the next group may follow."""
        flavors: dict[str, ResourceAssignment] = {}
        mode = _FITS
        ordered = fnv1a_order(requests)
        for resource in ordered:
            if resource in flavors:
                continue
            group = self._queue.group_of.get(resource)
            if group is None:
                if requests[resource] == 0 or self._rules.ignore_undeclared:
                    continue
                self._pass_over(members, "", resource, "NotCovered")
                return {}, Mode.NO_FIT, False
            covered = [name for name in ordered if name in group.resources]
            found = self._search(members, group, covered, requests)
            if found is None:
                return {}, Mode.NO_FIT, False
            flavors.update(found[0])
            if found[1][0] is not _FIT:
                mode = _PREEMPTS
        # 5.3.14: a pod set all of whose requests are skipped ends the assignment; what follows it is refused (11.4).
        if requests and not flavors and members[-1] + 1 < len(self._state.workload.spec.pod_sets):
            return {}, Mode.NO_FIT, False
        return flavors, mode, True

    def _search(
        self, members: list[int], group: ResourceGroup, resources: list[str], requests: Mapping[str, int]
    ) -> tuple[dict[str, ResourceAssignment], GranularMode] | None:
        """5.3.5: the flavor of one resource group for one pod set group; None when there is none."""
        group_index = group.index
        opener = resources[0]
        best: tuple[str, dict[str, GranularMode], int] | None = None
        best_mode = _WORST
        looked_at = -1
        for index in range(self._first_index(members[0], opener), len(group.flavors)):
            looked_at = index
            flavor = group.flavors[index]
            if self.pinned is not None and not self._is_pinned(members, opener, flavor):
                continue
            try:
                mismatch = self._mismatch(members, flavor)
            except UnparsableAffinity as error:
                self._pass_over(members, flavor, opener, str(error))
                return None
            if mismatch is not None:
                self._attempt(members, group_index, flavor, _NO_FIT, Blocker.NO_MATCHING_FLAVOR)
                self._pass_over(members, flavor, opener, mismatch)
                continue
            mode, modes = self._evaluate(members, group_index, group, index, resources, requests)
            if self._stops_at(mode):
                best, best_mode = (flavor, modes, index), mode
                break
            if self._is_preferred(mode, best_mode):
                best, best_mode = (flavor, modes, index), mode
        if best is None or best_mode[0] is _NO_FIT:
            return None
        tried = -1 if looked_at == len(group.flavors) - 1 else looked_at
        flavor, modes, index = best
        numbers = group.flavor_resources[index]
        assigned = {
            resource: ResourceAssignment(flavor, numbers[resource], _FITS if mode is _FIT else _PREEMPTS, level, tried)
            for resource, (mode, level) in modes.items()
        }
        return assigned, best_mode

    def _first_index(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self._start):
            return 0
        return self._start[pod_set].get(resource, -1) + 1

    def _is_pinned(self, members: list[int], resource: str, flavor: str) -> bool:
        assert self.pinned is not None
        return any(index < len(self.pinned) and self.pinned[index].get(resource) == flavor for index in members)

    def _mismatch(self, members: list[int], flavor: str) -> str | None:
        for index in members:
            mismatch = self._rules.mismatch(self._state, index, flavor)
            if mismatch is not None:
                return mismatch
        return None

    def _evaluate(
        self,
        members: list[int],
        group_index: int,
        group: ResourceGroup,
        index: int,
        resources: list[str],
        requests: Mapping[str, int],
    ) -> tuple[GranularMode, dict[str, GranularMode]]:
        """5.3.5 step 5: the mode of a flavor is that of its worst resource."""
        worst, blocker = _BEST, _NOTHING
        modes: dict[str, GranularMode] = {}
        numbers = group.flavor_resources[index]
        for resource in resources:
            fr = numbers[resource]
            need = add(self._result.usage.get(fr, 0), requests[resource])
            refused = worst[0] is _NO_FIT
            mode, stands_in_the_way = self._evaluate_resource(members, fr, need, refused=refused)
            if stands_in_the_way > blocker:
                blocker = stands_in_the_way
            modes[resource] = mode
            if mode != worst and self._is_preferred(worst, mode):
                worst = mode
        self._attempt(members, group_index, group.flavors[index], worst[0], blocker)
        return worst, modes

    def _evaluate_resource(
        self, members: list[int], fr: int, need: int, *, refused: bool = False
    ) -> tuple[GranularMode, Blocker]:
        """5.4: one resource on one flavor, `need` including what earlier pod sets of the workload were given.

        Once another resource refused the flavor, no victims are sought, but the reason given is still the most severe
        over all resources (5.8.4 step 1).
        """
        queue = self._queue
        maximum = potential(queue, fr)
        free = available(queue, fr)
        if need <= free and need <= maximum:
            return (_FIT, borrow_level(queue, fr, need)[0]), _NOTHING
        name = self._state.workload.spec.pod_sets[members[0]].name
        self._result.shortages.append(Shortage(name, fr, need, free, maximum))
        if need > maximum:
            return (_NO_FIT, 0), Blocker.EXCEEDS_MAX_QUOTA
        level, more = borrow_level(queue, fr, need)
        if need <= queue.nominal.get(fr, 0) or more or self._may_preempt_while_borrowing():
            if refused:
                return (_NO_CANDIDATES, level), _NOTHING
            return self._rules.simulate(queue, self._state, fr, need, level), _NOTHING
        return (_NO_FIT, level), Blocker.WAITING_FOR_QUOTA

    def _may_preempt_while_borrowing(self) -> bool:
        """5.4.4, R1.3."""
        queue = self._queue
        return queue.borrow_within_cohort != NEVER or (
            self._rules.fair_sharing and queue.reclaim_within_cohort != NEVER
        )

    def _stops_at(self, mode: GranularMode) -> bool:
        """5.3.8 and, without fungibility, 5.3.11."""
        search_mode, level = mode
        if not self._rules.fungibility:
            return search_mode is _FIT
        if search_mode <= _NO_CANDIDATES:
            return False
        if search_mode is not _FIT and self._queue.next_flavor_when_preempting:
            return False
        return not (level > 0 and self._queue.next_flavor_when_borrowing)

    def _is_preferred(self, a: GranularMode, b: GranularMode) -> bool:
        """5.3.9: whether a is strictly preferred over b."""
        if a[0] is _NO_FIT:
            return False
        if b[0] is _NO_FIT:
            return True
        if not self._rules.fungibility:
            return a[0] > b[0]
        if (a[0] is _NO_CANDIDATES) != (b[0] is _NO_CANDIDATES):
            return b[0] is _NO_CANDIDATES
        if self._queue.prefers_preempting:
            return a[1] < b[1] if a[1] != b[1] else a[0] > b[0]
        return a[0] > b[0] if a[0] is not b[0] else a[1] < b[1]

    def _attempt(self, members: list[int], group: int, flavor: str, mode: SearchMode, blocker: Blocker) -> None:
        for index in members:
            self._result.attempts.append(Attempt(index, group, flavor, mode, blocker))

    def _pass_over(self, members: list[int], flavor: str, resource: str, reason: str) -> None:
        name = self._state.workload.spec.pod_sets[members[0]].name
        self._result.passed_over.append(PassedOver(name, flavor, resource, reason))


def _sum_vectors(vectors: list[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for vector in vectors:
        for resource, amount in vector.items():
            total[resource] = add(total.get(resource, 0), amount)
    return total


def missing(shortage: Shortage) -> int:
    """How much more would be needed: above what is free, or above what can ever be had."""
    reachable = shortage.maximum if shortage.requested > shortage.maximum else shortage.available
    return subtract(shortage.requested, reachable)
