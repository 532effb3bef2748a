"""Charging by number of devices (dra 7), and the reference's check that selectors can be met (dra 8)."""

from __future__ import annotations

from ledger.devices.charges import WHOLE, RequestCharge
from ledger.devices.context import Charging, Place, texts
from ledger.devices.inventory import DeviceRecord
from ledger.devices.objects import ALL_DEVICES, EXACT_COUNT, ClaimRequest, DeviceRequest
from ledger.devices.rejection import (
    ALL_MODE_UNSUPPORTED,
    CLASS_NOT_MAPPED,
    FIRST_AVAILABLE_UNSUPPORTED,
    INSUFFICIENT_DEVICES,
    INTERNAL,
    INVALID,
    MODE_UNKNOWN,
    NOT_FOUND,
    PERMANENT,
    REQUEST_EMPTY,
    RETRYABLE,
    SELECTOR_EVAL,
    Problem,
    Unchargeable,
)
from ledger.devices.rounding import plus
from ledger.devices.verdicts import MATCH, Failed


def charge_claim_as_reference(charging: Charging, place: Place) -> None:
    """One claim of the first pass; the first problem ends it (W1 to W5)."""
    spec = charging.claim_spec(place)
    totals: dict[str, int] = {}
    for number, request in enumerate(spec.devices.requests):
        counted = _counted_as_reference(charging, place.at(number), request)
        if counted is not None and counted.device_class_name:
            totals[counted.device_class_name] = plus(totals.get(counted.device_class_name, 0), counted.count)
    check_selectors_as_reference(charging, place, spec.devices.requests)
    for device_class, count in totals.items():
        key = mapped_key(charging, place, device_class)
        if charging.mappings.has_sources(device_class):
            continue
        charging.add(place.pod_set, key, count)
        for request in spec.devices.requests:
            exactly = request.exactly
            if exactly is not None and exactly.device_class_name == device_class and not exactly.admin_access:
                charging.requests.append(whole_entry(place, request.name, device_class, key, exactly.count))


def _counted_as_reference(charging: Charging, place: Place, request: ClaimRequest) -> DeviceRequest | None:
    """The request whose devices are counted, None where nothing is charged."""
    template = f"ResourceClaimTemplate {place.template}"
    if request.first_available:
        detail = f"{template}: FirstAvailable device selection is not supported"
        raise Unchargeable(Problem(FIRST_AVAILABLE_UNSUPPORTED, PERMANENT, place.path, INVALID, detail))
    exactly = request.exactly
    if exactly is None:
        raise Unchargeable(empty_request(place))
    charging.compile_request(exactly, place)
    if exactly.admin_access:
        return None
    if exactly.mode == ALL_DEVICES:
        detail = f'"All": {template}: AllocationMode All is not supported'
        path = f"{place.path}.exactly.allocationMode"
        raise Unchargeable(Problem(ALL_MODE_UNSUPPORTED, PERMANENT, path, INVALID, detail))
    if exactly.mode != EXACT_COUNT:
        raise Unchargeable(unknown_mode(place, exactly.mode))
    return exactly


def empty_request(place: Place) -> Problem:
    detail = f"ResourceClaimTemplate {place.template}: the request has neither exactly nor firstAvailable"
    return Problem(REQUEST_EMPTY, PERMANENT, place.path, INVALID, detail)


def unknown_mode(place: Place, mode: str) -> Problem:
    detail = f'"{mode}": ResourceClaimTemplate {place.template}: AllocationMode {mode} is not supported'
    return Problem(MODE_UNKNOWN, PERMANENT, f"{place.path}.exactly.allocationMode", INVALID, detail)


def mapped_key(charging: Charging, place: Place, device_class: str) -> str:
    key = charging.mappings.keys.get(device_class)
    if key is None:
        path = Place(place.pod_set, place.pod_set_name, place.claim, place.claim_name, place.template).path
        detail = f'"DeviceClass {device_class} is not mapped in DRA configuration for podset {place.pod_set_name}"'
        problem = Problem(CLASS_NOT_MAPPED, PERMANENT, f"{path}.resourceClaimTemplateName", NOT_FOUND, detail)
        raise Unchargeable(problem)
    return key


def whole_entry(
    place: Place, request: str, device_class: str, key: str, count: int, matched: int | None = None
) -> RequestCharge:
    return RequestCharge(
        pod_set=place.pod_set_name,
        claim=place.claim_name,
        request=request,
        path=WHOLE,
        device_class=device_class,
        key=key,
        count=count,
        amount=count,
        template=place.template,
        devices_matched=matched,
    )


# --- the reference's feasibility (F1 to F8): greedy, over every slice there is ----------------------------------


def check_selectors_as_reference(charging: Charging, place: Place, requests: tuple[ClaimRequest, ...]) -> None:
    selecting = [
        (number, request.exactly)
        for number, request in enumerate(requests)
        if request.exactly is not None and request.exactly.selectors
    ]
    if not selecting:
        return
    drivers: frozenset[str] | None = frozenset()
    for _, request in selecting:
        if not charging.mappings.has_sources(request.device_class_name):
            drivers = None
        elif drivers is not None:
            drivers |= charging.mappings.drivers(request.device_class_name)
    taken: set[tuple[str, int]] = set()
    problems: list[Problem] = []
    for number, request in selecting:
        try:
            _take_as_reference(charging, place.at(number), request, drivers, taken)
        except Unchargeable as refusal:
            problems.extend(refusal.problems)
    if problems:
        raise Unchargeable(*problems)


def _take_as_reference(
    charging: Charging,
    place: Place,
    request: DeviceRequest,
    drivers: frozenset[str] | None,
    taken: set[tuple[str, int]],
) -> None:
    name = request.device_class_name
    template = f"ResourceClaimTemplate {place.template}"
    found = charging.index.classes.get(name)
    if found is None:
        detail = f'{template}: failed to get DeviceClass {name}: deviceclasses.resource.k8s.io "{name}" not found'
        raise Unchargeable(Problem("ClassNotFound", RETRYABLE, place.path, INTERNAL, detail))
    charging.compile_class(found, place)
    wanted = 0 if request.mode == ALL_DEVICES else request.count
    selectors = texts(found.spec.selectors), texts(request.selectors)
    matched: list[tuple[str, int]] = []
    for driver, identity, device in _listed(charging, drivers):
        if len(matched) >= wanted:
            break
        if identity in taken:
            continue
        verdicts = charging.index.drivers[driver].verdicts((), *selectors, reference=True)
        verdict = verdicts.of(device.readable)
        if isinstance(verdict, Failed):
            detail = f"null: {template}: CEL evaluation failed for DeviceClass {name}: {verdict.error.text}"
            path = f"{place.path}.exactly.selectors"
            raise Unchargeable(Problem(SELECTOR_EVAL, PERMANENT, path, INVALID, detail))
        if verdict is MATCH:
            matched.append(identity)
    if len(matched) < wanted:
        detail = (
            f"{template}: insufficient matching devices for CEL selector in DeviceClass {name}: "
            f"{len(matched)} device(s) match in the cluster but {wanted} requested"
        )
        problem = Problem(INSUFFICIENT_DEVICES, RETRYABLE, f"{place.path}.exactly.selectors", INTERNAL, detail)
        raise Unchargeable(problem)
    taken.update(matched)


def _listed(charging: Charging, drivers: frozenset[str] | None) -> list[tuple[str, tuple[str, int], DeviceRecord]]:
    """Every device of every slice, stale ones too, in the order of slice names (F2)."""
    return [
        (record.driver, (name, number), device)
        for name in charging.index.slice_names
        for record in (charging.index.slices[name],)
        if drivers is None or record.driver in drivers
        for number, device in enumerate(record.devices)
    ]
