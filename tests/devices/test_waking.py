"""Which workloads a change names, and what they cost then (dra 15, 20.6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledger.devices.index import DeviceIndex
from ledger.devices.objects import ResourceSlice, Taint
from ledger.objects.workload import Workload
from tests.devices.world import (
    A100,
    EXAMPLE,
    H100,
    SHARED,
    configuration,
    container,
    decode,
    index,
    objects,
    outcome,
    pod_set,
    workload,
)

REFERENCE = "kueue-0.19"
RULES = [REFERENCE, "ledger"]
KEY = ("team-a", "w")


def ask(known: DeviceIndex, subject: Workload, mapping: str, rules: str = "ledger") -> Any:
    return outcome(known.charges(subject, configuration(mapping, rules=rules)), subject)


def template(name: str) -> Any:
    return next(each for each in objects("resourceclaimtemplates.json") if each.metadata.name == name)


def renamed(known: DeviceIndex, name: str, extended: str | None) -> Any:
    found = known.classes[name]
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, extended_resource_name=extended))


@pytest.mark.parametrize("rules", RULES)
def test_q01_slices_that_arrive_one_by_one_are_priced_when_the_pool_is_complete(rules: str) -> None:
    known, subject = index(), workload(pod_set("mig-1g10gb"))
    seen = [ask(known, subject, "counter-unified", rules)]
    for each in objects(A100):
        assert known.apply(None, each) == (KEY,)
        seen.append(ask(known, subject, "counter-unified", rules))
    assert seen == ["InsufficientDevices"] * 3 + [{"gpu.memory": 9728 * 2**20}]


@pytest.mark.parametrize("rules", RULES)
def test_q02_a_template_that_arrives_wakes_who_waits_for_it(rules: str) -> None:
    known, subject = index(H100), workload(pod_set("late"))
    assert ask(known, subject, "whole", rules) == "TemplateNotFound"
    late = msgspec.structs.replace(
        template("one-gpu"), metadata=msgspec.structs.replace(template("one-gpu").metadata, name="late")
    )
    assert known.apply(None, late) == (KEY,)
    assert ask(known, subject, "whole", rules) == {"gpus": 1}


@pytest.mark.parametrize("rules", RULES)
def test_q03_a_name_that_loses_its_class_is_an_ordinary_resource_again(rules: str) -> None:
    known, subject = index(H100), workload(pod_set(containers=[container({"nvidia.com/gpu": "2"})]))
    assert ask(known, subject, "whole", rules) == {"gpus": 2}
    assert known.apply(known.classes["gpu.nvidia.com"], None) == (KEY,)
    assert ask(known, subject, "whole", rules) is None


@pytest.mark.parametrize("rules", RULES)
def test_q04_q05_a_renamed_class_wakes_the_askers_of_the_old_name_and_of_the_new(rules: str) -> None:
    known = index(EXAMPLE)
    old = workload(pod_set(containers=[container({"example.com/gpu": "1"})]), name="old")
    new = workload(pod_set(containers=[container({"example.com/tpu": "1"})]), name="new")
    assert ask(known, old, "whole", rules) == {"example-gpus": 1}
    assert ask(known, new, "whole", rules) is None
    before = known.classes["gpu.example.com"]
    assert known.apply(before, renamed(known, "gpu.example.com", "example.com/tpu")) == (
        ("team-a", "new"),
        ("team-a", "old"),
    )
    assert ask(known, old, "whole", rules) is None
    assert ask(known, new, "whole", rules) == {"example-gpus": 1}


@pytest.mark.parametrize("rules", RULES)
def test_q06_a_class_that_gains_a_name_wakes_its_askers(rules: str) -> None:
    known, subject = index(A100), workload(pod_set(containers=[container({"nvidia.com/any-mig": "1"})]))
    assert ask(known, subject, "counter-multi", rules) is None
    assert known.apply(None, renamed(known, "mig.nvidia.com", "nvidia.com/any-mig")) == (KEY,)


def test_q07_a_slice_of_another_driver_wakes_nobody() -> None:
    known, subject = index(H100), workload(pod_set("gpu-missing-attr"))
    assert ask(known, subject, "whole") == "SelectorEval"
    for each in objects(EXAMPLE):
        assert known.apply(None, each) == ()
    for each in objects(A100):
        assert known.apply(None, each) == (KEY,)


def test_q08_a_policy_that_a_slice_can_cure_is_tried_again() -> None:
    known, subject = index(SHARED), workload(pod_set("vgpu-step-over"))
    assert ask(known, subject, "capacity-vgpu") == "CapacityUnsatisfiable"
    raw = next(each for each in objects(SHARED) if each.spec.driver == "vgpu.example.com")
    card = next(each for each in raw.spec.devices if each.name == "card-2")
    twenty = decode(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "x"},
            "spec": {
                "driver": "d",
                "pool": {"name": "p", "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "card-2",
                        "capacity": {
                            "memory": {
                                "value": "20Gi",
                                "requestPolicy": {
                                    "default": "2Gi",
                                    "validRange": {"min": "2Gi", "max": "20Gi", "step": "3Gi"},
                                },
                            }
                        },
                    }
                ],
            },
        }
    )
    larger = msgspec.structs.replace(card, capacity=twenty.spec.devices[0].capacity)
    assert known.apply(raw, with_device(raw, larger)) == (KEY,)
    assert ask(known, subject, "capacity-vgpu") == {"vgpu.memory": 17 * 2**30}


def test_q09_a_workload_that_holds_quota_is_left_alone() -> None:
    known, subject = index(A100), workload(pod_set("mig-1g10gb"))
    ask(known, subject, "counter-unified")
    known.forget(KEY)
    for each in objects(A100):
        assert known.apply(each, None) == ()


def test_q10_a_tainted_device_changes_the_price() -> None:
    known, subject = index(A100), workload(pod_set("mig-any"))
    assert ask(known, subject, "counter-unified") == {"gpu.memory": 79 * 2**30}
    for each in objects(A100):
        seven = [device for device in each.spec.devices if "7g80gb" in device.name]
        if seven:
            taint = Taint(key="broken", effect="NoSchedule")
            changed = with_device(each, msgspec.structs.replace(seven[0], taints=(taint,)))
            assert known.apply(each, changed) == (KEY,)
    assert ask(known, subject, "counter-unified") == {"gpu.memory": 40192 * 2**20}


def test_q11_a_workload_that_comes_back_forgets_the_old_key() -> None:
    known, subject = index(H100), workload(pod_set(containers=[container({"nvidia.com/gpu": "2"})]))
    assert ask(known, subject, "whole") == {"gpus": 2}
    known.forget(KEY)
    assert known.apply(known.classes["gpu.nvidia.com"], None) == ()
    assert ask(known, subject, "whole") is None


def test_under_the_reference_every_device_object_wakes_every_rejected_workload() -> None:
    known, subject = index(H100), workload(pod_set("gpu-missing-attr"))
    assert ask(known, subject, "whole", REFERENCE) == "SelectorEval"
    for each in (*objects(EXAMPLE), renamed(known, "vendor-a", "vendor.example/c")):
        assert known.apply(None, each) == (KEY,)


def test_an_object_that_says_the_same_again_wakes_nobody() -> None:
    known, subject = index(H100), workload(pod_set("one-gpu"))
    ask(known, subject, "whole")
    assert known.apply(None, known.classes["gpu.nvidia.com"]) == ()
    assert known.apply(None, template("one-gpu")) == ()


def with_device(slice_: ResourceSlice, device: Any) -> ResourceSlice:
    devices = tuple(device if each.name == device.name else each for each in slice_.spec.devices)
    return msgspec.structs.replace(slice_, spec=msgspec.structs.replace(slice_.spec, devices=devices))
