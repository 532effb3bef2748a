"""Charging by what devices consume or hold: counters (dra 9) and capacities (dra 10).

Both walk alike: devices of the source's driver, complete pools, fence, class selectors, request selectors, at least
as many devices as asked for, and then the highest price of any of them.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.devices.census import Census, Price, Pricing
from ledger.devices.charges import CAPACITY, COUNTER, RequestCharge
from ledger.devices.context import Charging, Place
from ledger.devices.inventory import Costs, Readable
from ledger.devices.mappings import Source
from ledger.devices.objects import DeviceClass, DeviceRequest
from ledger.devices.rejection import (
    CAPACITY_MISSING,
    CAPACITY_UNSATISFIABLE,
    COUNTER_MISSING,
    INSUFFICIENT_DEVICES,
    INTERNAL,
    INVALID,
    PERMANENT,
    RETRYABLE,
    SELECTOR_EVAL,
    Problem,
    Unchargeable,
)
from ledger.devices.rounding import UNSERVED, charged, policed, unpoliced, whole
from ledger.quantity import Quantity, canonical_quantity


def counter_pricing(name: str) -> Pricing:
    def price(readable: Readable, costs: Costs) -> Price:
        return costs.of(name)

    return price


def capacity_pricing(name: str, requests: dict[str, Quantity], *, reference: bool) -> Pricing:
    def price(readable: Readable, costs: Costs) -> Price:
        capacity = readable.capacity_named(name, exact=reference)
        if capacity is None:
            return None
        asked = requests.get(name) if reference else requested(readable.driver, requests, name)
        if reference:
            return policed(capacity, asked, reference=True)
        if not servable(readable, requests):
            return UNSERVED
        return policed(capacity, asked, reference=False) if readable.shared else int(capacity.value)

    return price


def requested(driver: str, requests: dict[str, Quantity], name: str) -> Quantity | None:
    """The asked amount of a capacity, with and without the driver as domain being one name (G12)."""
    found = requests.get(name)
    if found is not None:
        return found
    prefix = f"{driver}/"
    return requests.get(name[len(prefix) :] if name.startswith(prefix) else prefix + name)


def servable(readable: Readable, requests: dict[str, Quantity]) -> bool:
    """As the scheduler: every asked capacity is there, and no more is asked than there is (dra 10, G4)."""
    for name, asked in requests.items():
        capacity = readable.capacity_named(name, exact=False)
        if capacity is None:
            return False
        amount = policed(capacity, asked, reference=False) if readable.shared else asked
        if isinstance(amount, str) or amount > capacity.value:
            return False
    return True


class Priced(NamedTuple):
    """What one request costs under one key."""

    key: str
    amount: int
    entry: RequestCharge


class _Kind(NamedTuple):
    path: str
    missing_code: str


_COUNTERS = _Kind(COUNTER, COUNTER_MISSING)
_CAPACITIES = _Kind(CAPACITY, CAPACITY_MISSING)


def counter_charges(charging: Charging, place: Place, request: DeviceRequest, count: int) -> list[Priced]:
    sources = charging.mappings.counters.get(request.device_class_name, ())
    return _charges(charging, place, request, count, sources, _COUNTERS)


def capacity_charges(charging: Charging, place: Place, request: DeviceRequest, count: int) -> list[Priced]:
    sources = charging.mappings.capacities.get(request.device_class_name, ())
    return _charges(charging, place, request, count, sources, _CAPACITIES)


def _charges(
    charging: Charging, place: Place, request: DeviceRequest, count: int, sources: tuple[Source, ...], kind: _Kind
) -> list[Priced]:
    if not sources:
        return []
    device_class = charging.device_class(request.device_class_name, place)
    charging.compile_class(device_class, place)
    charging.compile_request(request, place)
    if charging.reference:
        groups: list[tuple[Source, ...]] = [(source,) for source in sources]
    else:
        keys = sorted({source.key for source in sources})
        groups = [tuple(source for source in sources if source.key == key) for key in keys]
    return [_charge(charging, place, request, count, group, device_class, kind) for group in groups]


def _charge(
    charging: Charging,
    place: Place,
    request: DeviceRequest,
    count: int,
    sources: tuple[Source, ...],
    device_class: DeviceClass,
    kind: _Kind,
) -> Priced:
    """Several sources under one key partition the devices: the price is the highest of those that match (G20, G21)."""
    found: list[tuple[Source, Census]] = []
    for driver, name in dict.fromkeys((source.driver, source.name) for source in sources):
        members = [source for source in sources if (source.driver, source.name) == (driver, name)]
        census = _census(charging, request, device_class, members, kind)
        if census is not None:
            found.append((members[0], census))
    _refuse_failures(charging, place, device_class, found)
    matched = sum(census.matched for _, census in found)
    label = f"{kind.path} driver" if charging.reference else f"DeviceClass {request.device_class_name}"
    if matched < count:
        detail = f"insufficient matching devices for {label}: {matched} device(s) match but {count} requested"
        raise Unchargeable(Problem(INSUFFICIENT_DEVICES, RETRYABLE, place.path, INTERNAL, detail))
    prices = [(census.highest, source, census) for source, census in found if census.highest is not None]
    if not prices:
        raise Unchargeable(_no_price(place, sources[0].name, found, kind))
    price = max(price for price, _, _ in prices)
    source, census = next((source, census) for each, source, census in prices if each == price)
    if price < 0:
        charging.diagnostics.append(
            f"driver {source.driver} publishes {Quantity(price)} billionths of {source.name}: charged as nothing"
        )
    amount = charged(price, count)
    deciding = charging.index.drivers[source.driver].first_at(census, price)
    before = price
    if kind is _CAPACITIES and deciding.readable is not None:
        before = _asked_of(deciding.readable, source.name, request, reference=charging.reference)
    entry = RequestCharge(
        pod_set=place.pod_set_name,
        claim=place.claim_name,
        request=request.name,
        path=kind.path,
        device_class=request.device_class_name,
        key=source.key,
        count=count,
        amount=amount,
        driver=source.driver,
        source=source.name,
        template=place.template,
        devices_matched=matched,
        deciding_device=deciding.label,
        per_device_before=canonical_quantity(before, binary=True),
        per_device=max(whole(price), 0),
    )
    return Priced(source.key, amount, entry)


def _asked_of(readable: Readable, name: str, request: DeviceRequest, *, reference: bool) -> int:
    """What the request means for a device before its policy rounds it."""
    capacity = readable.capacity_named(name, exact=reference)
    requests = request.capacity_requests
    asked = requests.get(name) if reference else requested(readable.driver, requests, name)
    return 0 if capacity is None else unpoliced(capacity, asked)


def _census(
    charging: Charging, request: DeviceRequest, device_class: DeviceClass, members: list[Source], kind: _Kind
) -> Census | None:
    name = members[0].name
    fences = tuple(dict.fromkeys(source.fence for source in members))
    if kind is _COUNTERS:
        key: tuple[object, ...] = (COUNTER, name)
        pricing = counter_pricing(name)
    else:
        requests = request.capacity_requests
        key = (CAPACITY, name, tuple(sorted(requests.items())))
        pricing = capacity_pricing(name, requests, reference=charging.reference)
    return charging.census(members[0].driver, fences, device_class, request, key, pricing)


def _refuse_failures(
    charging: Charging, place: Place, device_class: DeviceClass, found: list[tuple[Source, Census]]
) -> None:
    """The reference stops at the first error; otherwise only a selector that can never work is refused (dra 8)."""
    failing = [census for _, census in found if census.failures]
    if not failing:
        return
    text = min(census.failure or "" for census in failing)
    name = device_class.metadata.name
    if charging.reference:
        detail = f"CEL evaluation error in deviceSelector, DeviceClass selector or request selector: {text}"
        raise Unchargeable(Problem(SELECTOR_EVAL, RETRYABLE, place.path, INTERNAL, detail))
    if all(census.hopeless or not (census.matched or census.refused) for _, census in found):
        detail = f"CEL evaluation failed for DeviceClass {name}: {text}; use has(...) or .?"
        raise Unchargeable(Problem(SELECTOR_EVAL, PERMANENT, place.path, INVALID, detail))
    charging.diagnostics.append(f"{place.path}: some devices of DeviceClass {name} cannot be evaluated: {text}")


def _no_price(place: Place, name: str, found: list[tuple[Source, Census]], kind: _Kind) -> Problem:
    if any(census.published for _, census in found):
        detail = f"null: capacity request cannot be satisfied by any matched device's policy for {name!r}"
        return Problem(CAPACITY_UNSATISFIABLE, PERMANENT, place.path, INVALID, detail)
    what = "consumesCounters entry for counter" if kind is _COUNTERS else "capacity dimension"
    return Problem(kind.missing_code, RETRYABLE, place.path, INTERNAL, f"matched devices have no {what} {name!r}")
