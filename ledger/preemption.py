"""Classical preemption: the victim search without fair sharing (preemption 2.2 and 3, admission 5.9.4 to 5.9.11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import repeat
from operator import itemgetter
from typing import Final, NamedTuple

from ledger.amounts import add, subtract
from ledger.cluster_queue import NEVER, ClusterQueueNode, VictimKey
from ledger.tree import CohortNode, Journal, available, is_within_quota, roll_back, room_in_quota
from ledger.victims import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_RECLAIM_WHILE_BORROWING,
    IN_COHORT_RECLAMATION,
    Target,
    VictimProblem,
    fill_back,
    take_out,
)
from ledger.workloads import WorkloadState

NOTHING_LACKS: Final = (-1, 0)


class Source(NamedTuple):
    """Candidates of one ClusterQueue in order; `meeting` is the ancestor at which they were collected (R2.6)."""

    queue: ClusterQueueNode
    keys: list[VictimKey]
    hierarchical: bool
    meeting: CohortNode | None


class Candidates(NamedTuple):
    own: Source
    hierarchical: list[Source]
    by_priority: list[Source]


class Candidate(NamedTuple):
    state: WorkloadState
    source: Source


def find_classical_victims(problem: VictimProblem) -> list[Target]:
    """R3.1: up to two runs over the candidates, with and without borrowing; no victims when neither succeeds.

    The tables are as before when it returns.
    """
    candidates = collect_candidates(problem)
    if not (candidates.own.keys or candidates.hierarchical or candidates.by_priority):
        return []
    journal: Journal = []
    for borrowing in runs(problem, candidates):
        eligible = candidates
        if borrowing and problem.queue.borrow_within_cohort == NEVER:
            eligible = candidates._replace(by_priority=[])  # R2.10: all of them are NoBorrow.
        if not can_suffice(problem, eligible, borrowing=borrowing):
            continue
        victims = run(problem, eligible, journal, borrowing=borrowing)
        roll_back(journal)
        if victims:
            return victims
    return []


def takes_nobody(queue: ClusterQueueNode) -> bool:
    """Whether the queue's policies allow no candidates, whoever holds what (R2.5, R2.6)."""
    return queue.within_cluster_queue == NEVER and (queue.parent is None or queue.reclaim_within_cohort == NEVER)


def can_suffice(problem: VictimProblem, candidates: Candidates, *, borrowing: bool) -> bool:
    """Whether all candidates together hold what is missing. Taking out an amount never makes room for more than that
    amount, and only its own holders bring a queue back to its nominal quota; where they do not, no run succeeds."""
    own = (candidates.own,)
    if not borrowing and not all(hold_at_least(excess, fr, own) for fr, excess in excesses(problem)):
        return False
    sources = (candidates.own, *candidates.hierarchical, *candidates.by_priority)
    return all(hold_at_least(short, fr, sources) for fr, short in shortages(problem))


def shortages(problem: VictimProblem) -> Iterator[tuple[int, int]]:
    """What each request lacks: at least that much has to be taken out."""
    return ((fr, subtract(value, available(problem.queue, fr))) for fr, value in problem.requests.items())


def excesses(problem: VictimProblem) -> Iterator[tuple[int, int]]:
    """By how much the queue would exceed its nominal quota with each request."""
    queue = problem.queue
    for fr, value in problem.requests.items():
        yield fr, subtract(add(queue.usage.get(fr, 0), value), queue.nominal.get(fr, 0))


def hold_at_least(amount: int, fr: int, sources: Iterable[Source]) -> bool:
    if amount <= 0:
        return True
    for source in sources:
        holders = source.queue.holders
        for key in source.keys:
            amount -= amount_held(holders[key[2]], fr)
            if amount <= 0:
                return True
    return False


def amount_held(state: WorkloadState, fr: int) -> int:
    reservation = state.reservation
    assert reservation is not None
    return reservation.usage.get(fr, 0)


def runs(problem: VictimProblem, candidates: Candidates) -> tuple[bool, ...]:
    """R3.1: whether each run, in order, allows borrowing."""
    queue = problem.queue
    forbidden = queue.borrow_within_cohort == NEVER
    under = all(queue.nominal.get(fr, 0) > queue.usage.get(fr, 0) for fr in problem.contested)
    if not (candidates.hierarchical or candidates.by_priority) or (forbidden and not under):
        return (True,)
    if forbidden and not candidates.hierarchical:
        return (False, True)
    return (True, False)


def run(problem: VictimProblem, candidates: Candidates, journal: Journal, *, borrowing: bool) -> list[Target]:
    """R3.3: take candidates out until the request fits, then give back what was not needed."""
    removed: list[Target] = []
    # The exact test costs more than the sums that must be reached before it can succeed. Where only the resource pods
    # is contested nothing is requested (5.9), and the first that is taken out suffices.
    scarce, missing = max(shortages(problem), key=itemgetter(1), default=NOTHING_LACKS)
    exceeded, excess = (scarce, 0) if borrowing else max(excesses(problem), key=itemgetter(1), default=NOTHING_LACKS)
    for candidate in sequence(candidates):
        state, source = candidate
        if source.meeting is None:
            reason, rule = IN_CLUSTER_QUEUE, "R2.5"
            excess -= amount_held(state, exceeded)
        else:
            reason, rule = classify(problem, candidate)
            if borrowing and rule == "R2.10 NoBorrow":
                continue
            if not is_still_valid(problem, source):
                continue
        take_out(source.queue, state, journal)
        removed.append(Target(state, source.queue, reason, rule))
        missing -= amount_held(state, scarce)
        if missing <= 0 and excess <= 0 and problem.fits(borrowing=borrowing):
            return fill_back(problem, removed, borrowing=borrowing, journal=journal)
    return []


def collect_candidates(problem: VictimProblem) -> Candidates:
    """R2.5 and R2.6: the preemptor's own queue, then the ancestors' subtrees upward, one bucket a level."""
    queue = problem.queue
    own = Source(queue, problem.own_candidates(), False, None)
    hierarchical: list[Source] = []
    by_priority: list[Source] = []
    if queue.parent is not None and queue.reclaim_within_cohort != NEVER:
        advantage, rest = room_in_quota(queue, dict(problem.requests))
        done: CohortNode | None = None
        for ancestor in queue.path[1:]:
            assert isinstance(ancestor, CohortNode)
            bucket = hierarchical if advantage else by_priority
            for other in borrowing_queues(ancestor, done, problem):
                if other is not queue and (keys := problem.allowed(other, queue.reclaim_within_cohort)):
                    bucket.append(Source(other, keys, advantage, ancestor))
            done = ancestor
            if ancestor.parent is not None:
                fits, rest = room_in_quota(ancestor, rest)
                advantage = advantage or fits
    return Candidates(own, hierarchical, by_priority)


def borrowing_queues(cohort: CohortNode, done: CohortNode | None, problem: VictimProblem) -> list[ClusterQueueNode]:
    """R2.6, R2.8: active queues below `cohort` that exceed their quota in what is contested, not entering cohorts that
    do not; `done` is the subtree handled at the level below."""
    if problem.borrowers is None:
        return list(find_borrowing_queues(cohort, done, problem.contested))
    key = (cohort.name, "" if done is None else done.name, problem.contested)
    known = problem.borrowers.get(key)
    if known is None:
        known = problem.borrowers[key] = list(find_borrowing_queues(cohort, done, problem.contested))
    return known


def find_borrowing_queues(
    cohort: CohortNode, done: CohortNode | None, contested: frozenset[int]
) -> Iterator[ClusterQueueNode]:
    for queue in cohort.child_queues.values():
        usage, quota = queue.usage, queue.subtree
        for fr in contested:
            if usage.get(fr, 0) > quota.get(fr, 0):
                if queue.active:
                    yield queue
                break
    for child in cohort.child_cohorts.values():
        if child is not done and not is_within_quota(child, contested):
            yield from find_borrowing_queues(child, None, contested)


def sequence(candidates: Candidates) -> Iterator[Candidate]:
    """R2.11: evicted hierarchical, priority and own candidates, then the others in the same three blocks."""
    blocks = (candidates.hierarchical, candidates.by_priority, [candidates.own])
    for block in blocks:
        yield from in_order(
            [Source(s.queue, keys, s.hierarchical, s.meeting) for s in block if (keys := evicted_of(s))]
        )
    for block in blocks:
        for candidate in in_order(block):
            if candidate.state.evicted_at is None:
                yield candidate


def evicted_of(source: Source) -> list[VictimKey]:
    """The candidates of the source that are being evicted, in order."""
    evicted = source.queue.evicted_holders
    return [key for key in source.keys if key[2] in evicted] if evicted else []


def in_order(sources: list[Source]) -> Iterator[Candidate]:
    """R2.1 over the candidates of several queues; each queue's list is in that order already."""
    if len(sources) == 1:
        holders = sources[0].queue.holders
        for key in sources[0].keys:
            yield Candidate(holders[key[2]], sources[0])
        return
    for key, number in merge(*(zip(source.keys, repeat(number)) for number, source in enumerate(sources))):
        source = sources[number]
        yield Candidate(source.queue.holders[key[2]], source)


def classify(problem: VictimProblem, candidate: Candidate) -> tuple[str, str]:
    """R2.10: the reason for a candidate of another queue, and the variant that allows or forbids borrowing."""
    if candidate.source.hierarchical:
        return IN_COHORT_RECLAMATION, "R2.10 Hierarchical"
    queue, priority = problem.queue, candidate.state.priority
    threshold = queue.borrow_priority_threshold
    if (
        queue.borrow_within_cohort == NEVER
        or priority >= problem.state.priority
        or (threshold is not None and priority > threshold)
    ):
        return IN_COHORT_RECLAMATION, "R2.10 NoBorrow"
    return IN_COHORT_RECLAIM_WHILE_BORROWING, "R2.10 WhileBorrowing"


def is_still_valid(problem: VictimProblem, source: Source) -> bool:
    """R2.12.3 and R2.12.4: a queue, or a cohort below the meeting point, that is back within its quota is spared."""
    if is_within_quota(source.queue, problem.contested):
        return False
    for ancestor in source.queue.path[1:]:
        if ancestor is source.meeting:
            return True
        if is_within_quota(ancestor, problem.contested):
            return False
    return True
