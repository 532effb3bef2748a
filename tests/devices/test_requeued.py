"""Objects that wake who waits, through the whole fold (dra 15, 20.6): Q01 to Q11."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests import builders as build
from tests.builders import Object
from tests.devices.device_world import PLENTY, DeviceWorld, copies, job, templates, told
from tests.devices.world import A100, EXAMPLE, H100, SHARED, fixture
from tests.world import admitted, amounts

RULES = ["kueue-0.19", "ledger"]
MI = 2**20


def template(name: str) -> Object:
    return next(each for each in templates() if each["metadata"]["name"] == name)


def device_class(world: DeviceWorld, name: str) -> Object:
    return copy.deepcopy(world.objects["DeviceClass", "", name])


def renamed(world: DeviceWorld, name: str, extended: str | None) -> Object:
    found = device_class(world, name)
    found["spec"].pop("extendedResourceName", None)
    if extended is not None:
        found["spec"]["extendedResourceName"] = extended
    return found


def asking(name: str, **requests: Any) -> Object:
    pods = build.pod_set("main", requests={key.replace("__", "/").replace("_", "."): n for key, n in requests.items()})
    return build.workload(name, "q", pods)


@pytest.mark.parametrize("rules", RULES)
def test_q01_it_is_priced_when_the_last_slice_of_the_pool_is_there(rules: str) -> None:
    world = DeviceWorld("counter-unified", quota={"gpu.memory": PLENTY}, rules=rules)
    (inadmissible,) = world.ask("w", "mig-1g10gb")
    assert (inadmissible["type"], inadmissible["reason"]) == ("Inadmissible", "InsufficientDevices")
    first, second, third = copies(A100)
    assert admitted(world.add(first, second)) == []
    assert amounts(world.add(third)) == {"w": {"main": {"gpu.memory": "9728Mi"}}}


@pytest.mark.parametrize("rules", RULES)
def test_q02_a_template_that_is_made_late(rules: str) -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"}, rules=rules)
    (inadmissible,) = world.ask("w", "late")
    assert (inadmissible["type"], inadmissible["reason"]) == ("Inadmissible", "TemplateNotFound")
    late = template("one-gpu")
    late["metadata"].update(name="late", uid="late")
    assert amounts(world.add(late)) == {"w": {"main": {"gpus": "1"}}}


@pytest.mark.parametrize("rules", RULES)
def test_q03_a_name_that_loses_its_class_is_not_covered_and_the_message_names_it(rules: str) -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "1"}, rules=rules)
    world.ask("holder", "one-gpu")
    world.submit(asking("w", nvidia_com__gpu=1))
    assert world.reasons() == {"w": "WaitingForQuota"}
    decisions = world.send("DELETED", device_class(world, "gpu.nvidia.com"))
    (pending,) = told(decisions, "Pending")
    assert pending["reason"] == "NoMatchingFlavor"
    assert "nvidia.com/gpu" in str(pending)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("asked", "before", "after"),
    [
        pytest.param("example_com__tpu", {"example.com/tpu": "1"}, {"example-gpus": "1"}, id="Q04"),
        pytest.param("example_com__gpu", {"example-gpus": "1"}, {"example.com/gpu": "1"}, id="Q05"),
    ],
)
def test_a_class_that_changes_its_name(rules: str, asked: str, before: Any, after: Any) -> None:
    names = ("example.com/tpu", "example.com/gpu", "example-gpus")
    world = DeviceWorld("whole", EXAMPLE, quota=dict.fromkeys(names, "1"), rules=rules)
    assert amounts(world.submit(asking("holder", **{asked: 1}))) == {"holder": {"main": before}}
    world.submit(asking("w", **{asked: 1}))
    assert world.reasons() == {"w": "WaitingForQuota"}
    assert amounts(world.change(renamed(world, "gpu.example.com", "example.com/tpu"))) == {"w": {"main": after}}


@pytest.mark.parametrize("rules", RULES)
def test_q06_a_class_that_gains_a_name(rules: str) -> None:
    world = DeviceWorld("whole", EXAMPLE, quota={"example-gpus": "1"}, rules=rules)
    world.change(renamed(world, "gpu.example.com", None))
    world.submit(asking("w", example_com__gpu=1))
    assert world.reasons() == {"w": "NoMatchingFlavor"}
    assert admitted(world.change(renamed(world, "gpu.example.com", "example.com/gpu"))) == ["w"]


def test_q07_slices_of_another_driver_are_none_of_its_business() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8"})
    (inadmissible,) = world.ask("w", "gpu-missing-attr")
    assert (inadmissible["type"], inadmissible["reason"]) == ("Inadmissible", "SelectorEval")
    assert world.publish(EXAMPLE) == []


@pytest.mark.parametrize("rules", RULES)
def test_q08_a_card_that_is_published_with_another_policy(rules: str) -> None:
    (key,) = {each["name"] for each in fixture("kueue-configurations.json")["configurations"]["capacity-vgpu"]}
    world = DeviceWorld("capacity-vgpu", SHARED, quota={key: PLENTY}, rules=rules)
    (inadmissible,) = world.ask("w", "vgpu-step-over")
    assert (inadmissible["type"], inadmissible["reason"]) == ("Inadmissible", "CapacityUnsatisfiable")
    slices = copies(SHARED)
    (cards,) = [each for each in slices if each["spec"]["driver"] == "vgpu.example.com"]
    (card,) = [each for each in cards["spec"]["devices"] if each["name"] == "card-2"]
    card["capacity"]["memory"]["value"] = "20Gi"
    card["capacity"]["memory"]["requestPolicy"]["validRange"]["max"] = "20Gi"
    assert amounts(world.change(cards)) == {"w": {"main": {key: "17Gi"}}}


@pytest.mark.parametrize("rules", RULES)
def test_q09_who_holds_quota_keeps_its_price(rules: str) -> None:
    world = DeviceWorld("counter-unified", A100, quota={"gpu.memory": PLENTY}, rules=rules)
    world.ask("w", "mig-1g10gb")
    for each in copies(A100):
        assert world.send("DELETED", each) == []
    assert world.usage() == {"q": {"f/gpu.memory": 9728 * MI}}


def test_q10_a_tainted_device_makes_it_cheaper() -> None:
    world = DeviceWorld("counter-unified", A100, quota={"gpu.memory": "40192Mi"})
    world.ask("w", "mig-any")
    assert world.reasons() == {"w": "ExceedsMaxQuota"}
    slices = copies(A100)
    for each in slices:
        for device in each["spec"].get("devices", ()):
            if device.get("attributes", {}).get("profile", {}).get("string") in ("7g.80gb",):
                device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    assert amounts(world.change(*slices)) == {"w": {"main": {"gpu.memory": "40192Mi"}}}


@pytest.mark.parametrize("rules", RULES)
def test_q11_who_is_evicted_is_priced_as_things_stand_then(rules: str) -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "8", "nvidia.com/gpu": "8"}, rules=rules)
    assert amounts(world.submit(asking("w", nvidia_com__gpu=1))) == {"w": {"main": {"gpus": "1"}}}
    world.send("DELETED", device_class(world, "gpu.nvidia.com"))
    world.evict("w", "Preempted")
    assert amounts(world.release("w")) == {"w": {"main": {"nvidia.com/gpu": "1"}}}


def test_a_workload_that_waits_for_its_template_does_not_stand_in_the_way() -> None:
    world = DeviceWorld("whole", H100, quota={"gpus": "1"})
    world.ask("w", "late")
    assert admitted(world.submit(job("next", "one-gpu"))) == ["next"]
