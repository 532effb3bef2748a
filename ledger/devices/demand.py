"""What one pod needs of devices, in the form the search for places works with (dra 17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ledger.cel import CompileError, compile_expression
from ledger.devices.context import Charging, texts
from ledger.devices.extended import backed_amounts
from ledger.devices.index import DeviceIndex
from ledger.devices.mappings import Mappings
from ledger.devices.objects import ALL_DEVICES, Constraint, DeviceRequest
from ledger.objects.taint import Toleration
from ledger.objects.workload import PodSet, Workload


class Wanted(NamedTuple):
    """Devices of one class for one request; `number` None means every one of the node (mode All)."""

    label: str
    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    drivers: frozenset[str] | None
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, int], ...]
    number: int | None


class Choice(NamedTuple):
    """One request: the first alternative that can be had is taken. Admin requests are left out: they use up nothing."""

    name: str
    alternatives: tuple[tuple[str, Wanted], ...]


class ClaimDemand(NamedTuple):
    choices: tuple[Choice, ...]
    constraints: tuple[Constraint, ...]


class PodDemand(NamedTuple):
    """All claims of one pod, which must be met on one node; `nodes` restricts which."""

    claims: tuple[ClaimDemand, ...]
    nodes: frozenset[str] | None

    @property
    def devices(self) -> int:
        """How many devices the pod needs at least."""
        return sum(
            min(1 if wanted.number is None else wanted.number for _, wanted in choice.alternatives)
            for claim in self.claims
            for choice in claim.choices
        )


class Holder(NamedTuple):
    """Pods of a workload that need devices; `pods` says how many of each pod set still do."""

    workload: Workload
    pods: Mapping[str, int]
    nodes: Mapping[str, frozenset[str]] = {}

    @property
    def name(self) -> str:
        return f"{self.workload.metadata.namespace}/{self.workload.metadata.name}"


class Unknown(Exception):
    """Something the demand needs is not known, so nothing can be said about where it fits."""


def pod_demands(index: DeviceIndex, mappings: Mappings, holder: Holder) -> list[tuple[PodDemand, int]]:
    """The demand of a pod of each pod set with how many pods; pod sets without devices are left out."""
    found: list[tuple[PodDemand, int]] = []
    charging = Charging(index, mappings, holder.workload)
    for pod_set in holder.workload.spec.pod_sets:
        pods = holder.pods.get(pod_set.name, 0)
        if pods <= 0:
            continue
        claims = _claims(charging, pod_set)
        if claims:
            found.append((PodDemand(claims, holder.nodes.get(pod_set.name)), pods))
    return found


def _claims(charging: Charging, pod_set: PodSet) -> tuple[ClaimDemand, ...]:
    found: list[ClaimDemand] = []
    for entry in pod_set.template.spec.resource_claims:
        if not entry.resource_claim_template_name:
            continue
        template = charging.index.templates.get((charging.namespace, entry.resource_claim_template_name))
        if template is None:
            raise Unknown(f"template {entry.resource_claim_template_name}")
        devices = template.spec.spec.devices
        choices = [
            Choice(
                request.name,
                tuple((option.name, _wanted(charging.index, option, request.name)) for option in alternatives),
            )
            for request in devices.requests
            for alternatives in ((request.exactly,) if request.exactly is not None else request.first_available,)
            if not (request.exactly is not None and request.exactly.admin_access)
        ]
        found.append(ClaimDemand(tuple(choices), devices.constraints))
    found.extend(_extended(charging, pod_set))
    return tuple(claim for claim in found if claim.choices)


def _extended(charging: Charging, pod_set: PodSet) -> list[ClaimDemand]:
    """The claim the scheduler makes for extended resources; none where a device plugin may serve them (X16)."""
    if not charging.mappings.extended:
        return []
    choices: list[Choice] = []
    for name, device_class, units in backed_amounts(charging, pod_set.template.spec):
        if not units or any(name in served for served in charging.index.plugins.values()):
            continue
        request = DeviceRequest(device_class_name=device_class.metadata.name, count=units)
        choices.append(Choice(name, (("", _wanted(charging.index, request, name)),)))
    return [ClaimDemand(tuple(choices), ())] if choices else []


def _wanted(index: DeviceIndex, request: DeviceRequest, label: str) -> Wanted:
    device_class = index.classes.get(request.device_class_name)
    if device_class is None:
        raise Unknown(f"class {request.device_class_name}")
    class_selectors, own = texts(device_class.spec.selectors), texts(request.selectors)
    drivers: frozenset[str] | None = None
    for text in class_selectors + own:
        try:
            only = compile_expression(text).reads.drivers
        except CompileError as error:
            raise Unknown(f"selector {text}") from error
        if only is not None:
            drivers = only if drivers is None else drivers & only
    capacity = tuple(sorted((name, int(asked)) for name, asked in request.capacity_requests.items()))
    count = None if request.mode == ALL_DEVICES else request.count
    return Wanted(label, class_selectors, own, drivers, request.tolerations, capacity, count)
