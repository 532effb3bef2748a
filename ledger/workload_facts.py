"""What one Workload object says, compared with the one before or with what the ledger holds (objects 1.5, 4.5)."""

from __future__ import annotations

from ledger.cluster_queue import ClusterQueueNode
from ledger.objects.workload import Workload, condition, is_true
from ledger.requests import usage_of_admission
from ledger.workloads import AssignedPodSet, Reservation, WorkloadState


def is_consequence(state: WorkloadState, new: Workload) -> bool:
    """Whether a new object only shows what the ledger decided: an echo, an eviction, the return of a victim's quota."""
    old = state.workload
    if new.spec != old.spec or is_true(new, "Finished") != is_true(old, "Finished"):
        return False
    if (new.status.reclaimable_pods, new.status.admission_checks) != (
        old.status.reclaimable_pods,
        old.status.admission_checks,
    ):
        return False
    reservation = state.reservation
    if reservation is None:
        return not holds_quota(new) and not is_relevant_change(state, old, new)
    if not holds_quota(new):
        return not reservation.echoed or state.evicted_reason == "Preempted"
    admission = new.status.admission
    assert admission is not None
    return is_same_reservation(reservation, admission.cluster_queue, recorded_pod_sets(new))


def priority_class_of(workload: Workload) -> str:
    """The WorkloadPriorityClass that it names, if it names one."""
    reference = workload.spec.priority_class_ref
    return reference.name if reference is not None and reference.kind == "WorkloadPriorityClass" else ""


def holds_quota(workload: Workload) -> bool:
    """Objects 1.5 for an active, unfinished workload: QuotaReserved is True and the admission is there."""
    return workload.status.admission is not None and is_true(workload, "QuotaReserved")


def recorded_pod_sets(workload: Workload) -> tuple[AssignedPodSet, ...]:
    """What `status.admission` records, before pods became reclaimable (2.7.3)."""
    return tuple(
        AssignedPodSet(
            used.name,
            used.count,
            {resource: used.flavors[resource] for resource in sorted(used.flavors)},
            {resource: used.requests[resource] for resource in sorted(used.requests)},
        )
        for used in usage_of_admission(workload, reclaimable_pods=False)
    )


def is_same_reservation(reservation: Reservation, cluster_queue: str, recorded: tuple[AssignedPodSet, ...]) -> bool:
    """Whether an object records what was decided; zero amounts may be written or left out."""

    def essence(pod_set: AssignedPodSet) -> tuple[str, int, dict[str, str], dict[str, int]]:
        used = {resource: value for resource, value in pod_set.usage.items() if value}
        return pod_set.name, pod_set.count, {r: pod_set.flavors[r] for r in used if r in pod_set.flavors}, used

    return reservation.cluster_queue == cluster_queue and [essence(p) for p in reservation.pod_sets] == [
        essence(p) for p in recorded
    ]


def required_checks(queue: ClusterQueueNode, state: WorkloadState) -> list[str]:
    """7.2.2 with an admission: the checks with at least one assigned flavor among theirs."""
    assert state.reservation is not None
    assigned = {flavor for pod_set in state.reservation.pod_sets for flavor in pod_set.flavors.values()}
    return [
        rule.name
        for rule in queue.source.spec.admission_checks
        if not rule.on_flavors or not assigned.isdisjoint(rule.on_flavors)
    ]


def covering_checks(queue: ClusterQueueNode) -> list[str]:
    """7.2.2 without an admission: the checks that apply to every flavor."""
    flavors = {flavor for group in queue.groups for flavor in group.flavors}
    return [
        rule.name
        for rule in queue.source.spec.admission_checks
        if not rule.on_flavors or flavors.issubset(rule.on_flavors)
    ]


def has_failed_checks(workload: Workload) -> bool:
    """5.2: a check that answers Retry or Rejected keeps its workload from being looked at."""
    return any(check.state in ("Retry", "Rejected") for check in workload.status.admission_checks)


def is_relevant_change(state: WorkloadState, old: Workload, new: Workload) -> bool:
    """4.5.6: whether a parked workload may fare differently than when it was last looked at."""
    if state.evaluated_generation is not None and new.metadata.generation != state.evaluated_generation:
        return True
    if new.spec != old.spec or new.status.reclaimable_pods != old.status.reclaimable_pods:
        return True
    if (
        new.metadata.annotations != old.metadata.annotations
        or new.status.preemption_gates != old.status.preemption_gates
    ):
        return True
    return any(condition(new, kind) != condition(old, kind) for kind in ("Evicted", "Requeued"))


def take_life(state: WorkloadState, old: Workload | None) -> None:
    """What the object newly says of waits, backoff and past execution time; what it repeats says nothing."""
    new, status = state.workload, state.workload.status
    requeued = condition(new, "Requeued")
    if old is None or requeued != condition(old, "Requeued"):
        if requeued is None or requeued.status != "False":
            state.held = ""
        elif state.answered != (requeued.reason, requeued.last_transition_time):
            state.held = requeued.reason or "Requeued"
    if old is None or status.requeue_state != old.status.requeue_state:
        requeue_state = status.requeue_state
        state.requeue_at = requeue_state.requeue_at if requeue_state is not None else None
        state.requeue_count = requeue_state.count if requeue_state is not None else 0
    if old is None or (new.spec.active and not old.spec.active):
        state.deactivated_for = ""


def take_executed(state: WorkloadState, old: Workload | None) -> None:
    """7.2.8: what the object newly says of past execution time."""
    executed = state.workload.status.accumulated_past_execution_time_seconds
    if old is None or executed != old.status.accumulated_past_execution_time_seconds:
        state.executed_seconds = executed or 0
