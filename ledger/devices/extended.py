"""Extended resources that a DeviceClass backs: ordinary looking requests that devices answer (dra 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ledger.devices.charges import EXTENDED, RequestCharge
from ledger.devices.context import Charging, Place
from ledger.devices.index import IMPLICIT_PREFIX
from ledger.devices.objects import DeviceClass, DeviceRequest
from ledger.devices.priced import Priced, capacity_charges, counter_charges
from ledger.devices.rejection import (
    EXTENDED_RESOURCE_NOT_INTEGER,
    EXTENDED_RESOURCE_OVERFLOW,
    EXTENDED_RESOURCE_WITH_SOURCES,
    INVALID,
    PERMANENT,
    Problem,
    Unchargeable,
)
from ledger.devices.rounding import LARGEST, NANO
from ledger.objects.pod import Container, PodSpec
from ledger.objects.workload import Workload

SIDECAR = "Always"


def is_extended(name: str, *, reference: bool) -> bool:
    """X1; Kubernetes also refuses names under `requests.`, which the reference lets through."""
    if "/" not in name or name.startswith(("kubernetes.io/", "hugepages-")):
        return False
    return reference or not name.startswith("requests.")


def requests_of(container: Container) -> Mapping[str, int]:
    """Requests, with missing ones taken from the limits (I3)."""
    resources = container.resources
    return {**resources.limits, **resources.requests}


def backing_class(charging: Charging, name: str) -> DeviceClass | None:
    """The class a name charges to (X3); the implicit name of a class is never shadowed (X4, G16)."""
    charging.inputs.add(("extended", name))
    if not charging.reference and name.startswith(IMPLICIT_PREFIX):
        return charging.index.classes.get(name.removeprefix(IMPLICIT_PREFIX))
    return charging.index.class_of_extended(name)


def uses_devices(charging: Charging, workload: Workload) -> bool:
    """Whether the workload needs device charges at all (I4); notes every name that might become backed."""
    found = False
    for pod_set in workload.spec.pod_sets:
        spec = pod_set.template.spec
        found = found or any(c.resource_claim_template_name or c.resource_claim_name for c in spec.resource_claims)
        for container in (*spec.init_containers, *spec.containers):
            asked = container.resources.requests if charging.reference else requests_of(container)
            for name, quantity in sorted(asked.items()):
                if charging.mappings.extended and quantity and is_extended(name, reference=charging.reference):
                    found = backing_class(charging, name) is not None or found
    return found


class _Amount(NamedTuple):
    name: str
    device_class: DeviceClass
    units: int


def charge_extended(charging: Charging) -> list[tuple[tuple[int, int, int], Problem]]:
    """The whole pass: charges are added only when it has no problem; all problems are collected (X12)."""
    problems: list[tuple[tuple[int, int, int], Problem]] = []
    charges: list[tuple[int, str, Priced]] = []
    for number, pod_set in enumerate(charging.workload.spec.pod_sets):
        spec = pod_set.template.spec
        path = f"spec.podSets[{number}].template.spec"
        amounts, faults = _amounts(charging, spec, path)
        problems.extend(((number, -1, position), fault) for position, fault in enumerate(faults))
        for amount in amounts:
            place = Place(number, pod_set.name, -1, amount.name, "")
            try:
                charges.extend((number, amount.name, priced) for priced in _charge(charging, place, spec, path, amount))
            except Unchargeable as refusal:
                problems.extend(((number, -1, len(faults)), problem) for problem in refusal.problems)
    if problems:
        return problems
    for number, name, priced in charges:
        charging.replaced[number].add(name)
        charging.add(number, priced.key, priced.amount)
        charging.requests.append(priced.entry)
    return []


def _amounts(charging: Charging, spec: PodSpec, path: str) -> tuple[list[_Amount], list[Problem]]:
    """Per original name, aggregated over the pod before names become keys (X6)."""
    faults: list[Problem] = []
    backed: dict[str, DeviceClass] = {}
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for position, container in enumerate(containers):
            for name, quantity in sorted(requests_of(container).items()):
                if quantity <= 0 or not is_extended(name, reference=charging.reference):
                    continue
                device_class = backing_class(charging, name)
                if device_class is None:
                    continue
                backed[name] = device_class
                if quantity % NANO or quantity // NANO > LARGEST:
                    place = f"{path}.{kind}[{position}].resources.requests.{name}"
                    detail = f'"{_text(quantity)}": must be an integer'
                    faults.append(Problem(EXTENDED_RESOURCE_NOT_INTEGER, PERMANENT, place, INVALID, detail))
    amounts: list[_Amount] = []
    if faults:
        return amounts, faults
    for name, device_class in sorted(backed.items()):
        units = _of_pod(spec, name, reference=charging.reference)
        if units > LARGEST:
            detail = f'"{name}": total extended resource request overflows'
            faults.append(Problem(EXTENDED_RESOURCE_OVERFLOW, PERMANENT, path, INVALID, detail))
        else:
            amounts.append(_Amount(name, device_class, units))
    return amounts, faults


def backed_amounts(charging: Charging, spec: PodSpec) -> list[tuple[str, DeviceClass, int]]:
    """The extended resources of a pod that devices answer, with their class and number; none where one is faulty."""
    amounts, _ = _amounts(charging, spec, "")
    return [(amount.name, amount.device_class, amount.units) for amount in amounts]


def _text(quantity: int) -> str:
    whole, rest = divmod(quantity, NANO)
    return str(whole) if not rest else f"{quantity // 10**6}m" if quantity % 10**6 == 0 else f"{quantity}n"


def _units(container: Container, name: str) -> int:
    return max(requests_of(container).get(name, 0), 0) // NANO


def _of_pod(spec: PodSpec, name: str, *, reference: bool) -> int:
    """The reference takes sidecars for ordinary init containers (G18); the scheduler's rule is X7."""
    regular = sum(_units(container, name) for container in spec.containers)
    if reference:
        return max(regular, max((_units(container, name) for container in spec.init_containers), default=0))
    sidecars = [container.restart_policy == SIDECAR for container in spec.init_containers]
    initial = [_units(container, name) for container in spec.init_containers]
    later = regular + sum(units for units, sidecar in zip(initial, sidecars, strict=True) if sidecar)
    total, longest = later, 0
    for units, sidecar in zip(initial, sidecars, strict=True):
        if sidecar:
            later -= units
        else:
            longest = max(longest, units - later)
    return total + longest


def _charge(charging: Charging, place: Place, spec: PodSpec, path: str, amount: _Amount) -> list[Priced]:
    class_name = amount.device_class.metadata.name
    if charging.mappings.has_sources(class_name):
        if charging.reference:
            raise Unchargeable(*_with_sources(charging, spec, path, amount))
        return _by_sources(charging, place, amount)
    key = charging.mappings.keys.get(class_name, amount.name)
    entry = RequestCharge(
        pod_set=place.pod_set_name,
        claim=amount.name,
        request="",
        path=EXTENDED,
        device_class=class_name,
        key=key,
        count=amount.units,
        amount=amount.units,
        source=amount.name,
    )
    return [Priced(key, amount.units, entry)]


def _by_sources(charging: Charging, place: Place, amount: _Amount) -> list[Priced]:
    """Priced like a request for the class without selectors of its own (G22)."""
    request = DeviceRequest(device_class_name=amount.device_class.metadata.name, count=amount.units)
    return [
        *counter_charges(charging, place, request, amount.units),
        *capacity_charges(charging, place, request, amount.units),
    ]


def _with_sources(charging: Charging, spec: PodSpec, path: str, amount: _Amount) -> list[Problem]:
    """X10, reported for each container that asks."""
    class_name = amount.device_class.metadata.name
    kind = "counters" if class_name in charging.mappings.counters else "capacity sources"
    detail = (
        f'"{amount.name}": extended resource {amount.name} resolves to DeviceClass {class_name} '
        f"with {kind} configured; use ResourceClaimTemplates"
    )
    return [
        Problem(EXTENDED_RESOURCE_WITH_SOURCES, PERMANENT, f"{path}.{name}[{position}]", INVALID, detail)
        for name, containers in (("initContainers", spec.init_containers), ("containers", spec.containers))
        for position, container in enumerate(containers)
        if _units(container, amount.name)
    ]
