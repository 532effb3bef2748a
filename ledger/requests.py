"""Total requests of a workload, and what a reserved one uses (admission 2, 4.5.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from ledger.amounts import add, divide, multiply
from ledger.limits import (
    NO_LIMITS,
    LimitSummaries,
    PreparedContainer,
    PreparedPod,
    Problem,
    Quantities,
    limit_range_violations,
    prepared,
    requests_above_limits,
    summarised,
    with_defaults,
)
from ledger.objects.configuration import Configuration, ResourcesConfiguration, Transformation
from ledger.objects.limit_range import LimitRange
from ledger.objects.pod import PodSpec
from ledger.objects.runtime_class import RuntimeClass
from ledger.objects.workload import PodSet, Workload
from ledger.quantity import NANO, request_amount

if TYPE_CHECKING:
    from ledger.devices.charges import DeviceCharges, PodSetCharges

__all__ = [
    "PodSetRequests",
    "PodSetUsage",
    "Problem",
    "admissibility_problems",
    "fnv1a_order",
    "scaled_to",
    "scheduling_shape",
    "total_requests",
    "usage_of_admission",
]

NO_RUNTIME_CLASSES: Mapping[str, RuntimeClass] = {}
NO_NAMES: frozenset[str] = frozenset()
REFERENCE_RULES = "kueue-0.19"

_POD_LEVEL = frozenset({"cpu", "memory"})
_SQUARE = NANO * NANO


class PodSetRequests(msgspec.Struct, frozen=True, gc=False):
    """What all pods of a pod set ask for together: thousandths of cpu, whole units otherwise, ordered by name."""

    name: str
    count: int
    requests: dict[str, int]


class PodSetUsage(msgspec.Struct, frozen=True, gc=False):
    """What all pods of a pod set hold, and on which flavors. A resource without a flavor holds nothing (3.3.5)."""

    name: str
    count: int
    requests: dict[str, int]
    flavors: dict[str, str]


# --- pending workloads -----------------------------------------------------------------------------------------


def total_requests(
    workload: Workload,
    *,
    limit_ranges: Sequence[LimitRange] = (),
    runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES,
    configuration: Configuration,
    devices: DeviceCharges | None = None,
) -> tuple[PodSetRequests, ...]:
    """The totals of a workload that waits, pod sets in spec order (2.1 to 2.7.1).

    `limit_ranges` are those of the workload's namespace. The order inside one pod is: exclude, transform, replace
    and add devices, floor at 0; then times the pods that still count.
    """
    limits = summarised(limit_ranges)
    totals = []
    for pod_set in workload.spec.pod_sets:
        per_pod = _per_pod(pod_set.template.spec, limits, runtime_classes)
        charges = devices.pod_set(pod_set.name) if devices is not None else None
        own = NO_NAMES if charges is None or configuration.ledger.rules == REFERENCE_RULES else charges.replaced
        amounts = _amounts(per_pod, configuration.resources, own)
        if charges is not None:
            amounts = _with_devices(amounts, charges, NO_NAMES if own else charges.replaced)
        count = counted_pods(workload, pod_set, configuration)
        totals.append(PodSetRequests(pod_set.name, count, _times(amounts, count)))
    return tuple(totals)


def counted_pods(workload: Workload, pod_set: PodSet, configuration: Configuration) -> int:
    """The pods of a set that are not reclaimable (2.7.1)."""
    if not workload.status.reclaimable_pods or not configuration.gate("ReclaimablePods"):
        return pod_set.count
    return pod_set.count - _reclaimable(workload, pod_set)


def _reclaimable(workload: Workload, pod_set: PodSet) -> int:
    for pods in workload.status.reclaimable_pods:
        if pods.name == pod_set.name:
            return min(pods.count, pod_set.count)
    return 0


def _times(per_pod: dict[str, int], count: int) -> dict[str, int]:
    """Negative figures count as 0 for each pod, before the multiplication (2.6.1)."""
    return {name: multiply(max(per_pod[name], 0), count) for name in sorted(per_pod)}


def _per_pod(pod: PodSpec, limits: LimitSummaries, runtime_classes: Mapping[str, RuntimeClass]) -> Quantities:
    """One pod's request, exact (2.2). The usual pod, a single container and nothing else, needs no copy."""
    if (
        len(pod.containers) == 1
        and not pod.init_containers
        and pod.resources is None
        and pod.runtime_class_name is None
        and not pod.overhead
    ):
        return with_defaults(pod.containers[0].resources, limits.container)[0]
    return _pod_request(prepared(pod, limits, runtime_classes))


def _pod_request(pod: PreparedPod) -> Quantities:
    total = _larger_of(_running_together(pod), _while_starting(pod.init_containers))
    if pod.pod_level is not None:
        total.update(
            (resource, quantity)
            for resource, quantity in pod.pod_level.requests.items()
            if resource in _POD_LEVEL or resource.startswith("hugepages-")
        )
    _add_to(total, pod.overhead)
    return total


def _running_together(pod: PreparedPod) -> dict[str, int]:
    """Containers and sidecars run at the same time (2.2.1)."""
    total: dict[str, int] = {}
    for container in pod.containers:
        _add_to(total, container.requests)
    for container in pod.init_containers:
        if container.sidecar:
            _add_to(total, container.requests)
    return total


def _while_starting(init_containers: Iterable[PreparedContainer]) -> dict[str, int]:
    """The most that init containers need, each beside the sidecars declared before it (2.2.2)."""
    most: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in init_containers:
        if container.sidecar:
            _add_to(sidecars, container.requests)
            level = sidecars
        else:
            level = dict(sidecars)
            _add_to(level, container.requests)
        most = _larger_of(most, level)
    return most


def _add_to(total: dict[str, int], more: Quantities) -> None:
    for resource, quantity in more.items():
        total[resource] = total.get(resource, 0) + quantity


def _larger_of(one: dict[str, int], other: Quantities) -> dict[str, int]:
    larger = dict(one)
    for resource, quantity in other.items():
        larger[resource] = max(larger.get(resource, 0), quantity)
    return larger


def _amounts(per_pod: Quantities, rules: ResourcesConfiguration, given_up: frozenset[str]) -> dict[str, int]:
    """Exclusion, transformation and the conversion to integers, for one pod (2.4 to 2.6).

    What the pod asks of the `given_up` names itself is transformed but not kept; amounts that transformations
    generate under these names stay (dra G24).
    """
    if rules.exclude_resource_prefixes:
        prefixes = rules.exclude_resource_prefixes
        per_pod = {name: quantity for name, quantity in per_pod.items() if not name.startswith(prefixes)}
    if rules.transformations:
        chosen = {rule.input: rule for rule in rules.transformations}
        if not chosen.keys().isdisjoint(per_pod):
            return _transformed(per_pod, chosen, given_up)
    return {name: request_amount(quantity, name) for name, quantity in per_pod.items() if name not in given_up}


def _transformed(per_pod: Quantities, rules: Mapping[str, Transformation], given_up: frozenset[str]) -> dict[str, int]:
    """Exact throughout (2.5): a product of three quantities in nano-units is a whole number of 10^-27 units."""
    retained: dict[str, int] = {}
    generated: dict[str, int] = {}
    for name, quantity in per_pod.items():
        rule = rules.get(name)
        if (rule is None or rule.strategy == "Retain") and name not in given_up:
            retained[name] = quantity * _SQUARE
        if rule is None:
            continue
        multiplier = per_pod.get(rule.multiply_by, NANO) if rule.multiply_by else NANO
        for output, factor in rule.outputs.items():
            generated[output] = generated.get(output, 0) + quantity * multiplier * factor
    for name, value in generated.items():
        retained[name] = retained.get(name, 0) + max(value, 0)
    return {name: request_amount(_nano(value), name) for name, value in retained.items()}


def _nano(value: int) -> int:
    """From 10^-27 units to nano-units, away from zero: rounding up twice is rounding up once."""
    return -(-value // _SQUARE) if value >= 0 else value // _SQUARE


def _with_devices(amounts: dict[str, int], charges: PodSetCharges, replaced: frozenset[str]) -> dict[str, int]:
    """Names that devices stand for go, what the devices cost joins (2.6.2)."""
    joined = {name: amount for name, amount in amounts.items() if name not in replaced}
    for name, amount in charges.added.items():
        joined[name] = add(joined.get(name, 0), amount)
    return joined


def scaled_to(pod_set: PodSetRequests, count: int) -> PodSetRequests:
    """The same pod set with another number of pods: divided first, then multiplied (2.10)."""
    if pod_set.count in (0, count):
        return pod_set
    scaled = {name: multiply(divide(amount, pod_set.count), count) for name, amount in pod_set.requests.items()}
    return PodSetRequests(pod_set.name, count, scaled)


# --- reserved workloads ----------------------------------------------------------------------------------------


def usage_of_admission(workload: Workload, *, reclaimable_pods: bool = True) -> tuple[PodSetUsage, ...]:
    """What a workload with `status.admission` holds (2.7.2); `reclaimable_pods` is the feature gate.

    The recorded usage stands until fewer pods are left than were admitted.
    """
    admission = workload.status.admission
    if admission is None:
        return ()
    pod_sets = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    held = []
    for assignment in admission.pod_set_assignments:
        pod_set = pod_sets.get(assignment.name)
        spec_count = 0 if pod_set is None else pod_set.count
        count = spec_count if assignment.count is None else assignment.count
        usage = {
            name: request_amount(assignment.resource_usage[name], name) for name in sorted(assignment.resource_usage)
        }
        if reclaimable_pods and pod_set is not None and workload.status.reclaimable_pods:
            left = spec_count - _reclaimable(workload, pod_set)
            if left < count:
                usage = {name: multiply(divide(amount, count), left) for name, amount in usage.items()}
                count = left
        held.append(PodSetUsage(assignment.name, count, usage, assignment.flavors))
    return tuple(held)


# --- validity --------------------------------------------------------------------------------------------------


def admissibility_problems(
    workload: Workload,
    *,
    limit_ranges: Sequence[LimitRange] = (),
    runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES,
) -> list[Problem]:
    """Why the requests themselves cannot be admitted (2.11): all of the first check that fails, else nothing."""
    limits = summarised(limit_ranges)
    if limits is NO_LIMITS and not _has_limits(workload):
        return []
    pods = [
        (prepared(pod_set.template.spec, limits, runtime_classes), f"spec.podSets[{index}].template.spec")
        for index, pod_set in enumerate(workload.spec.pod_sets)
    ]
    problems = [problem for pod, path in pods for problem in requests_above_limits(pod, path)]
    if problems or limits is NO_LIMITS:
        return problems
    return [problem for pod, path in pods for problem in limit_range_violations(pod, _pod_request(pod), limits, path)]


def _has_limits(workload: Workload) -> bool:
    for pod_set in workload.spec.pod_sets:
        pod = pod_set.template.spec
        if pod.resources is not None and pod.resources.limits:
            return True
        if any(container.resources.limits for container in (*pod.containers, *pod.init_containers)):
            return True
    return False


# --- shape and order -------------------------------------------------------------------------------------------

_shape_encoder = msgspec.json.Encoder(enc_hook=int, order="sorted")


def scheduling_shape(
    workload: Workload,
    totals: Sequence[PodSetRequests],
    *,
    priority: int | None = None,
    limit_ranges: Sequence[LimitRange] = (),
    runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES,
) -> bytes:
    """Equal for workloads that fare alike in scheduling (4.5.5): a canonical encoding of what decides.

    `priority` is the effective one; without it that of the spec counts.
    """
    limits = summarised(limit_ranges)
    effective = workload.spec.priority or 0 if priority is None else priority
    shapes = [
        (
            pod_set.name,
            _pod_shape(pod_set.template.spec, limits, runtime_classes),
            total.count,
            total.requests,
            pod_set.min_count,
            pod_set.topology_request,
        )
        for pod_set, total in zip(workload.spec.pod_sets, totals, strict=True)
    ]
    return _shape_encoder.encode((effective, shapes))


def _pod_shape(pod: PodSpec, limits: LimitSummaries, runtime_classes: Mapping[str, RuntimeClass]) -> tuple[object, ...]:
    ready = prepared(pod, limits, runtime_classes)
    return (
        [(own.requests, container.ports) for own, container in zip(ready.containers, pod.containers, strict=True)],
        [
            (own.requests, container.ports)
            for own, container in zip(ready.init_containers, pod.init_containers, strict=True)
        ],
        ready.pod_level.requests if ready.pod_level is not None else None,
        ready.overhead,
        pod.node_selector,
        pod.affinity,
        pod.tolerations,
        pod.runtime_class_name,
        pod.priority,
        pod.topology_spread_constraints,
        pod.resource_claims,
    )


def fnv1a_order(names: Iterable[str]) -> tuple[str, ...]:
    """Resources in the order in which a workload's requests are walked (2.9)."""
    return _in_order(tuple(names))


@lru_cache(maxsize=4096)
def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(names, key=_order_key))


@lru_cache(maxsize=4096)
def _order_key(name: str) -> tuple[int, str]:
    code = 0xCBF29CE484222325
    for byte in name.encode("utf-8", "surrogatepass"):
        code = ((code ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return code, name
