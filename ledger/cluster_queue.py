"""A ClusterQueue in the ledger: its quota node, its policies, who waits in it and who holds quota in it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final

from ledger.amounts import MAXIMUM, add
from ledger.consumption import Consumption
from ledger.objects.cluster_queue import ClusterQueue
from ledger.objects.quota import FairSharing, FlavorQuotas
from ledger.pending import PendingQueue
from ledger.quantity import NANO, quota_amount
from ledger.tree import FlavorResources, Journal, Node, add_usage, remove_usage
from ledger.workloads import WorkloadState

TRY_NEXT_FLAVOR: Final = "TryNextFlavor"
NEVER: Final = "Never"

VictimKey = tuple[int, int, str]


class ResourceGroup:
    """1.1: resources that share a list of flavors; the order of flavors is the search order (5.3)."""

    __slots__ = ("flavor_resources", "flavors", "index", "resources")

    def __init__(
        self,
        index: int,
        flavors: tuple[str, ...],
        resources: tuple[str, ...],
        flavor_resources: tuple[dict[str, int], ...],
    ) -> None:
        self.index = index
        self.flavors = flavors
        self.resources = frozenset(resources)
        self.flavor_resources = flavor_resources


class ClusterQueueNode(Node):
    """The leaf of the quota tree that workloads are charged to (admission 1.1).

    `active` says whether it takes part in scheduling (4.9); an inactive one keeps its quota and usage in the tree.
    `generation` is the counter of 5.5.3. `holders` are the workloads whose charge is in `usage`; `admitted_usage`
    counts only the admitted ones of them. `stuck` is the quirk of 3.9.7. `consumption` is set while admission fair
    sharing orders its victims (preemption R7.22).
    """

    __slots__ = (
        "active",
        "admitted_usage",
        "borrow_priority_threshold",
        "borrow_within_cohort",
        "cohort_name",
        "consumption",
        "evicted_holders",
        "generation",
        "group_of",
        "groups",
        "holders",
        "holders_by_rank",
        "holders_version",
        "inactive_message",
        "inactive_reason",
        "is_strict",
        "next_flavor_when_borrowing",
        "next_flavor_when_preempting",
        "pending",
        "prefers_preempting",
        "reclaim_within_cohort",
        "source",
        "stuck",
        "within_cluster_queue",
    )

    def __init__(self, source: ClusterQueue, numbers: FlavorResources) -> None:
        super().__init__(source.metadata.name)
        self.active = False
        self.stuck = False
        self.inactive_reason = ""
        self.inactive_message = ""
        self.generation = 0
        self.pending = PendingQueue()
        self.holders: dict[str, WorkloadState] = {}
        self.holders_version = 0
        self.holders_by_rank: dict[int, list[VictimKey]] = {}
        self.evicted_holders: dict[str, WorkloadState] = {}
        self.admitted_usage: dict[int, int] = {}
        self.consumption: Consumption | None = None
        self.take_spec(source, numbers)

    def take_spec(self, source: ClusterQueue, numbers: FlavorResources) -> None:
        """Quota and policies from the object; the tree must be recomputed afterwards (3.2.5)."""
        spec = source.spec
        self.source = source
        self.cohort_name = spec.cohort_name
        self.is_strict = spec.queueing_strategy == "StrictFIFO"
        self.weight = fair_weight(spec.fair_sharing)
        self._take_quota(numbers)
        self._take_policies()

    def _take_quota(self, numbers: FlavorResources) -> None:
        groups: list[ResourceGroup] = []
        self.nominal, self.borrowing_limit, self.lending_limit = {}, {}, {}
        for group in self.source.spec.resource_groups:
            tables = []
            for flavor in group.flavors:
                tables.append({quota.name: numbers.number(flavor.name, quota.name) for quota in flavor.resources})
                take_flavor_quota(self, flavor, numbers)
            names = tuple(flavor.name for flavor in group.flavors)
            groups.append(ResourceGroup(len(groups), names, tuple(group.covered_resources), tuple(tables)))
        self.groups = tuple(groups)
        self.group_of = {resource: group for group in groups for resource in group.resources}

    def _take_policies(self) -> None:
        spec = self.source.spec
        preemption, fungibility = spec.preemption, spec.flavor_fungibility
        self.within_cluster_queue = preemption.within_cluster_queue
        self.reclaim_within_cohort = preemption.reclaim_within_cohort
        self.borrow_within_cohort = preemption.borrow_within_cohort.policy
        self.borrow_priority_threshold = preemption.borrow_within_cohort.max_priority_threshold
        self.next_flavor_when_borrowing = fungibility.when_can_borrow == TRY_NEXT_FLAVOR
        self.next_flavor_when_preempting = fungibility.when_can_preempt == TRY_NEXT_FLAVOR
        self.prefers_preempting = fungibility.preference == "PreemptionOverBorrowing"

    def charge(self, state: WorkloadState, journal: Journal | None = None) -> None:
        """3.3.6: the workload's reservation counts in the tree from now on."""
        reservation = state.reservation
        assert reservation is not None
        for fr, value in reservation.usage.items():
            add_usage(self, fr, value, journal)
            if reservation.admitted:
                self.admitted_usage[fr] = self.admitted_usage.get(fr, 0) + value
        reservation.charged = True
        self.holders[state.uid] = state
        self.rank_holder(state)

    def discharge(self, state: WorkloadState) -> None:
        """The reservation counts no longer; the ClusterQueue's generation grows (5.5.3)."""
        reservation = state.reservation
        assert reservation is not None
        for fr, value in reservation.usage.items():
            remove_usage(self, fr, value)
            if reservation.admitted:
                self.admitted_usage[fr] -= value
        reservation.charged = False
        self.unrank_holder(state)
        del self.holders[state.uid]
        self.generation += 1

    def is_saturated(self, frs: Iterable[int]) -> bool:
        """Whether a total of these reached the bound, here or above: it does not come back by arithmetic (0.4.5)."""
        return any(node.usage.get(fr, 0) >= MAXIMUM for fr in frs for node in self.path)

    def sum_holders(self) -> None:
        """The tables from what is held now."""
        self.usage.clear()
        for state in self.holders.values():
            assert state.reservation is not None
            for fr, value in state.reservation.usage.items():
                self.usage[fr] = add(self.usage.get(fr, 0), value)
        if not self.tree.cyclic:
            self.tree.recompute()

    def mark_admitted(self, state: WorkloadState) -> None:
        """The charge counts as used, not merely reserved (1.1.5)."""
        reservation = state.reservation
        assert reservation is not None and not reservation.admitted
        reservation.admitted = True
        if reservation.charged:
            for fr, value in reservation.usage.items():
                self.admitted_usage[fr] = self.admitted_usage.get(fr, 0) + value

    def rank_holder(self, state: WorkloadState) -> None:
        """Into the order in which holders of this queue are taken as victims (5.9.3), by flavor-resource."""
        self.holders_version += 1
        key = victim_key(state)
        state.victim_key = key
        reservation = state.reservation
        assert reservation is not None
        for fr in reservation.flavor_resources:
            insort(self.holders_by_rank.setdefault(fr, []), key)
        if state.is_evicted:
            self.evicted_holders[state.uid] = state

    def mark_evicted(self, state: WorkloadState) -> None:
        """The holder is the first of all victims from now on (R2.1.1)."""
        self.holders_version += 1
        self.evicted_holders[state.uid] = state

    def unmark_evicted(self, state: WorkloadState) -> None:
        self.holders_version += 1
        self.evicted_holders.pop(state.uid, None)

    def unrank_holder(self, state: WorkloadState) -> None:
        self.holders_version += 1
        key, reservation = state.victim_key, state.reservation
        assert key is not None and reservation is not None
        for fr in reservation.flavor_resources:
            ranked = self.holders_by_rank[fr]
            del ranked[bisect_left(ranked, key)]
        state.victim_key = None
        self.evicted_holders.pop(state.uid, None)


def victim_key(state: WorkloadState) -> VictimKey:
    """5.9.3 / R2.1 inside one ClusterQueue: lower priority, later reservation (whole seconds, N5), smaller uid."""
    assert state.reservation is not None
    return (state.priority, -(state.reservation.reserved_at // 1_000_000), state.uid)


def take_flavor_quota(node: Node, flavor: FlavorQuotas, numbers: FlavorResources) -> None:
    """Nominal quota and limits of one flavor onto a node (admission 0.4.2)."""
    for quota in flavor.resources:
        fr = numbers.number(flavor.name, quota.name)
        node.nominal[fr] = quota_amount(quota.nominal_quota, quota.name)
        if quota.borrowing_limit is not None:
            node.borrowing_limit[fr] = quota_amount(quota.borrowing_limit, quota.name)
        if quota.lending_limit is not None:
            node.lending_limit[fr] = quota_amount(quota.lending_limit, quota.name)


def fair_weight(fair_sharing: FairSharing) -> float:
    """R4.6: the weight as the nearest double."""
    return int(fair_sharing.weight) / NANO
