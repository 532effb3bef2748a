"""What an API server or Kueue's webhooks would refuse to store, with the place in the JSON.

The rules are those of objects 1 and admission 1. Sizes, enums and signs are already in the types; here are names
and what ties several fields together. A rule is left out where a stored object can break it all the same: the
flavors an admission check names may have left the queue, several pod sets may have a minimum count (the search
for a smaller size handles them all, admission 5.10), an elastic job may shrink below what was admitted, and
reclaimable pods above the count are capped when they are read (admission 2.7.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ledger.objects.admission_check import AdmissionCheck
from ledger.objects.cluster_queue import ClusterQueue, ClusterQueueSpec
from ledger.objects.cohort import Cohort
from ledger.objects.configuration import Configuration
from ledger.objects.device_mappings import mapping_problems
from ledger.objects.errors import InvalidObject
from ledger.objects.label_selector import LabelSelector
from ledger.objects.local_queue import LocalQueue
from ledger.objects.metadata import ObjectMeta
from ledger.objects.names import (
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
    is_resource_name,
)
from ledger.objects.pod import PodSpec, ResourceRequirements
from ledger.objects.quota import FairSharing, FlavorQuotas, ResourceGroup
from ledger.objects.resource_flavor import ResourceFlavor
from ledger.objects.taint import Toleration
from ledger.objects.topology import Topology
from ledger.objects.workload import Admission, PodSet, Workload, WorkloadSpec, WorkloadStatus

HOSTNAME = "kubernetes.io/hostname"
PRIORITY_CLASS_KINDS = {
    ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    ("scheduling.k8s.io", "PriorityClass"),
}

Validator = Callable[[Any], None]


def refuse(condition: bool, path: str, reason: str) -> None:
    if condition:
        raise InvalidObject(path, reason)


def first_repeated(values: Iterable[str]) -> tuple[int, str] | None:
    """The first value that was there before, with its place."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            return index, value
        seen.add(value)
    return None


def refuse_repeated(values: Iterable[str], path: str, field: str = "name") -> None:
    repeated = first_repeated(values)
    if repeated is not None:
        index, value = repeated
        suffix = f".{field}" if field else ""
        raise InvalidObject(f"{path}[{index}]{suffix}", f"{value!r} is there twice")


# --- metadata --------------------------------------------------------------------------------------------------


def validate_metadata(metadata: ObjectMeta, namespaced: bool | None) -> None:
    """`namespaced` None leaves the namespace alone."""
    if not is_dns_subdomain(metadata.name):
        raise InvalidObject(
            "metadata.name", f"{metadata.name[:300]!r} is not a DNS subdomain of at most 253 characters"
        )
    if namespaced:
        if not is_dns_label(metadata.namespace):
            raise InvalidObject("metadata.namespace", f"{metadata.namespace[:300]!r} is not a DNS label")
    elif namespaced is False and metadata.namespace:
        raise InvalidObject("metadata.namespace", "the kind is cluster-scoped")


# --- quotas ----------------------------------------------------------------------------------------------------


def validate_resource_groups(groups: Sequence[ResourceGroup], *, has_parent: bool, lending_capped: bool) -> None:
    """Admission 1.1.1 to 1.1.3. A cohort may lend more than its own nominal quota, a ClusterQueue may not."""
    path = "spec.resourceGroups"
    refuse(len(groups) > 16, path, "more than 16 groups")
    for place, group in enumerate(groups):
        _validate_group(group, f"{path}[{place}]", has_parent=has_parent, lending_capped=lending_capped)
    resources: dict[str, int] = {}
    flavors: dict[str, int] = {}
    for place, group in enumerate(groups):
        for index, name in enumerate(group.covered_resources):
            where = f"{path}[{place}].coveredResources[{index}]"
            refuse(name in resources, where, f"{name!r} is covered twice")
            resources[name] = place
        for index, flavor in enumerate(group.flavors):
            where = f"{path}[{place}].flavors[{index}].name"
            refuse(flavor.name in flavors, where, f"{flavor.name!r} is there twice")
            flavors[flavor.name] = place
    refuse(len(resources) > 256, path, "more than 256 covered resources")
    refuse(len(flavors) > 256, path, "more than 256 flavors")


def _validate_group(group: ResourceGroup, path: str, *, has_parent: bool, lending_capped: bool) -> None:
    covered, flavors = group.covered_resources, group.flavors
    refuse(not 1 <= len(covered) <= 64, f"{path}.coveredResources", "must have 1 to 64 entries")
    refuse(not 1 <= len(flavors) <= 64, f"{path}.flavors", "must have 1 to 64 entries")
    refuse(len(flavors) * len(covered) > 512, path, "more than 512 flavors times resources")
    for index, name in enumerate(covered):
        refuse(not is_resource_name(name), f"{path}.coveredResources[{index}]", f"{name!r} is not a resource name")
    for index, flavor in enumerate(flavors):
        where = f"{path}.flavors[{index}]"
        refuse(not is_dns_subdomain(flavor.name), f"{where}.name", f"{flavor.name!r} is not a DNS subdomain")
        _validate_flavor_quotas(flavor, covered, where, has_parent=has_parent, lending_capped=lending_capped)


def _validate_flavor_quotas(
    flavor: FlavorQuotas, covered: Sequence[str], path: str, *, has_parent: bool, lending_capped: bool
) -> None:
    refuse(
        len(flavor.resources) != len(covered),
        f"{path}.resources",
        "must have the same number of entries as coveredResources",
    )
    for index, (quota, expected) in enumerate(zip(flavor.resources, covered, strict=True)):
        where = f"{path}.resources[{index}]"
        refuse(quota.name != expected, f"{where}.name", f"must be {expected!r}, in the order of coveredResources")
        if not has_parent:
            refuse(quota.borrowing_limit is not None, f"{where}.borrowingLimit", "needs a cohort")
            refuse(quota.lending_limit is not None, f"{where}.lendingLimit", "needs a cohort")
        if lending_capped and quota.lending_limit is not None:
            refuse(quota.lending_limit > quota.nominal_quota, f"{where}.lendingLimit", "is above nominalQuota")


def validate_weight(fair_sharing: FairSharing) -> None:
    """A positive weight must exceed one nano-unit (objects 1.1)."""
    refuse(fair_sharing.weight == 1, "spec.fairSharing.weight", "must be 0 or above 1n")


# --- kinds -----------------------------------------------------------------------------------------------------


def validate_cluster_queue(queue: ClusterQueue) -> None:
    validate_metadata(queue.metadata, namespaced=False)
    spec = queue.spec
    if spec.cohort_name:
        refuse(not is_dns_subdomain(spec.cohort_name), "spec.cohortName", f"{spec.cohort_name!r} is not a cohort name")
    validate_resource_groups(spec.resource_groups, has_parent=bool(spec.cohort_name), lending_capped=True)
    if spec.namespace_selector is not None:
        validate_label_selector(spec.namespace_selector, "spec.namespaceSelector")
    fungibility = spec.flavor_fungibility
    refuse(
        fungibility.preference is not None
        and (fungibility.when_can_borrow, fungibility.when_can_preempt) != ("TryNextFlavor", "TryNextFlavor"),
        "spec.flavorFungibility.preference",
        "needs whenCanBorrow and whenCanPreempt TryNextFlavor",
    )
    refuse(
        spec.preemption.reclaim_within_cohort == "Never" and spec.preemption.borrow_within_cohort.policy != "Never",
        "spec.preemption.borrowWithinCohort.policy",
        "must be Never when reclaimWithinCohort is Never",
    )
    _validate_check_rules(spec)
    validate_weight(spec.fair_sharing)
    _validate_concurrent_admission(spec)


def _validate_check_rules(spec: ClusterQueueSpec) -> None:
    if spec.admission_checks_strategy is None:
        return
    path, rules = "spec.admissionChecksStrategy.admissionChecks", spec.admission_checks
    refuse(not 1 <= len(rules) <= 64, path, "must have 1 to 64 entries")
    for index, rule in enumerate(rules):
        refuse(not 1 <= len(rule.name) <= 316, f"{path}[{index}].name", "must have 1 to 316 characters")
        refuse(len(rule.on_flavors) > 64, f"{path}[{index}].onFlavors", "more than 64 flavors")
        refuse_repeated(rule.on_flavors, f"{path}[{index}].onFlavors", "")
    refuse_repeated((rule.name for rule in rules), path)


def _validate_concurrent_admission(spec: ClusterQueueSpec) -> None:
    if spec.concurrent_admission_policy is None:
        return
    path = "spec.concurrentAdmissionPolicy"
    refuse(spec.queueing_strategy == "StrictFIFO", path, "not with StrictFIFO")
    refuse(len(spec.resource_groups) != 1, path, "needs exactly one resource group")
    refuse(len(spec.resource_groups[0].flavors) > 16, path, "more than 16 flavors")
    last = spec.concurrent_admission_policy.migration.constraints.last_acceptable_flavor_name
    refuse(
        last is not None and last not in {flavor.name for flavor in spec.resource_groups[0].flavors},
        f"{path}.migration.constraints.lastAcceptableFlavorName",
        f"{last!r} is not a flavor of the queue",
    )


def validate_cohort(cohort: Cohort) -> None:
    validate_metadata(cohort.metadata, namespaced=False)
    parent = cohort.spec.parent_name
    refuse(bool(parent) and not is_dns_subdomain(parent), "spec.parentName", f"{parent!r} is not a cohort name")
    validate_resource_groups(cohort.spec.resource_groups, has_parent=bool(parent), lending_capped=False)
    validate_weight(cohort.spec.fair_sharing)


def validate_local_queue(queue: LocalQueue) -> None:
    validate_metadata(queue.metadata, namespaced=True)
    name = queue.spec.cluster_queue
    refuse(bool(name) and not is_dns_subdomain(name), "spec.clusterQueue", f"{name!r} is not a ClusterQueue name")
    validate_weight(queue.spec.fair_sharing)


def validate_resource_flavor(flavor: ResourceFlavor) -> None:
    validate_metadata(flavor.metadata, namespaced=False)
    spec = flavor.spec
    for key, value in spec.node_labels.items():
        refuse(not is_qualified_name(key), "spec.nodeLabels", f"{key!r} is not a label key")
        refuse(not is_label_value(value), f"spec.nodeLabels[{key}]", f"{value!r} is not a label value")
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.node_taints):
        path = f"spec.nodeTaints[{index}]"
        refuse(not is_qualified_name(taint.key), f"{path}.key", f"{taint.key!r} is not a label key")
        refuse(not is_label_value(taint.value), f"{path}.value", f"{taint.value!r} is not a label value")
        refuse((taint.key, taint.effect) in seen, path, "key and effect are there twice")
        seen.add((taint.key, taint.effect))
    for index, toleration in enumerate(spec.tolerations):
        _validate_toleration(toleration, f"spec.tolerations[{index}]")
    if spec.topology_name is not None:
        refuse(not is_dns_subdomain(spec.topology_name), "spec.topologyName", "is not a topology name")
        refuse(not spec.node_labels, "spec.topologyName", "needs at least one of nodeLabels")


def _validate_toleration(toleration: Toleration, path: str) -> None:
    refuse(toleration.operator not in ("", "Equal", "Exists"), f"{path}.operator", "must be Equal or Exists")
    exists = toleration.operator == "Exists"
    refuse(not toleration.key and not exists, f"{path}.operator", "must be Exists when there is no key")
    refuse(exists and toleration.value != "", f"{path}.value", "must be empty with operator Exists")
    refuse(
        toleration.effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
        f"{path}.effect",
        "must be NoSchedule, PreferNoSchedule or NoExecute",
    )
    refuse(
        toleration.toleration_seconds is not None and toleration.effect != "NoExecute",
        f"{path}.effect",
        "must be NoExecute when tolerationSeconds is set",
    )


def validate_admission_check(check: AdmissionCheck) -> None:
    refuse(not 1 <= len(check.metadata.name) <= 316, "metadata.name", "must have 1 to 316 characters")
    parameters = check.spec.parameters
    if parameters is not None:
        path = "spec.parameters"
        refuse(not is_dns_label(parameters.name), f"{path}.name", f"{parameters.name!r} is not a DNS label")
        refuse(not parameters.kind, f"{path}.kind", "is required")
        refuse(not parameters.api_group, f"{path}.apiGroup", "is required")


def validate_topology(topology: Topology) -> None:
    validate_metadata(topology.metadata, namespaced=False)
    labels = [level.node_label for level in topology.spec.levels]
    refuse_repeated(labels, "spec.levels", "nodeLabel")
    for index, label in enumerate(labels[:-1]):
        refuse(label == HOSTNAME, f"spec.levels[{index}].nodeLabel", f"{HOSTNAME} must be the last level")


def validate_label_selector(selector: LabelSelector, path: str) -> None:
    for key, value in selector.match_labels.items():
        refuse(not is_qualified_name(key), f"{path}.matchLabels", f"{key!r} is not a label key")
        refuse(not is_label_value(value), f"{path}.matchLabels[{key}]", f"{value!r} is not a label value")
    for index, requirement in enumerate(selector.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        refuse(not is_qualified_name(requirement.key), f"{where}.key", f"{requirement.key!r} is not a label key")
        needs_values = requirement.operator in ("In", "NotIn")
        refuse(needs_values and not requirement.values, f"{where}.values", "must not be empty")
        refuse(not needs_values and bool(requirement.values), f"{where}.values", "must be empty")
        for place, value in enumerate(requirement.values):
            refuse(not is_label_value(value), f"{where}.values[{place}]", f"{value!r} is not a label value")


def validate_configuration(configuration: Configuration) -> None:
    """Admission 1.8 and dra 5.3."""
    if configuration.resources.device_class_mappings:
        _validate_mappings(configuration)
    resources = configuration.resources
    refuse(
        resources.quota_check_strategy == "IgnoreUndeclared" and bool(resources.exclude_resource_prefixes),
        "resources.excludeResourcePrefixes",
        "must be empty with quotaCheckStrategy IgnoreUndeclared",
    )
    refuse_repeated((rule.input for rule in resources.transformations), "resources.transformations", "input")
    fair_sharing = configuration.fair_sharing
    refuse(
        fair_sharing is not None
        and fair_sharing.preemption_strategies
        not in (
            ("LessThanOrEqualToFinalShare",),
            ("LessThanInitialShare",),
            ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
        ),
        "fairSharing.preemptionStrategies",
        "must be LessThanOrEqualToFinalShare, LessThanInitialShare, or both in that order",
    )
    sharing = configuration.admission_fair_sharing
    if sharing is not None:
        refuse(sharing.usage_half_life_time < 0, "admissionFairSharing.usageHalfLifeTime", "must not be negative")
        refuse(sharing.usage_sampling_interval < 0, "admissionFairSharing.usageSamplingInterval", "must be positive")
    waiting = configuration.wait_for_pods_ready
    if waiting is not None:
        refuse(waiting.timeout < 0, "waitForPodsReady.timeout", "must not be negative")
        recovery = waiting.recovery_timeout
        refuse(recovery is not None and recovery < 0, "waitForPodsReady.recoveryTimeout", "must not be negative")


def _validate_mappings(configuration: Configuration) -> None:
    """All that is wrong is told, at the place of the first."""
    problems = mapping_problems(configuration, _compile_error)
    if problems:
        more = "".join(f"; {problem.path}: {problem.reason}" for problem in problems[1:])
        raise InvalidObject(problems[0].path, f"{problems[0].reason}{more}")


def _compile_error(expression: str) -> str | None:
    from ledger.cel import CompileError, compile_expression

    try:
        compile_expression(expression)
    except CompileError as error:
        return str(error)
    return None


# --- workloads: on the hot path --------------------------------------------------------------------------------


def validate_workload(workload: Workload) -> None:
    metadata = workload.metadata
    validate_metadata(metadata, namespaced=True)
    spec = workload.spec
    pod_sets = spec.pod_sets
    if not 1 <= len(pod_sets) <= 18:
        raise InvalidObject("spec.podSets", "must have 1 to 18 entries")
    for index, pod_set in enumerate(pod_sets):
        _validate_pod_set(pod_set, index)
    first = pod_sets[0].topology_request
    if len(pod_sets) > 1 or (first is not None and first.pod_set_group_name):
        _validate_pod_sets_together(pod_sets)
    if spec.priority_class_ref is not None or spec.preemption_gates:
        _validate_references(spec)
    status = workload.status
    if status.admission is not None:
        _validate_admission(status.admission, pod_sets)
    if status.admission_checks or status.reclaimable_pods or status.nominated_cluster_names or status.preemption_gates:
        _validate_status_lists(status)
    _validate_conditions(status)


def _validate_pod_set(pod_set: PodSet, index: int) -> None:
    if pod_set.name != "main" and not is_dns_label(pod_set.name):
        raise InvalidObject(f"spec.podSets[{index}].name", f"{pod_set.name[:100]!r} is not a DNS label")
    if pod_set.min_count is not None and pod_set.min_count > pod_set.count:
        raise InvalidObject(f"spec.podSets[{index}].minCount", "is above count")
    pod = pod_set.template.spec
    for place, container in enumerate(pod.containers):
        if not _usable_names(container.resources):
            _refuse_resources(container.resources, f"{_pod_path(index)}.containers[{place}].resources")
    if pod.init_containers or pod.resources is not None:
        _validate_other_resources(pod, index)
    request = pod_set.topology_request
    if request is not None and request.asks_for_topology:
        _validate_topology_request(pod_set, f"spec.podSets[{index}].topologyRequest")


def _validate_other_resources(pod: PodSpec, index: int) -> None:
    for place, container in enumerate(pod.init_containers):
        if not _usable_names(container.resources):
            _refuse_resources(container.resources, f"{_pod_path(index)}.initContainers[{place}].resources")
    if pod.resources is not None and not _usable_names(pod.resources):
        _refuse_resources(pod.resources, f"{_pod_path(index)}.resources")


def _pod_path(index: int) -> str:
    return f"spec.podSets[{index}].template.spec"


_USABLE: set[str] = {"cpu", "memory"}
"""Resource names seen to be usable: a cache, so that the usual workload costs one set comparison."""


def _usable_names(resources: ResourceRequirements) -> bool:
    if resources.requests.keys() <= _USABLE and resources.limits.keys() <= _USABLE:
        return True
    for name in (*resources.requests, *resources.limits):
        if name == "pods" or not is_resource_name(name):
            return False
        if len(_USABLE) < 4096:
            _USABLE.add(name)
    return True


def _refuse_resources(resources: ResourceRequirements, path: str) -> None:
    """Admission 1.7.2: the name `pods` is Kueue's own, the others must be resource names."""
    for field, values in (("requests", resources.requests), ("limits", resources.limits)):
        for name in values:
            refuse(name == "pods", f"{path}.{field}[pods]", "the resource pods cannot be asked for")
            refuse(not is_resource_name(name), f"{path}.{field}", f"{name[:300]!r} is not a resource name")


def _validate_topology_request(pod_set: PodSet, path: str) -> None:
    request = pod_set.topology_request
    assert request is not None
    for field, label in (("required", request.required), ("preferred", request.preferred)):
        refuse(label is not None and not is_qualified_name(label), f"{path}.{field}", f"{label!r} is not a label key")
    sliced = request.pod_set_slice_required_topology
    refuse(
        sliced is not None and request.pod_set_slice_size is None,
        f"{path}.podSetSliceSize",
        "is required with podSetSliceRequiredTopology",
    )


def _validate_pod_sets_together(pod_sets: Sequence[PodSet]) -> None:
    refuse_repeated((pod_set.name for pod_set in pod_sets), "spec.podSets")
    groups: dict[str, list[int]] = {}
    for index, pod_set in enumerate(pod_sets):
        if pod_set.topology_request is not None and pod_set.topology_request.pod_set_group_name:
            groups.setdefault(pod_set.topology_request.pod_set_group_name, []).append(index)
    for name, members in groups.items():
        path = f"spec.podSets[{members[-1]}].topologyRequest.podSetGroupName"
        refuse(len(members) != 2, path, f"the group {name!r} must have exactly two pod sets")
        refuse(all(pod_sets[index].count != 1 for index in members), path, "one pod set of a group must have one pod")


def _validate_references(spec: WorkloadSpec) -> None:
    reference = spec.priority_class_ref
    if reference is not None:
        refuse(
            (reference.group, reference.kind) not in PRIORITY_CLASS_KINDS,
            "spec.priorityClassRef",
            f"{reference.kind!r} of group {reference.group!r} is no priority class",
        )
        refuse(not is_dns_subdomain(reference.name), "spec.priorityClassRef.name", "is not a class name")
        refuse(spec.priority is None, "spec.priority", "is required with priorityClassRef")
    refuse_repeated((gate.name for gate in spec.preemption_gates), "spec.preemptionGates")


def _validate_admission(admission: Admission, pod_sets: Sequence[PodSet]) -> None:
    path = "status.admission"
    if not admission.cluster_queue:
        raise InvalidObject(f"{path}.clusterQueue", "is required")
    assignments = admission.pod_set_assignments
    if len(assignments) == len(pod_sets) == 1:
        expected: set[str] | None = None
        unknown = assignments[0].name != pod_sets[0].name
    else:
        expected = {pod_set.name for pod_set in pod_sets}
        unknown = {assignment.name for assignment in assignments} != expected or len(assignments) != len(pod_sets)
    refuse(unknown, f"{path}.podSetAssignments", "must name the pod sets of the spec, each once")
    for index, assignment in enumerate(assignments):
        count = assignment.count
        if count is not None and count > 1:
            for resource, usage in assignment.resource_usage.items():
                # Exact in the resource's own unit: thousandths of cpu, whole units otherwise.
                refuse(
                    usage % (count * (10**6 if resource == "cpu" else 10**9)) != 0,
                    f"{path}.podSetAssignments[{index}].resourceUsage[{resource}]",
                    f"is not a multiple of the count {count}",
                )


def _validate_status_lists(status: WorkloadStatus) -> None:
    refuse_repeated((check.name for check in status.admission_checks), "status.admissionChecks")
    refuse_repeated((pods.name for pods in status.reclaimable_pods), "status.reclaimablePods")
    refuse_repeated((gate.name for gate in status.preemption_gates), "status.preemptionGates")
    refuse(
        bool(status.nominated_cluster_names) and status.cluster_name is not None,
        "status.nominatedClusterNames",
        "not together with clusterName",
    )


def _validate_conditions(status: WorkloadStatus) -> None:
    conditions = status.conditions
    if len({condition.type for condition in conditions}) != len(conditions):
        refuse_repeated((condition.type for condition in conditions), "status.conditions", "type")


def validate_namespaced(item: Any) -> None:
    validate_metadata(item.metadata, namespaced=True)


def validate_cluster_scoped(item: Any) -> None:
    validate_metadata(item.metadata, namespaced=False)
