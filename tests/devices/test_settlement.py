"""Real allocations against charges (dra 16, 20.7): R01 to R12."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledger.devices.attribution import EXTENDED_RESOURCES, Owners, slot_name
from ledger.devices.charges import DeviceCharges
from ledger.devices.mappings import Mappings
from ledger.devices.objects import ClaimStatus, ResourceClaim
from ledger.devices.settlement import ActualCost, actual_cost, settle
from ledger.objects.metadata import ObjectMeta, OwnerReference
from ledger.objects.workload import Workload
from tests.devices.world import A100, H100, SHARED, configuration, container, index, objects, pod_set, workload

MI = 2**20


def claim(prefix: str) -> ResourceClaim:
    found = next(each for each in objects("resourceclaims-allocated.json") if each.metadata.name.startswith(prefix))
    assert isinstance(found, ResourceClaim)
    return found


def difference(
    mapping: str, slices: list[str], found: ResourceClaim, *templates: str, rules: str = "ledger", **more: Any
) -> tuple[dict[str, int], dict[str, int], dict[str, int], int]:
    """Charged, allocated, difference and how many slots are settled, for one pod with the claim."""
    settings, known = configuration(mapping, rules=rules), index(*slices)
    subject = named(workload(pod_set(*templates, **more), namespace=found.metadata.namespace), slot_name(found))
    charges = known.charges(subject, settings)
    assert isinstance(charges, DeviceCharges)
    actual = actual_cost(known, Mappings(settings), found)
    settled = settle(charges, {"main": 1}, [actual] if actual is not None else [])
    return settled.charged, settled.allocated, settled.difference, settled.settled


def named(subject: Workload, slot: str | None) -> Workload:
    """The same workload with its first claim entry called like the slot."""
    pods = subject.spec.pod_sets[0]
    if not pods.template.spec.resource_claims or slot is None:
        return subject
    entry = msgspec.structs.replace(pods.template.spec.resource_claims[0], name=slot)
    spec = msgspec.structs.replace(pods.template.spec, resource_claims=(entry,))
    pods = msgspec.structs.replace(pods, template=msgspec.structs.replace(pods.template, spec=spec))
    return msgspec.structs.replace(subject, spec=msgspec.structs.replace(subject.spec, pod_sets=(pods,)))


def test_r01_a_smaller_partition_than_the_largest() -> None:
    key = "gpu.memory"
    assert difference("counter-unified", [A100], claim("mig-any-0"), "mig-any") == (
        {key: 80896 * MI}, {key: 9728 * MI}, {key: -71168 * MI}, 1,
    )  # fmt: skip


def test_r02_a_whole_device_costs_what_was_charged() -> None:
    assert difference("whole", [H100], claim("train-0"), "one-gpu") == ({"gpus": 1}, {"gpus": 1}, {}, 1)


def test_r03_a_device_without_the_counter_leaves_the_estimate() -> None:
    key = "gpu.memory"
    found = difference("counter-unified", [H100, A100], claim("train-0"), "one-gpu")
    assert found == ({key: 80896 * MI}, {key: 80896 * MI}, {}, 0)


def test_r04_the_other_alternative_was_taken() -> None:
    key = "gpu.memory"
    assert difference("counter-unified", [A100], claim("prio-0"), "prioritized") == (
        {key: 80896 * MI}, {key: 80384 * MI}, {key: -512 * MI}, 1,
    )  # fmt: skip


def test_r05_a_share_costs_what_it_consumes() -> None:
    key = "gpu.memory"
    found = difference("capacity-shared", [SHARED], claim("share-0"), "share-4gi")
    assert found == ({key: 4096 * MI}, {key: 4096 * MI}, {}, 1)


def test_r06_an_exclusive_device_given_for_a_share() -> None:
    key = "vgpu.memory"
    found = difference("capacity-vgpu", [SHARED], claim("vgpu-any-0"), "vgpu-any-15gi", rules="kueue-0.19")
    assert found == ({key: 40960 * MI}, {key: 81920 * MI}, {key: 40960 * MI}, 1)


def test_r07_the_claim_for_extended_resources_is_known_by_its_annotation() -> None:
    found = claim("er-0")
    assert slot_name(found) == EXTENDED_RESOURCES
    pods = {"containers": [container({"nvidia.com/gpu": "2"})]}
    assert difference("whole", [H100], found, **pods) == ({"gpus": 2}, {"gpus": 2}, {}, 1)


def test_r08_admin_results_cost_nothing() -> None:
    settings, known = configuration("whole"), index(H100)
    actual = actual_cost(known, Mappings(settings), claim("mon-0"))
    assert actual is not None
    assert actual.amounts == {}


def test_r09_what_is_not_allocated_stays_estimated() -> None:
    assert difference("whole", [H100], claim("pending-0"), "four-gpus") == ({"gpus": 4}, {"gpus": 4}, {}, 0)


def test_r10_r11_the_latest_allocation_counts_and_counts_once() -> None:
    settings, known = configuration("counter-unified"), index(A100)
    mappings = Mappings(settings)
    subject = named(workload(pod_set("mig-any")), "mig")
    charges = known.charges(subject, settings)
    assert isinstance(charges, DeviceCharges)
    first = claim("mig-any-0")
    small = actual_cost(known, mappings, first)
    assert small is not None
    twice = settle(charges, {"main": 1}, [small, small])
    assert twice.difference == {"gpu.memory": -71168 * MI}
    gone = msgspec.structs.replace(first, status=ClaimStatus())
    assert actual_cost(known, mappings, gone) is None
    assert first.status.allocation is not None
    (result,) = first.status.allocation.devices.results
    seven = msgspec.structs.replace(result, device="gpu-0-mig-7g80gb-0-0")
    devices = msgspec.structs.replace(first.status.allocation.devices, results=(seven,))
    allocation = msgspec.structs.replace(first.status.allocation, devices=devices)
    again = msgspec.structs.replace(first, status=msgspec.structs.replace(first.status, allocation=allocation))
    large = actual_cost(known, mappings, again)
    assert large is not None
    assert settle(charges, {"main": 1}, [large]).difference == {}


def owned(name: str, owner: str) -> Workload:
    reference = OwnerReference(api_version="batch/v1", kind="Job", name=owner, uid=f"u-{owner}", controller=True)
    return Workload(metadata=ObjectMeta(name=name, namespace="team-a", owner_references=(reference,)))


def test_r12_a_claim_of_no_workload_is_found_out() -> None:
    owners = Owners()
    owners.apply(None, owned("w", "train"))
    assert owners.workloads_of(claim("shared-by-hand")) == ()


@pytest.mark.parametrize(
    ("pod", "expected"),
    [("train-abcde", "train"), ("train-1-abcde", "train-1"), ("train-2-abcde", "train"), ("other-abcde", None)],
)
def test_the_longest_owner_that_fits_has_made_the_pod(pod: str, expected: str | None) -> None:
    owners = Owners()
    for owner in ("train", "train-1"):
        owners.apply(None, owned(f"job-{owner}", owner))
    reference = OwnerReference(kind="Pod", name=pod)
    found = owners.workloads_of(ResourceClaim(ObjectMeta(name="c", namespace="team-a", owner_references=(reference,))))
    assert found == ((("team-a", f"job-{expected}"),) if expected else ())


def test_owners_are_forgotten_with_their_workloads() -> None:
    owners = Owners()
    subject = owned("w", "train")
    owners.apply(None, subject)
    owners.apply(subject, None)
    reference = OwnerReference(kind="Pod", name="train-abcde")
    assert (
        owners.workloads_of(ResourceClaim(ObjectMeta(name="c", namespace="team-a", owner_references=(reference,))))
        == ()
    )


def test_pods_without_claims_yet_count_as_estimated_and_more_claims_than_pods_count_once() -> None:
    settings, known = configuration("counter-unified"), index(A100)
    charges = known.charges(workload(pod_set("mig-any")), settings)
    assert isinstance(charges, DeviceCharges)
    small = [ActualCost(f"team-a/c{n}", f"u{n}", "c0", {"gpu.memory": 9728 * MI}) for n in range(3)]
    settled = settle(charges, {"main": 2}, small[:1])
    assert (settled.allocated, settled.complete) == ({"gpu.memory": (80896 + 9728) * MI}, False)
    settled = settle(charges, {"main": 2}, small)
    assert (settled.allocated, settled.complete) == ({"gpu.memory": 2 * 9728 * MI}, True)
    assert settled.reduced() == {"gpu.memory": 2 * 9728 * MI}


def test_a_charge_follows_allocations_downwards_only() -> None:
    settings, known = configuration("capacity-vgpu", rules="kueue-0.19"), index(SHARED)
    charges = known.charges(workload(pod_set("vgpu-any-15gi")), settings)
    assert isinstance(charges, DeviceCharges)
    exclusive = ActualCost("team-a/c", "u", "c0", {"vgpu.memory": 81920 * MI})
    assert settle(charges, {"main": 1}, [exclusive]).reduced() == {"vgpu.memory": 40960 * MI}
