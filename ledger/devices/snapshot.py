"""A device index as bytes and back, for checkpoints (design 8).

Equal indexes give equal bytes, whatever events led to them: contents are numbered in the order in which slices by
name show them first. What can be computed again (groupings, censuses, verdicts, compiled selectors) is left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.devices.index import DeviceIndex, WorkloadKey
from ledger.devices.inventory import Costs, DeviceRecord, Location, Readable, SliceRecord
from ledger.devices.objects import (
    Attribute,
    Capacity,
    DeviceClass,
    DeviceObject,
    ResourceClaim,
    ResourceClaimTemplate,
    Taint,
)
from ledger.objects.scalars import ResourceVersion
from ledger.quantity import Quantity
from ledger.timestamps import Timestamp


class _Readable(msgspec.Struct, array_like=True):
    driver: str
    attributes: list[int]
    capacity: int
    shared: bool
    taints: tuple[Taint, ...]


class _Device(msgspec.Struct, array_like=True):
    name: str
    readable: int
    costs: int
    sets: tuple[str, ...]
    location: Location | None
    bound_late: bool


class _Slice(msgspec.Struct, array_like=True):
    name: str
    driver: str
    pool: str
    generation: int
    promised: int
    location: Location
    devices: list[_Device]
    counter_sets: list[tuple[str, dict[str, str]]]


class _Snapshot(msgspec.Struct, array_like=True):
    classes: list[DeviceClass]
    templates: list[ResourceClaimTemplate]
    claims: list[ResourceClaim]
    nodes: dict[str, dict[str, str]]
    plugins: dict[str, list[str]]
    attributes: list[tuple[str, Attribute]]
    capacities: list[dict[str, Capacity]]
    readables: list[_Readable]
    costs: list[list[dict[str, str]]]
    slices: list[_Slice]
    inputs: list[tuple[WorkloadKey, list[tuple[str, ...]]]]


def save_index(index: DeviceIndex) -> bytes:
    writer = _Writer()
    slices = [writer.slice(index.slices[name]) for name in index.slice_names]
    return _encoder.encode(
        _Snapshot(
            [index.classes[name] for name in sorted(index.classes)],
            [index.templates[key] for key in sorted(index.templates)],
            [index.claims[key] for key in sorted(index.claims)],
            {name: dict(sorted(index.nodes[name].items())) for name in sorted(index.nodes)},
            {name: sorted(index.plugins[name]) for name in sorted(index.plugins)},
            list(writer.attributes),
            writer.capacities,
            writer.readables,
            writer.costs,
            slices,
            [(key, sorted(inputs)) for key, inputs in index.remembered()],
        )
    )


def load_index(data: bytes) -> DeviceIndex:
    """Raises msgspec.DecodeError where the bytes are no snapshot."""
    saved = _decoder.decode(data)
    index = DeviceIndex()
    objects: list[DeviceObject] = [*saved.classes, *saved.templates, *saved.claims]
    for found in objects:
        index.apply(None, found)
    index.nodes = saved.nodes
    index.plugins = {name: frozenset(served) for name, served in saved.plugins.items()}
    reader = _Reader(index, saved)
    for each in saved.slices:
        index.put_slice(reader.slice(each))
    for key, inputs in saved.inputs:
        index.remember(key, frozenset(inputs))
    return index


class _Writer:
    """Numbers contents as they are met."""

    def __init__(self) -> None:
        self.attributes: dict[tuple[str, Attribute], int] = {}
        self.capacities: list[dict[str, Capacity]] = []
        self.readables: list[_Readable] = []
        self.costs: list[list[dict[str, str]]] = []
        self._capacity_numbers: dict[tuple[tuple[str, Capacity], ...], int] = {}
        self._readable_numbers: dict[int, int] = {}
        self._cost_numbers: dict[Costs, int] = {}

    def slice(self, record: SliceRecord) -> _Slice:
        return _Slice(
            record.name,
            record.driver,
            record.pool,
            record.generation,
            record.promised,
            record.location,
            [self._device(device) for device in record.devices],
            [(name, _texts(counters)) for name, counters in record.counter_sets],
        )

    def _device(self, device: DeviceRecord) -> _Device:
        readable, costs = self._readable(device.readable), self._costs(device.costs)
        return _Device(device.name, readable, costs, device.sets, device.location, device.bound_late)

    def _readable(self, readable: Readable) -> int:
        number = self._readable_numbers.get(readable.number)
        if number is None:
            number = self._readable_numbers[readable.number] = len(self.readables)
            attributes = [
                self.attributes.setdefault(pair, len(self.attributes)) for pair in readable.attributes.items()
            ]
            key = tuple(readable.capacity.items())
            capacity = self._capacity_numbers.setdefault(key, len(self.capacities))
            if capacity == len(self.capacities):
                self.capacities.append(dict(readable.capacity))
            self.readables.append(_Readable(readable.driver, attributes, capacity, readable.shared, readable.taints))
        return number

    def _costs(self, costs: Costs) -> int:
        number = self._cost_numbers.setdefault(costs, len(self.costs))
        if number == len(self.costs):
            self.costs.append([_texts(consumption) for consumption in costs.consumptions])
        return number


class _Reader:
    def __init__(self, index: DeviceIndex, saved: _Snapshot) -> None:
        inventory = index.inventory
        self._readables = [
            inventory.readable(
                each.driver,
                dict(saved.attributes[number] for number in each.attributes),
                saved.capacities[each.capacity],
                each.shared,
                each.taints,
            )
            for each in saved.readables
        ]
        self._costs = [inventory.costs(tuple(_numbers(consumption) for consumption in each)) for each in saved.costs]
        self._inventory = inventory

    def slice(self, saved: _Slice) -> SliceRecord:
        devices = tuple(
            self._inventory.device(
                each.name,
                self._readables[each.readable],
                self._costs[each.costs],
                each.sets,
                each.location,
                each.bound_late,
            )
            for each in saved.devices
        )
        sets = tuple((name, self._inventory.counters(_numbers(counters))) for name, counters in saved.counter_sets)
        return self._inventory.slice(
            saved.name,
            saved.driver,
            (saved.pool, saved.generation, saved.promised),
            saved.location,
            devices,
            sets,
        )


def _texts(counters: Any) -> dict[str, str]:
    """Amounts in nano-units do not fit in the integers of the encoding."""
    return {name: str(amount) for name, amount in counters.items()}


def _numbers(texts: dict[str, str]) -> dict[str, int]:
    return {name: int(text) for name, text in texts.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(int(value))
    if isinstance(value, Timestamp | ResourceVersion):
        return int(value)
    raise NotImplementedError(type(value).__name__)


def _typed(kind: type[Any], value: Any) -> Any:
    return kind(int(value))


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder = msgspec.msgpack.Decoder(_Snapshot, dec_hook=_typed)
