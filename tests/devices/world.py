"""A cluster of fixtures for tests of devices: an index with classes, templates and slices, and short workloads."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ledger.devices.charges import DeviceCharges
from ledger.devices.index import DeviceIndex
from ledger.devices.rejection import DeviceRejection
from ledger.objects.configuration import Configuration
from ledger.objects.decoding import decode_object
from ledger.objects.metadata import ObjectMeta
from ledger.objects.pod import Container, PodResourceClaim, PodSpec, PodTemplate, ResourceRequirements
from ledger.objects.workload import PodSet, Workload, WorkloadSpec
from ledger.quantity import parse_quantity

DATA = Path(__file__).parent / "data"
GATES = {"KueueDRAIntegrationConsumableCapacity": True}

A100 = "resourceslices-a100-dynamic-mig.json"
A100_MIG_ONLY = "resourceslices-a100-dynamic-mig-ampere-migonly.json"
H100 = "resourceslices-h100-whole.json"
H100_MIG = "resourceslices-h100-dynamic-mig.json"
SHARED = "resourceslices-shared-capacity.json"
EXAMPLE = "resourceslices-example-driver.json"
ODD = "resourceslices-odd-pools.json"


@functools.cache
def fixture(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{name}.gz").read_bytes()))


@functools.cache
def objects(name: str) -> tuple[Any, ...]:
    return tuple(decode(item) for item in fixture(name)["items"])


def decode(item: Mapping[str, Any]) -> Any:
    return decode_object(msgspec.json.encode(item))


def configuration(mapping: str | list[Any], *, rules: str = "ledger", **block: Any) -> Configuration:
    mappings = mapping
    if isinstance(mapping, str):
        mappings = fixture("kueue-configurations.json")["configurations"][mapping]
    found = decode(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "resources": {"deviceClassMappings": mappings},
            "featureGates": GATES,
            "ledger": {"rules": rules, **block},
        }
    )
    assert isinstance(found, Configuration)
    return found


def index(*slices: str) -> DeviceIndex:
    """All classes and templates of the fixtures, and the slices of the named files."""
    made = DeviceIndex()
    for name in ("deviceclasses.json", "resourceclaimtemplates.json", *slices):
        for each in objects(name):
            made.apply(None, each)
    return made


def container(requests: Mapping[str, str] = {}, *, limits: Mapping[str, str] = {}, sidecar: bool = False) -> Container:
    return Container(
        resources=ResourceRequirements(
            requests={name: parse_quantity(text) for name, text in requests.items()},  # type: ignore[misc]
            limits={name: parse_quantity(text) for name, text in limits.items()},  # type: ignore[misc]
        ),
        restart_policy="Always" if sidecar else "",
    )


def pod_set(
    *templates: str,
    name: str = "main",
    count: int = 1,
    claims: Iterable[str] = (),
    containers: Iterable[Container] = (),
    init: Iterable[Container] = (),
) -> PodSet:
    entries = [
        *(PodResourceClaim(f"c{i}", resource_claim_template_name=each) for i, each in enumerate(templates)),
        *(PodResourceClaim(f"d{i}", resource_claim_name=each) for i, each in enumerate(claims)),
    ]
    spec = PodSpec(containers=tuple(containers), init_containers=tuple(init), resource_claims=tuple(entries))
    return PodSet(name=name, count=count, template=PodTemplate(spec))


def workload(*pod_sets: PodSet, namespace: str = "team-a", name: str = "w") -> Workload:
    return Workload(metadata=ObjectMeta(name=name, namespace=namespace), spec=WorkloadSpec(pod_sets=pod_sets))


def total(answer: DeviceCharges | DeviceRejection | None, subject: Workload) -> dict[str, int]:
    """The device charge of all pods, saturating."""
    assert isinstance(answer, DeviceCharges), answer
    found: dict[str, int] = {}
    for each in subject.spec.pod_sets:
        for key, amount in answer.pod_set(each.name).added.items():
            found[key] = min(found.get(key, 0) + min(amount * each.count, 2**63 - 1), 2**63 - 1)
    return found


def outcome(answer: DeviceCharges | DeviceRejection | None, subject: Workload) -> dict[str, int] | str | None:
    """What a worked scenario states: the charge, or the code of the rejection."""
    if answer is None:
        return None
    if isinstance(answer, DeviceRejection):
        return answer.code
    return total(answer, subject)
