"""`deviceClassMappings` in compiled form: which key a class charges to, and how (dra 5.4)."""

from __future__ import annotations

from typing import NamedTuple

from ledger.devices.charges import Counted
from ledger.objects.configuration import Configuration, DeviceClassMapping, DeviceSource

INTEGRATION = "KueueDRAIntegration"
EXTENDED_RESOURCE = "KueueDRAIntegrationExtendedResource"
PARTITIONABLE = "KueueDRAIntegrationPartitionableDevices"
CONSUMABLE = "KueueDRAIntegrationConsumableCapacity"
REJECT_WHEN_OFF = "KueueDRARejectWorkloadsWhenDRADisabled"

REFERENCE_RULES = "kueue-0.19"


class Source(NamedTuple):
    """One counter or capacity that prices the devices inside a fence."""

    key: str
    driver: str
    name: str
    fence: str


class Mappings:
    """Read-only; made once for each configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self.reference = configuration.ledger.rules == REFERENCE_RULES
        self.integration = configuration.gate(INTEGRATION)
        self.reject_when_off = configuration.gate(REJECT_WHEN_OFF)
        self.extended = self.integration and configuration.gate(EXTENDED_RESOURCE)
        self.feasibility = configuration.ledger.feasibility
        partitionable = self.integration and configuration.gate(PARTITIONABLE)
        consumable = self.integration and configuration.gate(CONSUMABLE)
        self.keys: dict[str, str] = {}
        self.counters: dict[str, tuple[Source, ...]] = {}
        self.capacities: dict[str, tuple[Source, ...]] = {}
        self.binary_keys: set[str] = set()
        self._mappings = configuration.resources.device_class_mappings
        for mapping in self._mappings:
            counters = _sources(mapping, "counter") if partitionable else ()
            capacities = _sources(mapping, "capacity") if consumable else ()
            if counters or capacities:
                self.binary_keys.add(mapping.name)
            for name in mapping.device_class_names:
                self.keys.setdefault(name, mapping.name)
                if counters:
                    self.counters[name] = self.counters.get(name, ()) + counters
                if capacities:
                    self.capacities[name] = self.capacities.get(name, ()) + capacities

    def has_sources(self, device_class: str) -> bool:
        return device_class in self.counters or device_class in self.capacities

    def drivers(self, device_class: str) -> frozenset[str]:
        sources = self.counters.get(device_class, ()) + self.capacities.get(device_class, ())
        return frozenset(source.driver for source in sources)

    def counted(self, key: str) -> Counted:
        """What a quota key counts, for the rows of the table (design 7)."""
        mine = [mapping for mapping in self._mappings if mapping.name == key]
        counters = {(s.driver, s.name) for m in mine for s in _sources(m, "counter")}
        capacities = {(s.driver, s.name) for m in mine for s in _sources(m, "capacity")}
        return Counted(
            tuple(sorted({name for mapping in mine for name in mapping.device_class_names})),
            tuple(sorted(counters)),
            tuple(sorted(capacities)),
        )


def _sources(mapping: DeviceClassMapping, kind: str) -> tuple[Source, ...]:
    found: list[DeviceSource] = []
    for source in mapping.sources:
        chosen = source.counter if kind == "counter" else source.capacity
        if chosen is not None:
            found.append(chosen)
    return tuple(Source(mapping.name, s.driver, s.name, s.device_selector.cel.expression) for s in found)
