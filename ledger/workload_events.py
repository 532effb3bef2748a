"""Workload objects as they arrive: facts, losses, queueing (admission 4.1, 4.5, 7.9, objects 1.5 and 2)."""

from __future__ import annotations

from ledger import indexes
from ledger.admission_sharing import AdmissionSharing
from ledger.allocations import SETTLED, Allocations, as_recorded, reductions_of
from ledger.cluster_queue import ClusterQueueNode
from ledger.cycle import reason_in_shape
from ledger.nomination import refusal
from ledger.objects.workload import Workload, condition, is_true
from ledger.pending import HELD
from ledger.recorder import Recorder
from ledger.state import State
from ledger.timestamps import SECOND, Timestamp
from ledger.workload_facts import (
    has_failed_checks,
    holds_quota,
    is_consequence,
    is_relevant_change,
    is_same_reservation,
    priority_class_of,
    recorded_pod_sets,
    required_checks,
    take_executed,
    take_life,
)
from ledger.workloads import Answered, ClassPriority, Reservation, StaleCheck, Verdict, WorkloadState

DECIDED_ELSEWHERE = frozenset({"NodeFailures", "FlavorMigration", "DeactivatedDueToEvictedOnManagerCluster"})
"""7.4.4: evictions that the ledger never decides, but tells."""

RELEASED_INTO_QUEUE = frozenset({"", "Preempted", "NodeFailures"})
"""7.4.2: evictions after which a workload is back in its queue as soon as its quota is."""

AFTER_A_RELEASE = ("PendingEvaluation", "")
"""7.4.2: what a `Released` says of a workload that waits on."""


class WorkloadEvents:
    """Applies one Workload object at a time to the state."""

    def __init__(self, state: State, recorder: Recorder, sharing: AdmissionSharing, allocations: Allocations) -> None:
        self._state = state
        self._recorder = recorder
        self._sharing = sharing
        self._allocations = allocations

    def put(self, workload: Workload) -> None:
        """An object that was added or changed; what it means follows from comparing it with the one before."""
        key = (workload.metadata.namespace, workload.metadata.name)
        known = self._state.workloads.get(key)
        if known is not None and known.workload.metadata.uid != workload.metadata.uid:
            self.remove(known)
            known = None
        if known is None:
            self._state.outside = True
            self._enter(WorkloadState(workload, self._state.identity_of(workload)))
        else:
            self._state.outside |= not is_consequence(known, workload)
            old = known.workload
            self._change(known, workload)
            take_executed(known, old)
        state = self._state.workloads[key]
        self._state.watched[state.uid] = state

    def remove(self, state: WorkloadState) -> None:
        """The object is gone: its quota goes back, and a retry is raised whether or not it held any (4.7.2)."""
        self.leave_queue(state)
        held_in = state.reservation.cluster_queue if state.reservation is not None else None
        if state.reservation is not None:
            self._release(state, "Deleted")
        self._state.moved[state.uid] = state
        self._retry(state, held_in)
        self._sharing.forget(state)
        indexes.forget(self._state, state)
        self._state.watched[state.uid] = state

    # What an object means

    def _enter(self, state: WorkloadState) -> None:
        indexes.enter(self._state, state)
        take_life(state, None)
        take_executed(state, None)
        if is_true(state.workload, "Finished") or not state.workload.spec.active:
            return
        if holds_quota(state.workload):
            self._take_fact(state, settles=False)
        else:
            self._wait(state, None)

    def _change(self, state: WorkloadState, workload: Workload) -> None:
        old, state.workload = state.workload, workload
        self._follow_queue_name(state, workload)
        indexes.follow_class_name(self._state, state, old)
        take_life(state, old)
        if is_true(workload, "Finished"):
            self._end(state, "Finished", news=not is_true(old, "Finished"))
        elif not workload.spec.active:
            if old.spec.active:
                self._deactivate(state)
            self._end(state, "Deactivated", news=old.spec.active)
        elif holds_quota(workload) and not self._is_withdrawn(state):
            self.leave_queue(state)
            self._hold(state, old)
        elif state.reservation is not None and not self._has_lost(state, state.reservation):
            self._state.note_readiness(state)
            self._refresh_holder(state, old)
        elif state.reservation is not None:
            self._lose(state, old)
        else:
            self._wait(state, old)

    def _end(self, state: WorkloadState, reason: str, *, news: bool) -> None:
        """7.9: finished, or deactivated: out of the queue, quota free at once."""
        self._state.moved[state.uid] = state
        self.leave_queue(state)
        if reason == "Finished" or not holds_quota(state.workload):
            self._sharing.forget(state)
        held_in = state.reservation.cluster_queue if state.reservation is not None else None
        if state.reservation is not None:
            self._release(state, reason)
        if news:
            self._retry(state, held_in)

    def _lose(self, state: WorkloadState, old: Workload) -> None:
        """QuotaReserved turned False: the quota goes back, and the workload waits again (7.4.2)."""
        evicted = condition(state.workload, "Evicted")
        shown = evicted is not None and evicted.status == "True"
        reason = evicted.reason if evicted is not None and shown else state.evicted_reason or "ReservationLost"
        if not shown and state.evicted_reason not in RELEASED_INTO_QUEUE:
            state.held = state.evicted_reason
        reservation = state.reservation
        assert reservation is not None
        self._release(state, reason)
        state.told = AFTER_A_RELEASE if reason != "Deactivated" else None
        self._wait(state, old)
        if reason == "Preempted" and is_true(old, "Evicted") and is_true(old, "QuotaReserved"):
            self._state.retry_tree_after_victims(reservation.cluster_queue)
        else:
            self._retry(state, reservation.cluster_queue)
        waits_on = state.requeue_at is not None and state.requeue_at > self._state.now
        if state.waiting_in is not None and (not state.held or waits_on):
            requeued = condition(state.workload, "Requeued")
            self._recorder.requeued(
                state,
                state.waiting_in.name,
                requeued.reason if requeued is not None else reason,
                state.requeue_at,
            )

    def withdraw(self, state: WorkloadState, reason: str) -> None:
        """7.6: a reservation that was not admitted yet goes at once. Objects that still show it are old news."""
        reservation = state.reservation
        assert reservation is not None
        self._release(state, reason)
        state.withdrawn_at = self._state.now
        self._wait(state, None)
        self._retry(state, reservation.cluster_queue)

    def replace(self, state: WorkloadState) -> Reservation:
        """8.2: a larger slice takes over; this one is out of the tables at that instant, and never waits again."""
        reservation = self._state.take_away(state)
        self._sharing.release(state)
        state.withdrawn_at = self._state.now
        state.replaced = True
        return reservation

    def _is_withdrawn(self, state: WorkloadState) -> bool:
        reserved = condition(state.workload, "QuotaReserved")
        if state.withdrawn_at is None or state.reservation is not None or reserved is None:
            return False
        return reserved.last_transition_time is not None and reserved.last_transition_time <= state.withdrawn_at

    # Its life so far

    def _deactivate(self, state: WorkloadState) -> None:
        """7.7.2: evicted, unless it was evicted before; the backoff is forgotten."""
        target = condition(state.workload, "DeactivationTarget")
        cause = target.reason if target is not None and target.status == "True" else ""
        reason = f"DeactivatedDueTo{cause}" if cause else "Deactivated"
        reservation = state.reservation
        shown = condition(state.workload, "Evicted")
        if not state.is_evicted and not state.deactivated_for and (shown is None or shown.status != "True"):
            where = reservation.cluster_queue if reservation is not None else ""
            self._recorder.evicted(state, where, reason, "The workload is deactivated")
        if reservation is not None and not state.held:
            left_for = state.evicted_reason if state.is_evicted else reason
            state.held = "" if left_for in RELEASED_INTO_QUEUE else left_for
        state.requeue_at = None
        state.requeue_count = 0

    def end_wait(self, state: WorkloadState) -> None:
        """Requeued turns True by our own decision; the condition that says otherwise is answered. A backoff that has
        not ended goes on (4.6.1)."""
        requeued = condition(state.workload, "Requeued")
        if requeued is not None and requeued.status == "False":
            state.answered = Answered(requeued.reason, requeued.last_transition_time)
        state.held = ""
        if state.requeue_at is not None and state.requeue_at <= self._state.now:
            state.requeue_at = None
        self._state.watched[state.uid] = state
        queue = state.waiting_in
        if queue is not None and not queue.pending.is_active(state):
            queue.pending.lift(state)
            self._put_again(state, queue, was_active=False)

    def let_go(self, state: WorkloadState) -> None:
        """An object took the backoff back: no timer ends the wait, and no retry moves who is held (4.6.2)."""
        queue = state.waiting_in
        if queue is None or state.place != HELD or state.stopped_loop or not self._state.backoff_expired(state):
            return
        queue.pending.lift(state)
        self._put_again(state, queue, was_active=False)

    # Holding quota

    def _take_fact(self, state: WorkloadState, *, settles: bool = True) -> None:
        """A reservation that was not decided here is charged as recorded (design 5)."""
        workload = state.workload
        admission = workload.status.admission
        assert admission is not None
        reserved = condition(workload, "QuotaReserved")
        at = reserved.last_transition_time if reserved is not None else None
        reservation = Reservation(
            admission.cluster_queue,
            recorded_pod_sets(workload),
            self._state.now if at is None else at,
            echoed=True,
            admitted=is_true(workload, "Admitted"),
        )
        admitted = condition(workload, "Admitted")
        if reservation.admitted and admitted is not None and admitted.last_transition_time is not None:
            reservation.admitted_at = admitted.last_transition_time
        if state.charges is not None:
            state.charges = as_recorded(state.charges, reservation.pod_sets)
        state.priority = self._state.effective_priority(state)
        state.order_time = self._state.order_time(state)
        self._note_eviction(state)
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        replaced = self._state.replaced_slice(queue, state) if queue is not None else None
        if replaced is not None:
            given_up = self.replace(replaced.state)
            self._recorder.released(replaced.state, given_up, "WorkloadSliceReplaced", given_up.usage)
        self._state.give(state, reservation)
        self._state.charge(state)
        self._recorder.recorded(state)
        if reservation.admitted:
            self._sharing.admit(state, reservation)
            if settles:
                self._sharing.settle(state)

    def _hold(self, state: WorkloadState, old: Workload) -> None:
        """The object shows a reservation: news, an echo of ours, or something that differs from ours and wins."""
        reservation = state.reservation
        if reservation is None:
            self._take_fact(state)
            return
        admission = state.workload.status.admission
        assert admission is not None
        recorded = recorded_pod_sets(state.workload)
        if (admission.cluster_queue, recorded) != (reservation.cluster_queue, reservation.pod_sets):
            if not is_same_reservation(reservation, admission.cluster_queue, recorded):
                self._state.differing_echoes += 1
                self._state.take_away(state)
                self._sharing.release(state)
                self._take_fact(state)
                return
        reserved = condition(state.workload, "QuotaReserved")
        if reserved is not None and reserved.last_transition_time is not None:
            self._set_reserved_at(state, reserved.last_transition_time)
        reservation.echoed = True
        self._state.note_readiness(state)
        self._refresh_holder(state, old)

    def _refresh_holder(self, state: WorkloadState, old: Workload) -> None:
        """A new copy of a workload that holds quota: reclaimed pods, priority, admission, eviction (7.9)."""
        reservation = state.reservation
        assert reservation is not None
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        if queue is not None:
            queue.generation += 1
        if old.status.reclaimable_pods != state.workload.status.reclaimable_pods:
            self._lose_pods(state, reservation, "ReclaimablePods")
        elif old.spec.pod_sets != state.workload.spec.pod_sets:
            self._lose_pods(state, reservation, "ScaledDown")
        priority = self._state.effective_priority(state)
        if priority != state.priority:
            self._set_priority(state, priority)
        state.order_time = self._state.order_time(state)
        shown = is_true(old, "Evicted") and is_true(old, "QuotaReserved")
        if state.is_evicted and shown and not is_true(state.workload, "Evicted"):
            self._unmark_evicted(state, reservation)
        self._note_eviction(state)
        self.admit_if_ready(state)

    def admit_if_ready(self, state: WorkloadState) -> None:
        """7.2.3 to 7.2.5: admitted once every check the reservation needs is ready; others are taken off the list."""
        reservation = state.reservation
        assert reservation is not None
        if reservation.admitted:
            self._take_admitted_time(state, reservation)
            return
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        fact = is_true(state.workload, "Admitted") and reservation.echoed
        if not fact:
            if queue is None or self._state.delay_of_holder(state) is not None:
                return
            if not self._checks_are_ready(state, queue):
                return
            self._recorder.admitted(state, reservation.cluster_queue)
        if queue is not None:
            queue.mark_admitted(state)
            self._state.mark_rows(reservation)
        else:
            reservation.admitted = True
        reservation.admitted_at = self._state.now
        self._take_admitted_time(state, reservation)
        if fact:
            self._recorder.recorded(state)
        self._sharing.admit(state, reservation)
        self._sharing.settle(state)

    def _take_admitted_time(self, state: WorkloadState, reservation: Reservation) -> None:
        """The cluster's own time of the admission counts from its first echo on."""
        admitted = condition(state.workload, "Admitted")
        if reservation.echoed and admitted is not None and admitted.status == "True":
            if admitted.last_transition_time is not None:
                reservation.admitted_at = admitted.last_transition_time

    def _checks_are_ready(self, state: WorkloadState, queue: ClusterQueueNode) -> bool:
        listed = {check.name: check.state for check in self._state.live_checks(state)}
        return all(listed.get(name) == "Ready" for name in required_checks(queue, state))

    def _set_reserved_at(self, state: WorkloadState, at: Timestamp) -> None:
        """The cluster's own time of the reservation counts from its first echo on: it orders victims (5.9.3)."""
        reservation = state.reservation
        assert reservation is not None
        if reservation.reserved_at == at:
            return
        self._rerank(state, lambda: setattr(reservation, "reserved_at", at))

    def _set_priority(self, state: WorkloadState, priority: int) -> None:
        self._rerank(state, lambda: setattr(state, "priority", priority))
        reservation = state.reservation
        assert reservation is not None
        if priority_class_of(state.workload):
            self._retry(state, reservation.cluster_queue)

    def follow_class(self, state: WorkloadState, value: int) -> None:
        """1.6.1: a changed WorkloadPriorityClass rewrites the priority of a workload that names it, running or not."""
        workload = state.workload
        if is_true(workload, "Finished") or self._state.declared_priority(state) == value:
            return
        state.class_priority = ClassPriority(value, workload.spec.priority)
        if state.reservation is not None:
            self._set_priority(state, self._state.effective_priority(state))
        elif state.waiting_in is not None:
            self.prepare_again(state)

    def _rerank(self, state: WorkloadState, change: object) -> None:
        """Change what victims are ordered by, keeping the queue's order of holders."""
        reservation = state.reservation
        assert reservation is not None and callable(change)
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        ranked = queue is not None and reservation.charged
        if queue is not None and ranked:
            queue.unrank_holder(state)
        change()
        if queue is not None and ranked:
            queue.rank_holder(state)
            self._state.touched.add(queue.name)

    def _lose_pods(self, state: WorkloadState, reservation: Reservation, reason: str) -> None:
        """What pods count less than their charge goes with them (dra 16.4)."""
        if reservation.reductions:
            reservation.reductions = reductions_of(self._allocations.settled(state))
        self.shrink(state, reservation, reason)

    def shrink(self, state: WorkloadState, reservation: Reservation, reason: str) -> None:
        """2.7.2, 8.2: the charge follows the pods that are left; what came back is released and retried for (7.9)."""
        before = dict(reservation.usage)
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        if queue is not None and reservation.charged:
            self._state.discharge(queue, state)
        self._state.set_usage(state)
        self._state.charge(state)
        self._state.mark_rows(reservation)
        if reservation.admitted:
            self._sharing.admit(state, reservation)
        freed = {fr: value - reservation.usage.get(fr, 0) for fr, value in before.items()}
        freed = {fr: value for fr, value in freed.items() if value > 0}
        if freed:
            self._recorder.released(state, reservation, reason, freed)
        if self._state.short_of_devices:
            self._state.retry_short_of_devices(after_victims=True)
        if bool(freed) if reason == SETTLED else reservation.admitted or reason == "ScaledDown":
            self._retry(state, reservation.cluster_queue)

    def _note_eviction(self, state: WorkloadState) -> None:
        """R0.13: the condition counts whatever its reason."""
        evicted = condition(state.workload, "Evicted")
        if evicted is None or evicted.status != "True" or state.is_evicted:
            return
        reservation = state.reservation
        if (
            reservation is not None
            and not reservation.echoed
            and evicted.last_transition_time == reservation.evicted_before
        ):
            return
        if reservation is not None and evicted.reason in DECIDED_ELSEWHERE:
            self._recorder.evicted(state, reservation.cluster_queue, evicted.reason, evicted.message)
        self.mark_evicted(state, evicted.reason)
        if reservation is not None and evicted.reason not in DECIDED_ELSEWHERE:
            self._recorder.recorded(state)

    def mark_evicted(self, state: WorkloadState, reason: str) -> None:
        """Its quota is on the way back: it is the first of all victims from now on (R2.1.1)."""
        state.evicted_at = self._state.now
        state.evicted_reason = reason
        state.stale_checks = frozenset(
            StaleCheck(check.name, check.state, check.last_transition_time)
            for check in state.workload.status.admission_checks
            if check.state != "Pending"
        )
        self._state.watched[state.uid] = state
        reservation = state.reservation
        if reservation is not None and reservation.charged:
            self._state.forest.queues[reservation.cluster_queue].mark_evicted(state)
            self._state.touched.add(reservation.cluster_queue)

    def _unmark_evicted(self, state: WorkloadState, reservation: Reservation) -> None:
        """The eviction was shown, and is gone while the quota is held: a write in between has undone it."""
        state.evicted_at = None
        state.evicted_reason = ""
        self._recorder.recorded(state)
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        if queue is not None:
            queue.unmark_evicted(state)
            self._state.touched.add(queue.name)

    def _has_lost(self, state: WorkloadState, reservation: Reservation) -> bool:
        """Whether an object without reservation means a loss, or was merely written before our decision arrived."""
        if reservation.echoed:
            return True
        evicted = condition(state.workload, "Evicted")
        if evicted is not None and evicted.status == "True":
            if evicted.last_transition_time != reservation.evicted_before:
                return True
        lost = condition(state.workload, "QuotaReserved")
        if lost is None or reservation.lost_before is None:
            return False
        at = lost.last_transition_time or 0
        return at != reservation.lost_before and at > reservation.reserved_at

    def _release(self, state: WorkloadState, reason: str) -> None:
        reservation = self._state.take_away(state)
        self._sharing.release(state)
        if reservation.admitted:
            # 7.2.8: whole seconds; an object that says better is heard afterwards.
            state.executed_seconds += max(0, self._state.now - reservation.admitted_at) // SECOND
        self._recorder.released(state, reservation, reason, reservation.usage)

    def _retry(self, state: WorkloadState, held_in: str | None = None) -> None:
        """4.7.2: the target is the ClusterQueue of the workload's last LocalQueue, if that is known.

        The reference knows no LocalQueue of a workload that never waited, and none that is stopped: it retries nothing
        then. The ledger's own rules retry the tree in which the quota was held.
        """
        local = self._state.known_local_queue(state.last_queued_in) if state.last_queued_in is not None else None
        if local is not None and local.spec.cluster_queue in self._state.forest.queues:
            self._state.retry_tree_of(local.spec.cluster_queue)
        if not self._state.repeats_reference and held_in in self._state.forest.queues:
            assert held_in is not None
            self._state.retry_tree_of(held_in)

    # Waiting

    def _wait(self, state: WorkloadState, old: Workload | None) -> None:
        """4.5.1 push or update."""
        self._state.moved[state.uid] = state
        queue = self._state.queue_of(state)
        if state.waiting_in is not None and state.waiting_in is not queue:
            self.leave_queue(state)
        if self._state.known_local_queue(state.local_queue) is not None and self._state.is_queueable(state.workload):
            state.last_queued_in = state.local_queue
        if queue is None or state.replaced or not self._state.is_queueable(state.workload):
            self.leave_queue(state)
            return
        pending = queue.pending
        if state.waiting_in is None:
            if self._prepare(state):
                self._place(state, queue)
            return
        was_active = pending.is_active(state)
        if not was_active and old is not None and not is_relevant_change(state, old, state.workload):
            if self._state.repeats_reference or not has_failed_checks(old):
                return
        pending.lift(state)
        self._put_again(state, queue, was_active=was_active)

    def _place(self, state: WorkloadState, queue: ClusterQueueNode) -> None:
        """4.5.1, 3 to 5: held for its backoff, parked with its shape, or into the heap."""
        state.waiting_in = queue
        shared = queue.pending.bulk_verdict(state.shape)
        if not self._state.backoff_expired(state):
            queue.pending.hold(state)
        elif shared is not None and not queue.is_strict:
            queue.pending.park(state)
            self._state.tell(state, reason_in_shape(refusal(self._state, queue, state), shared))
        else:
            queue.pending.activate(state)
        self._state.touched.add(queue.name)

    def enter_heap(self, state: WorkloadState, queue: ClusterQueueNode) -> None:
        """4.1.4: a queue that appears takes its workloads into the heap, backoff and equivalence or not."""
        if state.waiting_in is not None or state.reservation is not None or state.replaced:
            return
        if is_true(state.workload, "Finished") or not self._state.is_queueable(state.workload):
            return
        if not self._prepare(state):
            return
        if state.held == "LocalQueueStopped":
            self.end_wait(state)
            self._recorder.requeued(state, queue.name, "LocalQueueRestarted", state.requeue_at)
        self._state.watched[state.uid] = state
        self._state.moved[state.uid] = state
        state.waiting_in = queue
        state.last_queued_in = state.local_queue
        queue.pending.activate(state)
        self._state.touched.add(queue.name)

    def prepare_again(self, state: WorkloadState) -> None:
        """4.7.2, last row: what a waiting workload asks for may have changed; it is prepared and pushed anew."""
        queue = state.waiting_in
        if queue is None:
            return
        was_active = queue.pending.is_active(state)
        queue.pending.lift(state)
        self._put_again(state, queue, was_active=was_active)

    def price_again(self, state: WorkloadState) -> None:
        """dra Q1, Q4: what the workload's devices cost may have changed, or whether they can be charged at all."""
        if state.reservation is not None or is_true(state.workload, "Finished"):
            return
        if state.waiting_in is None:
            self._wait(state, None)
        else:
            self.prepare_again(state)

    def _put_again(self, state: WorkloadState, queue: ClusterQueueNode, *, was_active: bool) -> None:
        if not self._prepare(state):
            return
        if was_active:
            queue.pending.activate(state)
            self._state.touched.add(queue.name)
        else:
            self._place(state, queue)

    def _prepare(self, state: WorkloadState) -> bool:
        """False when the workload's devices cannot be charged: it is in no queue then, and told so once a reason."""
        self._state.prepare(state)
        rejection = state.rejection
        if rejection is None:
            return True
        self.leave_queue(state)
        news = ("Inadmissible", rejection.message)
        if state.told != news:
            state.told = news
            state.verdict = Verdict("Misconfigured", rejection.message)
            self._recorder.inadmissible(state, self._queue_name(state), rejection.code, rejection.message)
        return False

    def _queue_name(self, state: WorkloadState) -> str:
        queue = self._state.queue_of(state)
        return queue.name if queue is not None else ""

    def leave_queue(self, state: WorkloadState) -> None:
        """Out of the queue it waits in, if it waits."""
        if state.waiting_in is not None:
            state.waiting_in.pending.remove(state)
            self._state.touched.add(state.waiting_in.name)
            state.waiting_in = None
            state.memory = None

    def _follow_queue_name(self, state: WorkloadState, workload: Workload) -> None:
        """4.5.2: the old entry is removed first."""
        local_queue = (state.namespace, workload.spec.queue_name)
        if local_queue == state.local_queue:
            return
        self.leave_queue(state)
        self._sharing.forget(state)
        self._sharing.release(state)
        indexes.move(self._state, state, local_queue)
        if state.reservation is not None and state.reservation.admitted:
            self._sharing.admit(state, state.reservation)
