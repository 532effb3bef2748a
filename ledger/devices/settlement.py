"""What allocated claims really cost, against what was charged (dra 16).

A charge is an estimate: the highest price of any device that matches. An allocation names the device. `actual_cost`
prices one claim by its allocation at the moment it is seen; `settle` sets the prices of a workload's claims against
its charges, slot by slot: an allocated slot counts what it costs, any other what was estimated (16.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ledger.devices.attribution import EXTENDED_RESOURCES, slot_name
from ledger.devices.charges import EXTENDED, DeviceCharges, RequestCharge
from ledger.devices.index import DeviceIndex
from ledger.devices.inventory import DeviceRecord, device_path
from ledger.devices.mappings import Mappings, Source
from ledger.devices.objects import AllocationResult, ClaimRequest, ResourceClaim
from ledger.devices.rounding import charged, plus
from ledger.devices.verdicts import MATCH
from ledger.quantity import Quantity

UNMAPPED = "unmapped:"


class ActualCost(msgspec.Struct, frozen=True, rename="camel"):
    """What one claim's allocation costs per key; `unresolved` names devices about which too little is known."""

    claim: str
    uid: str
    slot: str | None
    amounts: dict[str, int] = {}
    unresolved: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class Settlement(msgspec.Struct, frozen=True, rename="camel"):
    """Whole amounts over all pods of a workload; `difference` is allocated minus charged, zeros left out, and
    `by_pod_set` the same for each pod set that has any."""

    charged: dict[str, int]
    allocated: dict[str, int]
    difference: dict[str, int]
    settled: int
    slots: int
    unresolved: tuple[str, ...] = ()
    by_pod_set: dict[str, dict[str, int]] = {}

    @property
    def complete(self) -> bool:
        return self.settled == self.slots

    def reduced(self) -> dict[str, int]:
        """The charge that follows the allocations downwards only (16.5 shrink)."""
        return {key: min(amount, self.allocated.get(key, amount)) for key, amount in self.charged.items()}


# --- one claim -------------------------------------------------------------------------------------------------


def actual_cost(index: DeviceIndex, mappings: Mappings, claim: ResourceClaim) -> ActualCost | None:
    """The price of an allocated claim, None while it is not allocated. Admin results cost nothing (J7)."""
    if claim.status.allocation is None:
        return None
    amounts: dict[str, int] = {}
    unresolved: list[str] = []
    devices: list[str] = []
    for result in claim.status.allocation.devices.results:
        if result.admin_access:
            continue
        label = device_path(result.driver, result.pool, result.device)
        devices.append(label)
        found = _cost_of_result(index, mappings, claim, result)
        if found is None:
            unresolved.append(label)
        else:
            for key, amount in found.items():
                amounts[key] = plus(amounts.get(key, 0), amount)
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    return ActualCost(
        name, claim.metadata.uid, slot_name(claim), dict(sorted(amounts.items())), tuple(unresolved), tuple(devices)
    )


def _cost_of_result(
    index: DeviceIndex, mappings: Mappings, claim: ResourceClaim, result: AllocationResult
) -> dict[str, int] | None:
    class_name = class_of_result(claim, result)
    if class_name is None:
        return {f"{UNMAPPED}?": 1}
    counters = mappings.counters.get(class_name, ())
    capacities = mappings.capacities.get(class_name, ())
    if not counters and not capacities:
        key = mappings.keys.get(class_name)
        if key is None and slot_name(claim) == EXTENDED_RESOURCES:
            known = index.classes.get(class_name)
            key = known.spec.extended_resource_name if known is not None else None
        return {key or f"{UNMAPPED}{class_name}": 1}
    device = index.device(result.driver, result.pool, result.device)
    if device is None:
        return None
    prices: dict[str, list[int]] = {}
    for source in (*counters, *capacities):
        if source.driver == result.driver and _inside(index, mappings, source, device):
            price = _price(source, device, result, counter=source in counters)
            if price is not None:
                prices.setdefault(source.key, []).append(charged(price, 1))
    if {source.key for source in (*counters, *capacities)} - prices.keys():
        return None
    return {key: sum(found) if mappings.reference else max(found) for key, found in prices.items()}


def class_of_result(claim: ResourceClaim, result: AllocationResult) -> str | None:
    """The class behind `request` or `request/alternative`."""
    main, _, option = result.request.partition("/")
    for request in claim.spec.devices.requests:
        if request.name == main:
            return _class_of(request, option)
    return None


def _class_of(request: ClaimRequest, option: str) -> str | None:
    if request.exactly is not None:
        return request.exactly.device_class_name
    return next((each.device_class_name for each in request.first_available if each.name == option), None)


def _inside(index: DeviceIndex, mappings: Mappings, source: Source, device: DeviceRecord) -> bool:
    """Sharing is shown to the fence here under either rule set: an allocation is a fact, not a guess."""
    verdicts = index.drivers[source.driver].verdicts((source.fence,), (), (), reference=False)
    return verdicts.of(device.readable) is MATCH


def _price(source: Source, device: DeviceRecord, result: AllocationResult, *, counter: bool) -> int | None:
    if counter:
        return device.costs.of(source.name)
    consumed = _consumed(source, result.consumed_capacity)
    if consumed is not None:
        return int(consumed)
    capacity = device.readable.capacity_named(source.name, exact=False)
    return None if capacity is None else int(capacity.value)


def _consumed(source: Source, consumed: Mapping[str, Quantity]) -> Quantity | None:
    prefix = f"{source.driver}/"
    other = source.name[len(prefix) :] if source.name.startswith(prefix) else prefix + source.name
    return consumed.get(source.name, consumed.get(other))


# --- a workload ------------------------------------------------------------------------------------------------


def settle(charges: DeviceCharges, pods: Mapping[str, int], actuals: Iterable[ActualCost]) -> Settlement:
    """Set what was charged against what is allocated; `pods` are the pods of each pod set that still count.

    A claim goes to the first pod set that has its slot and room for one more.
    """
    estimates = _estimates(charges)
    room = {slot: pods.get(slot[0], 0) for slot in estimates}
    total: dict[str, int] = {}
    for slot, amounts in estimates.items():
        _add(total, amounts, room[slot])
    allocated = dict(total)
    settled = 0
    unresolved: list[str] = []
    by_pod_set: dict[str, dict[str, int]] = {}
    for actual in sorted(actuals, key=lambda each: (each.claim, each.uid)):
        place = next((slot for slot in estimates if slot[1] == actual.slot and room[slot] > 0), None)
        if place is None:
            continue
        if actual.unresolved:
            unresolved.extend(actual.unresolved)
            continue
        room[place] -= 1
        settled += 1
        own = by_pod_set.setdefault(place[0], {})
        for sums in (allocated, own):
            _add(sums, estimates[place], -1)
            _add(sums, actual.amounts, 1)
    keys = sorted(total.keys() | allocated.keys())
    difference = {key: allocated.get(key, 0) - total.get(key, 0) for key in keys}
    return Settlement(
        {key: total[key] for key in sorted(total)},
        {key: allocated[key] for key in keys if allocated[key] or key in total},
        {key: amount for key, amount in difference.items() if amount},
        settled,
        sum(pods.get(slot[0], 0) for slot in estimates),
        tuple(unresolved),
        {name: left for name, own in sorted(by_pod_set.items()) if (left := _nonzero(own))},
    )


def _nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {key: amounts[key] for key in sorted(amounts) if amounts[key]}


Slot = tuple[str, str]
"""(pod set, claim entry)."""


def _estimates(charges: DeviceCharges) -> dict[Slot, dict[str, int]]:
    found: dict[Slot, dict[str, int]] = {}
    for request in charges.requests:
        amounts = found.setdefault((request.pod_set, _slot_of(request)), {})
        amounts[request.key] = plus(amounts.get(request.key, 0), request.amount)
    return found


def _slot_of(request: RequestCharge) -> str:
    return EXTENDED_RESOURCES if request.path == EXTENDED or request.template is None else request.claim


def _add(amounts: dict[str, int], more: Mapping[str, int], times: int) -> None:
    for key, amount in more.items():
        amounts[key] = amounts.get(key, 0) + amount * times
