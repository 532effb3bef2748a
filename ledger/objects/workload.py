"""Workloads (objects 1.5, admission 1.7)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ledger.objects.condition import Condition, Conditions, find_condition
from ledger.objects.metadata import ObjectMeta
from ledger.objects.pod import PodTemplate
from ledger.objects.scalars import Count, Int32, Positive
from ledger.quantity import NonNegativeQuantity
from ledger.timestamps import Timestamp

PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
JOB_UID = "kueue.x-k8s.io/job-uid"


class SliceConstraint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    topology: str
    size: Positive


class TopologyRequest(msgspec.Struct, frozen=True, rename="camel", gc=False):
    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: Int32 | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: Int32 | None = None
    slice_constraints: Annotated[tuple[SliceConstraint, ...], msgspec.Meta(max_length=3)] = msgspec.field(
        default=(), name="podsetSliceRequiredTopologyConstraints"
    )

    @property
    def asks_for_topology(self) -> bool:
        """The job integration sets `podIndexLabel` on every Job: that alone is no request (objects 1.5)."""
        return bool(
            self.required
            or self.preferred
            or self.unconstrained
            or self.pod_set_slice_required_topology
            or self.slice_constraints
        )


class PodSet(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = "main"
    count: Count = 1
    min_count: Positive | None = None
    template: PodTemplate = PodTemplate()
    topology_request: TopologyRequest | None = None


class PriorityClassRef(msgspec.Struct, frozen=True, rename="camel", gc=False):
    group: str
    kind: str
    name: str


class PreemptionGate(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: bool = True
    maximum_execution_time_seconds: Positive | None = None
    preemption_gates: Annotated[tuple[PreemptionGate, ...], msgspec.Meta(max_length=8)] = ()


class TopologyDomain(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Pods of a pod set in one domain, named by its value at every level."""

    values: tuple[str, ...]
    count: Count


class DomainValues(msgspec.Struct, frozen=True, rename="camel", gc=False):
    prefix: str = ""
    suffix: str = ""
    roots: tuple[str, ...] = ()


class LevelValues(msgspec.Struct, frozen=True, rename="camel", gc=False):
    universal: str | None = None
    individual: DomainValues | None = None


class PodCounts(msgspec.Struct, frozen=True, rename="camel", gc=False):
    universal: Count | None = None
    individual: tuple[Count, ...] = ()


class TopologySlice(msgspec.Struct, frozen=True, rename="camel", gc=False):
    domain_count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = PodCounts()


class TopologyAssignment(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Kept as written, because how domains are cut into slices is free: compare `domains()` (objects 1.13)."""

    levels: tuple[str, ...] = ()
    slices: tuple[TopologySlice, ...] = ()

    def domains(self) -> tuple[TopologyDomain, ...]:
        """Every domain with its pods, in the order written."""
        found = []
        for part in self.slices:
            for index in range(part.domain_count):
                values = tuple(_level_value(level, index) for level in part.values_per_level)
                counts = part.pod_counts
                pods = counts.universal if counts.universal is not None else counts.individual[index]
                found.append(TopologyDomain(values, pods))
        return tuple(found)


def _level_value(level: LevelValues, index: int) -> str:
    if level.individual is None:
        return level.universal or ""
    return f"{level.individual.prefix}{level.individual.roots[index]}{level.individual.suffix}"


class PodSetAssignment(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`resource_usage` is for all pods of the assignment; an absent `count` is the pod set's own."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: dict[str, NonNegativeQuantity] = {}
    count: Count | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Literal["Pending", "Ready"] | None = None


class Admission(msgspec.Struct, frozen=True, rename="camel", gc=False):
    cluster_queue: str
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    count: Count = 0
    requeue_at: Timestamp | None = None


class ReclaimablePod(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    count: Count


class PodSetUpdate(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}


class AdmissionCheckState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    message: str = ""
    last_transition_time: Timestamp | None = None
    requeue_after_seconds: Count | None = None
    retry_count: Count | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class PreemptionGateState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    position: Literal["Closed", "Open"] = "Closed"
    last_transition_time: Timestamp | None = None


class UnhealthyNode(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: Annotated[tuple[AdmissionCheckState, ...], msgspec.Meta(max_length=8)] = ()
    accumulated_past_execution_time_seconds: Count | None = None
    nominated_cluster_names: Annotated[tuple[str, ...], msgspec.Meta(max_length=20)] = ()
    cluster_name: str | None = None
    unhealthy_nodes: Annotated[tuple[UnhealthyNode, ...], msgspec.Meta(max_length=8)] = ()
    preemption_gates: Annotated[tuple[PreemptionGateState, ...], msgspec.Meta(max_length=8)] = ()


class Workload(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


def condition(workload: Workload, kind: str) -> Condition | None:
    """The workload's condition of that type, such as `Evicted`."""
    return find_condition(workload.status.conditions, kind)


def is_true(workload: Workload, kind: str) -> bool:
    """Whether the workload has that condition with status True."""
    for candidate in workload.status.conditions:
        if candidate.type == kind:
            return candidate.status == "True"
    return False
