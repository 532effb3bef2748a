"""Runs scheduling cycles on trees until nothing changes, and makes their outcomes part of the state (design 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ledger.admission_sharing import AdmissionSharing
from ledger.cluster_queue import ClusterQueueNode
from ledger.cycle import (
    Cycle,
    CycleRules,
    HeldEntry,
    Preempting,
    Reserved,
    Scans,
    Surroundings,
    held_entry,
)
from ledger.device_room import DeviceRoom
from ledger.fair_preemption import almost_common_ancestors
from ledger.loops import PreemptionHistory
from ledger.nomination import refusal
from ledger.objects.configuration import Configuration
from ledger.objects.workload import condition
from ledger.ordering import Entry, OrderRules, order_of
from ledger.pending import HELD
from ledger.recorder import Recorder
from ledger.shares import Share, share_of
from ledger.slices import whole
from ledger.state import REFERENCE_RULES, State
from ledger.tree import Journal, Tree, roll_back
from ledger.victims import Target, take_out
from ledger.workload_events import WorkloadEvents
from ledger.workloads import Reservation, Verdict, WorkloadState


class Scheduler:
    """Decides for one cluster. It alone takes quota and names victims."""

    def __init__(
        self,
        state: State,
        recorder: Recorder,
        workloads: WorkloadEvents,
        sharing: AdmissionSharing,
        devices: DeviceRoom,
    ) -> None:
        self._state = state
        self._recorder = recorder
        self._workloads = workloads
        self._sharing = sharing
        self._devices = devices
        self._configuration: Configuration | None = None
        self._rules = rules_of(state.configuration)
        self._surroundings = Surroundings(
            self._refuse,
            state.mismatch,
            state.backoff_expired,
            state.replaced_slice,
            state.blocks_admission,
            devices.lacking,
            self._closes_round,
        )

    def settle(self, trees: Sequence[Tree]) -> None:
        """Run cycles on each tree until none changes anything. Trees do not influence each other."""
        if self._configuration is not self._state.configuration:
            self._configuration = self._state.configuration
            self._rules = rules_of(self._state.configuration)
        if self._rules.asks_devices:
            self._devices.forget()
        if self._blocks_admission:
            self._settle_blocking(trees)
        else:
            self._state.held_back.clear()
            self._state.kept_waiting.clear()
            for tree in trees:
                self._settle([tree])

    @property
    def _blocks_admission(self) -> bool:
        waiting = self._state.configuration.wait_for_pods_ready
        return waiting is not None and waiting.block_admission

    def _settle_blocking(self, trees: Sequence[Tree]) -> None:
        """7.5.2: the scheduling loop is one for all trees, and it waits as a whole; the rest of the cycle in which it
        began to wait comes first."""
        state = self._state
        waiting = state.trees_of({*state.kept_waiting, *names_of(trees)})
        if state.held_back and state.blocks_admission():
            state.kept_waiting.update(names_of(trees))
            return
        state.kept_waiting.clear()
        held, state.held_back = state.held_back, []
        blocked = held and any(cycle.blocked for cycle in self._pass(state.trees_of(queues_of(held)), held))
        if blocked or self._settle(waiting):
            state.kept_waiting.update(names_of(waiting))

    def retry(self, trees: Sequence[Tree]) -> None:
        """4.7.1: move what is parked in these trees to the heaps; trees with a circle are left out."""
        state = self._state
        for tree in trees:
            if tree.cyclic:
                continue
            for queue in tree.queues:
                queue.pending.retry(
                    lambda namespace, queue=queue: state.namespace_matches(queue, namespace)  # type: ignore[misc]
                )

    def _settle(self, trees: Sequence[Tree]) -> bool:
        """Cycles over these trees together; True when the loop has to wait for pods to be ready."""
        scans: dict[int, list[Scans]] = {id(tree): [] for tree in trees}
        while trees:
            cycles = self._pass(trees)
            if any(cycle.blocked for cycle in cycles):
                return True
            trees = [cycle.tree for cycle in cycles if _goes_on(cycle, scans[id(cycle.tree)])]
        return False

    def _pass(self, trees: Sequence[Tree], held: Sequence[HeldEntry] = ()) -> list[Cycle]:
        """One cycle of each tree, their heads in one order."""
        cycles = {id(tree): Cycle(tree, self._state.numbers, self._rules, self._surroundings) for tree in trees}
        entries = [
            entry
            for cycle in cycles.values()
            for entry in (cycle.resume([h for h in held if is_in(h.state, cycle.tree)]) if held else cycle.begin())
        ]
        order = self._order(entries, held)
        for entry in order:
            cycle = cycles[id(entry.queue.tree)]
            outcome = cycle.process(entry)
            if isinstance(outcome, Reserved):
                self._reserve(cycle, outcome, cycle.tree.cycle)
            elif outcome is not None:
                self._preempt(outcome, cycle.tree.cycle)
            if cycle.blocked:
                self._state.held_back = [held_entry(each) for each in (entry, *order)]
        for cycle in cycles.values():
            cycle.end()
            for state in cycle.told:
                self._state.told[state.uid] = state
        return list(cycles.values())

    def _order(self, entries: Sequence[Entry], held: Sequence[HeldEntry]) -> Iterator[Entry]:
        """Whoever the loop waited for goes first; the others of its cycle keep their order, which fair sharing decides
        anew with every reservation (5.6.3)."""
        fair = self._rules.strategies is not None
        place = {each.state.uid: number for number, each in enumerate(held)}
        if held:
            entries = sorted(entries, key=lambda entry: place[entry.state.uid])
            if not fair:
                yield from entries
                return
            yield from entries[:1]
            entries = entries[1:]
        yield from order_of(entries, self._rules.order, self._state.numbers, fair=fair)

    def _reserve(self, cycle: Cycle, outcome: Reserved, number: int) -> None:
        """7.1: the workload leaves the queue and holds quota at the same instant."""
        entry = outcome.entry
        queue, state, assignment = entry.queue, entry.state, entry.assignment
        assert assignment is not None
        evicted = condition(state.workload, "Evicted")
        lost = condition(state.workload, "QuotaReserved")
        reservation = Reservation(
            queue.name,
            assignment.to_admit() if entry.replaced is None else whole(assignment.to_admit(), state.pod_sets or ()),
            self._state.now,
            echoed=False,
            admitted=False,
            evicted_before=evicted.last_transition_time if evicted is not None and evicted.status == "True" else None,
            lost_before=lost.last_transition_time if lost is not None and lost.status == "False" else None,
        )
        self._workloads.leave_queue(state)
        replaced = entry.replaced
        given_up = self._workloads.replace(replaced.state) if replaced is not None else None
        state.verdict = None
        self._state.give(state, reservation)
        cycle.charge(entry)
        self._state.mark_rows(reservation)
        self._sharing.reserve(state, queue)
        self._recorder.reserved(outcome, number)
        if replaced is not None and given_up is not None:
            self._recorder.released(replaced.state, given_up, "WorkloadSliceReplaced", given_up.usage)
        self._workloads.admit_if_ready(state)

    def _preempt(self, outcome: Preempting, number: int) -> None:
        for target, needed in zip(outcome.targets, outcome.needed, strict=True):
            shares = self._shares(outcome.entry, target) if self._rules.strategies is not None else None
            self._workloads.mark_evicted(target.state, "Preempted")
            self._recorder.preempted(outcome, target, needed, shares, number)

    def _shares(self, entry: Entry, target: Target) -> tuple[Share, Share, Share] | None:
        """R4.12: the shares that are compared, the preemptor's request included, before and after this victim."""
        if target.queue is entry.queue:
            return None
        numbers = self._state.numbers
        ours, theirs = almost_common_ancestors(entry.queue, target.queue)
        journal: Journal = []
        before = share_of(theirs, numbers)
        # The preemptor's request is part of the tables from the moment its victims were claimed (5.7.4).
        preemptor = share_of(ours, numbers)
        take_out(target.queue, target.state, journal)
        after = share_of(theirs, numbers)
        roll_back(journal)
        return preemptor, before, after

    def _refuse(self, queue: ClusterQueueNode, state: WorkloadState) -> tuple[Verdict, str] | None:
        return refusal(self._state, queue, state)

    def _closes_round(self, entry: Entry, targets: Sequence[Target], scans: Scans) -> Verdict | None:
        """Whether this preemption was issued before from the same state, with nothing from outside in between."""
        if self._state.repeats_reference:
            return None
        tree = entry.queue.tree
        if tree.history is None:
            tree.history = PreemptionHistory()
        victims = [target.state for target in targets]
        closed = tree.history.find_round(tree, self._state.numbers, entry.state, victims, scans, self._recorder.seq + 1)
        if closed is None:
            return None
        tree.history.parked.append(entry.state)
        entry.state.stopped_loop = True
        return Verdict(
            "PreemptionLoop",
            "preempting would repeat a round that leads back to this state; it waits for a change from outside",
            members=closed.members,
            rounds=closed.seqs,
        )

    def forget_rounds(self, trees: Sequence[Tree]) -> None:
        """Something outside changed these trees: what was stopped there may go on."""
        for tree in trees:
            history, tree.history = tree.history, None
            for state in history.parked if history is not None else ():
                state.stopped_loop = False
                if state.waiting_in is not None and state.place == HELD and self._state.backoff_expired(state):
                    state.waiting_in.pending.activate(state)
                    self._state.touched.add(state.waiting_in.name)


def _goes_on(cycle: Cycle, scans: list[Scans]) -> bool:
    """Whether another cycle of the tree can do anything.

    Without a change only flavor scans move on. One that comes round would do so for ever without a decision, so it ends
    there. Where it ends shows at the next event: the reference is seen to make 8 such cycles, or as many more as leave
    scans of two and of three flavors at the same place.
    """
    if cycle.changed:
        scans.clear()
        return True
    before, after = cycle.scans()
    if after == before:
        return False
    if not scans:
        scans.append(before)
    if after in scans and len(scans) >= 8 and len(scans) % 6 == 2:
        return False
    scans.append(after)
    return True


def names_of(trees: Sequence[Tree]) -> list[str]:
    """A ClusterQueue of each, by which it is found again."""
    return [tree.queues[0].name for tree in trees if tree.queues]


def queues_of(held: Sequence[HeldEntry]) -> set[str]:
    return {each.state.waiting_in.name for each in held if each.state.waiting_in is not None}


def is_in(state: WorkloadState, tree: Tree) -> bool:
    return state.waiting_in is not None and state.waiting_in.tree is tree


def rules_of(configuration: Configuration) -> CycleRules:
    """What of the Configuration cycles depend on (admission 1.8 and 9)."""
    gate = configuration.gate
    fair = configuration.fair_sharing
    return CycleRules(
        order=OrderRules(
            by_priority=gate("PrioritySortingWithinCohort"),
            preemptors_first=gate("PrioritizePreemptorWorkloads"),
            non_borrowing_first=gate("FairSharingPrioritizeNonBorrowing"),
        ),
        strategies=None if fair is None else fair.preemption_strategies,
        prefers_nominal=gate("FairSharingPreemptWithinNominal"),
        recomputes=gate("RecomputeAssignmentUponPreemptionTargetsOverlap"),
        keeps_progress=gate("FlavorFungibilityPreserveScanProgress"),
        partial_admission=gate("PartialAdmission"),
        bulk_parking=gate("SchedulingEquivalenceHashing"),
        gates_preemption=gate("ConcurrentAdmission") or gate("MultiKueueOrchestratedPreemption"),
        fungibility=gate("FlavorFungibility"),
        ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared"
        and gate("QuotaCheckStrategy"),
        frees_replaced_slices=configuration.ledger.rules == REFERENCE_RULES,
        asks_devices=configuration.ledger.feasibility,
    )
