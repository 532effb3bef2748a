"""Allocated claims against charges, through the whole fold (dra 16, 20.7): R01 to R12, drift, charges that follow."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.devices.device_world import PLENTY, DeviceWorld, claim, job, owned, told
from tests.devices.world import A100, H100, SHARED, fixture
from tests.world import Decision, admitted

MI = 2**20
MEMORY = {"gpu.memory": "160Gi"}
SMALL, LARGE = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-7g80gb-0-0"
RULES = ["kueue-0.19", "ledger"]


def figures(decision: Decision) -> tuple[dict[str, str], dict[str, str], dict[str, str], str]:
    """Charged, allocated, difference, and how many of the claims are settled."""
    of = f"{decision['settled']} of {decision['slots']}"
    return decision["charged"], decision["allocated"], decision.get("difference", {}), of


def fixture_claim(prefix: str) -> Object:
    items = fixture("resourceclaims-allocated.json")["items"]
    found: Object = copy.deepcopy(next(each for each in items if each["metadata"]["name"].startswith(prefix)))
    found["metadata"]["namespace"] = NAMESPACE
    return found


def charged_for(world: DeviceWorld, prefix: str, *names: str, **pod: Any) -> tuple[Object, list[Decision]]:
    """A workload whose only entry is called like the fixture's claim, and what the claim's allocation brings."""
    found = fixture_claim(prefix)
    slot = found["metadata"]["annotations"].get("resource.kubernetes.io/pod-claim-name")
    entries = [{"name": slot, "resourceClaimTemplateName": name} for name in names]
    (by,) = found["metadata"]["ownerReferences"]
    pods = build.pod_set("main", requests=pod.get("requests"), resourceClaims=entries)
    assert admitted(world.submit(owned(build.workload("w", "q", pods), by["name"]))) == ["w"]
    return found, world.add(copy.deepcopy(found))


def test_r01_a_smaller_partition_than_the_largest() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    _, decisions = charged_for(world, "mig-any-0", "mig-any")
    (settled,) = told(decisions, "Settled")
    assert figures(settled) == (
        {"gpu.memory": "79Gi"},
        {"gpu.memory": "9728Mi"},
        {"gpu.memory": "-71168Mi"},
        "1 of 1",
    )
    assert settled["devices"] == [f"gpu.nvidia.com/gpu-a100-01/{SMALL}"]
    assert (settled["workload"]["name"], settled["clusterQueue"]) == ("w", "q")
    row = world.row("q", "gpu.memory")
    assert (row.reserved, row.used, row.drift) == ("79Gi", "79Gi", "-71168Mi")


def test_r02_a_whole_device_costs_what_was_charged() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"})
    _, decisions = charged_for(world, "train-0", "one-gpu")
    assert [figures(each) for each in decisions] == [({"gpus": "1"}, {"gpus": "1"}, {}, "1 of 1")]
    assert world.row("q", "gpus").drift == "0"


def test_r03_a_device_without_the_counter_stays_at_its_charge_and_is_reported() -> None:
    world = DeviceWorld("counter-unified", H100, A100, quota=MEMORY)
    _, decisions = charged_for(world, "train-0", "one-gpu")
    (settled,) = told(decisions, "Settled")
    assert figures(settled) == ({"gpu.memory": "79Gi"}, {"gpu.memory": "79Gi"}, {}, "0 of 1")
    assert settled["unresolved"] == ["gpu.nvidia.com/gpu-h100-01/gpu-3"]


def test_r04_another_alternative_than_the_dearest() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    _, decisions = charged_for(world, "prio-0", "prioritized")
    (settled,) = told(decisions, "Settled")
    assert figures(settled) == (
        {"gpu.memory": "79Gi"},
        {"gpu.memory": "80384Mi"},
        {"gpu.memory": "-512Mi"},
        "1 of 1",
    )


def test_r05_a_share_of_a_device_costs_what_it_consumes() -> None:
    (key,) = {each["name"] for each in fixture("kueue-configurations.json")["configurations"]["capacity-shared"]}
    world = DeviceWorld("capacity-shared", SHARED, quota={key: PLENTY})
    _, decisions = charged_for(world, "share-0", "share-4gi")
    (settled,) = told(decisions, "Settled")
    assert figures(settled) == ({key: "4Gi"}, {key: "4Gi"}, {}, "1 of 1")


@pytest.mark.parametrize("settle", [False, True])
def test_r06_more_than_was_charged_is_reported_and_never_charged(settle: bool) -> None:
    (key,) = {each["name"] for each in fixture("kueue-configurations.json")["configurations"]["capacity-vgpu"]}
    world = DeviceWorld("capacity-vgpu", SHARED, quota={key: PLENTY}, rules="kueue-0.19", settle=settle)
    _, decisions = charged_for(world, "vgpu-any-0", "vgpu-any-15gi")
    assert [each["type"] for each in decisions] == ["Settled"]
    assert figures(decisions[0]) == ({key: "40Gi"}, {key: "80Gi"}, {key: "40Gi"}, "1 of 1")
    row = world.row("q", key)
    assert (row.reserved, row.drift) == ("40Gi", "40Gi")


def test_r07_the_claim_made_for_extended_resources() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"})
    _, decisions = charged_for(world, "er-0", requests={"nvidia.com/gpu": "2"})
    assert [figures(each) for each in decisions] == [({"gpus": "2"}, {"gpus": "2"}, {}, "1 of 1")]


def test_r08_devices_watched_by_an_administrator_cost_nothing() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"})
    world.ask("train", "one-gpu")
    before = world.usage()
    found = fixture_claim("mon-0")
    found["metadata"]["ownerReferences"][0]["name"] = "train-0"
    found["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] = "c0"
    (settled,) = world.add(found)
    assert (settled["allocated"], settled.get("devices", [])) == ({"gpus": "0"}, [])
    assert world.usage() == before


def test_r09_a_claim_without_devices_says_nothing() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"})
    _, decisions = charged_for(world, "pending-0", "four-gpus")
    assert decisions == []
    assert world.usage() == {"q": {"f/gpus": 4}}


def test_r10_an_allocation_seen_twice_is_settled_once() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    found, decisions = charged_for(world, "mig-any-0", "mig-any")
    assert len(told(decisions, "Settled")) == 1
    assert world.change(found) == []


def test_r11_a_claim_that_is_allocated_again_is_settled_again() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    world.ask("any", "mig-any")
    seen = [
        *world.allocate("any-x", SMALL),
        *world.free("any-x"),
        *world.allocate("any-x", LARGE),
    ]
    assert [(each.get("difference", {}), each["settled"]) for each in seen] == [
        ({"gpu.memory": "-71168Mi"}, 1),
        ({}, 0),
        ({}, 1),
    ]


def test_r12_devices_that_nobody_accounts_for_settle_nothing() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"})
    world.ask("train", "one-gpu")
    assert world.allocate("by-hand", "gpu-0", device_class="gpu.nvidia.com", pool="gpu-h100-01") == []
    assert world.usage() == {"q": {"f/gpus": 1}}


# --- when, and in what order ------------------------------------------------------------------------------------


def test_each_allocation_of_several_pods_is_a_record_of_its_own() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    world.ask("two", "mig-any", count=2)
    first = world.allocate("two-a", SMALL)
    second = world.allocate("two-b", "gpu-0-mig-2g20gb-14-2")
    assert [figures(each) for each in first + second] == [
        ({"gpu.memory": "158Gi"}, {"gpu.memory": f"{80896 + 9728}Mi"}, {"gpu.memory": "-71168Mi"}, "1 of 2"),
        ({"gpu.memory": "158Gi"}, {"gpu.memory": "29Gi"}, {"gpu.memory": "-129Gi"}, "2 of 2"),
    ]


def fact(name: str, *, usage: str, at: float = 1) -> Object:
    held = build.assignment("main", {"gpu.memory": "f"}, {"gpu.memory": usage})
    return build.holding(job(name, "mig-any"), "q", [held], at=at)


def test_a_workload_that_was_admitted_elsewhere_is_settled_too() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    world.add(fact("any", usage="79Gi"))
    assert [figures(each)[2] for each in world.allocate("any-x", SMALL)] == [{"gpu.memory": "-71168Mi"}]


@pytest.mark.parametrize("waited", [False, True])
def test_a_fact_is_charged_what_it_records_whatever_its_devices_cost_by_now(waited: bool) -> None:
    world = DeviceWorld("counter-unified", A100, quota={"gpu.memory": "79Gi"}, settle=True)
    if waited:
        world.ask("holder", "one-gpu")
        world.ask("any", "mig-any")
    world.send("MODIFIED" if waited else "ADDED", fact("any", usage="40192Mi"))
    settled, released, *_ = world.allocate("any-x", SMALL)
    assert figures(settled)[:3] == (
        {"gpu.memory": "40192Mi"},
        {"gpu.memory": "9728Mi"},
        {"gpu.memory": "-30464Mi"},
    )
    assert released["usage"] == {"f": {"gpu.memory": "30464Mi"}}
    assert world.usage() == {"q": {"f/gpu.memory": (9728 + 80896 * waited) * MI}}


def test_a_claim_may_be_seen_before_its_workload() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    assert world.allocate("any-x", SMALL) == []
    (settled,) = told(world.add(fact("any", usage="79Gi")), "Settled")
    assert figures(settled)[2] == {"gpu.memory": "-71168Mi"}


def test_in_a_list_everything_is_settled_at_its_end_whatever_comes_first() -> None:
    world = DeviceWorld("counter-unified", quota=MEMORY)
    world.apply(build.event("SYNC_BEGIN", cluster=world.cluster) | {"kinds": []})
    assert world.allocate("any-x", SMALL) == []
    (recorded,) = world.add(fact("any", usage="79Gi"))
    assert recorded["usage"] == {"f": {"gpu.memory": "79Gi"}}
    assert world.publish(A100) == []
    (settled,) = world.apply(build.event("SYNC_END", cluster=world.cluster) | {"kinds": []})
    assert figures(settled)[2] == {"gpu.memory": "-71168Mi"}


def test_devices_that_are_published_late_are_settled_then() -> None:
    world = DeviceWorld("counter-unified", quota=MEMORY)
    world.add(fact("any", usage="79Gi"))
    assert world.allocate("any-x", SMALL) == []
    (settled,) = told(world.publish(A100), "Settled")
    assert figures(settled)[2] == {"gpu.memory": "-71168Mi"}


def test_slices_that_change_later_do_not_rewrite_what_was_allocated() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    world.ask("any", "mig-any")
    world.allocate("any-x", SMALL)
    gone = world.send("DELETED", *(each for key, each in sorted(world.objects.items()) if key[0] == "ResourceSlice"))
    assert told(gone, "Settled") == []
    assert world.row("q", "gpu.memory").drift == "-71168Mi"


def test_without_the_switch_the_charge_stays() -> None:
    world = DeviceWorld("counter-unified", A100, quota={"gpu.memory": "79Gi"})
    world.ask("any", "mig-any")
    world.ask("part", "mig-1g10gb")
    assert admitted(world.allocate("any-x", SMALL)) == []
    assert world.usage() == {"q": {"f/gpu.memory": 80896 * MI}}


# --- settle: true -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", RULES)
def test_the_charge_follows_the_allocation_and_what_is_freed_is_given_out(rules: str) -> None:
    world = DeviceWorld("counter-unified", A100, quota={"gpu.memory": "79Gi"}, rules=rules, settle=True)
    world.ask("any", "mig-any")
    world.ask("part", "mig-1g10gb")
    decisions = world.allocate("any-x", SMALL)
    assert [each["type"] for each in decisions] == ["Settled", "Released", "QuotaReserved", "Admitted"]
    assert decisions[1]["reason"] == "Settled"
    assert decisions[1]["usage"] == {"f": {"gpu.memory": "71168Mi"}}
    assert world.usage() == {"q": {"f/gpu.memory": 2 * 9728 * MI}}
    row = world.row("q", "gpu.memory")
    assert (row.reserved, row.used, row.drift) == ("19Gi", "19Gi", "0")


def test_a_claim_that_goes_does_not_bring_the_charge_back_but_a_larger_allocation_does() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY, settle=True)
    world.ask("any", "mig-any")
    world.allocate("any-x", SMALL)
    world.free("any-x")
    assert world.usage() == {"q": {"f/gpu.memory": 9728 * MI}}
    assert told(world.allocate("any-y", LARGE), "Released") == []
    assert world.usage() == {"q": {"f/gpu.memory": 80896 * MI}}


def test_pods_that_end_take_their_part_with_them() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY, settle=True)
    world.ask("two", "mig-any", count=2)
    world.allocate("two-a", SMALL)
    world.allocate("two-b", "gpu-0-mig-2g20gb-14-2")
    assert world.usage() == {"q": {"f/gpu.memory": (9728 + 19968) * MI}}
    world.free("two-a")
    assert world.usage() == {"q": {"f/gpu.memory": (9728 + 19968) * MI}}
    held = world.workload("two")
    held["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    decisions = world.change(held)
    assert [(each["reason"], each["usage"]) for each in told(decisions, "Released")] == [
        ("ReclaimablePods", {"f": {"gpu.memory": "9728Mi"}})
    ]
    assert world.usage() == {"q": {"f/gpu.memory": 19968 * MI}}


def test_quota_that_goes_back_takes_the_drift_with_it() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY, settle=True)
    world.ask("any", "mig-any")
    world.allocate("any-x", SMALL)
    (released,) = told(world.finish("any"), "Released")
    assert released["usage"] == {"f": {"gpu.memory": "9728Mi"}}
    assert world.usage() == {}
    assert world.row("q", "gpu.memory").drift == "0"


def test_the_switch_may_be_thrown_while_workloads_run() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    world.ask("any", "mig-any")
    world.allocate("any-x", SMALL)
    assert [each["type"] for each in world.switch(settle=True)] == ["Released"]
    assert world.usage() == {"q": {"f/gpu.memory": 9728 * MI}}
    assert world.switch(settle=False) == []
    assert world.usage() == {"q": {"f/gpu.memory": 80896 * MI}}


def test_an_unattributed_claim_leaves_no_trace() -> None:
    world = DeviceWorld("counter-unified", A100, quota=MEMORY)
    world.add(claim("alone", "c0", [SMALL]))
    world.free("alone")
    world.ask("alone", "mig-any")
    assert told(world.decisions, "Settled") == []
