"""LimitRanges and limits: the defaults they give a pod, and the bounds they set (admission 2.1, 2.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ledger.objects.limit_range import LimitRange, LimitRangeItem
from ledger.objects.pod import Container, PodSpec, ResourceRequirements
from ledger.objects.runtime_class import RuntimeClass
from ledger.quantity import request_amount

Quantities = Mapping[str, int]
"""Resource to nano-units."""

NOTHING: Quantities = {}


class LimitSummary(NamedTuple):
    """All LimitRange items of one type in a namespace, taken together (2.1.2)."""

    default: Quantities
    default_request: Quantities
    greatest: Quantities
    least: Quantities


class LimitSummaries(NamedTuple):
    container: LimitSummary | None
    pod: LimitSummary | None


NO_LIMITS = LimitSummaries(None, None)


def summarised(limit_ranges: Sequence[LimitRange]) -> LimitSummaries:
    """The bounds keep the strictest value, the defaults the first one in the order of the objects' names (D9)."""
    if not limit_ranges:
        return NO_LIMITS
    ordered = sorted(limit_ranges, key=lambda found: found.metadata.name)
    items = [item for found in ordered for item in found.spec.limits]
    return LimitSummaries(
        _summary([item for item in items if item.type == "Container"]),
        _summary([item for item in items if item.type == "Pod"]),
    )


def _summary(items: Sequence[LimitRangeItem]) -> LimitSummary | None:
    if not items:
        return None
    return LimitSummary(
        _merged((item.default for item in items), lambda kept, _: kept),
        _merged((item.default_request for item in items), lambda kept, _: kept),
        _merged((item.max for item in items), min),
        _merged((item.min for item in items), max),
    )


def _merged(maps: Iterable[Quantities], choose: Callable[[int, int], int]) -> Quantities:
    merged: dict[str, int] = {}
    for values in maps:
        for resource, quantity in values.items():
            merged[resource] = choose(merged[resource], quantity) if resource in merged else quantity
    return merged


class PreparedContainer(NamedTuple):
    """What a container asks for once defaults are in; `sidecar` for init containers that go on running."""

    requests: Quantities
    limits: Quantities
    sidecar: bool


class PreparedPod(NamedTuple):
    """The private copy of a pod template that requests are counted from (2.1)."""

    containers: tuple[PreparedContainer, ...]
    init_containers: tuple[PreparedContainer, ...]
    pod_level: PreparedContainer | None
    overhead: Quantities


def prepared(pod: PodSpec, limits: LimitSummaries, runtime_classes: Mapping[str, RuntimeClass]) -> PreparedPod:
    """Overhead, then LimitRange defaults, then limits as requests, in this order (2.1)."""
    return PreparedPod(
        tuple(_prepared_container(container, limits.container) for container in pod.containers),
        tuple(_prepared_container(container, limits.container) for container in pod.init_containers),
        None if pod.resources is None else PreparedContainer(*with_defaults(pod.resources, limits.pod), False),
        overhead_of(pod, runtime_classes),
    )


def overhead_of(pod: PodSpec, runtime_classes: Mapping[str, RuntimeClass]) -> Quantities:
    """The template's own overhead, else that of its RuntimeClass; a missing class adds nothing (2.1.1)."""
    if pod.overhead or pod.runtime_class_name is None:
        return pod.overhead
    runtime_class = runtime_classes.get(pod.runtime_class_name)
    return NOTHING if runtime_class is None else runtime_class.overhead.pod_fixed


def _prepared_container(container: Container, summary: LimitSummary | None) -> PreparedContainer:
    return PreparedContainer(*with_defaults(container.resources, summary), container.restart_policy == "Always")


def with_defaults(resources: ResourceRequirements, summary: LimitSummary | None) -> tuple[Quantities, Quantities]:
    """Requests and limits after 2.1.3 to 2.1.5: a default request beats an explicit limit."""
    requests: Quantities = resources.requests
    limits: Quantities = resources.limits
    if summary is not None:
        limits = {**summary.default, **limits}
        requests = {**summary.default_request, **requests}
    if not limits.keys() <= requests.keys():
        requests = {**limits, **requests}
    return requests, limits


class Problem(NamedTuple):
    """Why a workload cannot be admitted as it is; `kind` says which check found it (5.2.7, 5.2.8)."""

    path: str
    reason: str
    kind: Literal["limits", "limitRange"]


def requests_above_limits(pod: PreparedPod, path: str) -> Iterator[Problem]:
    """A request may not exceed its limit, compared as integers (2.11.1)."""
    for where, container in _placed(pod, path):
        for resource in sorted(container.requests.keys() & container.limits.keys()):
            asked = request_amount(container.requests[resource], resource)
            if asked > request_amount(container.limits[resource], resource):
                reason = f"requests[{resource}] must not exceed its limits"
                yield Problem(where, f"resources validation failed: {reason}", "limits")


def limit_range_violations(pod: PreparedPod, total: Quantities, limits: LimitSummaries, path: str) -> Iterator[Problem]:
    """Containers against the type Container, the pod's total against the type Pod (2.11.2)."""
    if limits.container is not None:
        for where, container in _placed(pod, path):
            if container is not pod.pod_level:
                greatest = _merged((container.requests, container.limits), max)
                least = _merged((container.requests, container.limits), min)
                yield from _out_of_bounds(greatest, least, limits.container, where)
    if limits.pod is not None:
        yield from _out_of_bounds(total, total, limits.pod, path)


def _out_of_bounds(greatest: Quantities, least: Quantities, bounds: LimitSummary, path: str) -> Iterator[Problem]:
    for resource in sorted(greatest.keys() & bounds.greatest.keys()):
        if greatest[resource] > bounds.greatest[resource]:
            reason = f"requests[{resource}] must not be above the limitRange max"
            yield Problem(path, f"resources didn't satisfy LimitRange constraints: {reason}", "limitRange")
    for resource in sorted(least.keys() & bounds.least.keys()):
        if least[resource] < bounds.least[resource]:
            reason = f"requests[{resource}] must not be below the limitRange min"
            yield Problem(path, f"resources didn't satisfy LimitRange constraints: {reason}", "limitRange")


def _placed(pod: PreparedPod, path: str) -> Iterator[tuple[str, PreparedContainer]]:
    for index, container in enumerate(pod.init_containers):
        yield f"{path}.initContainers[{index}]", container
    for index, container in enumerate(pod.containers):
        yield f"{path}.containers[{index}]", container
    if pod.pod_level is not None:
        yield path, pod.pod_level
