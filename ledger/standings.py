"""Where queues and waiting workloads stand, told when it is news: whether a queue takes workloads (objects 4.1, 4.3),
and why a workload waits that no cycle has looked at (admission 7.3)."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.decisions import LocalQueueReference
from ledger.objects.workload import condition, is_true
from ledger.recorder import Recorder
from ledger.state import NAMESPACED_NAME, State
from ledger.workloads import Verdict, WorkloadState

READY: Final = "Ready"
GONE: Final = "Deleted"

PENDING_EVALUATION: Final = Verdict("PendingEvaluation", "Workload is pending evaluation in the scheduling queue")


class QueueStanding(NamedTuple):
    """Whether a queue takes workloads, and what else of it a status is made of. `flavors` and `cohort` are those of a
    ClusterQueue, `cluster_queue` is where a LocalQueue leads."""

    active: bool
    reason: str
    message: str
    cluster_queue: str = ""
    cohort: str = ""
    flavors: tuple[str, ...] = ()


class Standings:
    """Tells of the queues and workloads that the state names as moved. A ClusterQueue goes by ("", name)."""

    def __init__(self, state: State, recorder: Recorder) -> None:
        self._state = state
        self._recorder = recorder
        self._told: dict[NAMESPACED_NAME, QueueStanding] = {}

    def tell_queues(self) -> None:
        """One `QueueChanged` for every queue that stands otherwise than was told: ClusterQueues first, by name."""
        moved = self._state.moved_queues
        for key in sorted(moved):
            before, now = self._told.get(key), standing_of_queue(self._state, key)
            if now == before:
                continue
            if now is not None:
                self._told[key] = now
            elif before is not None:
                del self._told[key]
                now = before._replace(active=False, reason=GONE, message="", cohort="", flavors=())
            assert now is not None
            namespace, name = key
            named = LocalQueueReference(namespace=namespace, name=name) if namespace else None
            self._recorder.queue_changed(named, now)
        moved.clear()

    def tell_departures(self) -> None:
        """Of those that moved, who waited and does so no more: before anybody of the same name is told anything."""
        moved = self._state.moved
        gone = {uid: left for uid, state in moved.items() if (left := self._why_it_left(state))}
        for uid in sorted(gone, key=lambda uid: (*moved[uid].key, uid)):
            state = moved.pop(uid)
            if state.told is not None:
                state.told = None
                self._recorder.dequeued(state, gone[uid])

    def tell_workloads(self) -> None:
        """Where those that moved and wait on stand, whom no cycle has told."""
        self.tell_departures()
        moved = self._state.moved
        for waiting in sorted(moved.values(), key=lambda state: (*state.key, state.uid)):
            if waiting.reservation is None:
                self._tell(waiting)
        moved.clear()

    def _why_it_left(self, state: WorkloadState) -> str:
        return why_it_left(self._state, state) if state.reservation is None else ""

    def _tell(self, waiting: WorkloadState) -> None:
        blocked = what_keeps_it_out(self._state, waiting)
        if blocked is None and waiting.rejection is not None:
            return  # told as `Inadmissible` where it was found
        verdict = blocked or waiting.verdict or PENDING_EVALUATION
        news = (verdict.reason, verdict.message if blocked is not None else "")
        if waiting.told != news:
            waiting.told = news
            self._recorder.pending(waiting, waiting.waiting_in, verdict)


def standing_of_queue(state: State, key: NAMESPACED_NAME) -> QueueStanding | None:
    """None for a queue that is not there."""
    namespace, name = key
    if namespace:
        return _standing_of_local_queue(state, key)
    queue = state.forest.queues.get(name)
    if queue is None:
        return None
    flavors = tuple(flavor for group in queue.groups for flavor in group.flavors)
    return QueueStanding(
        queue.active,
        queue.inactive_reason or READY,
        queue.inactive_message or "Can admit new workloads",
        name,
        queue.cohort_name,
        flavors,
    )


def _standing_of_local_queue(state: State, key: NAMESPACED_NAME) -> QueueStanding | None:
    """Objects 4.3."""
    source = state.local_queues.get(key)
    if source is None:
        return None
    leads_to = source.spec.cluster_queue
    if source.spec.stop_policy != "None":
        return QueueStanding(False, "Stopped", "LocalQueue is stopped", leads_to)
    queue = state.forest.queues.get(leads_to)
    if queue is None:
        return QueueStanding(False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue", leads_to)
    if not queue.active:
        return QueueStanding(False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue", leads_to)
    return QueueStanding(True, READY, "Can submit new workloads to localQueue", leads_to)


def why_it_left(state: State, waiting: WorkloadState) -> str:
    """Why a workload without quota asks for none any more; nothing while it does."""
    workload = waiting.workload
    if state.workloads.get(waiting.key) is not waiting:
        return GONE
    if is_true(workload, "Finished"):
        return "Finished"
    if not workload.spec.active:
        return "Deactivated"
    if workload.metadata.deletion_timestamp is not None:
        return "Terminating"
    return "WorkloadSliceReplaced" if waiting.replaced else ""


def what_keeps_it_out(state: State, waiting: WorkloadState) -> Verdict | None:
    """7.3, objects 2.2: the first that applies of what lets no cycle look at it."""
    workload = waiting.workload
    quota = condition(workload, "QuotaReserved")
    if quota is not None and quota.status == "False" and quota.reason == "OnHold":
        return Verdict("OnHold", quota.message)
    name = waiting.local_queue[1]
    local = state.local_queues.get(waiting.local_queue)
    if local is None:
        return Verdict("Misconfigured", f"LocalQueue {name} doesn't exist" if name else "it names no LocalQueue")
    if local.metadata.deletion_timestamp is not None:
        return Verdict("Misconfigured", f"LocalQueue {name} is terminating or missing")
    if local.spec.stop_policy != "None":
        return Verdict("Suspended", f"LocalQueue {name} is inactive")
    queue = state.forest.queues.get(local.spec.cluster_queue)
    if queue is None:
        return Verdict("Misconfigured", f"ClusterQueue {local.spec.cluster_queue} doesn't exist")
    if not queue.active:
        return Verdict("Suspended", f"ClusterQueue {queue.name} is inactive")
    gate = state.admission_gate(workload)
    return Verdict("AdmissionGated", f"Admission is gated by: {gate}") if gate else None
