"""What is wrong with `resources.deviceClassMappings` (dra 5.3): all of it, not only the first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ledger.objects.configuration import ChargeSource, Configuration, DeviceClassMapping, DeviceSource
from ledger.objects.names import is_dns_label, is_dns_subdomain, is_qualified_name

PATH = "resources.deviceClassMappings"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Compile = Callable[[str], str | None]
"""Why an expression does not compile, None where it does (C18)."""


class MappingProblem(NamedTuple):
    path: str
    kind: str
    reason: str


def mapping_problems(configuration: Configuration, compile_error: Compile) -> list[MappingProblem]:
    """The rules C1 to C24; those where the reference is laxer than it should be depend on the rule set."""
    mappings = configuration.resources.device_class_mappings
    problems = list(_list_problems(mappings))
    strict = configuration.ledger.rules == "ledger"
    for index, mapping in enumerate(mappings):
        path = f"{PATH}[{index}]"
        problems += _class_problems(mapping, mappings[:index], path, strict=strict)
        problems += _mixture_problems(mapping, path, strict=strict)
        for place, source in enumerate(mapping.sources):
            problems += _source_problems(source, configuration, f"{path}.sources[{place}]", compile_error, strict)
    return problems


def _list_problems(mappings: Sequence[DeviceClassMapping]) -> Iterator[MappingProblem]:
    """C1 to C4."""
    if len(mappings) > 16:
        yield MappingProblem(PATH, "TooMany", "more than 16 mappings")
    seen: set[str] = set()
    for index, mapping in enumerate(mappings):
        path = f"{PATH}[{index}].name"
        if len(mapping.name) > 253:
            yield MappingProblem(path, "Invalid", "has more than 253 characters")
        elif not is_qualified_name(mapping.name):
            yield MappingProblem(path, "Invalid", f"{mapping.name!r} is not a label key")
        if mapping.name in seen:
            yield MappingProblem(path, "Duplicate", f"{mapping.name!r} is there twice")
        seen.add(mapping.name)


def _class_problems(
    mapping: DeviceClassMapping, earlier: Sequence[DeviceClassMapping], path: str, *, strict: bool
) -> Iterator[MappingProblem]:
    """C5 to C11."""
    names = mapping.device_class_names
    path = f"{path}.deviceClassNames"
    if not names:
        yield MappingProblem(path, "Required", "at least one class is needed")
    if len(names) > 8:
        yield MappingProblem(path, "TooMany", "more than 8 classes")
    for index, name in enumerate(names):
        where = f"{path}[{index}]"
        if len(name) > 253 or not is_qualified_name(name):
            yield MappingProblem(where, "Invalid", f"{name[:300]!r} is not a class name")
        if name in names[:index]:
            yield MappingProblem(where, "Duplicate", f"{name!r} is there twice")
            continue
        for other in earlier:
            if name in other.device_class_names and other.name != mapping.name:
                clash = _clash(mapping, other, strict=strict)
                if clash is not None:
                    yield MappingProblem(where, "Invalid", f"{name!r} is mapped to {other.name!r} already{clash}")
                    break


def _clash(mapping: DeviceClassMapping, other: DeviceClassMapping, *, strict: bool) -> str | None:
    """Why two mappings cannot share a class; counters of different names may (C9 to C11)."""
    mine, theirs = _counter_names(mapping, strict=strict), _counter_names(other, strict=strict)
    if not mine or not theirs:
        return ""
    common = sorted(set(mine) & set(theirs))
    return f" with the counter {common[0]!r}" if common else None


def _counter_names(mapping: DeviceClassMapping, *, strict: bool) -> list[str]:
    """The counters of a mapping. The reference looks at its first source only."""
    sources = mapping.sources if strict else mapping.sources[:1]
    return [source.counter.name for source in sources if source.counter is not None]


def _mixture_problems(mapping: DeviceClassMapping, path: str, *, strict: bool) -> Iterator[MappingProblem]:
    """C16, C21 and C24: what the sources of one mapping may be together."""
    counters = [source.counter for source in mapping.sources if source.counter is not None]
    capacities = [source.capacity for source in mapping.sources if source.capacity is not None]
    path = f"{path}.sources"
    if counters and capacities:
        yield MappingProblem(path, "Invalid", "counters and capacities cannot be mixed")
    if not strict:
        return
    if len({counter.name for counter in counters}) > 1:
        yield MappingProblem(path, "Invalid", "several counters would be summed into one key")
    for place, source in enumerate(mapping.sources):
        if source in mapping.sources[:place] and (source.counter or source.capacity):
            yield MappingProblem(f"{path}[{place}]", "Duplicate", "would be charged twice")


def _source_problems(
    source: ChargeSource, configuration: Configuration, path: str, compile_error: Compile, strict: bool
) -> Iterator[MappingProblem]:
    """C12 to C20 and C23."""
    if source.counter is not None and source.capacity is not None:
        yield MappingProblem(path, "Invalid", "counter and capacity exclude each other")
    elif source.counter is not None:
        if _gate_is_off(configuration, "KueueDRAIntegrationPartitionableDevices"):
            reason = "needs the feature gate KueueDRAIntegrationPartitionableDevices"
            yield MappingProblem(f"{path}.counter", "Invalid", reason)
            return
        yield from _counter_name_problems(source.counter.name, f"{path}.counter.name")
        yield from _fence_problems(source.counter, f"{path}.counter", compile_error)
    elif source.capacity is not None:
        if _gate_is_off(configuration, "KueueDRAIntegrationConsumableCapacity"):
            reason = "needs the feature gate KueueDRAIntegrationConsumableCapacity"
            yield MappingProblem(f"{path}.capacity", "Invalid", reason)
            return
        yield from _capacity_name_problems(source.capacity.name, f"{path}.capacity.name", strict)
        yield from _fence_problems(source.capacity, f"{path}.capacity", compile_error)
    else:
        yield MappingProblem(path, "Required", "counter or capacity is needed")


def _gate_is_off(configuration: Configuration, name: str) -> bool:
    return not (configuration.gate("KueueDRAIntegration") and configuration.gate(name))


def _counter_name_problems(name: str, path: str) -> Iterator[MappingProblem]:
    if not name:
        yield MappingProblem(path, "Required", "is required")
    elif not is_dns_label(name):
        yield MappingProblem(path, "Invalid", f"{name[:100]!r} is not a DNS label")


def _capacity_name_problems(name: str, path: str, strict: bool) -> Iterator[MappingProblem]:
    if name.count("/") > 1:
        if strict:
            yield MappingProblem(path, "Invalid", f"{name[:200]!r} has more than one slash")
        return
    domain, slash, identifier = name.rpartition("/")
    if len(identifier) > 32 or len(domain) > 63:
        yield MappingProblem(path, "TooLong", f"{name[:200]!r}: a domain has at most 63 characters, a name 32")
    if slash and not is_dns_subdomain(domain.lower()):
        yield MappingProblem(path, "Invalid", f"{domain[:100]!r} is not a DNS subdomain")
    if _IDENTIFIER.fullmatch(identifier) is None:
        yield MappingProblem(path, "Invalid", f"{identifier[:100]!r} is not an identifier")


def _fence_problems(source: DeviceSource, path: str, compile_error: Compile) -> Iterator[MappingProblem]:
    """C15, C17 and C18: the driver, and the selector that fences the devices counted."""
    if not source.driver:
        yield MappingProblem(f"{path}.driver", "Required", "is required")
    elif len(source.driver) > 63 or not is_dns_subdomain(source.driver):
        yield MappingProblem(f"{path}.driver", "Invalid", f"{source.driver[:100]!r} is not a driver name")
    where, expression = f"{path}.deviceSelector.cel.expression", source.device_selector.cel.expression
    if not expression:
        yield MappingProblem(where, "Required", "is required")
        return
    error = compile_error(expression)
    if error is not None:
        yield MappingProblem(where, "Invalid", error)
