"""What becomes of a workload besides scheduling (admission 7): evictions, withdrawals, backoffs, deactivation.

`look_at` is to the ledger what a reconcile of the workload controller is to Kueue: it looks at one workload after
something concerning it changed or its timer came due, decides what follows, and sets the next timer. It never waits.
"""

from __future__ import annotations

from typing import Final

from ledger.cluster_events import CLUSTER_QUEUE_STOPPED, LOCAL_QUEUE_STOPPED
from ledger.objects.workload import AdmissionCheckState, condition, is_true
from ledger.pending import HELD
from ledger.recorder import Recorder
from ledger.state import State
from ledger.timers import WORKLOAD, TimerKey
from ledger.timestamps import LATEST, SECOND, Timestamp
from ledger.workload_events import WorkloadEvents
from ledger.workloads import Reservation, WorkloadState

PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK: Final = "AdmissionCheck"
DEACTIVATED: Final = "Deactivated"
DEACTIVATED_DUE_TO: Final = "DeactivatedDueTo"

BACKOFF_FINISHED: Final = "BackoffFinished"
REACTIVATED: Final = "Reactivated"
RESTARTED: Final = {CLUSTER_QUEUE_STOPPED: "ClusterQueueRestarted", LOCAL_QUEUE_STOPPED: "LocalQueueRestarted"}

MAXIMUM_EXECUTION_TIME: Final = "MaximumExecutionTimeExceeded"
REQUEUING_LIMIT: Final = "RequeuingLimitExceeded"

_CAUSES: Final = {
    MAXIMUM_EXECUTION_TIME: "exceeding the maximum execution time",
    REQUEUING_LIMIT: "exceeding the maximum number of re-queuing retries",
}

_WAITING_FOR_START: Final = frozenset({"WaitForStart", "PodsReady"})


class Life:
    """Decides what time and the state of queues and checks do to workloads."""

    def __init__(self, state: State, recorder: Recorder, workloads: WorkloadEvents) -> None:
        self._state = state
        self._recorder = recorder
        self._workloads = workloads

    def look_at(self, state: WorkloadState) -> None:
        """What follows from how things stand with this workload, and when to look again."""
        workload = state.workload
        known = self._state.workloads.get(state.key) is state
        deadline: int | None = None
        if known and workload.spec.active and not is_true(workload, "Finished") and not state.replaced:
            if state.reservation is None:
                self._look_at_waiting(state)
            elif not state.is_evicted:
                self._look_at_holder(state, state.reservation)
            deadline = self._deadline(state)
        self._state.timers.set(timer_of(state), deadline)

    def restart(self, state: WorkloadState) -> None:
        """7.6: the queue that was stopped when the workload was evicted takes workloads again."""
        if state.reservation is None and state.held in RESTARTED and not self._is_stopped(state):
            self._requeue(state, RESTARTED[state.held])

    # Waiting

    def _look_at_waiting(self, state: WorkloadState) -> None:
        if self._rejected(state) and not state.deactivated_for:
            self._deactivate(state, ADMISSION_CHECK, self._check_message(state, "Rejected"))
        if state.requeue_at is not None and state.requeue_at <= self._state.now:
            state.requeue_at = None
            if not state.held and state.place == HELD:
                self._requeue(state, BACKOFF_FINISHED)
        if state.held in (PODS_READY_TIMEOUT, ADMISSION_CHECK):
            if state.requeue_at is None:
                self._requeue(state, BACKOFF_FINISHED)
        elif state.held in RESTARTED:
            if not self._is_stopped(state) and state.uid not in self._state.restarted:
                self._requeue(state, RESTARTED[state.held])
        elif state.held.startswith(DEACTIVATED) and self._ends_deactivation(state):
            self._requeue(state, REACTIVATED)
        self._workloads.let_go(state)

    def _ends_deactivation(self, state: WorkloadState) -> bool:
        """7.4.7: the reference takes back only those that a user deactivated."""
        return state.held == DEACTIVATED or not self._state.repeats_reference

    def _is_stopped(self, state: WorkloadState) -> bool:
        local = self._state.local_queues.get(state.local_queue)
        if local is None:
            return True
        if state.held == LOCAL_QUEUE_STOPPED:
            return local.spec.stop_policy != "None"
        queue = self._state.forest.queues.get(local.spec.cluster_queue)
        return queue is None or queue.source.spec.stop_policy != "None"

    def _requeue(self, state: WorkloadState, reason: str) -> None:
        """Requeued turns True: the workload is pushed (4.5.1)."""
        self._workloads.end_wait(state)
        queue = state.waiting_in
        if queue is not None:
            self._recorder.requeued(state, queue.name, reason, state.requeue_at)

    # Holding quota

    def _look_at_holder(self, state: WorkloadState, reservation: Reservation) -> None:
        """The first that applies, in the order of the controller's steps. None is taken before a shown delay ends."""
        if self._state.delay_of_holder(state) is not None:
            return
        self._workloads.admit_if_ready(state)
        if self._obey_checks(state) or self._obey_stop(state, reservation) or self._retried(state):
            return
        if not reservation.admitted:
            return
        due = self._pods_ready_deadline(state, reservation)
        if due is not None and due <= self._state.now:
            self._time_out(state)
            return
        due = self._execution_deadline(state, reservation)
        if due is not None and due <= self._state.now:
            self._deactivate(state, MAXIMUM_EXECUTION_TIME)

    def _obey_stop(self, state: WorkloadState, reservation: Reservation) -> bool:
        """7.6: the LocalQueue is looked at first. Only a queue that is known can be stopped."""
        local = self._state.local_queues.get(state.local_queue)
        queue = self._state.forest.queues.get(reservation.cluster_queue)
        stops = (
            (LOCAL_QUEUE_STOPPED, "LocalQueue", None if local is None else local),
            (CLUSTER_QUEUE_STOPPED, "ClusterQueue", None if queue is None else queue.source),
        )
        for reason, kind, source in stops:
            if source is None:
                continue
            if source.metadata.deletion_timestamp is not None and not reservation.admitted:
                self._workloads.withdraw(state, "Misconfigured")
                return True
            if source.spec.stop_policy == "None":
                continue
            if not reservation.admitted:
                self._workloads.withdraw(state, "Suspended")
                return True
            if source.spec.stop_policy == "HoldAndDrain":
                self._evict(state, reason, f"The {kind} is stopped")
                return True
        return False

    def _obey_checks(self, state: WorkloadState) -> bool:
        """7.4.5, 7.4.6: Rejected before Retry; a delay is waited for before the eviction, as the reference does."""
        if not state.workload.status.admission_checks:
            return False
        if self._rejected(state):
            self._deactivate(state, ADMISSION_CHECK, self._check_message(state, "Rejected"))
            return True
        retried = self._retried(state)
        if not retried:
            return False
        delays = [
            check.last_transition_time + check.requeue_after_seconds * SECOND
            for check in retried
            if check.requeue_after_seconds is not None and check.last_transition_time is not None
        ]
        until = min(max(delays, default=0), LATEST)
        if until > self._state.now and (state.requeue_at is None or until > state.requeue_at):
            state.requeue_at = Timestamp(until)
        if state.requeue_at is not None and state.requeue_at > self._state.now:
            return False
        self._evict(state, ADMISSION_CHECK, self._check_message(state, "Retry"))
        return True

    def _time_out(self, state: WorkloadState) -> None:
        """7.5.4."""
        waiting = self._state.configuration.wait_for_pods_ready
        assert waiting is not None
        strategy, attempt = waiting.requeuing_strategy, state.requeue_count + 1
        if strategy.backoff_limit_count is not None and attempt > strategy.backoff_limit_count:
            self._deactivate(state, REQUEUING_LIMIT)
            return
        delay = backoff_seconds(attempt, strategy.backoff_base_seconds, strategy.backoff_max_seconds) * SECOND
        until = min(self._state.now + delay, LATEST)
        if state.requeue_at is None or until > state.requeue_at:
            state.requeue_at = Timestamp(until)
        state.requeue_count = attempt
        self._evict(state, PODS_READY_TIMEOUT, f"Exceeded the PodsReady timeout {state.namespace}/{state.name}")

    def _deactivate(self, state: WorkloadState, cause: str, because: str = "") -> None:
        """7.7: evicted for good; the quota is free once `spec.active` is false."""
        state.deactivated_for = cause
        state.requeue_at = None
        state.requeue_count = 0
        if cause == MAXIMUM_EXECUTION_TIME:
            state.executed_seconds = 0
        message = f"The workload is deactivated due to {because or _CAUSES[cause]}"
        self._evict(state, f"{DEACTIVATED_DUE_TO}{cause}", message)

    def _evict(self, state: WorkloadState, reason: str, message: str) -> None:
        """7.4.1: decided here; the quota stays until an event says that it is gone."""
        reservation = state.reservation
        if reservation is None:
            where = state.waiting_in.name if state.waiting_in is not None else ""
            self._recorder.evicted(state, where, reason, message)
            return
        self._recorder.evicted(state, reservation.cluster_queue, reason, message)
        self._workloads.mark_evicted(state, reason)
        if reason == ADMISSION_CHECK or (reason == PODS_READY_TIMEOUT and self._state.orders_by_eviction):
            state.requeue_order = self._state.now // SECOND * SECOND

    # Admission checks

    def _rejected(self, state: WorkloadState) -> bool:
        return any(check.state == "Rejected" for check in self._state.live_checks(state))

    def _retried(self, state: WorkloadState) -> list[AdmissionCheckState]:
        return [check for check in self._state.live_checks(state) if check.state == "Retry"]

    def _check_message(self, state: WorkloadState, value: str) -> str:
        """Which checks answered so, by name, each with what it said if it said anything."""
        found = sorted(
            f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"'
            for check in self._state.live_checks(state)
            if check.state == value
        )
        noun = "AdmissionCheck" if len(found) == 1 else "AdmissionChecks"
        text = f"{noun} in {value} state: {'; '.join(found)}"
        return f"Evicted due to {text}" if value == "Retry" else text

    # Deadlines

    def _deadline(self, state: WorkloadState) -> int | None:
        """When this workload must be looked at again though nothing happens."""
        reservation = state.reservation
        if reservation is None:
            return state.requeue_at
        if state.is_evicted:
            return None
        delay = self._state.delay_of_holder(state)
        if delay is not None:
            return delay
        found: list[int | None] = [self._pods_ready_deadline(state, reservation)]
        found.append(self._execution_deadline(state, reservation))
        if state.requeue_at is not None and self._retried(state):
            found.append(state.requeue_at)
        # One that has come already fired when the controller's steps before it had the word; it does not come again.
        now = self._state.now
        return min((deadline for deadline in found if deadline is not None and deadline > now), default=None)

    def _pods_ready_deadline(self, state: WorkloadState, reservation: Reservation) -> int | None:
        """7.5.3."""
        waiting = self._state.configuration.wait_for_pods_ready
        if waiting is None or not reservation.admitted:
            return None
        ready = condition(state.workload, "PodsReady")
        if ready is None or (ready.status != "True" and ready.reason in _WAITING_FOR_START):
            return reservation.admitted_at + waiting.timeout
        if ready.status == "True" or ready.reason != "WaitForRecovery" or waiting.recovery_limit is None:
            return None
        since = ready.last_transition_time
        return (reservation.admitted_at if since is None else since) + waiting.recovery_limit

    def _execution_deadline(self, state: WorkloadState, reservation: Reservation) -> int | None:
        """7.8.1."""
        allowed = state.workload.spec.maximum_execution_time_seconds
        if allowed is None or not reservation.admitted:
            return None
        return reservation.admitted_at + (allowed - state.executed_seconds) * SECOND


def timer_of(state: WorkloadState) -> TimerKey:
    return TimerKey(state.uid, WORKLOAD, state.namespace, state.name)


def backoff_seconds(attempt: int, base: int, greatest: int) -> int:
    """7.5.4: base, then doubled each time up to the cap, which the first delay is not held to."""
    if attempt == 1:
        return base
    doublings = min(attempt - 1, 64)
    return min(base << doublings, greatest)
