"""The status that Kubernetes would show, from decisions alone (objects 2 and 4).

A reader of `quota.decisions` keeps one `Board` for a cluster: what each workload was told last, what each queue holds.
What decisions do not say is not shown: pods that are ready, and what other controllers write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ledger import decisions
from ledger.decisions import Amounts, Decision, LocalQueueReference
from ledger.quantity import canonical, parse_quantity, quota_amount, request_amount

Document = dict[str, Any]
Key = tuple[str, str]

FINISHED: Final = "Finished"
PENDING_EVALUATION: Final = "PendingEvaluation"

_REQUEUED: Final = {
    "BackoffFinished": "The workload backoff was finished",
    "ClusterQueueRestarted": "The ClusterQueue was restarted after being stopped",
    "LocalQueueRestarted": "The LocalQueue was restarted after being stopped",
    "Reactivated": "The workload was reactivated",
}
_PREEMPTED_FOR: Final = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}


@dataclass
class WorkloadStatus:
    """One workload as its decisions leave it. `held` are integers per flavor and resource."""

    namespace: str
    name: str
    uid: str
    cluster_queue: str = ""
    local_queue: LocalQueueReference | None = None
    conditions: dict[str, Document] = field(default_factory=dict)
    admission: Document | None = None
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    requeue_at: str = ""
    queued: bool = False

    @property
    def holds(self) -> bool:
        return self.admission is not None and self.is_true("QuotaReserved") and not self.is_true(FINISHED)

    @property
    def admitted(self) -> bool:
        return self.holds and self.is_true("Admitted")

    def is_true(self, kind: str) -> bool:
        return self.conditions.get(kind, {}).get("status") == "True"

    def put(self, kind: str, status: bool, reason: str, message: str, at: str) -> None:
        self.conditions[kind] = _condition(self.conditions.get(kind), kind, status, reason, message, at)

    def wait(self, reason: str, message: str, at: str) -> None:
        """It holds no quota."""
        self.put("QuotaReserved", False, reason, message, at)
        self.put("Admitted", False, "NoReservation", "The workload has no reservation", at)

    def deactivate(self, at: str) -> None:
        """7.3: this reason comes before all others."""
        self.wait("Deactivated", "The workload is deactivated", at)

    def reserve(self, decision: decisions.QuotaReserved | decisions.Recorded, at: str) -> None:
        """It holds quota, and waits for its admission checks until it is told that it is admitted."""
        message = f"Quota reserved in ClusterQueue {decision.cluster_queue}"
        self.put("QuotaReserved", True, "QuotaReserved", message, at)
        if not self.is_true("Admitted"):
            self.put("Admitted", False, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready", at)
        self.admission = {
            "clusterQueue": decision.cluster_queue,
            "podSetAssignments": [
                {"name": p.name, "flavors": p.flavors, "resourceUsage": p.usage, "count": p.count}
                for p in decision.pod_sets
            ],
        }
        self.queued, self.requeue_at = False, ""

    def document(self) -> Document:
        status: Document = {"conditions": [self.conditions[kind] for kind in sorted(self.conditions)]}
        if self.admission is not None:
            status["admission"] = self.admission
        if self.requeue_at:
            status["requeueState"] = {"requeueAt": self.requeue_at}
        metadata = {"name": self.name, "namespace": self.namespace, "uid": self.uid}
        return _document("Workload", metadata, status)


@dataclass
class QueueStatus:
    """One ClusterQueue: its rows, in the order of its specification, and what its share was last."""

    active: Document | None = None
    nominal: dict[str, dict[str, int]] = field(default_factory=dict)
    flavors: list[str] = field(default_factory=list)
    in_cohort: bool = False
    weighted_share: int | None = None


@dataclass
class LocalQueueStatus:
    """One LocalQueue and where it leads."""

    active: Document
    cluster_queue: str


@dataclass
class Consumed:
    """A LocalQueue under admission fair sharing."""

    resources: dict[str, str]
    at: str


class Board:
    """The state of one cluster as its decisions tell it; they are applied in the order of their seq."""

    def __init__(self) -> None:
        self.workloads: dict[Key, WorkloadStatus] = {}
        self.queues: dict[str, QueueStatus] = {}
        self.local_queues: dict[Key, LocalQueueStatus] = {}
        self.cohort_shares: dict[str, int] = {}
        self.consumed: dict[Key, Consumed] = {}
        self.binary: set[str] = set()
        """Resources whose amounts are written in binary units."""

    def apply(self, decision: Decision) -> None:
        match decision:
            case decisions.QuotaReserved():
                self._reserved(decision)
            case decisions.Recorded():
                self._recorded(decision)
            case decisions.Admitted():
                self._of(decision).put("Admitted", True, "Admitted", "The workload is admitted", decision.at)
            case decisions.Preempted():
                self._preempted(decision)
            case decisions.Evicted():
                self._of(decision).put("Evicted", True, decision.reason, decision.message, decision.at)
            case decisions.Released():
                self._released(decision)
            case decisions.Requeued():
                self._requeued(decision)
            case decisions.Pending():
                self._pending(decision)
            case decisions.Inadmissible():
                self._inadmissible(decision)
            case decisions.ShareChanged():
                self._share(decision)
            case decisions.QuotaChanged():
                self._quota(decision)
            case decisions.QueueChanged():
                self._queue_changed(decision)
            case decisions.Dequeued():
                self._dequeued(decision)

    # Decisions

    def _of(self, decision: Any) -> WorkloadStatus:
        workload = decision.workload
        key = (workload.namespace, workload.name)
        known = self.workloads.get(key)
        if known is None or known.uid != workload.uid:
            known = self.workloads[key] = WorkloadStatus(workload.namespace, workload.name, workload.uid)
        known.cluster_queue = getattr(decision, "cluster_queue", "") or known.cluster_queue
        known.local_queue = getattr(decision, "local_queue", None) or known.local_queue
        return known

    def _reserved(self, decision: decisions.QuotaReserved) -> None:
        state = self._of(decision)
        for kind in ("Evicted", "Preempted"):
            if state.is_true(kind):
                previous = f"Previously: {state.conditions[kind]['message']}"
                state.put(kind, False, "QuotaReserved", previous, decision.at)
        state.reserve(decision, decision.at)
        state.held = {}
        for pods in decision.pod_sets:
            for resource, flavor in pods.flavors.items():
                self._hold(state, flavor, resource, pods.usage.get(resource, "0"))

    def _recorded(self, decision: decisions.Recorded) -> None:
        state = self._of(decision)
        state.reserve(decision, decision.at)
        if decision.admitted:
            state.put("Admitted", True, "Admitted", "The workload is admitted", decision.at)
        if decision.evicted or state.is_true("Evicted"):
            state.put("Evicted", bool(decision.evicted), decision.evicted or "QuotaReserved", "", decision.at)
        state.held = {}
        for flavor, resources in decision.usage.items():
            for resource, text in resources.items():
                self._hold(state, flavor, resource, text)

    def _hold(self, state: WorkloadStatus, flavor: str, resource: str, text: str) -> None:
        held = state.held.setdefault(flavor, {})
        held[resource] = held.get(resource, 0) + _amount(resource, text)
        if text.endswith("i"):
            self.binary.add(resource)

    def _preempted(self, decision: decisions.Preempted) -> None:
        state = self._of(decision)
        message = (
            f"Preempted to accommodate a workload (UID: {decision.preemptor.uid}, JobUID: UNKNOWN) due to "
            f"{_PREEMPTED_FOR[decision.reason]}; preemptor path: {decision.preemptor_path}; "
            f"preemptee path: {decision.victim_path}"
        )
        state.put("Evicted", True, "Preempted", message, decision.at)
        state.put("Preempted", True, decision.reason, message, decision.at)

    def _released(self, decision: decisions.Released) -> None:
        state = self._of(decision)
        if decision.reason in ("ReclaimablePods", "ScaledDown"):
            _take(state.held, decision.usage)
            return
        if decision.reason == "Deleted":
            self.workloads.pop((state.namespace, state.name), None)
            return
        state.held = {}
        if decision.reason in (FINISHED, "WorkloadSliceReplaced"):
            # Finished is final: the other conditions and the admission keep their last values (objects 2.3).
            state.put(FINISHED, True, decision.reason, "", decision.at)
            return
        evicted = state.conditions.get("Evicted", {})
        message = evicted.get("message", "")
        if evicted.get("status") == "True":
            # Objects 2.5: back in the queue at once only after these.
            again = evicted["reason"] in ("Preempted", "NodeFailures")
            state.put("Requeued", again, evicted["reason"], message, decision.at)
        state.admission = None
        state.queued = decision.reason != "Deactivated"
        if not state.queued:
            state.deactivate(decision.at)
            return
        reason = decision.reason if decision.reason in ("Suspended", "Misconfigured") else PENDING_EVALUATION
        state.wait(reason, message, decision.at)

    def _requeued(self, decision: decisions.Requeued) -> None:
        state = self._of(decision)
        state.requeue_at = _second(decision.not_before) if decision.not_before else ""
        message = _REQUEUED.get(decision.reason) or state.conditions.get("Evicted", {}).get("message", "")
        state.put("Requeued", not decision.not_before, decision.reason, message, decision.at)
        state.queued = True

    def _dequeued(self, decision: decisions.Dequeued) -> None:
        state = self._of(decision)
        state.queued = False
        if decision.reason == "Deleted":
            del self.workloads[state.namespace, state.name]
        elif decision.reason == FINISHED:
            state.put(FINISHED, True, FINISHED, "", decision.at)
        elif decision.reason == "Deactivated":
            state.deactivate(decision.at)

    def _pending(self, decision: decisions.Pending) -> None:
        """One that is new has no condition until there is something to say (objects 2.2)."""
        state = self._of(decision)
        state.queued = bool(decision.cluster_queue)
        if decision.reason != PENDING_EVALUATION or state.conditions:
            state.wait(decision.reason, decision.message, decision.at)

    def _inadmissible(self, decision: decisions.Inadmissible) -> None:
        """Dra section 12: what cannot be charged is in no queue."""
        state = self._of(decision)
        state.queued = False
        state.wait("Misconfigured", decision.message, decision.at)

    def _share(self, decision: decisions.ShareChanged) -> None:
        if decision.local_queue is not None:
            key = (decision.local_queue.namespace, decision.local_queue.name)
            self.consumed[key] = Consumed(decision.consumed, _second(decision.at))
        elif decision.cohort:
            self.cohort_shares[decision.cohort] = decision.weighted_share
        else:
            self._queue(decision.cluster_queue).weighted_share = decision.weighted_share

    def _quota(self, decision: decisions.QuotaChanged) -> None:
        if not decision.cluster_queue:
            return
        nominal = self._queue(decision.cluster_queue).nominal
        if decision.after is not None:
            amount = _nominal(decision.resource, decision.after.nominal)
            nominal.setdefault(decision.flavor, {})[decision.resource] = amount
            return
        nominal.get(decision.flavor, {}).pop(decision.resource, None)
        if not nominal.get(decision.flavor):
            nominal.pop(decision.flavor, None)

    def _queue_changed(self, decision: decisions.QueueChanged) -> None:
        if decision.local_queue is not None:
            self._local_queue_changed((decision.local_queue.namespace, decision.local_queue.name), decision)
        elif decision.reason == "Deleted":
            self.queues.pop(decision.cluster_queue, None)
        else:
            queue = self._queue(decision.cluster_queue)
            queue.active = _active(queue.active, decision)
            queue.flavors, queue.in_cohort = decision.flavors, bool(decision.cohort)

    def _local_queue_changed(self, key: Key, decision: decisions.QueueChanged) -> None:
        before = self.local_queues.get(key)
        if decision.reason == "Deleted":
            self.local_queues.pop(key, None)
            self.consumed.pop(key, None)
        else:
            active = _active(before.active if before is not None else None, decision)
            self.local_queues[key] = LocalQueueStatus(active, decision.cluster_queue)

    def _queue(self, name: str) -> QueueStatus:
        return self.queues.setdefault(name, QueueStatus())

    # Statuses

    def workload(self, namespace: str, name: str) -> Document | None:
        state = self.workloads.get((namespace, name))
        return None if state is None else state.document()

    def cluster_queue(self, name: str) -> Document | None:
        """Objects 4.1: every row of the specification, at zero too; `borrowed` is above the queue's own nominal."""
        queue = self.queues.get(name)
        if queue is None:
            return None
        of_queue = [state for state in self.workloads.values() if state.cluster_queue == name]
        status = _counts(queue.active, of_queue)
        for title, held in _tables(of_queue):
            status[title] = [
                {"name": f, "resources": [self._row(r, held, f, rows[r], queue.in_cohort) for r in sorted(rows)]}
                for f, rows in _in_order(queue)
            ]
        if queue.weighted_share is not None:
            status["fairSharing"] = {"weightedShare": queue.weighted_share}
        return _document("ClusterQueue", {"name": name}, status)

    def local_queue(self, namespace: str, name: str) -> Document | None:
        """Objects 4.3: the same without `borrowed`."""
        key = (namespace, name)
        local = self.local_queues.get(key)
        if local is None:
            return None
        of_queue = [
            state
            for state in self.workloads.values()
            if state.local_queue is not None and (state.local_queue.namespace, state.local_queue.name) == key
        ]
        status = _counts(local.active, of_queue)
        queue = self.queues.get(local.cluster_queue, QueueStatus())
        for title, held in _tables(of_queue):
            status[title] = [
                {"name": f, "resources": [self._row(r, held, f, None) for r in sorted(rows)]}
                for f, rows in _in_order(queue)
            ]
        consumed = self.consumed.get(key)
        if consumed is not None:
            told = {"consumedResources": consumed.resources, "lastUpdate": consumed.at}
            # Kueue computes no share of a LocalQueue, and its API writes the 0.
            status["fairSharing"] = {"admissionFairSharingStatus": told, "weightedShare": 0}
        return _document("LocalQueue", {"name": name, "namespace": namespace}, status)

    def cohort(self, name: str) -> Document | None:
        share = self.cohort_shares.get(name)
        status = {"fairSharing": {"weightedShare": share}}
        return None if share is None else _document("Cohort", {"name": name}, status)

    def _row(
        self,
        resource: str,
        held: dict[tuple[str, str], int],
        flavor: str,
        nominal: int | None,
        borrows: bool = False,
    ) -> Document:
        total = held.get((flavor, resource), 0)
        row = {"name": resource, "total": canonical(resource, total, self.binary)}
        if nominal is not None:
            over = max(0, total - nominal) if borrows else 0
            row["borrowed"] = canonical(resource, over, self.binary)
        return row

    def status(self, target: str) -> Document | None:
        """By what a person types: `ClusterQueue/NAME`, `Cohort/NAME`, `LocalQueue/NS/NAME`, `Workload/NS/NAME`."""
        kind, _, rest = target.partition("/")
        namespace, _, name = rest.rpartition("/")
        match kind.lower():
            case "clusterqueue" if not namespace and name:
                return self.cluster_queue(name)
            case "cohort" if not namespace and name:
                return self.cohort(name)
            case "localqueue" if namespace and name:
                return self.local_queue(namespace, name)
            case "workload" if namespace and name:
                return self.workload(namespace, name)
        raise InvalidTarget(target)


class InvalidTarget(ValueError):
    """What was typed names no object; the message says how one is named."""

    def __init__(self, target: str) -> None:
        super().__init__(f"{target!r} is not ClusterQueue/NAME, Cohort/NAME, LocalQueue/NS/NAME or Workload/NS/NAME")


def _document(kind: str, metadata: Document, status: Document) -> Document:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "status": status}


def _condition(before: Document | None, kind: str, status: bool, reason: str, message: str, at: str) -> Document:
    """Its time moves only when its status does (objects 0.3)."""
    value = "True" if status else "False"
    since = before["lastTransitionTime"] if before is not None and before["status"] == value else _second(at)
    return {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since}


def _active(before: Document | None, decision: decisions.QueueChanged) -> Document:
    return _condition(before, "Active", decision.active, decision.reason, decision.message, decision.at)


def _in_order(queue: QueueStatus) -> list[tuple[str, dict[str, int]]]:
    """Flavors as the specification lists them, those of a log without that order by name."""
    return [(name, queue.nominal[name]) for name in queue.flavors or sorted(queue.nominal) if name in queue.nominal]


def _counts(active: Document | None, workloads: Iterable[WorkloadStatus]) -> Document:
    states = list(workloads)
    return {
        "conditions": [] if active is None else [active],
        "pendingWorkloads": sum(state.queued and not state.holds for state in states),
        "reservingWorkloads": sum(state.holds for state in states),
        "admittedWorkloads": sum(state.admitted for state in states),
    }


def _tables(workloads: Iterable[WorkloadStatus]) -> list[tuple[str, dict[tuple[str, str], int]]]:
    states = list(workloads)
    return [
        ("flavorsReservation", _sum(state for state in states if state.holds)),
        ("flavorsUsage", _sum(state for state in states if state.admitted)),
    ]


def _sum(workloads: Iterable[WorkloadStatus]) -> dict[tuple[str, str], int]:
    total: dict[tuple[str, str], int] = {}
    for state in workloads:
        for flavor, resources in state.held.items():
            for resource, value in resources.items():
                total[flavor, resource] = total.get((flavor, resource), 0) + value
    return total


def _take(held: dict[str, dict[str, int]], usage: Amounts) -> None:
    for flavor, resources in usage.items():
        for resource, text in resources.items():
            held.setdefault(flavor, {})[resource] = held.get(flavor, {}).get(resource, 0) - _amount(resource, text)


def _amount(resource: str, text: str) -> int:
    return request_amount(parse_quantity(text), resource)


def _nominal(resource: str, text: str) -> int:
    return 2**63 - 1 if text == "unlimited" else int(quota_amount(parse_quantity(text), resource))


def _second(at: str) -> str:
    """Times of conditions carry whole seconds."""
    return f"{at.partition('.')[0].rstrip('Z')}Z"
