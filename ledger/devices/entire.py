"""Mode All: the request takes every usable matching device of a node, so the worst node decides (dra G14)."""

from __future__ import annotations

from ledger.devices.charges import CAPACITY, COUNTER, WHOLE, RequestCharge
from ledger.devices.context import Charging, Place, texts
from ledger.devices.existence import MOST_DEVICES_OF_A_CLAIM
from ledger.devices.inventory import DeviceRecord, device_path
from ledger.devices.mappings import Source
from ledger.devices.nodes import node_names, usable_on
from ledger.devices.objects import DeviceClass, DeviceRequest
from ledger.devices.pools import VALID
from ledger.devices.priced import Priced, capacity_pricing, counter_pricing, servable
from ledger.devices.rejection import (
    CAPACITY_MISSING,
    COUNTER_MISSING,
    INSUFFICIENT_DEVICES,
    INTERNAL,
    RETRYABLE,
    Problem,
    Unchargeable,
)
from ledger.devices.rounding import clamp, whole
from ledger.devices.taints import tolerated
from ledger.devices.verdicts import MATCH, Verdicts

Located = tuple[str, str, DeviceRecord]
"""Driver, pool, device."""


def charge_entire_node(
    charging: Charging, place: Place, request: DeviceRequest, device_class: DeviceClass, key: str
) -> list[Priced]:
    nodes = _devices_by_node(charging, request, device_class)
    sources = [
        *((COUNTER, source) for source in charging.mappings.counters.get(request.device_class_name, ())),
        *((CAPACITY, source) for source in charging.mappings.capacities.get(request.device_class_name, ())),
    ]
    if not nodes:
        detail = f"no node has a usable device of DeviceClass {request.device_class_name} for allocation mode All"
        raise Unchargeable(Problem(INSUFFICIENT_DEVICES, RETRYABLE, place.path, INTERNAL, detail))
    if not sources:
        count = max(min(len(devices), MOST_DEVICES_OF_A_CLAIM) for devices in nodes.values())
        return [Priced(key, count, _entry(place, request, key, WHOLE, count, count, None))]
    found: list[Priced] = []
    for kind, source in sources:
        found.append(_by_source(charging, place, request, nodes, kind, source))
    return _highest_of_each_key(found)


def _devices_by_node(charging: Charging, request: DeviceRequest, device_class: DeviceClass) -> dict[str, list[Located]]:
    class_selectors, own = texts(device_class.spec.selectors), texts(request.selectors)
    drivers = tuple(charging.drivers(class_selectors + own))
    charging.inputs.add(("nodes",))
    verdicts = {
        driver: charging.index.drivers[driver].verdicts((), class_selectors, own, reference=False) for driver in drivers
    }
    found: dict[str, list[Located]] = {}
    for node in node_names(charging.index, drivers, charging.nodes):
        devices = [
            (driver, pool, device)
            for driver in drivers
            for pool, _, device in usable_on(charging.index, driver, node, VALID)
            if _usable(device, verdicts[driver], request)
        ]
        if devices:
            found[node] = devices
    return found


def _usable(device: DeviceRecord, verdicts: Verdicts, request: DeviceRequest) -> bool:
    return (
        verdicts.of(device.readable) is MATCH
        and tolerated(device.readable.taints, request.tolerations)
        and servable(device.readable, request.capacity_requests)
    )


def _by_source(
    charging: Charging,
    place: Place,
    request: DeviceRequest,
    nodes: dict[str, list[Located]],
    kind: str,
    source: Source,
) -> Priced:
    """The most expensive set of at most 32 devices that a node would give."""
    if kind == COUNTER:
        pricing = counter_pricing(source.name)
    else:
        pricing = capacity_pricing(source.name, request.capacity_requests, reference=False)
    best: tuple[int, int, str] | None = None
    for _, devices in sorted(nodes.items()):
        fenced = [(pool, device) for driver, pool, device in devices if driver == source.driver]
        if not fenced:
            continue
        fence = charging.index.drivers[source.driver].verdicts((source.fence,), (), (), reference=False)
        prices = [
            (price, device_path(source.driver, pool, device.name))
            for pool, device in fenced
            if fence.of(device.readable) is MATCH
            for price in (pricing(device.readable, device.costs),)
            if isinstance(price, int)
        ]
        prices.sort(key=lambda each: -each[0])
        chosen = prices[:MOST_DEVICES_OF_A_CLAIM]
        if chosen:
            total = clamp(sum(max(whole(price), 0) for price, _ in chosen))
            if best is None or total > best[0]:
                best = (total, len(chosen), chosen[0][1])
    if best is None:
        code = COUNTER_MISSING if kind == COUNTER else CAPACITY_MISSING
        detail = f"matched devices have no {kind} {source.name!r}"
        raise Unchargeable(Problem(code, RETRYABLE, place.path, INTERNAL, detail))
    amount, count, deciding = best
    entry = _entry(place, request, source.key, kind, count, amount, source, deciding)
    return Priced(source.key, amount, entry)


def _highest_of_each_key(found: list[Priced]) -> list[Priced]:
    best: dict[str, Priced] = {}
    for priced in found:
        if priced.key not in best or priced.amount > best[priced.key].amount:
            best[priced.key] = priced
    return [best[key] for key in sorted(best)]


def _entry(
    place: Place,
    request: DeviceRequest,
    key: str,
    path: str,
    count: int,
    amount: int,
    source: Source | None,
    deciding: str | None = None,
) -> RequestCharge:
    return RequestCharge(
        pod_set=place.pod_set_name,
        claim=place.claim_name,
        request=request.name,
        path=path,
        device_class=request.device_class_name,
        key=key,
        count=count,
        amount=amount,
        driver=source.driver if source is not None else None,
        source=source.name if source is not None else None,
        template=place.template,
        devices_matched=count,
        deciding_device=deciding,
    )
