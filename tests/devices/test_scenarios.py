"""The worked scenarios of charging, under their numbers, in both rule sets (dra 20.1 to 20.4).

`scenarios.json` states what the reference answers, and for a few rows what the ledger answers. `LEDGER` holds the rows
where the rule set `ledger` differs from the reference, with the gap that explains it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledger.devices.charges import DeviceCharges
from ledger.devices.rejection import DeviceRejection
from ledger.objects.workload import Workload
from tests.devices.world import (
    A100,
    EXAMPLE,
    H100,
    SHARED,
    configuration,
    container,
    fixture,
    index,
    outcome,
    pod_set,
    workload,
)

REFERENCE = "kueue-0.19"
SCENARIOS: list[dict[str, Any]] = fixture("scenarios.json")["scenarios"]
DEVICE_KEYS = frozenset(
    {"gpus", "example-gpus", "vendor-gpus", "accel-new", "gpu.memory", "gpu.sms", "a100.memory", "odd.memory"}
    | {"vgpu.memory", "nvidia.com/mig-1g.10gb"}
)

LEDGER: dict[str, dict[str, int] | str] = {
    "W09": "InsufficientDevices",  # no device of the class exists (dra 8)
    "W19": {"gpus": 8},  # mode All: the worst node (G14)
    "W20": "ClassNotMapped",  # firstAvailable is charged, but one alternative is not mapped (G13)
    "P20": {"odd.memory": 10 * 2**30},  # invalid pools and tainted devices do not count (G6, G10)
    "P21": "InsufficientDevices",  # the same
    "C05": "CapacityUnsatisfiable",  # more asked than the device has (G4)
    "C06": {"vgpu.memory": 80 * 2**30},  # an exclusive device is priced whole (G11)
    "C09": {"vgpu.memory": 40 * 2**30},  # sharing is visible to selectors (G1)
    "C10": {"gpu.memory": 4 * 2**30},  # the same
    "E09": {"gpu.memory": 79 * 2**30},  # priced by what the class selects (G22)
}


def built(scenario: dict[str, Any]) -> Workload:
    pod_sets = [
        pod_set(
            *each.get("templates", ()),
            name=each["name"],
            count=each["count"],
            claims=each.get("claims", ()),
            containers=[container(requests) for requests in each.get("containers", ())],
            init=[container(requests) for requests in each.get("init", ())],
        )
        for each in scenario["podSets"]
    ]
    return workload(*pod_sets, namespace=scenario["podSets"][0].get("ns", "team-a"))


def stated(scenario: dict[str, Any]) -> dict[str, int] | str:
    expected = scenario["expect"]
    if "reject" in expected:
        return str(expected["reject"]["code"])
    return {key: int(amount) for key, amount in expected["charge"].items() if key in DEVICE_KEYS}


def answer(scenario: dict[str, Any], rules: str) -> dict[str, int] | str:
    subject = built(scenario)
    found = index(*scenario["resourceSlices"]).charges(subject, configuration(scenario["configuration"], rules=rules))
    return outcome(found, subject) or {}


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in SCENARIOS if s.get("mode") != "ledger"])
def test_the_reference_rules_answer_as_kueue(scenario: dict[str, Any]) -> None:
    assert answer(scenario, REFERENCE) == stated(scenario)


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in SCENARIOS])
def test_the_ledger_rules_answer_as_the_gap_list_says(scenario: dict[str, Any]) -> None:
    expected = LEDGER.get(scenario["id"], stated(scenario)) if scenario.get("mode") != "ledger" else stated(scenario)
    assert answer(scenario, "ledger") == expected


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in SCENARIOS if "reject" in s["expect"]])
def test_a_rejection_says_whether_the_reference_would_try_again(scenario: dict[str, Any]) -> None:
    rules = "ledger" if scenario.get("mode") == "ledger" else REFERENCE
    found = index(*scenario["resourceSlices"]).charges(
        built(scenario), configuration(scenario["configuration"], rules=rules)
    )
    assert isinstance(found, DeviceRejection)
    assert found.verdict == scenario["expect"]["reject"]["class"]


# --- rows in prose ---------------------------------------------------------------------------------------------

GPU = "nvidia.com/gpu"
PROSE: list[tuple[str, Workload, dict[str, int] | str | None, dict[str, int] | str | None]] = [
    (
        "E12 only limits name the extended resource (G17)",
        workload(pod_set(containers=[container(limits={GPU: "1"})])),
        None,
        {"gpus": 1},
    ),
    (
        "E13 a sidecar and a regular container (G18)",
        workload(pod_set(init=[container({GPU: "1"}, sidecar=True)], containers=[container({GPU: "1"})])),
        {"gpus": 1},
        {"gpus": 2},
    ),
    (
        "E14 an ordinary init container before the sidecar",
        workload(
            pod_set(
                init=[container({GPU: "3"}), container({GPU: "1"}, sidecar=True)], containers=[container({GPU: "1"})]
            )
        ),
        {"gpus": 3},
        {"gpus": 3},
    ),
    (
        "E15 an ordinary init container after the sidecar",
        workload(
            pod_set(
                init=[container({GPU: "1"}, sidecar=True), container({GPU: "3"})], containers=[container({GPU: "1"})]
            )
        ),
        {"gpus": 3},
        {"gpus": 4},
    ),
    (
        "E16 the implicit name of a class (G16)",
        workload(pod_set(containers=[container({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"})])),
        None,
        {"gpus": 1},
    ),
    (
        "W21 a claim by name",
        workload(pod_set("no-such-template", claims=["shared-by-hand"])),
        "DirectResourceClaim",
        "DirectResourceClaim",
    ),
    (
        "W22 containers do not matter to a claim",
        workload(pod_set("one-gpu", init=[container({"cpu": "1"})], containers=[container({"cpu": "1"})] * 2)),
        {"gpus": 1},
        {"gpus": 1},
    ),
]


@pytest.mark.parametrize(("subject", "reference", "ledger"), [pytest.param(*row[1:], id=row[0]) for row in PROSE])
def test_rows_in_prose(subject: Workload, reference: Any, ledger: Any) -> None:
    known = index(H100)
    assert outcome(known.charges(subject, configuration("whole", rules=REFERENCE)), subject) == reference
    assert outcome(known.charges(subject, configuration("whole")), subject) == ledger


def test_the_original_name_is_replaced_so_that_nothing_counts_twice() -> None:
    subject = workload(pod_set("one-gpu", containers=[container({GPU: "3", "other.io/thing": "2"})]))
    found = index(H100).charges(subject, configuration("whole"))
    assert outcome(found, subject) == {"gpus": 4}
    assert found is not None
    assert not isinstance(found, DeviceRejection)
    assert found.pod_set("main").replaced == {GPU}


def test_e20_without_the_mapped_class_the_name_itself_is_the_key() -> None:
    known = index(EXAMPLE)
    subject = workload(pod_set(containers=[container({"example.com/accel": "1"})]))
    assert outcome(known.charges(subject, configuration("whole")), subject) == {"accel-new": 1}
    known.apply(known.classes["accel-b.example.com"], None)
    assert outcome(known.charges(subject, configuration("whole")), subject) == {"example.com/accel": 1}


@pytest.mark.parametrize("rules", [REFERENCE, "ledger"])
def test_with_the_integration_off_claims_are_refused_or_free(rules: str) -> None:
    subject = workload(pod_set("one-gpu"))
    settings = configuration("whole", rules=rules)
    off = {**settings.feature_gates, "KueueDRAIntegration": False}
    free = {**off, "KueueDRARejectWorkloadsWhenDRADisabled": False}
    assert outcome(index(H100).charges(subject, replaced(settings, off)), subject) == "DraDisabled"
    assert index(H100).charges(subject, replaced(settings, free)) is None


@pytest.mark.parametrize("rules", [REFERENCE, "ledger"])
def test_with_the_gate_off_an_extended_resource_is_ordinary(rules: str) -> None:
    settings = configuration("whole", rules=rules)
    off = {"KueueDRAIntegrationExtendedResource": False}
    subject = workload(pod_set(containers=[container({GPU: "2"})]))
    assert index(H100).charges(subject, replaced(settings, off)) is None


def replaced(settings: Any, gates: dict[str, bool]) -> Any:
    return msgspec.structs.replace(settings, feature_gates=gates)


def test_the_example_of_one_memory_pool() -> None:
    """A whole A100-80GB costs 79Gi and a 1g.10gb partition 9728Mi, from one pool."""
    known, settings = index(A100), configuration("counter-unified")
    whole, small = workload(pod_set("one-gpu")), workload(pod_set("mig-1g10gb"))
    assert outcome(known.charges(whole, settings), whole) == {"gpu.memory": 79 * 2**30}
    assert outcome(known.charges(small, settings), small) == {"gpu.memory": 9728 * 2**20}
    assert 160 * 2**30 // (79 * 2**30) == 2
    assert 160 * 2**30 // (9728 * 2**20) == 16


def test_a_charge_explains_itself() -> None:
    subject = workload(pod_set("mig-1g-or-3g"))
    found = index(A100).charges(subject, configuration("counter-unified"))
    assert found is not None
    assert not isinstance(found, DeviceRejection)
    (entry,) = found.requests
    assert (entry.path, entry.device_class, entry.key, entry.driver, entry.source) == (
        "counter",
        "mig.nvidia.com",
        "gpu.memory",
        "gpu.nvidia.com",
        "memory",
    )
    assert (entry.devices_matched, entry.deciding_device) == (18, "gpu.nvidia.com/gpu-a100-01/gpu-0-mig-3g40gb-9-0")
    size = 40192 * 2**20
    assert (entry.per_device_before, entry.per_device, entry.amount) == ("40192Mi", size, size)


def test_a_share_shows_what_was_asked_and_what_it_became() -> None:
    subject = workload(pod_set("vgpu-15gi"))
    found = index(SHARED).charges(subject, configuration("capacity-vgpu"))
    assert isinstance(found, DeviceCharges)
    (entry,) = found.requests
    assert (entry.deciding_device, entry.per_device_before, entry.per_device) == (
        "vgpu.example.com/gpu-shared-03/card-1",
        "15Gi",
        40 * 2**30,
    )


def test_counted_devices_say_how_many_there_are() -> None:
    found = index(H100).charges(workload(pod_set("four-gpus")), configuration("whole"))
    assert isinstance(found, DeviceCharges)
    (entry,) = found.requests
    assert (entry.path, entry.count, entry.devices_matched, entry.amount) == ("whole", 4, 8, 4)
