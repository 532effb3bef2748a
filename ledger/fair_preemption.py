"""Preemption under fair sharing: the victim search by dominant resource shares (preemption 2.3 and 4.2 to 4.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from ledger.cluster_queue import NEVER, ClusterQueueNode, VictimKey
from ledger.shares import NO_SHARE, Share, ShareKey, share_of
from ledger.tree import CohortNode, FlavorResources, Journal, Node, add_usage, remove_usage, roll_back
from ledger.victims import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_FAIR_SHARING,
    IN_COHORT_RECLAMATION,
    Target,
    VictimProblem,
    evicted_first,
    fill_back,
    take_out,
)

FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
INITIAL_SHARE: Final = "LessThanInitialShare"

Waiting = dict[str, deque[VictimKey]]


def passes_final_share(preemptor: ShareKey, before: ShareKey, after: ShareKey) -> bool:
    """R4.11 S2-a."""
    return preemptor <= after


def passes_initial_share(preemptor: ShareKey, before: ShareKey, after: ShareKey) -> bool:
    """R4.11 S2-b."""
    return preemptor < before


STRATEGIES: Final[dict[str, Callable[[ShareKey, ShareKey, ShareKey], bool]]] = {
    FINAL_SHARE: passes_final_share,
    INITIAL_SHARE: passes_initial_share,
}


class FairVictimSearch:
    """One search. `prefers_nominal` is gate FairSharingPreemptWithinNominal (R4.21)."""

    def __init__(
        self, problem: VictimProblem, numbers: FlavorResources, strategies: Sequence[str], *, prefers_nominal: bool
    ) -> None:
        self._problem = problem
        self._numbers = numbers
        self._strategies = strategies
        self._prefers_nominal = prefers_nominal
        self._journal: Journal = []
        self._removed: list[Target] = []
        self._ancestors = set(problem.queue.path[1:])

    def find(self) -> list[Target]:
        """R4.20 to R4.28: the victims, or none. The tables are as before when it returns."""
        waiting = self._candidates()
        if not waiting:
            return []
        problem = self._problem
        self._add_incoming()
        retry: Waiting = {}
        found = self._first_pass(waiting, retry)
        if not found and len(self._strategies) > 1:
            found = self._second_pass(retry)
        victims: list[Target] = []
        if found:
            self._remove_incoming()
            victims = fill_back(problem, self._removed, borrowing=True, journal=self._journal)
        roll_back(self._journal)
        return victims

    def _candidates(self) -> Waiting:
        """R2.13: in order, those of the own queue and of every queue of the tree that borrows what is contested."""
        problem = self._problem
        queue = problem.queue
        waiting: Waiting = {}
        own = problem.own_candidates()
        if own:
            waiting[queue.name] = deque(evicted_first(queue, own))
        if queue.parent is None or queue.reclaim_within_cohort == NEVER:
            return waiting
        for other in queue.tree.queues:
            if other is queue or not other.active:
                continue
            if any(other.nominal.get(fr, 0) < other.usage.get(fr, 0) for fr in problem.contested):
                keys = problem.allowed(other, queue.reclaim_within_cohort)
                if keys:
                    waiting[other.name] = deque(evicted_first(other, keys))
        return waiting

    def _first_pass(self, waiting: Waiting, retry: Waiting) -> bool:
        """R4.22 with the first strategy; what fails it is set aside in `retry`."""
        problem = self._problem
        strategy = STRATEGIES[self._strategies[0]]
        nominal = self._is_within_nominal()
        order = TargetOrder(problem, self._numbers, waiting, self._ancestors)
        while (queue := order.next()) is not None:
            keys = waiting[queue.name]
            if queue is problem.queue:
                if self._evict(queue, keys.popleft(), IN_CLUSTER_QUEUE, "R4.22"):
                    return True
                continue
            if nominal:
                if self._evict(queue, keys.popleft(), IN_COHORT_RECLAMATION, "R4.21"):
                    return True
                continue
            ours, theirs = almost_common_ancestors(problem.queue, queue)
            preemptor, before = share_of(ours, self._numbers), share_of(theirs, self._numbers)
            if preemptor.weighted == inf and before.weighted != inf:
                retry.setdefault(queue.name, deque()).extend(keys)
                keys.clear()
                continue
            while keys:
                key = keys.popleft()
                if not strategy(preemptor.key, before.key, self._share_without(theirs, queue, key).key):
                    retry.setdefault(queue.name, deque()).append(key)
                    continue
                if self._evict(queue, key, IN_COHORT_FAIR_SHARING, f"R4.11 {self._strategies[0]}"):
                    return True
                break
        return False

    def _second_pass(self, retry: Waiting) -> bool:
        """R4.27: every queue gets one chance by the initial share, keeping the victims so far."""
        problem = self._problem
        order = TargetOrder(problem, self._numbers, retry, self._ancestors)
        while (queue := order.next()) is not None:
            ours, theirs = almost_common_ancestors(problem.queue, queue)
            passes = passes_initial_share(
                share_of(ours, self._numbers).key, share_of(theirs, self._numbers).key, NO_SHARE
            )
            key = retry[queue.name].popleft()
            if passes and self._evict(queue, key, IN_COHORT_FAIR_SHARING, f"R4.27 {INITIAL_SHARE}"):
                return True
            order.drop(queue)
        return False

    def _is_within_nominal(self) -> bool:
        """R4.21: judged once, with the incoming workload included, on the own queue's line only."""
        queue = self._problem.queue
        return self._prefers_nominal and all(
            queue.usage.get(fr, 0) <= queue.nominal.get(fr, 0) for fr in self._problem.contested
        )

    def _evict(self, queue: ClusterQueueNode, key: VictimKey, reason: str, rule: str) -> bool:
        """Take one victim out; True when the request then fits."""
        state = queue.holders[key[2]]
        take_out(queue, state, self._journal)
        self._removed.append(Target(state, queue, reason, rule))
        self._remove_incoming()
        fits = self._problem.fits(borrowing=True)
        self._add_incoming()
        return fits

    def _share_without(self, node: Node, queue: ClusterQueueNode, key: VictimKey) -> Share:
        """R4.13."""
        mark = len(self._journal)
        take_out(queue, queue.holders[key[2]], self._journal)
        share = share_of(node, self._numbers)
        roll_back(self._journal, mark)
        return share

    def _add_incoming(self) -> None:
        for fr, value in self._problem.requests.items():
            add_usage(self._problem.queue, fr, value, self._journal)

    def _remove_incoming(self) -> None:
        for fr, value in self._problem.requests.items():
            remove_usage(self._problem.queue, fr, value, self._journal)


class TargetOrder:
    """R4.14: which ClusterQueue gives the next victim; dropping a node is for good."""

    def __init__(
        self, problem: VictimProblem, numbers: FlavorResources, waiting: Waiting, ancestors: set[Node]
    ) -> None:
        self._problem = problem
        self._numbers = numbers
        self._waiting = waiting
        self._ancestors = ancestors
        self._dropped: set[Node] = set()

    def next(self) -> ClusterQueueNode | None:
        own = self._problem.queue
        if own.parent is None:
            return own if self._waiting.get(own.name) else None
        root = own.path[-1]
        assert isinstance(root, CohortNode)
        while root not in self._dropped:
            queue = self._descend(root)
            if queue is not None:
                return queue
        return None

    def drop(self, queue: ClusterQueueNode) -> None:
        self._dropped.add(queue)

    def _descend(self, cohort: CohortNode) -> ClusterQueueNode | None:
        queue, queue_share = self._best_queue(cohort)
        child, child_share = self._best_cohort(cohort)
        if queue is None and child is None:
            self._dropped.add(cohort)
            return None
        if child is not None and child_share >= queue_share:
            return self._descend(child)
        return queue

    def _best_queue(self, cohort: CohortNode) -> tuple[ClusterQueueNode | None, ShareKey]:
        best, best_share = None, NO_SHARE
        for name in sorted(cohort.child_queues):
            queue = cohort.child_queues[name]
            if queue in self._dropped:
                continue
            share = share_of(queue, self._numbers)
            if not self._waiting.get(name) or (not share.is_borrowing and queue is not self._problem.queue):
                self._dropped.add(queue)
                continue
            key = share.key
            if best is None or key > best_share or (key == best_share and self._is_earlier(queue, best)):
                best, best_share = queue, key
        return best, best_share

    def _best_cohort(self, cohort: CohortNode) -> tuple[CohortNode | None, ShareKey]:
        best, best_share = None, NO_SHARE
        for name in sorted(cohort.child_cohorts):
            child = cohort.child_cohorts[name]
            if child in self._dropped:
                continue
            share = share_of(child, self._numbers)
            if not share.is_borrowing and child not in self._ancestors:
                self._dropped.add(child)
                continue
            # Equal shares: the smallest name (preemption N1).
            if best is None or share.key > best_share:
                best, best_share = child, share.key
        return best, best_share

    def _is_earlier(self, a: ClusterQueueNode, b: ClusterQueueNode) -> bool:
        return self._first_rank(a) < self._first_rank(b)

    def _first_rank(self, queue: ClusterQueueNode) -> tuple[bool, bool, VictimKey]:
        key = self._waiting[queue.name][0]
        return (key[2] not in queue.evicted_holders, queue is self._problem.queue, key)


def almost_common_ancestors(a: ClusterQueueNode, b: ClusterQueueNode) -> tuple[Node, Node]:
    """R4.12: the children, on either side, of the lowest cohort that contains both."""
    above_b: dict[Node, Node] = {parent: child for child, parent in zip(b.path, b.path[1:], strict=False)}
    for child, parent in zip(a.path, a.path[1:], strict=False):
        if parent in above_b:
            return child, above_b[parent]
    raise AssertionError("queues of one tree have a common ancestor")
