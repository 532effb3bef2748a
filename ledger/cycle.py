"""One scheduling cycle over the heads of one tree (admission section 5, preemption section 5).

All heads are nominated against the same tables; then the entries are processed one by one, each changing the tables
for those after it. What a cycle only reserved is taken back at its end, admissions stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ledger.amounts import add, subtract
from ledger.assignment import Assignment, Mode, SearchMode
from ledger.cluster_queue import ClusterQueueNode
from ledger.fair_preemption import FairVictimSearch
from ledger.flavors import FlavorSearch, GranularMode, SearchRules
from ledger.ordering import Entry, OrderRules
from ledger.pending import Preemptor
from ledger.preemption import find_classical_victims, takes_nobody
from ledger.requests import PodSetRequests, scaled_to
from ledger.slices import ReplacedSlice
from ledger.tree import (
    FlavorResources,
    Journal,
    Tree,
    add_usage,
    available,
    borrow_level,
    remove_usage,
    roll_back,
)
from ledger.victims import ANY, Borrowers, Target, VictimProblem, put_back, take_out
from ledger.workloads import FlavorMemory, Verdict, WorkloadState

NO_FIT = "NoFit"
NO_CANDIDATES = "PreemptionNoCandidates"
PENDING_PREEMPTION = "PendingPreemption"
GATED = "PreemptionGated"
STOPPED_LOOP = "PreemptionLoop"
BLOCKED = "WaitingForPodsReady"
SKIPPED = "FailedAfterNomination"
NO_DEVICES = "NoDevices"
NAMESPACE_MISMATCH = "NamespaceMismatch"
GENERIC = ""

PENDING = "PendingEvaluation"
WAITING_FOR_QUOTA = "WaitingForQuota"
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"

_IMMEDIATE = frozenset({SKIPPED, PENDING_PREEMPTION, BLOCKED})
"""4.4.3: what brings a BestEffortFIFO head back to the heap at once."""


class CycleRules(NamedTuple):
    """What of the Configuration a cycle depends on. `strategies` is None without fair sharing."""

    order: OrderRules
    strategies: Sequence[str] | None
    prefers_nominal: bool
    recomputes: bool
    keeps_progress: bool
    partial_admission: bool
    bulk_parking: bool
    gates_preemption: bool
    fungibility: bool
    ignore_undeclared: bool
    frees_replaced_slices: bool
    asks_devices: bool


class Surroundings(NamedTuple):
    """How a cycle asks the ledger about what lies outside the tree."""

    refuse: Callable[[ClusterQueueNode, WorkloadState], tuple[Verdict, str] | None]
    mismatch: Callable[[WorkloadState, int, str], str | None]
    backoff_expired: Callable[[WorkloadState], bool]
    replaced_slice: Callable[[ClusterQueueNode, WorkloadState], ReplacedSlice | None]
    blocks_admission: Callable[[], bool]
    lacks_devices: Callable[[Entry], Verdict | None]
    closes_round: Callable[[Entry, Sequence[Target], Scans], Verdict | None]


class Reserved(NamedTuple):
    """An entry that was given quota; `position` is how many waiting workloads stood before it."""

    entry: Entry
    position: int


class Preempting(NamedTuple):
    """An entry and those of its victims that were not being evicted before; `needed` is what each makes room for."""

    entry: Entry
    targets: list[Target]
    needed: list[dict[int, int]]


Outcome = Reserved | Preempting


class HeldEntry(NamedTuple):
    """An entry that waits with the scheduling loop (7.5.2). `assignment` is what its cycle computed for it, where that
    fits without victims, from these requests."""

    state: WorkloadState
    pod_sets: tuple[PodSetRequests, ...] | None
    assignment: Assignment | None


def held_entry(entry: Entry) -> HeldEntry:
    fits = entry.assignment is not None and entry.assignment.mode is Mode.FIT
    return HeldEntry(entry.state, entry.state.pod_sets, entry.assignment if fits else None)


Scans = tuple[tuple[str, object], ...]
"""Per head the last flavors tried."""


class Cycle:
    """One pass over the heads of `tree`: `begin` (or `resume`), `process` for one after the other, `end`."""

    def __init__(self, tree: Tree, numbers: FlavorResources, rules: CycleRules, surroundings: Surroundings) -> None:
        self._tree = tree
        self._numbers = numbers
        self._rules = rules
        self._around = surroundings
        self._journal: Journal = []
        self._claimed: dict[str, Target] = {}
        self._gone: Collection[str] = ()
        self._replaced: list[Entry] = []
        self._replaced_out: list[Entry] = []
        self._claims_in: list[Target] = []
        self._claims_out: list[Target] = []
        self._simulated: dict[tuple[str, int, int], list[Target]] = {}
        self._borrowers: Borrowers | None = {}
        self._search_rules: SearchRules | None = None
        self._temporary = False
        self._admitted: list[Entry] = []
        self.changed = False
        self.blocked = False
        self.looked_at: list[Entry] = []
        self.told: list[WorkloadState] = []

    @property
    def tree(self) -> Tree:
        return self._tree

    def begin(self) -> list[Entry]:
        """5.1.1 up to the nominations: the heads that have an assignment. Without a head no cycle is counted."""
        self.looked_at = self._pop_heads()
        if self.looked_at:
            self._tree.cycle += 1
        return self._nominated(())

    def resume(self, held: Sequence[HeldEntry]) -> list[Entry]:
        """7.5.2: the rest of a cycle that was broken off goes on, those of it that still wait."""
        taken = [(self._take(each.state), each) for each in held]
        self.looked_at = [entry for entry, _ in taken if entry is not None]
        return self._nominated([each for _, each in taken])

    def process(self, entry: Entry) -> Outcome | None:
        """5.7.4 for the next in order. The caller acts on what was decided before it hands over another one, and none
        after one that is `blocked`."""
        self._take_claims_out()
        outcome = self._process(entry)
        if self._rules.strategies is not None:
            # Shares are those of the tables in which victims still hold what they hold (5.6.3).
            self._put_claims_back()
        return outcome

    def end(self) -> None:
        """Whoever got no quota goes back into its queue."""
        self._search_rules = None  # it refers back to the cycle, which only the garbage collector would end
        self._settle_tables()
        for entry in self.looked_at:
            if entry.state.reservation is None:
                self._requeue(entry)

    def _pop_heads(self) -> list[Entry]:
        """4.4.1: at most one head from each active ClusterQueue."""
        entries = []
        for queue in self._tree.queues:
            if queue.pending.is_idle or not queue.active:
                continue
            state = queue.pending.pop()
            if state is not None:
                state.evaluated_generation = state.generation
                entries.append(Entry(queue, state))
        return entries

    def _take(self, state: WorkloadState) -> Entry | None:
        queue = state.waiting_in
        if queue is None or not queue.active or not queue.pending.take(state):
            return None
        state.evaluated_generation = state.generation
        return Entry(queue, state)

    def _nominated(self, held: Sequence[HeldEntry]) -> list[Entry]:
        kept = {each.state.uid: each for each in held}
        self._search_rules = self._rules_of_searches()
        nominated = [entry for entry in self.looked_at if self._nominate(entry, kept.get(entry.state.uid))]
        self._borrowers = None
        return nominated

    # Nomination

    def _nominate(self, entry: Entry, held: HeldEntry | None) -> bool:
        """5.2: False when a check refuses the head; otherwise it has an assignment and takes part."""
        refusal = self._around.refuse(entry.queue, entry.state)
        if refusal is not None:
            entry.verdict, entry.reason = refusal
            return False
        self._forget_outdated_memory(entry)
        memory = entry.state.memory
        if entry.state.no_devices is not None and not (memory is not None and memory.has_pending_flavors):
            entry.state.no_devices = None
        entry.replaced = self._around.replaced_slice(entry.queue, entry.state)
        if held is None or not self._takes_up(entry, held):
            self._assign(entry, start=memory.tried if memory is not None else ())
        return True

    def _takes_up(self, entry: Entry, held: HeldEntry) -> bool:
        """7.5.2: it is reserved with the assignment already computed, where that is still true and still fits."""
        entry.assignment = held.assignment
        return held.assignment is not None and held.pod_sets == entry.state.pod_sets and self._fits(entry)

    def _forget_outdated_memory(self, entry: Entry) -> None:
        """5.5.5."""
        memory = entry.state.memory
        if memory is None:
            return
        grew = entry.queue.generation > memory.generation
        old = self._tree.cycle - memory.cycle > 1
        if grew and (old or not self._rules.keeps_progress):
            entry.state.memory = None

    def _rules_of_searches(self) -> SearchRules:
        rules = self._rules
        return SearchRules(
            self._around.mismatch,
            self._simulate,
            rules.strategies is not None,
            rules.fungibility,
            rules.ignore_undeclared,
        )

    def _assign(
        self,
        entry: Entry,
        *,
        start: Sequence[Mapping[str, int]] = (),
        pinned: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """5.10: the assignment that decides, its victims, and the flavor memory it leaves behind.

        8.2: a slice that replaces another asks for its growth, on the same flavors; the other one is no candidate.
        """
        queue, state = entry.queue, entry.state
        assert state.pod_sets is not None and self._search_rules is not None
        pod_sets: Sequence[PodSetRequests] = state.pod_sets
        self._gone = self._claimed.keys()
        if entry.replaced is not None:
            start, pinned = (), entry.replaced.flavors(pod_sets)
            pod_sets = entry.replaced.growth(pod_sets)
            self._gone = {*self._gone, entry.replaced.state.uid}
        search = FlavorSearch(queue, state, self._search_rules, start=start, pinned=pinned)
        full = search.assign(pod_sets)
        targets = self._victims(entry, full)
        assignment = full
        if full.mode is not Mode.FIT and not targets and self._rules.partial_admission:
            smaller = self._search_smaller(entry, search)
            if smaller is not None:
                assignment, targets = smaller
        entry.assignment, entry.targets = assignment, targets
        state.memory = FlavorMemory(assignment.tried(), queue.generation, self._tree.cycle)

    def _search_smaller(self, entry: Entry, search: FlavorSearch) -> tuple[Assignment, list[Target]] | None:
        """5.10.3: the smallest reduction, by bisection, that fits or finds victims."""
        state = entry.state
        spec_sets = state.workload.spec.pod_sets
        deltas = [pod_set.count - (pod_set.min_count or pod_set.count) for pod_set in spec_sets]
        total = sum(deltas)
        if total <= 0:
            return None
        assert state.pod_sets is not None
        low, high = 0, total + 1
        found: tuple[int, Assignment, list[Target]] | None = None
        while low < high:
            middle = (low + high) // 2
            counts = [pod_set.count - delta * middle // total for pod_set, delta in zip(spec_sets, deltas, strict=True)]
            probe = search.assign([scaled_to(p, count) for p, count in zip(state.pod_sets, counts, strict=True)])
            targets = self._victims(entry, probe)
            if probe.mode is Mode.FIT or targets:
                found = (middle, probe, targets)
                high = middle
            else:
                low = middle + 1
        if found is None or found[0] != low:
            return None
        return found[1], found[2]

    def _victims(self, entry: Entry, assignment: Assignment) -> list[Target]:
        """1.2: one search for the whole request vector, where the worst mode is Preempt."""
        if assignment.mode is not Mode.PREEMPT:
            return []
        if self._takes_nobody(entry.queue):
            return []
        requests = {fr: value for fr, value in assignment.requests.items() if value != 0}
        contested = assignment.contested()
        if len(requests) == 1 and contested == requests.keys():
            # The search for the whole request is the one that chose the flavor (5.4.5, 5.9).
            ((fr, need),) = requests.items()
            known = self._simulated.get((entry.queue.name, fr, need))
            if known is not None:
                return known
        return self._find(VictimProblem(entry.queue, entry.state, requests, contested, self._gone, self._borrowers))

    def _takes_nobody(self, queue: ClusterQueueNode) -> bool:
        """Whether its policies allow no victims at all, whoever holds what (R2.5, R2.6)."""
        return self._rules.strategies is None and takes_nobody(queue)

    def _find(self, problem: VictimProblem) -> list[Target]:
        strategies = self._rules.strategies
        if strategies is None:
            return find_classical_victims(problem)
        return FairVictimSearch(problem, self._numbers, strategies, prefers_nominal=self._rules.prefers_nominal).find()

    def _simulate(self, queue: ClusterQueueNode, state: WorkloadState, fr: int, need: int, level: int) -> GranularMode:
        """R1.6: how the flavor-resource could be had by preemption alone; `level` is how high it borrows as it is."""
        if self._takes_nobody(queue):
            return SearchMode.NO_CANDIDATES, level
        contested = frozenset((fr,))
        targets = self._find(VictimProblem(queue, state, {fr: need}, contested, self._gone, self._borrowers))
        self._simulated[(queue.name, fr, need)] = targets
        if not targets:
            return SearchMode.NO_CANDIDATES, level
        journal: Journal = []
        for target in targets:
            take_out(target.queue, target.state, journal)
        level = borrow_level(queue, fr, need)[0]
        roll_back(journal)
        own = any(target.queue is queue for target in targets)
        return (SearchMode.PREEMPT if own else SearchMode.RECLAIM), level

    # Processing

    def _process(self, entry: Entry) -> Outcome | None:
        """5.7.4: the first line of the table that applies."""
        if self._overlaps(entry) and self._rules.recomputes:
            self._recompute(entry)
        assignment = entry.assignment
        assert assignment is not None
        if assignment.mode is Mode.NO_FIT:
            self._refuse(entry, NO_FIT, assignment.no_fit_reason())
        elif assignment.mode is Mode.PREEMPT and not entry.targets:
            self._reserve_without_victims(entry)
            self._refuse(entry, NO_CANDIDATES, WAITING_FOR_QUOTA)
        elif assignment.mode is Mode.PREEMPT and self._is_gated(entry):
            entry.state.memory = None
            self._refuse(entry, GATED, "AdmissionGated", "the workload requires preemption, but it is gated")
        elif assignment.mode is Mode.DEFERRED_FIT:
            self._add(entry)
            entry.state.memory = None
            self._refuse(
                entry,
                PENDING_PREEMPTION,
                WAITING_FOR_PREEMPTED,
                "its victims are claimed by another workload; it will fit once they are gone",
            )
        elif self._overlaps(entry):
            self._skip(entry, "its victims are claimed by another workload")
        elif not self._fits(entry):
            self._skip(entry, "it no longer fits after another workload was processed")
        elif self._rules.asks_devices and (lacking := self._around.lacks_devices(entry)) is not None:
            entry.verdict, entry.reason = lacking, NO_DEVICES
        elif assignment.mode is Mode.PREEMPT:
            return self._preempt(entry)
        elif self._around.blocks_admission():
            self.blocked = True
            entry.state.memory = entry.before
            self._refuse(entry, BLOCKED, BLOCKED, "waiting for all admitted workloads to be in PodsReady condition")
        else:
            return self._reserve(entry)
        return None

    def _overlaps(self, entry: Entry) -> bool:
        if not self._claimed:
            return False
        if entry.replaced is not None and entry.replaced.state.uid in self._claimed:
            return True
        return any(target.state.uid in self._claimed for target in entry.targets)

    def _recompute(self, entry: Entry) -> None:
        """5.7.3: the search anew, without the claimed victims and on the flavors nominated before."""
        assert entry.assignment is not None
        if entry.replaced is not None and entry.replaced.state.uid in self._claimed:
            entry.replaced = None
        self._assign(entry, pinned=entry.assignment.pinned_flavors())
        if entry.assignment.mode is Mode.FIT:
            entry.assignment.mode = Mode.DEFERRED_FIT

    def _fits(self, entry: Entry) -> bool:
        """5.7.1: with all claimed victims and the entry's own taken out."""
        mark = len(self._journal)
        self._take_replaced_out(entry)
        for target in entry.targets:
            take_out(target.queue, target.state, self._journal)
        fits = all(value <= available(entry.queue, fr) for fr, value in entry.usage.items())
        roll_back(self._journal, mark)
        return fits

    def _take_replaced_out(self, entry: Entry) -> None:
        """8.2: the reference counts a replaced slice as a victim too, here and in the tests after it, though only the
        growth was asked for: it may hand out more than there is. The own rules do not."""
        if entry.replaced is not None and self._rules.frees_replaced_slices:
            for fr, value in entry.replaced.usage.items():
                remove_usage(entry.queue, fr, value, self._journal)

    def _take_claims_out(self) -> None:
        """All victims claimed so far leave the tables: what an entry is tested against (5.7.1, 5.7.3)."""
        for entry in self._replaced:
            self._take_replaced_out(entry)
            self._temporary |= self._rules.frees_replaced_slices
        self._replaced_out += self._replaced
        self._replaced = []
        for target in self._claims_in:
            take_out(target.queue, target.state, self._journal)
            self._temporary = True
        self._claims_out += self._claims_in
        self._claims_in = []

    def _put_claims_back(self) -> None:
        for target in self._claims_out:
            put_back(target.queue, target.state, self._journal)
        self._claims_in = self._claims_out + self._claims_in
        self._claims_out = []
        for entry in self._replaced_out:
            if entry.replaced is not None and self._rules.frees_replaced_slices:
                for fr, value in entry.replaced.usage.items():
                    add_usage(entry.queue, fr, value, self._journal)
        self._replaced = self._replaced_out + self._replaced
        self._replaced_out = []

    def _preempt(self, entry: Entry) -> Outcome | None:
        """5.7.8: the victims are claimed, and evicted unless they are being evicted already."""
        fresh = [index for index, target in enumerate(entry.targets) if not target.state.is_evicted]
        if fresh:
            loop = self._around.closes_round(entry, entry.targets, self._open_scans())
            if loop is not None:
                entry.state.memory = None
                entry.verdict, entry.reason = loop, STOPPED_LOOP
                return None
        needed = self._needed(entry) if fresh else []
        for target in entry.targets:
            self._claimed[target.state.uid] = target
        self._claims_in += entry.targets
        if entry.replaced is not None:
            self._replaced.append(entry)
        self._add(entry)
        entry.state.memory = None
        count = len(entry.targets)
        self._refuse(entry, PENDING_PREEMPTION, WAITING_FOR_PREEMPTED, f"pending the preemption of {count} workload(s)")
        if not fresh:
            return None
        self.changed = True
        return Preempting(entry, [entry.targets[i] for i in fresh], [needed[i] for i in fresh])

    def _open_scans(self) -> Scans:
        """Heads whose search did not begin at the first flavor: only that makes two cycles look alike and differ."""
        return tuple(
            _scan(entry.state, entry.before)
            for entry in self.looked_at
            if entry.before is not None and entry.before.has_pending_flavors
        )

    def _needed(self, entry: Entry) -> list[dict[int, int]]:
        """What each victim, returned alone, would leave missing for the entry."""
        mark = len(self._journal)
        for target in entry.targets:
            take_out(target.queue, target.state, self._journal)
        needed = []
        for target in entry.targets:
            inner = len(self._journal)
            put_back(target.queue, target.state, self._journal)
            short = {fr: subtract(value, available(entry.queue, fr)) for fr, value in entry.usage.items()}
            needed.append({fr: value for fr, value in short.items() if value > 0})
            roll_back(self._journal, inner)
        roll_back(self._journal, mark)
        return needed

    def _reserve(self, entry: Entry) -> Reserved:
        """5.7.9: quota is taken; the caller charges it to the tree before the next entry is processed."""
        self.changed = True
        self._admitted.append(entry)
        if entry.replaced is not None:
            self._replaced.append(entry)
            # The caller discharges the replaced slice: the journal knows the tables as they were before that.
            for fr, value in entry.replaced.usage.items():
                remove_usage(entry.queue, fr, value, self._journal)
                add_usage(entry.queue, fr, value, self._journal)
        return Reserved(entry, entry.queue.pending.position(entry.state))

    def _reserve_without_victims(self, entry: Entry) -> None:
        """5.7.6, R5.12, R5.13: room held for the rest of the cycle by a preemptor that cannot always reclaim it."""
        queue, assignment = entry.queue, entry.assignment
        assert assignment is not None
        held_for_mark = self._rules.order.preemptors_first and entry.is_recorded_preemptor
        if queue.reclaim_within_cohort == ANY and not held_for_mark:
            return
        # The queue's usage counts with its claimed victims in it.
        self._put_claims_back()
        for fr, value in assignment.usage.items():
            nominal, used = queue.nominal.get(fr, 0), queue.usage.get(fr, 0)
            limit = queue.borrowing_limit.get(fr)
            if assignment.level == 0:
                reserved = max(0, min(value, subtract(nominal, used)))
            elif limit is None:
                reserved = value
            else:
                reserved = min(value, subtract(add(nominal, limit), used))
            self._temporary = True
            add_usage(queue, fr, reserved, self._journal)

    def _is_gated(self, entry: Entry) -> bool:
        """5.7.7: a gate is closed if it is listed in spec and its status position is Closed or missing."""
        if not self._rules.gates_preemption:
            return False
        workload = entry.state.workload
        opened = {gate.name for gate in workload.status.preemption_gates if gate.position == "Open"}
        return any(gate.name not in opened for gate in workload.spec.preemption_gates)

    def _add(self, entry: Entry) -> None:
        self._temporary = True
        for fr, value in entry.usage.items():
            add_usage(entry.queue, fr, value, self._journal)

    def _skip(self, entry: Entry, message: str) -> None:
        if not self._rules.keeps_progress:
            entry.state.memory = None
        self._refuse(entry, SKIPPED, WAITING_FOR_QUOTA, message)

    def _refuse(self, entry: Entry, requeue: str, reason: str, message: str = "") -> None:
        assignment = entry.assignment
        assert assignment is not None
        entry.reason = requeue
        entry.verdict = Verdict(reason, message, tuple(assignment.shortages), tuple(assignment.passed_over))

    def _settle_tables(self) -> None:
        """What was only reserved goes; what was admitted is charged anew on the tables as they were."""
        if not self._temporary:
            return
        roll_back(self._journal)
        for entry in self._admitted:
            for fr, value in entry.replaced.usage.items() if entry.replaced is not None else ():
                remove_usage(entry.queue, fr, value)
            reservation = entry.state.reservation
            assert reservation is not None
            for fr, value in reservation.usage.items():
                add_usage(entry.queue, fr, value)

    def charge(self, entry: Entry) -> None:
        """The caller has given the entry its reservation: its usage joins the tables for the entries to come."""
        entry.queue.charge(entry.state, self._journal)

    # Afterwards

    def _requeue(self, entry: Entry) -> None:
        """4.4.3, 4.4.4: back to the heap, or to the inadmissible list, with the whole shape where the rule says so."""
        queue, state = entry.queue, entry.state
        pending = queue.pending
        if entry.verdict is None:
            # 7.5.2: the cycle was broken off before its turn.
            state.memory = entry.before
            pending.activate(state)
            return
        if state.no_devices is not None and entry.reason in (NO_FIT, NO_CANDIDATES):
            # dra 17: no later flavor has quota; one before had, and no devices.
            entry.verdict, entry.reason = state.no_devices, NO_DEVICES
        state.verdict = entry.verdict
        self.told.append(state)
        if entry.reason == PENDING_PREEMPTION:
            mark = Preemptor(state.uid, state.generation, not queue.is_strict)
            pending.version += mark != pending.preemptor
            pending.preemptor = mark
        immediate = entry.reason in _IMMEDIATE or (queue.is_strict and entry.reason != NAMESPACE_MISMATCH)
        scanning = state.memory is not None and state.memory.has_pending_flavors
        if entry.reason == STOPPED_LOOP or not self._around.backoff_expired(state):
            pending.hold(state)
            self.changed = True
        elif immediate or scanning:
            pending.activate(state)
        else:
            pending.park(state)
            self.changed = True
            if self._rules.bulk_parking and not queue.is_strict and entry.reason in (NO_FIT, NO_CANDIDATES):
                self._park_shape(queue, state, entry.verdict)
        if entry.reason == NO_DEVICES:
            pending.set_apart(state)

    def _park_shape(self, queue: ClusterQueueNode, state: WorkloadState, verdict: Verdict) -> None:
        message = f"an equivalent workload, {state.namespace}/{state.name}, was refused"
        shared = Verdict(verdict.reason, message, verdict.shortages, verdict.passed_over)
        for member in queue.pending.park_shape(state.shape, shared):
            if member is not state:
                member.verdict = reason_in_shape(self._around.refuse(queue, member), shared)
                self.told.append(member)

    def scans(self) -> tuple[Scans, Scans]:
        """How far the flavor scan of each head was before this cycle, and is after it."""
        before = tuple(_scan(entry.state, entry.before) for entry in self.looked_at)
        return before, tuple(_scan(entry.state, entry.state.memory) for entry in self.looked_at)


def reason_in_shape(refused: tuple[Verdict, str] | None, shared: Verdict) -> Verdict:
    """7.3: what is misconfigured has that as its reason; failed checks do not come before what its shape was told."""
    return shared if refused is None or refused[0].reason == PENDING else refused[0]


def _scan(state: WorkloadState, memory: FlavorMemory | None) -> tuple[str, object]:
    tried = memory.tried if memory is not None else ()
    return state.uid, tuple(tuple(sorted(pod_set.items())) for pod_set in tried)
