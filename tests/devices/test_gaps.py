"""One test for each correction of the reference that the worked scenarios do not show by themselves (dra 13)."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.devices.index import DeviceIndex
from ledger.devices.rejection import DeviceRejection
from tests.devices.world import A100, H100, H100_MIG, configuration, decode, index, objects, outcome, pod_set, workload

REFERENCE = "kueue-0.19"
DRIVER = "d.example.com"
CEL = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}


def make(kind: str, name: str, spec: Any, **metadata: Any) -> Any:
    return decode(
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    )


def slice_of(node: str, *devices: Any, generation: int = 1, count: int = 1, name: str = "", **more: Any) -> Any:
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    return make(
        "ResourceSlice",
        name or f"slice-{node}",
        {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices), **more},
    )


def device(name: str, **fields: Any) -> Any:
    return {"name": name, **fields}


def counting(memory: str, set_name: str = "s") -> Any:
    return [{"counterSet": set_name, "counters": {"memory": {"value": memory}}}]


SETS = [{"name": "s", "counters": {"memory": {"value": "80Gi"}}}]


def template(name: str, *requests: Any, **more: Any) -> Any:
    named = [{"name": f"r{number}", **request} for number, request in enumerate(requests)]
    return make("ResourceClaimTemplate", name, {"spec": {"devices": {"requests": named, **more}}}, namespace="team-a")


def exactly(selector: str | None = None, **fields: Any) -> Any:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {"exactly": {"deviceClassName": "c", "selectors": selectors, **fields}}


def world(*things: Any) -> DeviceIndex:
    known = DeviceIndex()
    known.apply(None, make("DeviceClass", "c", {"selectors": [CEL]}))
    for each in things:
        known.apply(None, each)
    return known


def source(kind: str, name: str, fence: str | None = None, driver: str = DRIVER) -> Any:
    selector = {"cel": {"expression": fence}} if fence else CEL
    return {kind: {"name": name, "driver": driver, "deviceSelector": selector}}


WHOLE = [{"name": "devices", "deviceClassNames": ["c"]}]
MEMORY = [{"name": "memory", "deviceClassNames": ["c"], "sources": [source("counter", "memory")]}]
SHARE = [{"name": "share", "deviceClassNames": ["c"], "sources": [source("capacity", "memory")]}]


def both(known: DeviceIndex, mapping: list[Any], of: str = "t") -> tuple[Any, Any]:
    """What the reference and what the ledger answers."""
    subject = workload(pod_set(of))
    return (
        outcome(known.charges(subject, configuration(mapping, rules=REFERENCE)), subject),
        outcome(known.charges(subject, configuration(mapping)), subject),
    )


def test_g05_stale_generations_are_no_devices() -> None:
    known = world(
        slice_of("n", device("old"), generation=1, name="a"),
        slice_of("n", device("new"), generation=2, count=2, name="b"),
        template("t", exactly("device.driver != ''")),
    )
    assert both(known, WHOLE) == ({"devices": 1}, "InsufficientDevices")


def test_g07_a_broad_request_does_not_take_the_only_device_of_a_narrow_one() -> None:
    narrow = f"device.attributes['{DRIVER}'].?narrow.orValue(false)"
    known = world(
        slice_of("n", device("a", attributes={"narrow": {"bool": True}}), device("b")),
        template("t", exactly("device.driver != ''"), exactly(narrow)),
    )
    assert both(known, WHOLE) == ("InsufficientDevices", {"devices": 2})


def test_g08_the_devices_of_a_claim_must_be_on_one_node() -> None:
    known = world(
        slice_of("n", device("a")), slice_of("m", device("b")), template("t", exactly("device.driver != ''", count=2))
    )
    assert both(known, WHOLE) == ({"devices": 2}, "InsufficientDevices")


def test_g09_the_nodes_of_a_flavor_decide_its_price() -> None:
    known, settings = index(A100, H100_MIG), configuration("counter-unified")
    for file, model in ((A100, "a100"), (H100_MIG, "h100")):
        labelled = {"name": objects(file)[0].spec.node_name, "labels": {"model": model}}
        known.apply_node(None, decode({"apiVersion": "v1", "kind": "Node", "metadata": labelled}))
    subject = workload(pod_set("mig-1g10gb"))
    priced = [
        outcome(known.charges(subject, settings, labels), subject)
        for labels in ({"model": "a100"}, {"model": "h100"}, {}, {"model": "none"})
    ]
    assert priced == [
        {"gpu.memory": 9728 * 2**20},
        {"gpu.memory": 9984 * 2**20},
        {"gpu.memory": 9984 * 2**20},
        "InsufficientDevices",
    ]


def test_g10_an_answered_taint_does_not_keep_away() -> None:
    tainted = device("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    answer = [{"key": "k", "operator": "Exists"}]
    known = world(slice_of("n", tainted), template("t", exactly()), template("u", exactly(tolerations=answer)))
    assert both(known, WHOLE) == ({"devices": 1}, "InsufficientDevices")
    assert both(known, WHOLE, "u") == ({"devices": 1}, {"devices": 1})


def test_g12_a_capacity_is_found_with_and_without_its_domain() -> None:
    shared = device("a", allowMultipleAllocations=True, capacity={f"{DRIVER}/memory": {"value": "80Gi"}})
    asked = exactly(capacity={"requests": {"memory": "4Gi"}})
    known = world(slice_of("n", shared), template("t", asked))
    assert both(known, SHARE) == ("CapacityMissing", {"share": 4 * 2**30})


def test_g13_alternatives_cost_the_highest_of_those_that_can_be_had() -> None:
    def option(name: str, selector: str, count: int = 1) -> Any:
        return {"name": name, **exactly(selector, count=count)["exactly"]}

    big, small = f"device.attributes['{DRIVER}'].size == 'big'", f"device.attributes['{DRIVER}'].size == 'small'"
    devices = [
        device("a", attributes={"size": {"string": "big"}}, consumesCounters=counting("40Gi")),
        device("b", attributes={"size": {"string": "small"}}, consumesCounters=counting("10Gi")),
        device("c", attributes={"size": {"string": "small"}}, consumesCounters=counting("10Gi")),
    ]
    known = world(
        slice_of("n", *devices, sharedCounters=SETS),
        template("t", {"firstAvailable": [option("one", big), option("two", small, 2)]}),
        template("u", {"firstAvailable": [option("one", small, 3), option("two", small)]}),
    )
    assert both(known, MEMORY) == ("FirstAvailableUnsupported", {"memory": 40 * 2**30})
    assert both(known, MEMORY, "u") == ("FirstAvailableUnsupported", {"memory": 10 * 2**30})


def test_g14_mode_all_costs_the_most_expensive_node() -> None:
    known = world(
        slice_of("n", device("a", consumesCounters=counting("10Gi")), device("b", consumesCounters=counting("10Gi")),
                 sharedCounters=SETS),
        slice_of("m", device("a", consumesCounters=counting("30Gi")), sharedCounters=SETS),
        template("t", exactly(allocationMode="All")),
    )  # fmt: skip
    assert both(known, MEMORY) == ("AllModeUnsupported", {"memory": 30 * 2**30})
    assert both(known, WHOLE) == ("AllModeUnsupported", {"devices": 2})


def test_g19_an_admin_request_uses_up_nothing() -> None:
    known = world(
        slice_of("n", device("a")),
        template("t", exactly("device.driver != ''", adminAccess=True), exactly("device.driver != ''")),
    )
    assert both(known, WHOLE) == ("InsufficientDevices", {"devices": 1})


def test_g20_one_counter_behind_several_fences_is_priced_once() -> None:
    fences = [source("counter", "memory"), source("counter", "memory", "device.driver.startsWith('d')")]
    mapping = [{"name": "memory", "deviceClassNames": ["c"], "sources": fences}]
    known = world(
        slice_of("n", device("a", consumesCounters=counting("10Gi")), sharedCounters=SETS), template("t", exactly())
    )
    assert both(known, mapping) == ({"memory": 20 * 2**30}, {"memory": 10 * 2**30})


def test_g21_capacity_sources_partition_the_devices() -> None:
    def fenced(model: str) -> Any:
        return source("capacity", "memory", f"device.attributes['{DRIVER}'].model == '{model}'")

    mapping = [{"name": "share", "deviceClassNames": ["c"], "sources": [fenced("x"), fenced("y")]}]
    shared = [
        device(name, allowMultipleAllocations=True, attributes={"model": {"string": name}},
               capacity={"memory": {"value": value}})
        for name, value in (("x", "40Gi"), ("y", "80Gi"))
    ]  # fmt: skip
    only = f"device.attributes['{DRIVER}'].model == 'x'"
    known = world(slice_of("n", *shared), template("t", exactly(only)), template("u", exactly()))
    assert both(known, mapping) == ("InsufficientDevices", {"share": 40 * 2**30})
    assert both(known, mapping, "u") == ({"share": 120 * 2**30}, {"share": 80 * 2**30})


def test_g25_lists_of_values_can_be_read() -> None:
    listed = device("a", attributes={"models": {"strings": ["x", "y"]}})
    known = world(slice_of("n", listed), template("t", exactly(f"device.attributes['{DRIVER}'].models.includes('y')")))
    assert both(known, WHOLE) == ("SelectorEval", {"devices": 1})


def test_g34_fields_of_the_future_are_ignored() -> None:
    newer = device("a", compatibilityGroups=["g"], consumesCounters=[
        {"counterSet": "s", "counters": {"memory": {"value": "10Gi", "valueFrom": "x"}}, "later": 1}
    ])  # fmt: skip
    known = world(slice_of("n", newer, sharedCounters=SETS, future={"a": 1}), template("t", exactly()))
    assert both(known, MEMORY) == ({"memory": 10 * 2**30}, {"memory": 10 * 2**30})


def test_g35_fractions_are_rounded_at_the_end_only() -> None:
    policy = {"default": "1", "validRange": {"min": "500m", "max": "4", "step": "500m"}}
    shared = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "4", "requestPolicy": policy}})
    known = world(slice_of("n", shared), template("t", exactly(capacity={"requests": {"memory": "1100m"}})))
    assert both(known, SHARE) == ({"share": 2}, {"share": 2})
    settings = configuration(SHARE)
    found = known.charges(workload(pod_set("t")), settings)
    assert found is not None
    assert not isinstance(found, DeviceRejection)
    entry = found.requests[0]
    assert (entry.per_device_before, entry.per_device) == ("1100m", 2)


def test_g36_all_problems_are_told_in_the_order_of_the_claims() -> None:
    known = index(H100)
    subject = workload(pod_set("no-such-template", "gpu-bad-cel", name="a"), pod_set("unmapped-class", name="b"))
    found = known.charges(subject, configuration("whole"))
    assert isinstance(found, DeviceRejection)
    assert [problem.code for problem in found.problems] == ["TemplateNotFound", "SelectorCompile", "ClassNotMapped"]
    assert found.message.startswith("[spec.podSets[0].template.spec.resourceClaims[0]: Internal error: ")
    first = known.charges(subject, configuration("whole", rules=REFERENCE))
    assert isinstance(first, DeviceRejection)
    assert [problem.code for problem in first.problems] == ["TemplateNotFound"]


def test_a_count_below_one_is_refused() -> None:
    known = world(slice_of("n", device("a")), template("t", exactly(count=-1)))
    assert both(known, WHOLE)[1] == "CountInvalid"


def test_a_request_without_content_is_refused() -> None:
    assert both(world(template("t", {})), WHOLE) == ("RequestEmpty", "RequestEmpty")


def test_some_devices_that_cannot_be_evaluated_leave_the_others() -> None:
    """A run-time error is not "no match": the reference stops, the ledger says so and goes on (dra 8)."""
    known = world(
        slice_of("n", device("a"), device("b", attributes={"x": {"int": 1}})),
        template("t", exactly(f"device.attributes['{DRIVER}'].x == 1")),
    )
    assert both(known, WHOLE) == ("SelectorEval", {"devices": 1})
    found = known.charges(workload(pod_set("t")), configuration(WHOLE))
    assert found is not None
    assert not isinstance(found, DeviceRejection)
    assert "no such key: x" in found.diagnostics[0]


@pytest.mark.parametrize(
    ("devices", "more"),
    [
        ([device("a"), device("a")], {}),
        ([device("a", consumesCounters=counting("1", "ghost"))], {}),
        ([device("a", consumesCounters=[{"counterSet": "s", "counters": {"other": {"value": "1"}}}])],
         {"sharedCounters": SETS}),
        ([device("a")], {"sharedCounters": [*SETS, *SETS]}),
    ],
)  # fmt: skip
def test_g06_an_invalid_pool_has_no_devices(devices: list[Any], more: Any) -> None:
    known = world(slice_of("n", *devices, **more), template("t", exactly()))
    assert both(known, WHOLE) == ({"devices": 1}, "InsufficientDevices")
    (pool,) = known.drivers[DRIVER].pools.values()
    assert pool.problem is not None


def test_a_pool_whose_slices_promise_different_numbers_is_invalid() -> None:
    known = world(
        slice_of("n", device("a"), name="a", count=2), slice_of("n", device("b"), name="b", count=3),
        template("t", exactly()),
    )  # fmt: skip
    assert both(known, MEMORY)[1] == "InsufficientDevices"
    assert both(known, WHOLE) == ({"devices": 1}, "InsufficientDevices")
