"""Device charges inside the request computation: exclude, transform, replace, add, floor, multiply (dra 12)."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.devices.charges import DeviceCharges
from ledger.objects.pod import Container
from ledger.requests import total_requests
from tests.devices.world import H100, container, decode, fixture, index, pod_set, workload

REFERENCE = "kueue-0.19"
RULES = [REFERENCE, "ledger"]
GPU = "nvidia.com/gpu"


def totals(rules: str, resources: dict[str, Any], *containers: Container, count: int = 1) -> dict[str, int]:
    mappings = fixture("kueue-configurations.json")["configurations"]["whole"]
    settings = decode(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "resources": {"deviceClassMappings": mappings, **resources},
            "ledger": {"rules": rules},
        }
    )
    subject = workload(pod_set(containers=containers, count=count))
    charges = index(H100).charges(subject, settings)
    assert charges is None or isinstance(charges, DeviceCharges)
    (found,) = total_requests(subject, configuration=settings, devices=charges)
    return {name: amount for name, amount in found.requests.items() if amount}


def transformation(name: str, strategy: str, **outputs: str) -> dict[str, Any]:
    return {"input": name, "strategy": strategy, "outputs": outputs}


@pytest.mark.parametrize("rules", RULES)
def test_e17_an_excluded_prefix_does_not_hide_a_device_charge(rules: str) -> None:
    excluded = {"excludeResourcePrefixes": ["nvidia.com/"]}
    assert totals(rules, excluded, container({GPU: "2"})) == {"gpus": 2}


@pytest.mark.parametrize("rules", RULES)
def test_e18_a_replaced_name_still_produces_its_outputs(rules: str) -> None:
    rule = {"transformations": [transformation(GPU, "Replace", credits="10")]}
    assert totals(rules, rule, container({GPU: "2"})) == {"credits": 20, "gpus": 2}


@pytest.mark.parametrize("rules", RULES)
def test_e19_a_negative_output_cannot_eat_a_device_charge(rules: str) -> None:
    rule = {"transformations": [transformation("cpu", "Retain", gpus="-1")]}
    assert totals(rules, rule, container({"cpu": "3", GPU: "2"})) == {"cpu": 3000, "gpus": 2}


@pytest.mark.parametrize(("rules", "kept"), [(REFERENCE, {}), ("ledger", {GPU: 12})])
def test_g24_outputs_under_a_replaced_name_are_kept(rules: str, kept: dict[str, int]) -> None:
    rule = {"transformations": [transformation("example.com/pack", "Replace")]}
    rule["transformations"][0]["outputs"] = {GPU: "4"}
    found = totals(rules, rule, container({"example.com/pack": "3", GPU: "2"}))
    assert found == {"gpus": 2, **kept}


@pytest.mark.parametrize("rules", RULES)
def test_charges_are_multiplied_by_the_pods(rules: str) -> None:
    assert totals(rules, {}, container({GPU: "2", "cpu": "1"}), count=3) == {"cpu": 3000, "gpus": 6}
