"""v1beta1 objects of Kueue rewritten to the v1beta2 shape (objects 1.13), on plain JSON values.

Fields that v1beta2 dropped are left alone: nothing reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.objects.errors import InvalidObject

JsonObject = dict[str, Any]

_PRIORITY_CLASS_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


def _part(parent: JsonObject, name: str) -> JsonObject | None:
    """A member when it is an object; what it is otherwise is for the decoder to say."""
    value = parent.get(name)
    return value if isinstance(value, dict) else None


def convert_cluster_queue(queue: JsonObject) -> None:
    spec = _part(queue, "spec")
    if spec is None:
        return
    if "cohort" in spec:
        spec["cohortName"] = spec.pop("cohort")
    names = spec.pop("admissionChecks", None)
    if names is not None and not isinstance(names, list):
        raise InvalidObject("spec.admissionChecks", "must be a list of names")
    if names:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}
    fungibility = _part(spec, "flavorFungibility")
    if fungibility is not None:
        for field in ("whenCanBorrow", "whenCanPreempt"):
            if fungibility.get(field) in ("Borrow", "Preempt"):
                fungibility[field] = "MayStopSearch"


def convert_workload(workload: JsonObject) -> None:
    spec = _part(workload, "spec")
    if spec is not None:
        name, source = spec.pop("priorityClassName", None), spec.pop("priorityClassSource", None)
        if source and source not in _PRIORITY_CLASS_SOURCES:
            raise InvalidObject("spec.priorityClassSource", f"{source!r} is no source of priority classes")
        if name and source:
            group, kind = _PRIORITY_CLASS_SOURCES[source]
            spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    status = _part(workload, "status")
    if status is None:
        return
    if "accumulatedPastExexcutionTimeSeconds" in status:
        status["accumulatedPastExecutionTimeSeconds"] = status.pop("accumulatedPastExexcutionTimeSeconds")
    admission = _part(status, "admission")
    assignments = admission.get("podSetAssignments") if admission is not None else None
    if isinstance(assignments, list):
        for index, assignment in enumerate(assignments):
            if isinstance(assignment, dict):
                _convert_topology(assignment, f"status.admission.podSetAssignments[{index}].topologyAssignment")


def _convert_topology(assignment: JsonObject, path: str) -> None:
    """Each domain becomes a slice of its own: how they are cut into slices is free."""
    topology = _part(assignment, "topologyAssignment")
    if topology is None or "domains" not in topology:
        return
    slices = []
    domains = topology.pop("domains")
    if not isinstance(domains, list):
        raise InvalidObject(f"{path}.domains", "must be a list")
    for index, domain in enumerate(domains):
        values = domain.get("values") if isinstance(domain, dict) else None
        if not isinstance(values, list):
            raise InvalidObject(f"{path}.domains[{index}].values", "must be a list of names")
        slices.append(
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": value} for value in values],
                "podCounts": {"universal": domain.get("count")},
            }
        )
    topology["slices"] = slices


CONVERSIONS: dict[str, Callable[[JsonObject], None]] = {
    "ClusterQueue": convert_cluster_queue,
    "Workload": convert_workload,
}
"""Kinds whose v1beta1 form differs in fields the ledger reads; the others only lose fields."""
