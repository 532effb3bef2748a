"""Quota without devices, through the whole fold (dra 17, 20.8): FZ1 to FZ8, who wakes, what else goes on."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from ledger.objects.workload import SLICE_REPLACEMENT_FOR
from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.devices.device_world import PLENTY, DeviceWorld, job, told
from tests.devices.world import A100, H100, SHARED, fixture
from tests.world import Decision, admitted, flavors, victims

POOL = {"gpu.memory": PLENTY}
GPUS = {"gpus": PLENTY}
PARENT = [{"requests": [], "matchAttribute": "gpu.nvidia.com/parentUUID"}]


def template(name: str, *wanted: tuple[str, int], constraints: Iterable[Object] = PARENT) -> Object:
    """So many of each profile, all of one parent."""
    requests = [
        {
            "name": f"r{number}",
            "exactly": {
                "deviceClassName": "mig.nvidia.com",
                "allocationMode": "ExactCount",
                "count": count,
                "selectors": [{"cel": {"expression": f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"}}],
            },
        }
        for number, (profile, count) in enumerate(wanted)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": build.metadata(name, NAMESPACE),
        "spec": {"spec": {"devices": {"requests": requests, "constraints": list(constraints)}}},
    }


def holding_back(mapping: str = "counter-unified", *slices: str, **more: Any) -> DeviceWorld:
    more.setdefault("quota", POOL)
    return DeviceWorld(mapping, *(slices or (A100,)), feasibility=True, **more)


def verdict(decisions: Iterable[Decision]) -> str:
    """QuotaReserved, or what the message of NoDevices begins with."""
    decisions = list(decisions)
    if admitted(decisions):
        return "QuotaReserved"
    (pending,) = told(decisions, "Pending")
    assert pending["reason"] == "NoDevices"
    return str(pending["message"].partition(":")[0])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param([("1g.10gb", 7), ("3g.40gb", 1)], "impossible", id="FZ1"),
        pytest.param([("4g.40gb", 1), ("3g.40gb", 1)], "QuotaReserved", id="FZ2"),
        pytest.param([("4g.40gb", 1), ("3g.40gb", 1), ("1g.10gb", 1)], "impossible", id="FZ3"),
    ],
)
def test_partitions_of_one_parent(wanted: list[tuple[str, int]], expected: str) -> None:
    world = holding_back()
    world.add(template("asked", *wanted))
    assert verdict(world.ask("w", "asked")) == expected


def test_fz4_a_whole_gpu_and_a_partition_of_the_other() -> None:
    assert verdict(holding_back().ask("w", "one-gpu", "mig-1g10gb")) == "QuotaReserved"


def test_fz5_two_whole_gpus_leave_no_partition() -> None:
    assert verdict(holding_back().ask("w", "one-gpu", "one-gpu", "mig-1g10gb")) == "impossible"


def test_fz6_a_pair_on_one_numa_node() -> None:
    assert verdict(holding_back("whole", H100, quota=GPUS).ask("w", "same-numa-pair")) == "QuotaReserved"


def test_fz7_a_broad_request_leaves_the_one_device_that_suits_the_narrow_one() -> None:
    world = holding_back("whole", H100, quota=GPUS)
    world.ask("six", "four-gpus", "one-gpu", "one-gpu")
    narrow = {"cel": {"expression": "device.attributes['resource.kubernetes.io'].pciBusID == '0000:1b:00.0'"}}
    asked = template("asked", constraints=())
    asked["spec"]["spec"]["devices"]["requests"] = [
        {"name": "broad", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
        {"name": "narrow", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": [narrow]}},
    ]
    world.add(asked)
    assert verdict(world.ask("w", "asked")) == "QuotaReserved"


def test_fz8_two_large_shares_need_two_cards() -> None:
    (key,) = {each["name"] for each in fixture("kueue-configurations.json")["configurations"]["capacity-shared"]}
    world = holding_back("capacity-shared", SHARED, quota={key: PLENTY})
    share = {"requests": {"memory": "50Gi"}}
    wide: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": build.metadata("wide", NAMESPACE),
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": name, "exactly": {"deviceClassName": "shared-gpu.tenant.example", "capacity": share}}
                        for name in ("a", "b")
                    ]
                }
            }
        },
    }
    world.add(wide)
    assert verdict(world.ask("w", "wide")) == "QuotaReserved"


# --- what others hold -------------------------------------------------------------------------------------------


def test_two_of_the_largest_partition_do_not_go_on_one_gpu_and_the_third_waits_for_the_first() -> None:
    world = holding_back()
    world.ask("first", "mig-7g80gb")
    world.ask("second", "mig-7g80gb")
    (pending,) = told(world.ask("third", "mig-7g80gb"), "Pending")
    assert pending["reason"] == "NoDevices"
    assert pending["message"].startswith("impossible-now: ")
    assert pending["inTheWay"] == ["team/first", "team/second"]
    assert world.parked() == {"q": ["third"]}
    assert admitted(world.finish("first")) == ["third"]


def test_without_the_switch_quota_alone_decides() -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL)
    for name in ("first", "second", "third"):
        assert admitted(world.ask(name, "mig-7g80gb")) == [name]


def test_quota_refuses_first() -> None:
    world = holding_back(quota={"gpu.memory": "79Gi"})
    world.ask("first", "mig-7g80gb")
    world.ask("second", "mig-7g80gb")
    assert world.reasons() == {"second": "WaitingForQuota"}


def test_what_cannot_have_devices_takes_nothing_and_the_next_is_served() -> None:
    world = holding_back()
    world.ask("whole", "one-gpu", count=2)
    decisions = world.submit(job("large", "mig-7g80gb", priority=9), job("none", priority=1))
    assert admitted(decisions) == ["none"]
    assert world.reasons() == {"large": "NoDevices"}


@pytest.mark.parametrize("cohort", ["all", None])
@pytest.mark.parametrize("strategies", [None, [build.FINAL_SHARE]])
def test_of_two_that_come_together_one_gets_the_last_devices(cohort: str | None, strategies: list[str] | None) -> None:
    """Nominated in one cycle, or in trees that otherwise know nothing of each other."""
    fair: dict[str, Any] = {"fairSharing": {"preemptionStrategies": strategies}} if strategies else {}
    world = holding_back("counter-unified", A100, **fair)
    for name in ("a", "b"):
        world.queue(name, POOL, cohort=cohort)
    world.ask("whole", "one-gpu")
    decisions = world.submit(job("first", "mig-7g80gb", queue="a"), job("second", "mig-7g80gb", queue="b"))
    assert (admitted(decisions), world.reasons()) == (["first"], {"second": "NoDevices"})


def test_a_strict_queue_stands_behind_its_head() -> None:
    world = holding_back()
    world.queue("s", POOL, strict=True)
    world.ask("whole", "one-gpu", count=2)
    world.ask("head", "mig-7g80gb", queue="s")
    assert admitted(world.ask("next", queue="s")) == []
    assert world.reasons() == {"head": "NoDevices", "next": None}
    assert admitted(world.finish("whole")) == ["head", "next"]


# --- who wakes --------------------------------------------------------------------------------------------------


def test_quota_that_goes_back_in_another_tree_wakes() -> None:
    world = holding_back()
    world.queue("other", POOL)
    world.ask("whole", "one-gpu", count=2, queue="other")
    assert verdict(world.ask("part", "mig-1g10gb")) == "impossible-now"
    assert admitted(world.finish("whole")) == ["part"]


def test_a_claim_that_somebody_made_by_hand_is_in_the_way_until_it_goes() -> None:
    world = holding_back()
    for number in range(2):
        world.allocate(f"by-hand-{number}", f"gpu-{number}", device_class="gpu.nvidia.com")
    (pending,) = told(world.ask("part", "mig-1g10gb"), "Pending")
    assert pending["inTheWay"] == ["claim team/by-hand-0-c0", "claim team/by-hand-1-c0"]
    assert admitted(world.free("by-hand-1")) == ["part"]


def test_an_allocated_claim_counts_where_it_is_and_not_twice() -> None:
    world = holding_back()
    world.ask("whole", "one-gpu")
    world.allocate("whole-x", "gpu-1", device_class="gpu.nvidia.com")
    assert admitted(world.ask("second", "one-gpu")) == ["second"]
    assert verdict(world.ask("third", "one-gpu")) == "impossible-now"


def test_a_workload_whose_pods_are_gone_is_out_of_the_way_once_its_claims_are() -> None:
    world = holding_back()
    world.ask("whole", "one-gpu", count=2)
    world.allocate("whole-x", "gpu-0", device_class="gpu.nvidia.com")
    world.allocate("whole-y", "gpu-1", device_class="gpu.nvidia.com")
    world.ask("part", "mig-1g10gb")
    assert admitted(world.finish("whole")) == []
    assert world.reasons() == {"part": "NoDevices"}
    assert admitted(world.free("whole-x")) == ["part"]


def test_pods_that_are_reclaimable_leave_their_devices() -> None:
    world = holding_back()
    world.ask("whole", "one-gpu", count=2)
    world.ask("part", "mig-1g10gb")
    held = copy.deepcopy(world.workload("whole"))
    held["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    assert admitted(world.change(held)) == ["part"]


def test_devices_that_are_published_wake() -> None:
    world = holding_back("whole", H100, quota=GPUS)
    for number in range(2):
        world.ask(f"four-{number}", "four-gpus")
    assert verdict(world.ask("one", "one-gpu")) == "impossible-now"
    more = copy.deepcopy(fixture(H100)["items"][0])
    more["metadata"].update(name="another", uid="another")
    more["spec"]["pool"]["name"] = more["spec"]["nodeName"] = "gpu-h100-02"
    assert admitted(world.add(more)) == ["one"]


def test_what_leaves_devices_as_they_were_wakes_nobody() -> None:
    world = holding_back()
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": build.metadata("gpu-a100-01", uid="node", labels={"gpu": "a100"}),
    }
    world.add(node)
    world.ask("whole", "one-gpu", count=2)
    world.ask("part", "mig-1g10gb")
    cycles = cycle_of(world)
    world.change(copy.deepcopy(node) | {"status": {"allocatable": {"cpu": "4"}}})
    world.allocate("whole-x")
    world.allocate("whole-x", "gpu-0", device_class="gpu.nvidia.com")
    assert cycle_of(world) == cycles
    labelled = copy.deepcopy(node)
    labelled["metadata"]["labels"]["zone"] = "b"
    world.change(labelled)
    assert cycle_of(world) > cycles


def cycle_of(world: DeviceWorld) -> int:
    """How many cycles the queue's tree went through."""
    return int(world.ledger.state.forest.queues["q"].tree.cycle)


def test_a_class_that_selects_other_devices_wakes() -> None:
    world = holding_back("whole", H100, quota=GPUS)
    device_class = copy.deepcopy(world.objects["DeviceClass", "", "gpu.nvidia.com"])
    narrow = copy.deepcopy(device_class)
    attribute = "device.attributes['gpu.nvidia.com']"
    narrow["spec"]["selectors"].append({"cel": {"expression": f"{attribute}.uuid.endsWith('none')"}})
    world.add(template("t"))
    world.ask("eight", "four-gpus", "four-gpus")
    world.change(narrow)
    waiting = world.ask("one", "one-gpu")
    assert admitted(waiting) == []
    world.finish("eight")
    assert admitted(world.decisions[-20:]) == ["eight"]
    assert admitted(world.change(copy.deepcopy(device_class))) == ["one"]


# --- preemption and flavors -------------------------------------------------------------------------------------


def preempting(quota: str) -> DeviceWorld:
    world = holding_back(quota={"gpu.memory": "1"})
    world.queue("v", {"gpu.memory": quota}, within="LowerPriority")
    return world


def test_who_is_preempted_leaves_its_devices_too() -> None:
    world = preempting("160Gi")
    world.ask("low", "one-gpu", count=2, queue="v")
    world.allocate("low-x", "gpu-0", device_class="gpu.nvidia.com")
    world.allocate("low-y", "gpu-1", device_class="gpu.nvidia.com")
    assert victims(world.ask("high", "mig-7g80gb", queue="v", priority=5)) == {"low": "ICQ"}
    assert admitted(world.release("low")) == []
    assert admitted([*world.free("low-x"), *world.free("low-y")]) == ["high"]


def test_nobody_is_preempted_for_devices_that_are_not_there_afterwards() -> None:
    world = preempting("160Gi")
    world.ask("low", "one-gpu", count=2, queue="v")
    for number in range(2):
        world.allocate(f"by-hand-{number}", f"gpu-{number}", device_class="gpu.nvidia.com")
    decisions = world.ask("high", "mig-7g80gb", queue="v", priority=5)
    assert (victims(decisions), verdict(decisions)) == ({}, "impossible-now")


def two_flavors() -> DeviceWorld:
    """A flavor of A100 nodes before a flavor of H100 nodes, with a free choice of either by the class."""
    world = holding_back("whole", A100, H100, quota={"gpus": "0"})
    for node, name in (("gpu-a100-01", "a100"), ("gpu-h100-01", "h100")):
        world.add(
            {"apiVersion": "v1", "kind": "Node", "metadata": build.metadata(node, uid=node, labels={"gpu": name})},
            build.flavor(name, {"gpu": name}),
        )
    return world


def test_the_next_flavor_is_tried_where_the_first_has_quota_and_no_devices() -> None:
    world = two_flavors()
    world.queue("two", {"gpus": "100"}, flavors=("a100", "h100"))
    assert flavors(world.ask("a", "one-gpu", "one-gpu", queue="two")) == {"a": {"main": {"gpus": "a100"}}}
    assert flavors(world.ask("b", "one-gpu", queue="two")) == {"b": {"main": {"gpus": "h100"}}}


def test_it_waits_for_devices_even_if_the_last_flavor_lacks_quota() -> None:
    world = two_flavors()
    world.add(
        build.cluster_queue("two", build.group(a100=[build.quota("gpus", 100)], h100=[build.quota("gpus", 1)])),
        build.local_queue("two"),
    )
    world.ask("a", "one-gpu", "one-gpu", queue="two")
    world.ask("b", "one-gpu", queue="two")
    assert verdict(world.ask("c", "one-gpu", queue="two")) == "impossible-now"
    assert flavors(world.finish("a")) == {"c": {"main": {"gpus": "a100"}}}


def test_a_job_that_grows_needs_devices_for_its_growth_only() -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL, feasibility=True, elastic=True)
    world.ask("one", "one-gpu")
    assert admitted(world.submit(grown(job("two", "one-gpu", count=2), "one"))) == ["two"]
    assert verdict(world.submit(grown(job("three", "one-gpu", count=3), "two"))) == "impossible-now"
    assert world.usage() == {"q": {"f/gpu.memory": 2 * 80896 * 2**20}}


def grown(target: Object, smaller: str) -> Object:
    target["metadata"]["annotations"] = {SLICE_REPLACEMENT_FOR: f"{NAMESPACE}/{smaller}"}
    return target


@pytest.mark.parametrize("strict", [False, True])
def test_it_waits_where_no_flavor_has_devices(strict: bool) -> None:
    world = two_flavors()
    world.queue("two", {"gpus": "100"}, flavors=("a100", "h100"), strict=strict)
    for name in ("a", "b"):
        world.ask(name, *["one-gpu"] * 2, queue="two")
    world.ask("c", *["one-gpu"] * 6, queue="two")
    assert verdict(world.ask("d", *["one-gpu"] * 6, queue="two")) == "impossible-now"
    assert world.tick(world.now + 1) == []
    assert flavors(world.finish("c")) == {"d": {"main": {"gpus": "h100"}}}
