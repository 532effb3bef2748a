"""Selectors against devices: one evaluation for each distinct set of values that the expressions read.

`Verdicts` belongs to one driver and one list of expressions: any of the fences of the counting sources, then all
selectors of the class, then all of the request (dra S11).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ledger.cel import Device, EvaluationError, Program, Quantity, parse_semver
from ledger.devices.inventory import Readable
from ledger.devices.objects import Attribute

MATCH = "match"
OUTSIDE = "outside"
"""A fence or a selector of the class says no: the device is no candidate."""
REFUSED = "refused"
"""A selector of the request says no."""


class Failed:
    """The expressions have no answer for the device (dra S6)."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


Verdict = str | Failed
_MOST_VALUES = 4096


class Verdicts:
    def __init__(
        self,
        driver: str,
        fences: tuple[Program, ...],
        class_selectors: tuple[Program, ...],
        request_selectors: tuple[Program, ...],
        *,
        reference: bool,
    ) -> None:
        self.driver = driver
        self.fences = fences
        self.class_selectors = class_selectors
        self.request_selectors = request_selectors
        self.reference = reference
        self._by_readable: dict[int, Verdict] = {}
        self._by_values: dict[Any, Verdict] = {}
        self._values = _values_read(driver, (*fences, *class_selectors, *request_selectors))

    def of(self, readable: Readable) -> Verdict:
        verdict = self._by_readable.get(readable.number)
        return self._judge(readable) if verdict is None else verdict

    def _judge(self, readable: Readable) -> Verdict:
        values = self._values(readable)
        verdict = self._by_values.get(values)
        if verdict is None:
            verdict = self._by_values[values] = self._evaluate(readable)
        self._by_readable[readable.number] = verdict
        return verdict

    def forget(self, readable: Readable) -> None:
        self._by_readable.pop(readable.number, None)
        if len(self._by_values) > _MOST_VALUES and len(self._by_values) > 2 * len(self._by_readable):
            self._by_values = {}

    def _evaluate(self, readable: Readable) -> Verdict:
        try:
            device = expression_device(readable, reference=self.reference)
            if self.fences and not self._inside_a_fence(device):
                return OUTSIDE
            if not all(program.matches(device) for program in self.class_selectors):
                return OUTSIDE
            return MATCH if all(program.matches(device) for program in self.request_selectors) else REFUSED
        except EvaluationError as error:
            return Failed(error.with_traceback(None))

    def _inside_a_fence(self, device: Device) -> bool:
        failure: EvaluationError | None = None
        for fence in self.fences:
            try:
                if fence.matches(device):
                    return True
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return False


def _values_read(driver: str, programs: tuple[Program, ...]) -> Callable[[Readable], Any]:
    """A function that takes out of a readable all that the programs can see."""
    if any(program.reads.whole for program in programs):
        return lambda readable: readable
    names = sorted({name for program in programs for name in program.reads.names})
    attributes = [_raw(driver, domain, key) for kind, domain, key in names if kind == "attributes"]
    capacities = [(domain, key) for kind, domain, key in names if kind == "capacity"]
    keys = {kind for program in programs for kind in program.reads.keys}
    sharing = any(program.reads.sharing for program in programs)
    if not capacities and not keys and not sharing and len(attributes) in (1, 2):
        first, last = attributes[0], attributes[-1]
        if first == last:
            return lambda readable: readable.attributes.get(first)
        return lambda readable: (readable.attributes.get(first), readable.attributes.get(last))
    published = [raw for domain, key in capacities for raw in (key, f"{domain}/{key}")]
    return lambda readable: (
        readable.shared,
        tuple(readable.attributes) if "attributes" in keys else (),
        tuple(readable.capacity) if "capacity" in keys else (),
        *map(readable.attributes.get, attributes),
        *map(readable.capacity.get, published),
    )


def _raw(driver: str, domain: str, key: str) -> str:
    """The name under which a readable keeps it: the driver's own domain is left out (dra S2)."""
    return key if domain == driver else f"{domain}/{key}"


def expression_device(readable: Readable, *, reference: bool) -> Device:
    """The device as expressions see it; the reference never fills in sharing, and cannot read lists (G1, G25)."""
    attributes: dict[str, dict[str, Any]] = {}
    capacity: dict[str, dict[str, Quantity]] = {}
    for name, attribute in readable.attributes.items():
        domain, key = _qualified(readable.driver, name)
        attributes.setdefault(domain, {})[key] = _attribute_value(attribute, reference=reference)
    for name, content in readable.capacity.items():
        domain, key = _qualified(readable.driver, name)
        capacity.setdefault(domain, {})[key] = Quantity(int(content.value))
    return Device(readable.driver, attributes, capacity, readable.shared and not reference)


@lru_cache(maxsize=4096)
def _qualified(driver: str, name: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


@lru_cache(maxsize=65536)
def _attribute_value(attribute: Attribute, *, reference: bool) -> Any:
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.version_value is not None:
        return parse_semver(attribute.version_value)
    if reference:
        raise EvaluationError("BAD_ARGUMENT", "unsupported attribute value")
    if attribute.version_values is not None:
        return [parse_semver(version) for version in attribute.version_values]
    for values in (attribute.string_values, attribute.int_values, attribute.bool_values):
        if values is not None:
            return list(values)
    raise EvaluationError("BAD_ARGUMENT", "attribute without a value")
