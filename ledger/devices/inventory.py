"""Devices as they are kept: every content once, however many devices share it.

A cluster in dynamic MIG publishes hundreds of thousands of devices with a few hundred different contents. What
selectors can read is a `Readable`, what a device takes out of counter sets is its `Costs`; a `DeviceRecord` is a
name with references to both. Charging walks readables, not devices.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from sys import intern
from typing import Any, NamedTuple, TypeVar

from ledger.devices.objects import (
    Attribute,
    Capacity,
    Device,
    ResourceSlice,
    Taint,
)
from ledger.objects.pod import NodeSelector

Content = TypeVar("Content", bound=Hashable)
_ROOM = 4096


class Readable:
    """What selectors and prices can tell apart: attributes, capacity, sharing and taints of a device.

    Attributes of the driver's own domain are kept without it. `number` names it for as long as it lives, so that
    tables of answers need not look at contents.
    """

    __slots__ = ("_hash", "attributes", "capacity", "driver", "number", "shared", "taints", "uses")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Attribute],
        capacity: Mapping[str, Capacity],
        shared: bool,
        taints: tuple[Taint, ...],
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.shared = shared
        self.taints = taints
        self.number = 0
        self.uses = 0
        contents = (frozenset(attributes.items()), frozenset(capacity.items()), shared, taints)
        self._hash = hash((driver, contents))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Readable)
            and self._hash == other._hash
            and self.driver == other.driver
            and self.shared == other.shared
            and self.taints == other.taints
            and self.attributes == other.attributes
            and self.capacity == other.capacity
        )

    def capacity_named(self, name: str, *, exact: bool) -> Capacity | None:
        """A capacity by name; unless `exact`, with and without the driver as domain are one name (dra G12)."""
        found = self.capacity.get(name)
        if found is not None or exact:
            return found
        prefix = f"{self.driver}/"
        other = name[len(prefix) :] if name.startswith(prefix) else prefix + name
        return self.capacity.get(other)


class Costs:
    """What a device consumes of its counter sets, without their names: one mapping in nano-units a set."""

    __slots__ = ("_hash", "consumptions", "uses")

    def __init__(self, consumptions: tuple[Mapping[str, int], ...]) -> None:
        self.consumptions = consumptions
        self.uses = 0
        self._hash = hash(tuple(frozenset(consumption.items()) for consumption in consumptions))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Costs) and self.consumptions == other.consumptions)

    def of(self, counter: str) -> int | None:
        """The larger entry where two sets have the counter, not their sum (dra 9 B2.4)."""
        values = [consumption[counter] for consumption in self.consumptions if counter in consumption]
        return max(values) if values else None


class Location(NamedTuple):
    """Where a device can be used: on one node, on the nodes a selector picks, or everywhere."""

    node: str | None
    selector: NodeSelector | None
    everywhere: bool


class DeviceRecord(NamedTuple):
    """`sets` are the names of the counter sets, in the order of the consumptions of `costs`."""

    name: str
    readable: Readable
    costs: Costs
    sets: tuple[str, ...]
    location: Location | None
    bound_late: bool


class SliceRecord(NamedTuple):
    name: str
    driver: str
    pool: str
    generation: int
    promised: int
    location: Location
    devices: tuple[DeviceRecord, ...]
    counter_sets: tuple[tuple[str, Mapping[str, int]], ...]
    nodes: frozenset[str | None]
    """The nodes that the slice or its devices name; None stands for a selector or for all nodes."""


class Inventory:
    """Makes records of slices, sharing contents, and forgets contents that no device has any more."""

    def __init__(self) -> None:
        self._readables: dict[Readable, Readable] = {}
        self._costs: dict[Costs, Costs] = {}
        self._shared: dict[Hashable, Any] = {}
        self._limit = _ROOM
        self._made = 0

    def record(self, slice_: ResourceSlice) -> SliceRecord:
        spec = slice_.spec
        driver = intern(spec.driver)
        devices = tuple(self._device(driver, device, spec.per_device_node_selection) for device in spec.devices)
        sets = tuple(
            (intern(each.name), self.counters({name: int(c.value) for name, c in sorted(each.counters.items())}))
            for each in spec.shared_counters
        )
        pool = (spec.pool.name, spec.pool.generation, spec.pool.resource_slice_count)
        location = Location(spec.node_name, spec.node_selector, spec.all_nodes)
        return self.slice(slice_.metadata.name, driver, pool, location, devices, sets)

    def slice(
        self,
        name: str,
        driver: str,
        pool: tuple[str, int, int],
        location: Location,
        devices: tuple[DeviceRecord, ...],
        counter_sets: tuple[tuple[str, Mapping[str, int]], ...],
    ) -> SliceRecord:
        places = {device.location.node or None for device in devices if device.location is not None}
        nodes = frozenset(places or {location.node or None})
        return SliceRecord(name, intern(driver), *pool, location, devices, counter_sets, nodes)

    def release(self, record: SliceRecord) -> None:
        for device in record.devices:
            device.readable.uses -= 1
            if not device.readable.uses:
                del self._readables[device.readable]
            device.costs.uses -= 1
            if not device.costs.uses:
                del self._costs[device.costs]

    def _device(self, driver: str, device: Device, located: bool) -> DeviceRecord:
        prefix = f"{driver}/"
        own = {name.removeprefix(prefix): value for name, value in sorted(device.attributes.items())}
        readable = self.readable(driver, own, device.capacity, device.allow_multiple_allocations, device.taints)
        consumptions = device.consumes_counters
        costs = self.costs(tuple({name: int(c.value) for name, c in each.counters.items()} for each in consumptions))
        sets = tuple(intern(consumption.counter_set) for consumption in consumptions)
        location = Location(device.node_name, device.node_selector, device.all_nodes) if located else None
        return self.device(device.name, readable, costs, sets, location, bool(device.binding_conditions))

    def device(
        self,
        name: str,
        readable: Readable,
        costs: Costs,
        sets: tuple[str, ...],
        location: Location | None,
        bound_late: bool,
    ) -> DeviceRecord:
        readable.uses += 1
        costs.uses += 1
        return DeviceRecord(intern(name), readable, costs, self._one(sets), location, bound_late)

    def readable(
        self,
        driver: str,
        attributes: Mapping[str, Attribute],
        capacity: Mapping[str, Capacity],
        shared: bool,
        taints: tuple[Taint, ...],
    ) -> Readable:
        """The one readable with this content; `attributes` are in the order of their names."""
        found = Readable(driver, attributes, capacity, shared, taints)
        readable = self._readables.get(found)
        if readable is None:
            kept = {intern(name): self._one(value) for name, value in attributes.items()}
            capacities = self._keep({intern(name): value for name, value in sorted(capacity.items())})
            readable = Readable(driver, kept, capacities, shared, self._one(taints))
            self._made += 1
            readable.number = self._made
            self._readables[readable] = readable
        return readable

    def costs(self, consumptions: tuple[Mapping[str, int], ...]) -> Costs:
        """The one costs with this content."""
        found = Costs(consumptions)
        costs = self._costs.get(found)
        if costs is None:
            kept = tuple(self.counters(dict(sorted(consumption.items()))) for consumption in consumptions)
            costs = self._costs[found] = Costs(kept)
        return costs

    def counters(self, amounts: dict[str, int]) -> Mapping[str, int]:
        return self._keep({intern(name): amount for name, amount in amounts.items()})

    def _keep(self, mapping: dict[str, Any]) -> Mapping[str, Any]:
        key = ("mapping", *mapping.items())
        found: Mapping[str, Any] = self._shared.setdefault(key, mapping)
        self._trim()
        return found

    def _one(self, content: Content) -> Content:
        found: Content = self._shared.setdefault(content, content)
        self._trim()
        return found

    def _trim(self) -> None:
        """The table of shared contents is a saving, not a store: start it anew when it outgrows what lives."""
        if len(self._shared) > self._limit:
            self._limit = max(_ROOM, 4 * len(self._readables))
            if len(self._shared) > self._limit:
                self._shared = {}


def device_path(driver: str, pool: str, device: str) -> str:
    """The identity of a device in explanations (dra 1.1)."""
    return f"{driver}/{pool}/{device}"
