"""What every victim search shares (preemption 1.3, 2.1, 3.2, 3.4): who may be taken, in what order, giving back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ledger.cluster_queue import NEVER, ClusterQueueNode, VictimKey
from ledger.tree import Journal, add_usage, available_signed, remove_usage, roll_back
from ledger.workloads import WorkloadState

LOWER_PRIORITY: Final = "LowerPriority"
LOWER_OR_NEWER_EQUAL: Final = "LowerOrNewerEqualPriority"
ANY: Final = "Any"

IN_CLUSTER_QUEUE: Final = "InClusterQueue"
IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
IN_COHORT_FAIR_SHARING: Final = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"


Borrowers = dict[tuple[str, str, frozenset[int]], list[ClusterQueueNode]]
"""By cohort, subtree left out and contested flavor-resources: the active queues that exceed their quota in these."""


class Target(NamedTuple):
    """A victim and the reason written on it (R6.1); `rule` is the number of the rule that let it be taken."""

    state: WorkloadState
    queue: ClusterQueueNode
    reason: str
    rule: str


class VictimProblem(NamedTuple):
    """One search: `requests` must fit together into `queue`, `contested` are the flavor-resources that lack room.

    `gone` are workloads that an earlier entry of the cycle claimed: out of the snapshot, also as victims (5.7.3).
    `borrowers` remembers between searches on unchanged tables who exceeds its quota; None where tables change.
    """

    queue: ClusterQueueNode
    state: WorkloadState
    requests: Mapping[int, int]
    contested: frozenset[int]
    gone: Collection[str] = frozenset()
    borrowers: Borrowers | None = None

    def fits(self, *, borrowing: bool) -> bool:
        """R3.2: the whole request vector has room, without exceeding nominal quota where borrowing is forbidden."""
        queue = self.queue
        for fr, value in self.requests.items():
            if not borrowing and queue.nominal.get(fr, 0) < queue.usage.get(fr, 0) + value:
                return False
            if value > 0 and value > available_signed(queue, fr):
                return False
        return True

    def room_left(self) -> dict[int, int]:
        """What would still be available beside the request; at least as much may come back without a test."""
        return {fr: available_signed(self.queue, fr) - value for fr, value in self.requests.items() if value > 0}

    def own_candidates(self) -> list[VictimKey]:
        """R2.5: holders of the preemptor's own queue, in order, evicted ones included."""
        if self.queue.within_cluster_queue == NEVER:
            return []
        return self.allowed(self.queue, self.queue.within_cluster_queue)

    def allowed(self, queue: ClusterQueueNode, policy: str) -> list[VictimKey]:
        """R1.14, R0.15: holders of `queue` that touch what is contested and that `policy` lets be taken, in order."""
        ranked = self._touching(queue)
        if policy == ANY:
            allowed = ranked
        elif policy == LOWER_PRIORITY:
            allowed = ranked[: bisect_left(ranked, (self.state.priority,))]
        elif policy == LOWER_OR_NEWER_EQUAL:
            lower = bisect_left(ranked, (self.state.priority,))
            equal = ranked[lower : bisect_left(ranked, (self.state.priority + 1,))]
            holders, order_time = queue.holders, self.state.order_time
            allowed = ranked[:lower] + [key for key in equal if order_time < holders[key[2]].order_time]
        else:
            return []
        if self.gone:
            allowed = [key for key in allowed if key[2] not in self.gone]
        return allowed if queue.consumption is None else queue.consumption.in_victim_order(queue, allowed)

    def _touching(self, queue: ClusterQueueNode) -> list[VictimKey]:
        if len(self.contested) == 1:
            (fr,) = self.contested
            return queue.holders_by_rank.get(fr, [])
        keys: set[VictimKey] = set()
        for fr in self.contested:
            keys.update(queue.holders_by_rank.get(fr, ()))
        return sorted(keys)


def take_out(queue: ClusterQueueNode, state: WorkloadState, journal: Journal) -> None:
    """Remove all that the workload holds from the snapshot, not only what is contested (R3.3)."""
    reservation = state.reservation
    assert reservation is not None
    for fr, value in reservation.usage.items():
        remove_usage(queue, fr, value, journal)


def put_back(queue: ClusterQueueNode, state: WorkloadState, journal: Journal) -> None:
    reservation = state.reservation
    assert reservation is not None
    for fr, value in reservation.usage.items():
        add_usage(queue, fr, value, journal)


def fill_back(problem: VictimProblem, removed: list[Target], *, borrowing: bool, journal: Journal) -> list[Target]:
    """R3.4: from the last but one removed to the first, keep those whose return would make the request unfit."""
    victims = [removed[-1]]
    room = problem.room_left()
    for target in reversed(removed[:-1]):
        mark = len(journal)
        put_back(target.queue, target.state, journal)
        assert target.state.reservation is not None
        held = target.state.reservation.usage
        for fr in room:
            room[fr] -= held.get(fr, 0)
        if (borrowing or target.queue is not problem.queue) and min(room.values(), default=0) >= 0:
            continue
        if not problem.fits(borrowing=borrowing):
            roll_back(journal, mark)
            victims.append(target)
        room = problem.room_left()
    victims.reverse()
    return victims


def evicted_first(queue: ClusterQueueNode, keys: Iterable[VictimKey]) -> list[VictimKey]:
    """R2.1.1 inside one queue."""
    if not queue.evicted_holders:
        return list(keys)
    evicted, others = split_evicted(queue, keys)
    return evicted + others


def split_evicted(queue: ClusterQueueNode, keys: Iterable[VictimKey]) -> tuple[list[VictimKey], list[VictimKey]]:
    evicted, others = list[VictimKey](), list[VictimKey]()
    for key in keys:
        (evicted if key[2] in queue.evicted_holders else others).append(key)
    return evicted, others
