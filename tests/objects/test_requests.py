"""Total requests, usage, validity and shape of workloads (admission 2, 4.5.5; scenarios T1 to T13 and T19)."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.amounts import MAXIMUM, UNLIMITED
from ledger.devices.charges import DeviceCharges, PodSetCharges
from ledger.objects import Configuration, LimitRange, RuntimeClass, Workload
from ledger.objects.configuration import LedgerConfiguration
from ledger.requests import (
    PodSetRequests,
    PodSetUsage,
    Problem,
    admissibility_problems,
    fnv1a_order,
    scaled_to,
    scheduling_shape,
    total_requests,
    usage_of_admission,
)
from tests.objects.samples import (
    Object,
    configuration,
    container,
    decode,
    decoded_workload,
    limit_range,
    pod_set,
    recorded,
    sidecar,
    workload,
)

DEFAULT = Configuration()


def totals(*sets: Object, settings: Configuration = DEFAULT, limits: list[Object] | None = None) -> list[Object]:
    found = total_requests(
        decoded_workload(*sets),
        limit_ranges=[decode(item) for item in limits or []],
        runtime_classes={},
        configuration=settings,
        devices=None,
    )
    return [pod_set.requests for pod_set in found]


def per_pod(requests: Object, settings: Configuration, count: int = 1) -> Object:
    return totals(pod_set(container(requests), count=count), settings=settings)[0]


def transforming(*rules: Object, **resources: Any) -> Configuration:
    return configuration(resources={"transformations": list(rules), **resources})


# --- the fixture -----------------------------------------------------------------------------------------------

COMPANIONS = [decode(item) for item in recorded("companions.json")["items"]]
WORKLOADS = {f"{w['metadata']['namespace']}/{w['metadata']['name']}": w for w in recorded("workloads.json")["items"]}
CASES = recorded("workloads.expected.json")["cases"]

DEVICES = {
    "09-dra-claim-template": {"main": {"lab.example/h200": 2}},
    "10-dra-two-classes-mixed-podsets": {"rank": {"lab.example/h200": 4, "lab.example/nic": 1}},
    "12-extended-resource-dra-backed": {"main": {"lab.example/tpu": 8}},
}
"""What the device classes of these cases cost a pod."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_requests_of_the_fixture(case: Object) -> None:
    item = dict(WORKLOADS[case["workload"]])
    # The oracle gives the totals of all pods, also of the one workload that has reclaimable ones.
    item["status"] = {name: value for name, value in item.get("status", {}).items() if name != "reclaimablePods"}
    decoded = decode(item)
    charges = DEVICES.get(case["case"])
    found = total_requests(
        decoded,
        limit_ranges=[
            c for c in COMPANIONS if isinstance(c, LimitRange) and c.metadata.namespace == decoded.metadata.namespace
        ],
        runtime_classes={c.metadata.name: c for c in COMPANIONS if isinstance(c, RuntimeClass)},
        configuration=DEFAULT,
        devices=charges
        and DeviceCharges(
            tuple(
                PodSetCharges(sets.name, frozenset(charges.get(sets.name, {})), charges.get(sets.name, {}))
                for sets in decoded.spec.pod_sets
            )
        ),
    )
    expected = tuple(PodSetRequests(part["name"], part["count"], part["total"]) for part in case["podSets"])
    assert found == expected
    assert all(list(part.requests) == sorted(part.requests) for part in found)


def test_the_fixture_with_reclaimable_pods_uses_four_of_six() -> None:
    item = decode(WORKLOADS["team-vision/job-carryover-79510"])
    [held] = usage_of_admission(item)
    assert held == PodSetUsage("main", 4, {"cpu": 8000, "memory": 17179869184}, {"cpu": "cpu-std", "memory": "cpu-std"})


# --- scenarios -------------------------------------------------------------------------------------------------


def test_T1_init_containers_and_a_sidecar_in_between() -> None:
    inits = [container({"cpu": "900m"}), sidecar({"cpu": "100m"}), container({"cpu": "700m"})]
    containers = [container({"cpu": "200m"}), container({"cpu": "300m"})]
    assert totals(pod_set(*containers, initContainers=inits, overhead={"cpu": "50m"}, count=4)) == [{"cpu": 3800}]


def test_T2_a_sidecar_declared_first_runs_beside_every_init_container() -> None:
    inits = [sidecar({"cpu": "100m"}), container({"cpu": "900m"}), container({"cpu": "700m"})]
    containers = [container({"cpu": "200m"}), container({"cpu": "300m"})]
    assert totals(pod_set(*containers, initContainers=inits, overhead={"cpu": "50m"}, count=4)) == [{"cpu": 4200}]


def test_T3_pod_level_requests_replace_cpu_and_memory_only() -> None:
    containers = [container({"cpu": "1500m", "memory": "1Gi"}), container({"cpu": "1", "memory": "2Gi"})]
    pod_level = {"requests": {"cpu": "2", "nvidia.com/gpu": "4"}}
    found = totals(pod_set(*containers, resources=pod_level, overhead={"cpu": "250m"}))
    assert found == [{"cpu": 2250, "memory": 3221225472}]


def test_T4_a_default_request_beats_an_explicit_limit() -> None:
    limits = [limit_range({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}})]
    assert totals(pod_set(container(limits={"cpu": "2"})), limits=limits) == [{"cpu": 500}]


def test_T5_without_a_default_request_the_limit_is_requested() -> None:
    limits = [limit_range({"type": "Container", "default": {"cpu": "1"}})]
    assert totals(pod_set(container(limits={"cpu": "2"})), limits=limits) == [{"cpu": 2000}]


def test_T6_a_default_limit_is_requested_where_nothing_is_said() -> None:
    limits = [limit_range({"type": "Container", "default": {"memory": "64Mi"}})]
    assert totals(pod_set(container()), limits=limits) == [{"memory": 67108864}]


def test_T7_each_pod_rounds_up_before_pods_are_counted() -> None:
    assert totals(pod_set(container({"cpu": "100u"}), count=1000)) == [{"cpu": 1000}]


def test_T8_a_replaced_input_vanishes_and_its_output_rounds_up_per_pod() -> None:
    rules = transforming({"input": "vgpu", "strategy": "Replace", "outputs": {"credits": "0.4"}})
    assert per_pod({"vgpu": "1"}, rules, count=3) == {"credits": 3}


ALLOWANCE = transforming(
    {"input": "slices", "strategy": "Replace", "outputs": {"over": "1"}},
    {"input": "gpu", "strategy": "Retain", "outputs": {"over": "-6"}},
)


def test_T9_an_allowance_lowers_an_output_to_zero_at_most() -> None:
    assert per_pod({"gpu": "2", "slices": "10"}, ALLOWANCE) == {"gpu": 2, "over": 0}


def test_T10_an_allowance_does_not_touch_a_direct_request() -> None:
    assert per_pod({"gpu": "2", "slices": "10", "over": "5"}, ALLOWANCE) == {"gpu": 2, "over": 5}


MULTIPLIED: Object = {"input": "mem", "strategy": "Retain", "multiplyBy": "gpu", "outputs": {"q": "5"}}


def test_T11_an_output_may_be_multiplied_by_another_request() -> None:
    assert per_pod({"mem": "3", "gpu": "2"}, transforming(MULTIPLIED)) == {"gpu": 2, "mem": 3, "q": 30}


def test_T12_an_excluded_resource_multiplies_nothing() -> None:
    assert per_pod({"mem": "3", "gpu": "2"}, transforming(MULTIPLIED, excludeResourcePrefixes=["gpu"])) == {
        "mem": 3,
        "q": 15,
    }


@pytest.mark.parametrize(("reclaimable", "count", "cpu"), [(3, 6, 12000), (7, 3, 6000), (12, 0, 0)])
def test_T13_reclaimable_pods_lower_the_usage_once_fewer_are_left_than_admitted(
    reclaimable: int, count: int, cpu: int
) -> None:
    status = {
        "admission": {
            "clusterQueue": "a",
            "podSetAssignments": [
                {"name": "main", "count": 6, "flavors": {"cpu": "f1"}, "resourceUsage": {"cpu": "12"}}
            ],
        },
        "reclaimablePods": [{"name": "main", "count": reclaimable}],
    }
    item = decoded_workload(pod_set(container({"cpu": "2"}), count=10), status=status)
    assert usage_of_admission(item) == (PodSetUsage("main", count, {"cpu": cpu}, {"cpu": "f1"}),)
    assert usage_of_admission(item, reclaimable_pods=False)[0].requests == {"cpu": 12000}


def test_T14_a_total_beyond_64_bits_is_unlimited() -> None:
    [found] = totals(pod_set(container({"memory": "5Ei"}), count=2))
    assert found == {"memory": MAXIMUM}
    assert found["memory"] is UNLIMITED


def test_T19_a_request_above_its_limit_is_a_problem() -> None:
    item = decoded_workload(pod_set(container({"cpu": "2"}, {"cpu": "1"})))
    assert admissibility_problems(item) == [
        Problem(
            "spec.podSets[0].template.spec.containers[0]",
            "resources validation failed: requests[cpu] must not exceed its limits",
            "limits",
        )
    ]


# --- details ---------------------------------------------------------------------------------------------------


def test_the_first_limit_range_by_name_gives_the_default() -> None:
    limits = [
        limit_range({"type": "Container", "defaultRequest": {"cpu": "2"}}, name="z"),
        limit_range({"type": "Container", "defaultRequest": {"cpu": "1"}}, name="a"),
    ]
    assert totals(pod_set(container()), limits=limits) == [{"cpu": 1000}]


def test_pod_defaults_fill_only_a_pod_level_block_that_is_there() -> None:
    limits = [limit_range({"type": "Pod", "defaultRequest": {"cpu": "3"}})]
    assert totals(pod_set(container({"cpu": "1"})), limits=limits) == [{"cpu": 1000}]
    assert totals(pod_set(container({"cpu": "1"}), resources={}), limits=limits) == [{"cpu": 3000}]
    assert totals(pod_set(container({"cpu": "1"}), resources={"limits": {"cpu": "2"}})) == [{"cpu": 2000}]


def test_pod_level_hugepages_replace_and_may_be_smaller() -> None:
    pod_level = {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}}
    found = totals(pod_set(container({"cpu": "4", "hugepages-2Mi": "8Mi"}), resources=pod_level))
    assert found == [{"cpu": 1000, "hugepages-2Mi": 2097152}]


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"runtimeClassName": "kata"}, 1250),
        ({"runtimeClassName": "kata", "overhead": {}}, 1250),
        ({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}, 2000),
        ({"runtimeClassName": "missing"}, 1000),
        ({}, 1000),
    ],
)
def test_a_runtime_class_gives_its_overhead_where_the_pod_has_none(spec: Object, cpu: int) -> None:
    kata = decode(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "overhead": {"podFixed": {"cpu": "250m"}},
        }
    )
    item = decoded_workload(pod_set(container({"cpu": "1"}), **spec))
    [found] = total_requests(item, runtime_classes={"kata": kata}, configuration=DEFAULT)
    assert found.requests == {"cpu": cpu}


def test_several_inputs_feed_one_output_and_outputs_are_not_transformed_again() -> None:
    rules = transforming(
        {"input": "a", "strategy": "Replace", "outputs": {"c": "1", "b": "2"}},
        {"input": "b", "strategy": "Replace", "outputs": {"c": "10"}},
    )
    assert per_pod({"a": "1", "b": "1"}, rules) == {"b": 2, "c": 11}


def test_replace_without_outputs_drops_the_input() -> None:
    assert per_pod({"a": "1", "b": "1"}, transforming({"input": "a", "strategy": "Replace"})) == {"b": 1}


def test_transformations_do_not_round_on_the_way() -> None:
    rules = transforming(
        {"input": "a", "strategy": "Replace", "multiplyBy": "m", "outputs": {"c": "1n"}},
        {"input": "b", "strategy": "Replace", "multiplyBy": "m", "outputs": {"c": "1n"}},
    )
    # 2 x (0.5 x 10^9 x 10^-9) is exactly 1.
    assert per_pod({"a": "500m", "b": "500m", "m": "1G"}, rules) == {"c": 1, "m": 10**9}
    # A product of three nano-units is not nothing.
    assert per_pod({"a": "1n", "b": "0", "m": "1n"}, rules) == {"c": 1, "m": 1}


def test_devices_replace_and_add_after_transformation_and_before_counting() -> None:
    item = decoded_workload(pod_set(container({"cpu": "1", "gpu": "2", "mem": "1"}), count=3))
    charges = DeviceCharges((PodSetCharges("main", frozenset({"gpu", "q"}), {"mem": 4, "gpus": 2, "gift": -5}),))
    rules = transforming({"input": "gpu", "strategy": "Retain", "outputs": {"q": "1"}})
    [found] = total_requests(item, configuration=rules, devices=charges)
    assert found.requests == {"cpu": 3000, "gift": 0, "gpus": 6, "mem": 15, "q": 6}
    reference = msgspec.structs.replace(rules, ledger=LedgerConfiguration(rules="kueue-0.19"))
    [found] = total_requests(item, configuration=reference, devices=charges)
    assert found.requests == {"cpu": 3000, "gift": 0, "gpus": 6, "mem": 15}


def test_reclaimable_pods_are_not_counted_unless_the_gate_is_off() -> None:
    status = {"reclaimablePods": [{"name": "main", "count": 3}, {"name": "other", "count": 9}]}
    item = decoded_workload(pod_set(container({"cpu": "1"}), count=4), status=status)
    assert total_requests(item, configuration=DEFAULT) == (PodSetRequests("main", 1, {"cpu": 1000}),)
    gate_off = configuration(featureGates={"ReclaimablePods": False})
    assert total_requests(item, configuration=gate_off) == (PodSetRequests("main", 4, {"cpu": 4000}),)


def test_an_admission_without_a_count_is_for_all_pods() -> None:
    status = {
        "admission": {"clusterQueue": "a", "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "8"}}]}
    }
    item = decoded_workload(pod_set(container({"cpu": "2"}), count=4), status=status)
    assert usage_of_admission(item) == (PodSetUsage("main", 4, {"cpu": 8000}, {}),)
    assert usage_of_admission(decoded_workload()) == ()


def test_scaling_divides_before_it_multiplies() -> None:
    part = PodSetRequests("main", 3, {"cpu": 1000})
    assert scaled_to(part, 2) == PodSetRequests("main", 2, {"cpu": 666})
    assert scaled_to(part, 3) is part
    empty = PodSetRequests("main", 0, {"cpu": 0})
    assert scaled_to(empty, 5) is empty


# --- validity --------------------------------------------------------------------------------------------------


def problems(item: Workload, *limits: Object) -> list[tuple[str, str]]:
    found = admissibility_problems(item, limit_ranges=[decode(one) for one in limits])
    return [(problem.path.removeprefix("spec.podSets[0].template.spec"), problem.kind) for problem in found]


def test_limits_are_compared_as_integers_after_defaults() -> None:
    tiny = pod_set(container({"memory": "100001m"}, {"memory": "100500m"}))
    assert problems(decoded_workload(tiny)) == []
    limits = limit_range({"type": "Container", "default": {"cpu": "1"}})
    above = pod_set(container({"cpu": "2"}), initContainers=[container({"cpu": "3"})])
    assert problems(decoded_workload(above), limits) == [(".initContainers[0]", "limits"), (".containers[0]", "limits")]
    pod_level = pod_set(container(), resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
    assert problems(decoded_workload(pod_level)) == [("", "limits")]


def test_containers_must_stay_between_the_bounds_of_a_limit_range() -> None:
    bounds = limit_range({"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "1", "gpu": "1"}})
    for requests, limits, kinds in (
        ({"cpu": "4"}, None, []),
        ({"cpu": "2"}, {"cpu": "5"}, [(".containers[0]", "limitRange")]),
        ({"cpu": "500m"}, {"cpu": "2"}, [(".containers[0]", "limitRange")]),
        ({"memory": "1"}, None, []),
    ):
        assert problems(decoded_workload(pod_set(container(requests, limits))), bounds) == kinds


def test_the_strictest_of_several_bounds_holds() -> None:
    bounds = [
        limit_range({"type": "Container", "max": {"cpu": "4"}}, name="a"),
        limit_range({"type": "Container", "max": {"cpu": "2"}}, name="b"),
    ]
    assert problems(decoded_workload(pod_set(container({"cpu": "3"}))), *bounds) == [(".containers[0]", "limitRange")]


def test_the_total_of_a_pod_must_stay_between_the_bounds_for_pods() -> None:
    bounds = limit_range({"type": "Pod", "max": {"cpu": "4"}, "min": {"cpu": "2"}})
    assert problems(decoded_workload(pod_set(container({"cpu": "3"}), container({"cpu": "2"}))), bounds) == [
        ("", "limitRange")
    ]
    assert problems(decoded_workload(pod_set(container({"cpu": "1"}))), bounds) == [("", "limitRange")]
    assert problems(decoded_workload(pod_set(container({"cpu": "1"}), container({"cpu": "2"}))), bounds) == []


# --- shape and order -------------------------------------------------------------------------------------------


def shape(*sets: Object, **spec: Any) -> bytes:
    item = decoded_workload(*sets, **spec)
    return scheduling_shape(item, total_requests(item, configuration=DEFAULT))


def test_equal_work_has_an_equal_shape() -> None:
    other = workload(pod_set(container({"cpu": "1000m"}, image="x")), queueName="other")
    other["metadata"] = {"name": "other", "namespace": "elsewhere", "uid": "other"}
    item = decode(other)
    assert scheduling_shape(item, total_requests(item, configuration=DEFAULT)) == shape()
    assert shape(pod_set(container(limits={"cpu": "1"}))) == shape(pod_set(container({"cpu": "1"})))


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 1},
        {"podSets": [pod_set(container({"cpu": "1"}), name="other")]},
        {"podSets": [pod_set(container({"cpu": "1"}), count=2)]},
        {"podSets": [pod_set(container({"cpu": "1"}), minimum=1)]},
        {"podSets": [pod_set(container({"cpu": "2"}))]},
        {"podSets": [pod_set(container({"cpu": "1"}, ports=[{"containerPort": 80}]))]},
        {"podSets": [pod_set(container({"cpu": "1"}), initContainers=[container({"cpu": "1"})])]},
        {"podSets": [pod_set(container({"cpu": "1"}), nodeSelector={"a": "b"})]},
        {"podSets": [pod_set(container({"cpu": "1"}), affinity={"podAffinity": {"x": [1]}})]},
        {"podSets": [pod_set(container({"cpu": "1"}), tolerations=[{"key": "a"}])]},
        {"podSets": [pod_set(container({"cpu": "1"}), runtimeClassName="kata")]},
        {"podSets": [pod_set(container({"cpu": "1"}), priority=5)]},
        {"podSets": [pod_set(container({"cpu": "1"}), topologySpreadConstraints=[{"maxSkew": 1}])]},
        {"podSets": [pod_set(container({"cpu": "1"}), overhead={"memory": "0"})]},
        {"podSets": [pod_set(container({"cpu": "1"}), resourceClaims=[{"name": "g", "resourceClaimName": "c"}])]},
        {"podSets": [pod_set(container({"cpu": "1"}), resources={"requests": {"cpu": "1"}})]},
        {"podSets": [pod_set(container({"cpu": "1"})) | {"topologyRequest": {"required": "rack"}}]},
    ],
)
def test_whatever_scheduling_looks_at_is_part_of_the_shape(change: Object) -> None:
    assert shape(**change) != shape()


@given(st.permutations(["cpu", "memory", "nvidia.com/gpu", "a", "b"]))
def test_the_order_of_keys_is_no_part_of_the_shape(names: list[str]) -> None:
    requests = dict.fromkeys(names, "1")
    labels = {name.replace("/", "-"): "x" for name in names}
    expected = dict.fromkeys(sorted(names), "1")
    assert shape(pod_set(container(requests), nodeSelector=labels)) == shape(
        pod_set(container(expected), nodeSelector=dict(sorted(labels.items())))
    )


def test_resources_are_walked_in_the_order_of_their_hashes() -> None:
    expected = [
        "ephemeral-storage",
        "amd.com/gpu",
        "memory",
        "nvidia.com/gpu",
        "pods",
        "example.com/gpu",
        "hugepages-2Mi",
        "google.com/tpu",
        "storage",
        "cpu",
    ]
    shuffled = list(expected)
    random.Random(5).shuffle(shuffled)
    assert fnv1a_order(shuffled) == tuple(expected)
    assert fnv1a_order(dict.fromkeys(sorted(expected))) == tuple(expected)


# --- the fast path ---------------------------------------------------------------------------------------------

quantities = st.sampled_from(["0", "1", "100u", "250m", "1.5", "3Gi", "7E", "9999999999999"])
resource_maps = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), quantities)


@given(resource_maps, resource_maps, st.integers(0, 50))
def test_a_plain_pod_asks_for_the_same_as_one_with_an_empty_sidecar(
    requests: Object, limits: Object, count: int
) -> None:
    plain = totals(pod_set(container(requests, limits), count=count))
    with_sidecar = totals(pod_set(container(requests, limits), initContainers=[sidecar({})], count=count))
    assert plain == with_sidecar
