"""The price of a workload's devices: intake, the passes of the reference, the one pass of the ledger (dra 6 to 12)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ledger.devices.charges import DeviceCharges, PodSetCharges, RequestCharge
from ledger.devices.claims import charge_claim
from ledger.devices.context import Charging, Place, template_claims
from ledger.devices.extended import charge_extended, uses_devices
from ledger.devices.index import ANY_DEVICE_OBJECT, DeviceIndex
from ledger.devices.mappings import Mappings
from ledger.devices.objects import DeviceRequest
from ledger.devices.priced import Priced, capacity_charges, counter_charges
from ledger.devices.rejection import (
    DIRECT_RESOURCE_CLAIM,
    DRA_DISABLED,
    PERMANENT,
    DeviceRejection,
    Problem,
    Unchargeable,
)
from ledger.devices.whole import charge_claim_as_reference
from ledger.objects.configuration import Configuration
from ledger.objects.workload import Workload

Path = Callable[[Charging, Place, DeviceRequest, int], list[Priced]]


def charge_workload(
    index: DeviceIndex, workload: Workload, configuration: Configuration, nodes: frozenset[str] | None = None
) -> DeviceCharges | DeviceRejection | None:
    """The charges of a pending workload, the reason why there are none, or None where it uses no devices.

    `nodes` restricts the devices that price the requests to those of a flavor's nodes (G9). The index remembers
    what the answer read.
    """
    charging = Charging(index, mappings_of(index, configuration), workload, nodes)
    answer = _charge(charging)
    if charging.reference and isinstance(answer, DeviceRejection):
        charging.inputs = {each for each in charging.inputs if each[0] == "extended"} | {ANY_DEVICE_OBJECT}
    elif charging.reference:
        charging.inputs = {each for each in charging.inputs if each[0] == "extended"}
    index.remember((workload.metadata.namespace, workload.metadata.name), frozenset(charging.inputs))
    return answer


def mappings_of(index: DeviceIndex, configuration: Configuration) -> Mappings:
    if index.compiled is None or index.compiled[0] is not configuration:
        index.compiled = (configuration, Mappings(configuration))
    return index.compiled[1]


def _charge(charging: Charging) -> DeviceCharges | DeviceRejection | None:
    if not charging.mappings.integration:
        return _disabled(charging)
    if not uses_devices(charging, charging.workload):
        return None
    problem = _direct_claim(charging)
    if problem is not None:
        return DeviceRejection((problem,))
    problems = _passes_of_reference(charging) if charging.reference else _one_pass(charging)
    if problems:
        return DeviceRejection(tuple(problems))
    return DeviceCharges(
        tuple(
            PodSetCharges(
                pod_set.name, frozenset(charging.replaced[number]), dict(sorted(charging.added[number].items()))
            )
            for number, pod_set in enumerate(charging.workload.spec.pod_sets)
        ),
        tuple(charging.requests),
        tuple(dict.fromkeys(charging.diagnostics)),
    )


def _disabled(charging: Charging) -> DeviceRejection | None:
    """With the integration off claims are refused, unless the workload is to go free (I2)."""
    claims = any(
        entry.resource_claim_template_name or entry.resource_claim_name
        for pod_set in charging.workload.spec.pod_sets
        for entry in pod_set.template.spec.resource_claims
    )
    if not claims or not charging.mappings.reject_when_off:
        return None
    detail = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    return DeviceRejection((Problem(DRA_DISABLED, PERMANENT, "", "", detail),))


def _direct_claim(charging: Charging) -> Problem | None:
    """Claims by name are refused before any template is read (I5)."""
    for pod_set in charging.workload.spec.pod_sets:
        for entry in pod_set.template.spec.resource_claims:
            if entry.resource_claim_name:
                detail = "KueueDRAIntegration feature does not support use of resource claims"
                return Problem(DIRECT_RESOURCE_CLAIM, PERMANENT, "", "", detail)
    return None


# --- the reference: four passes, each ends the evaluation with its first problem (I6, I7) -----------------------


def _passes_of_reference(charging: Charging) -> list[Problem]:
    places = [
        place
        for number, pod_set in enumerate(charging.workload.spec.pod_sets)
        for place in template_claims(number, pod_set)
    ]
    try:
        for place in places:
            charge_claim_as_reference(charging, place)
        if charging.mappings.extended:
            problems = charge_extended(charging)
            if problems:
                return [problem for _, problem in problems]
        for place in places:
            _charge_sources(charging, place, counter_charges)
        for place in places:
            _charge_sources(charging, place, capacity_charges)
    except Unchargeable as refusal:
        return list(refusal.problems)
    return []


def _charge_sources(charging: Charging, place: Place, path: Path) -> None:
    for number, request in enumerate(charging.claim_spec(place).devices.requests):
        exactly = request.exactly
        if exactly is None or exactly.admin_access:
            continue
        for priced in path(charging, place.at(number), exactly, exactly.count):
            charging.add(place.pod_set, priced.key, priced.amount)
            charging.requests.append(named(priced, request.name))


def named(priced: Priced, request: str) -> RequestCharge:
    return msgspec.structs.replace(priced.entry, request=request)


# --- the ledger: every claim by all its paths, all problems in order (I7) ---------------------------------------


def _one_pass(charging: Charging) -> list[Problem]:
    problems: list[tuple[tuple[int, int, int], Problem]] = []
    for number, pod_set in enumerate(charging.workload.spec.pod_sets):
        for place in template_claims(number, pod_set):
            problems.extend(charge_claim(charging, place))
    if charging.mappings.extended:
        problems.extend(charge_extended(charging))
    return [problem for _, problem in sorted(problems, key=lambda each: each[0])]
