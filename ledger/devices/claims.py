"""One claim under the ledger's rules: every request by all its paths, alternatives and whole nodes included.

Differences from the reference, by gap: alternatives of firstAvailable cost the highest of them (G13), mode All the
most expensive node (G14), admin requests use up nothing (G19), and whether devices exist is asked of valid pools,
per node, with proper matching (G5 to G8).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ledger.devices.charges import RequestCharge
from ledger.devices.context import Charging, Place, texts
from ledger.devices.entire import charge_entire_node
from ledger.devices.existence import Need, matched_devices, missing_devices
from ledger.devices.objects import ALL_DEVICES, EXACT_COUNT, ClaimRequest, DeviceRequest
from ledger.devices.priced import Priced, capacity_charges, counter_charges
from ledger.devices.rejection import (
    CAPACITY_MISSING,
    CAPACITY_UNSATISFIABLE,
    COUNT_INVALID,
    COUNTER_MISSING,
    INSUFFICIENT_DEVICES,
    INVALID,
    PERMANENT,
    SELECTOR_EVAL,
    Problem,
    Unchargeable,
)
from ledger.devices.rounding import plus
from ledger.devices.whole import empty_request, mapped_key, unknown_mode, whole_entry

Located = tuple[tuple[int, int, int], Problem]

CAUSED_BY_DEVICES = frozenset(
    {INSUFFICIENT_DEVICES, COUNTER_MISSING, CAPACITY_MISSING, CAPACITY_UNSATISFIABLE, SELECTOR_EVAL}
)
"""An alternative with one of these cannot be chosen now, but does not stand in the way of another."""


class _Cost(NamedTuple):
    amounts: dict[str, int]
    entries: list[RequestCharge]
    need: Need | None


def charge_claim(charging: Charging, place: Place) -> list[Located]:
    """Adds what the claim costs, or returns every problem it has."""
    try:
        spec = charging.claim_spec(place)
    except Unchargeable as refusal:
        return [(place.order, problem) for problem in refusal.problems]
    problems: list[Located] = []
    costs: list[_Cost] = []
    for number, request in enumerate(spec.devices.requests):
        here = place.at(number)
        try:
            costs.append(_request(charging, here, request))
        except Unchargeable as refusal:
            problems.extend((here.order, problem) for problem in refusal.problems)
    if problems:
        return problems
    problem = missing_devices(charging, place, [cost.need for cost in costs if cost.need is not None])
    if problem is not None:
        return [(place.order, problem)]
    for cost in costs:
        for key, amount in sorted(cost.amounts.items()):
            charging.add(place.pod_set, key, amount)
        charging.requests.extend(cost.entries)
    return []


def _request(charging: Charging, place: Place, request: ClaimRequest) -> _Cost:
    if request.exactly is not None:
        return _exactly(charging, place, request.exactly, request.name, "exactly")
    if not request.first_available:
        raise Unchargeable(empty_request(place))
    return _first_available(charging, place, request)


def _first_available(charging: Charging, place: Place, request: ClaimRequest) -> _Cost:
    """One alternative will be chosen: per key, the highest amount of any that can be (G13)."""
    costs: list[tuple[str, _Cost]] = []
    refusals: list[Problem] = []
    for number, alternative in enumerate(request.first_available):
        field = f"firstAvailable[{number}]"
        try:
            cost = _exactly(charging, place, alternative, request.name, field)
            if cost.need is not None:
                problem = missing_devices(charging, place, [cost.need])
                if problem is not None:
                    raise Unchargeable(problem)
            costs.append((alternative.name, cost))
        except Unchargeable as refusal:
            lasting = [each for each in refusal.problems if each.code not in CAUSED_BY_DEVICES]
            if lasting:
                raise Unchargeable(*lasting) from None
            refusals.extend(refusal.problems)
    if not costs:
        raise Unchargeable(*refusals)
    amounts: dict[str, int] = {}
    entries: dict[str, RequestCharge] = {}
    for name, cost in costs:
        for entry in cost.entries:
            if entry.key not in entries or cost.amounts[entry.key] > amounts[entry.key]:
                entries[entry.key] = _of_alternative(entry, name)
        for key, amount in cost.amounts.items():
            amounts[key] = max(amount, amounts.get(key, amount))
    return _Cost(amounts, [entries[key] for key in sorted(entries)], None)


def _of_alternative(entry: RequestCharge, name: str) -> RequestCharge:
    return msgspec.structs.replace(entry, alternative=name)


def _exactly(charging: Charging, place: Place, request: DeviceRequest, name: str, field: str) -> _Cost:
    """What one exact request costs by all paths of its class."""
    charging.compile_request(request, place, field)
    if request.admin_access:
        return _Cost({}, [], None)
    if request.mode == ALL_DEVICES:
        return _entire(charging, place, request, name)
    if request.mode != EXACT_COUNT:
        raise Unchargeable(unknown_mode(place, request.mode))
    if request.count <= 0:
        detail = f"{request.count}: count must be greater than zero"
        raise Unchargeable(Problem(COUNT_INVALID, PERMANENT, f"{place.path}.{field}.count", INVALID, detail))
    key = mapped_key(charging, place, request.device_class_name)
    device_class = charging.device_class(request.device_class_name, place)
    charging.compile_class(device_class, place)
    metered = charging.mappings.has_sources(request.device_class_name)
    selectors = texts(device_class.spec.selectors) + texts(request.selectors)
    wanted = request.count if request.selectors or metered else 1
    need = Need(place, request, device_class, wanted, tuple(charging.drivers(selectors)), metered)
    if not metered:
        matched = matched_devices(charging, need)
        entry = whole_entry(place, name, request.device_class_name, key, request.count, matched)
        return _Cost({key: request.count}, [entry], need)
    priced = [
        *counter_charges(charging, place, request, request.count),
        *capacity_charges(charging, place, request, request.count),
    ]
    return _Cost(*_summed(priced, name), need)


def _summed(priced: list[Priced], name: str) -> tuple[dict[str, int], list[RequestCharge]]:
    amounts: dict[str, int] = {}
    for each in priced:
        amounts[each.key] = plus(amounts.get(each.key, 0), each.amount)
    return amounts, [msgspec.structs.replace(each.entry, request=name) for each in priced]


def _entire(charging: Charging, place: Place, request: DeviceRequest, name: str) -> _Cost:
    key = mapped_key(charging, place, request.device_class_name)
    device_class = charging.device_class(request.device_class_name, place)
    charging.compile_class(device_class, place)
    return _Cost(*_summed(charge_entire_node(charging, place, request, device_class, key), name), None)
