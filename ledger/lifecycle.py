"""The states in which a workload can be between two events (objects 2.1), by name.

`docs/workload-lifecycle.md` draws them with the edges between them; a test holds the page against what recordings of
real clusters and random worlds go through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ledger.objects.workload import is_true
from ledger.pending import HELD
from ledger.workloads import WorkloadState

STATES: Final = {
    "unknown": "the ledger knows no such object",
    "unqueued": "it is in no queue: its LocalQueue or ClusterQueue is missing or stopped, it is gated, on hold, being "
    "deleted, replaced by a larger slice, or its devices cannot be charged",
    "queued": "it is in the heap of its ClusterQueue and is offered in its turn",
    "parked": "it was looked at and refused, or one of its shape was: the inadmissible list, until a retry",
    "held": "a backoff has not ended, its queue was stopped, or it was deactivated: no retry moves it",
    "reserved": "it holds quota and waits for its admission checks",
    "admitted": "it holds quota and may run",
    "evicting": "it holds quota that it is told to give back; it is the first of all victims",
    "deactivated": "`spec.active` is false: it holds nothing, whatever its pods still do",
    "finished": "it has ended for good",
}


def state_of(workload: WorkloadState | None) -> str:
    """Which of `STATES` a workload is in; between two events it is in exactly one."""
    if workload is None:
        return "unknown"
    if is_true(workload.workload, "Finished"):
        return "finished"
    if not workload.workload.spec.active:
        return "deactivated"
    if workload.reservation is not None:
        if workload.is_evicted:
            return "evicting"
        return "admitted" if workload.reservation.admitted else "reserved"
    if workload.waiting_in is None:
        return "unqueued"
    if workload.place == HELD:
        return "held"
    return "queued" if workload.waiting_in.pending.is_active(workload) else "parked"


class Edge(NamedTuple):
    """From any of `sources` to any of `targets`. `because` is the event, timer or cycle that drives it; `decisions` are
    those it makes, in order: a type, or a type and the beginning of its reason. Where there are alternatives, one."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    because: str
    decisions: tuple[str, ...] = ()


WAITING: Final = ("queued", "parked", "held", "unqueued")
HOLDING: Final = ("reserved", "admitted", "evicting")

EDGES: Final = (
    Edge(("unknown",), (*WAITING, "deactivated", "finished"), "a Workload without reservation arrives"),
    Edge(
        ("unknown", *WAITING, "deactivated"),
        HOLDING,
        "a Workload with a reservation arrives: a fact, charged as is",
        ("Recorded",),
    ),
    Edge(HOLDING, HOLDING, "an object shows another reservation than was decided: it wins", ("Recorded",)),
    Edge(("reserved",), ("admitted",), "an object shows an admission that was not decided here", ("Recorded",)),
    Edge(("unqueued",), ("queued", "held"), "its queue appears or starts, its gate opens"),
    Edge(("unqueued",), ("queued",), "its LocalQueue starts again", ("Requeued LocalQueueRestarted",)),
    Edge(("queued", "parked", "held"), ("unqueued",), "its queue is gone or stops, its gate closes"),
    Edge(WAITING, ("unqueued",), "it is being deleted", ("Dequeued Terminating",)),
    Edge(("queued",), ("reserved",), "a cycle finds room", ("QuotaReserved",)),
    Edge(
        ("queued",), ("parked",), "a cycle refuses it, or one of its shape; the verdict is a Pending where it is news"
    ),
    Edge(
        ("parked",),
        ("queued",),
        "a retry: quota came back, a queue, cohort, flavor or check changed, it changed itself",
    ),
    Edge(("queued", "parked"), ("held",), "an object shows Requeued False or a backoff"),
    Edge(("held",), ("queued", "parked"), "an object shows Requeued True, or takes its backoff back"),
    Edge(("held",), ("queued", "parked"), "its backoff ends: a timer", ("Requeued BackoffFinished",)),
    Edge(("held",), ("queued", "parked"), "its ClusterQueue starts again", ("Requeued ClusterQueueRestarted",)),
    Edge(("held",), ("queued", "parked"), "it was reactivated", ("Requeued Reactivated",)),
    Edge(("reserved",), ("admitted",), "all checks are ready, or there are none", ("Admitted",)),
    Edge(("evicting",), ("evicting",), "all checks are ready although it is to give its quota back", ("Admitted",)),
    Edge(("reserved",), WAITING, "its queue stops, or is gone", ("Released Suspended",)),
    Edge(("reserved",), WAITING, "its queue is deleted", ("Released Misconfigured",)),
    Edge(("reserved", "admitted"), ("evicting",), "it is a victim of a preemptor", ("Preempted",)),
    Edge(
        ("reserved", "admitted"),
        ("evicting",),
        "a check answers Retry, and its delay is over",
        ("Evicted AdmissionCheck",),
    ),
    Edge(
        ("reserved", "admitted"), ("evicting",), "a check answers Rejected", ("Evicted DeactivatedDueToAdmissionCheck",)
    ),
    Edge(("admitted",), ("evicting",), "its pods are not ready in time: a timer", ("Evicted PodsReadyTimeout",)),
    Edge(
        ("admitted",),
        ("evicting",),
        "its pods were not ready in time once too often: a timer",
        ("Evicted DeactivatedDueToRequeuingLimitExceeded",),
    ),
    Edge(
        ("admitted",),
        ("evicting",),
        "its execution time is over: a timer",
        ("Evicted DeactivatedDueToMaximumExecutionTimeExceeded",),
    ),
    Edge(("admitted",), ("evicting",), "its ClusterQueue is drained", ("Evicted ClusterQueueStopped",)),
    Edge(("admitted",), ("evicting",), "its LocalQueue is drained", ("Evicted LocalQueueStopped",)),
    Edge(
        ("reserved", "admitted"), ("evicting",), "an object shows Evicted True that was not decided here", ("Recorded",)
    ),
    Edge(("reserved", "admitted"), ("evicting",), "its nodes failed, as an object shows", ("Evicted NodeFailures",)),
    Edge(("evicting",), ("reserved", "admitted"), "a write took a shown eviction back", ("Recorded",)),
    Edge(HOLDING, WAITING, "an object shows that the quota is gone", ("Released", "Requeued")),
    Edge(HOLDING, ("held", "unqueued"), "the same, and something keeps it out of the queue", ("Released",)),
    Edge(("reserved", "admitted"), ("unqueued",), "a larger slice takes over", ("Released WorkloadSliceReplaced",)),
    Edge(("reserved", "admitted"), ("deactivated",), "`spec.active` turns false", ("Evicted Deactivated", "Released")),
    Edge(("evicting",), ("deactivated",), "`spec.active` turns false", ("Released Deactivated",)),
    Edge(WAITING, ("deactivated",), "`spec.active` turns false", ("Evicted Deactivated", "Dequeued Deactivated")),
    Edge(WAITING, ("deactivated",), "the same after an eviction that is still shown", ("Dequeued Deactivated",)),
    Edge(("unqueued",), ("deactivated",), "the same while it is being deleted", ("Evicted Deactivated",)),
    Edge(
        WAITING, WAITING, "a check of a waiting workload answers Rejected", ("Evicted DeactivatedDueToAdmissionCheck",)
    ),
    Edge(("deactivated",), WAITING, "`spec.active` turns true"),
    Edge(HOLDING, ("finished",), "Finished turns True", ("Released Finished",)),
    Edge(WAITING, ("finished",), "Finished turns True", ("Dequeued Finished",)),
    Edge(("unqueued", "deactivated"), ("finished",), "Finished turns True, and that it waits no more was told"),
    Edge(HOLDING, ("unknown",), "it is deleted", ("Released Deleted",)),
    Edge(WAITING, ("unknown",), "it is deleted", ("Dequeued Deleted",)),
    Edge(("unqueued", "deactivated", "finished"), ("unknown",), "it is deleted, and that it waits no more was told"),
)


def is_walk(source: str, target: str, decisions: Sequence[str], *, silent: int = 3) -> bool:
    """Whether edges lead from one state to the other making exactly these decisions; at most so many without any."""
    found: set[tuple[str, int, int]] = set()
    waiting = [(source, 0, 0)]
    while waiting:
        state, made, quiet = waiting.pop()
        if state == target and made == len(decisions):
            return True
        for edge in EDGES:
            if state not in edge.sources or (not edge.decisions and quiet == silent):
                continue
            upto = made + len(edge.decisions)
            if not all(map(str.startswith, decisions[made:upto], edge.decisions)) or upto > len(decisions):
                continue
            for reached in edge.targets:
                if reached == "unknown" and target != "unknown":
                    continue
                step = (reached, upto, 0 if edge.decisions else quiet + 1)
                if step not in found:
                    found.add(step)
                    waiting.append(step)
    return False
