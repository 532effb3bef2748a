"""Worked scenarios T1 to T19 and T93: what a workload asks for, seen in the usage that its reservation records."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders as build
from tests.builders import Object
from tests.world import World, admitted, amounts

CPU = "cpu1000"


def usage(tree: str, *pod_sets: Object, before: tuple[Object, ...] = (), **blocks: Any) -> dict[str, str]:
    """The usage recorded, under the default rules, for the one pod set of a workload that is admitted at once."""
    world = World(tree, rules=None, **blocks)
    world.add(*before)
    decisions = world.submit(build.workload("w", "a", *pod_sets))
    assert admitted(decisions) == ["w"]
    return amounts(decisions)["w"]["main"]


def plain(cpu: str) -> Object:
    return build.container({"cpu": cpu})


def sidecar(cpu: str) -> Object:
    return {**build.container({"cpu": cpu}), "restartPolicy": "Always"}


def pods_with(*init_containers: Object) -> Object:
    """Four pods: containers of 200m and 300m, these init containers, and an overhead of 50m."""
    return build.pod_set(
        "main",
        plain("200m"),
        plain("300m"),
        count=4,
        initContainers=list(init_containers),
        overhead={"cpu": "50m"},
    )


def test_t1_a_sidecar_counts_for_what_starts_after_it() -> None:
    assert usage(f"a({CPU})", pods_with(plain("900m"), sidecar("100m"), plain("700m"))) == {"cpu": "3800m"}


def test_t2_a_sidecar_declared_first_runs_beside_every_init_container() -> None:
    assert usage(f"a({CPU})", pods_with(sidecar("100m"), plain("900m"), plain("700m"))) == {"cpu": "4200m"}


def test_t3_pod_level_requests_replace_those_of_the_containers() -> None:
    pods = build.pod_set(
        "main",
        build.container({"cpu": "1500m", "memory": "1Gi"}),
        build.container({"cpu": "1", "memory": "2Gi"}),
        resources={"requests": {"cpu": "2", "nvidia.com/gpu": "4"}},
        overhead={"cpu": "250m"},
    )
    assert usage(f"a({CPU} memory100Gi)", pods) == {"cpu": "2250m", "memory": "3Gi"}


LIMIT_OF_TWO = build.pod_set("main", build.container(limits={"cpu": "2"}))


def defaults(**kinds: dict[str, str]) -> tuple[Object]:
    return (build.limit_range("defaults", {"type": "Container", **kinds}),)


def test_t4_a_default_request_beats_an_explicit_limit() -> None:
    before = defaults(default={"cpu": "1"}, defaultRequest={"cpu": "500m"})
    assert usage(f"a({CPU})", LIMIT_OF_TWO, before=before) == {"cpu": "500m"}


def test_t5_without_a_default_request_the_limit_is_the_request() -> None:
    assert usage(f"a({CPU})", LIMIT_OF_TWO, before=defaults(default={"cpu": "1"})) == {"cpu": "2"}


def test_t6_a_default_limit_becomes_the_request_of_a_container_without_any() -> None:
    pods = build.pod_set("main", build.container())
    assert usage("a(memory1Gi)", pods, before=defaults(default={"memory": "64Mi"})) == {"memory": "64Mi"}


def test_t7_rounding_up_happens_per_pod() -> None:
    assert usage(f"a({CPU})", build.pod_set(count=1000, requests={"cpu": "100u"})) == {"cpu": "1"}


def transformation(source: str, strategy: str, multiply_by: str | None = None, **outputs: str) -> Object:
    result: Object = {
        "input": f"example.com/{source}",
        "strategy": strategy,
        "outputs": {f"example.com/{name}": factor for name, factor in outputs.items()},
    }
    if multiply_by is not None:
        result["multiplyBy"] = multiply_by
    return result


def example(**requests: object) -> dict[str, object]:
    return {f"example.com/{name}": amount for name, amount in requests.items()}


def test_t8_a_replaced_resource_becomes_credits_rounded_per_pod() -> None:
    pods = build.pod_set(count=3, requests=example(vgpu=1))
    rules = {"transformations": [transformation("vgpu", "Replace", credits="0.4")]}
    assert usage("a(example.com/credits9)", pods, resources=rules) == {"example.com/credits": "3"}


ALLOWANCE = {
    "transformations": [
        transformation("slices", "Replace", over="1"),
        transformation("gpu", "Retain", over="-6"),
    ]
}


@pytest.mark.parametrize(
    ("requests", "over"),
    [
        pytest.param(example(gpu=2, slices=10), "0", id="t9_an_allowance_cancels_outputs_down_to_zero"),
        pytest.param(example(gpu=2, slices=10, over=5), "5", id="t10_but_never_a_direct_request"),
    ],
)
def test_an_allowance(requests: dict[str, object], over: str) -> None:
    pods = build.pod_set(requests=requests)
    assert usage("a(example.com/gpu9 example.com/over9)", pods, resources=ALLOWANCE) == {
        "example.com/gpu": "2",
        "example.com/over": over,
    }


PER_CARD = [transformation("mem", "Retain", "gpu.example.com/card", q="5")]
CARDS = build.pod_set(requests={"example.com/mem": 3, "gpu.example.com/card": 2})


def test_t11_an_input_can_be_multiplied_by_another_resource() -> None:
    tree = "a(example.com/mem9 gpu.example.com/card9 example.com/q99)"
    assert usage(tree, CARDS, resources={"transformations": PER_CARD}) == {
        "example.com/mem": "3",
        "gpu.example.com/card": "2",
        "example.com/q": "30",
    }


def test_t12_an_excluded_resource_multiplies_nothing() -> None:
    rules = {"transformations": PER_CARD, "excludeResourcePrefixes": ["gpu"]}
    assert usage("a(example.com/mem9 example.com/q99)", CARDS, resources=rules) == {
        "example.com/mem": "3",
        "example.com/q": "15",
    }


def partly_admitted(world: World) -> Object:
    """Ten pods of 2 cpu, of which six were admitted."""
    target = build.workload("w", "a", build.pod_set(count=10, min_count=5, requests={"cpu": 2}))
    return build.holding(target, "a", [build.assignment("main", {"cpu": "f1"}, {"cpu": 12}, count=6)])


def with_reclaimable(target: Object, count: int) -> Object:
    return {**target, "status": {**target["status"], "reclaimablePods": [{"name": "main", "count": count}]}}


def test_t13_reclaimable_pods_shrink_a_partly_admitted_workload_late() -> None:
    world = World("a(cpu20)")
    fact = partly_admitted(world)
    world.add(fact)
    seen = [world.held("a", "f1/cpu")]
    for reclaimable in (3, 7, 12):
        world.change(with_reclaimable(fact, reclaimable))
        seen.append(world.held("a", "f1/cpu"))
    assert seen == [12000, 12000, 6000, 0]


def test_t93_growing_reclaimable_pods_make_room_for_a_parked_workload() -> None:
    world = World("root{a(cpu14), b(cpu0)}", rules=None)
    fact = partly_admitted(world)
    world.add(fact)
    world.submit("n@b:cpu8")
    assert world.parked() == {"b": ["n"]}
    assert admitted(world.change(with_reclaimable(fact, 7))) == ["n"]
    assert world.usage() == {"a": {"f1/cpu": 6000}, "b": {"f1/cpu": 8000}}


def test_t14_an_absurd_total_exceeds_every_quota() -> None:
    world = World("a(memory1Ei)")
    world.submit(build.workload("w", "a", build.pod_set(count=2, requests={"memory": "5Ei"})))
    assert world.reasons() == {"w": "ExceedsMaxQuota"}
    assert world.parked() == {"a": ["w"]}


def test_t15_a_quota_out_of_range_is_unlimited() -> None:
    assert usage("a(cpu10E)", build.pod_set(requests={"cpu": "1M"})) == {"cpu": "1M"}


def test_t16_pods_are_counted_where_a_queue_covers_them() -> None:
    world = World("a(f1:100 | p1:pods10)")
    holder = build.workload("v", "a", build.pod_set(count=8))
    world.add(build.holding(holder, "a", [build.assignment("main", {"pods": "p1"}, {"pods": 8}, count=8)]))
    assert world.held("a", "p1/pods") == 8
    world.submit("w@a:3x1")
    assert world.reasons() == {"w": "WaitingForQuota"}
    assert world.parked() == {"a": ["w"]}
    assert amounts(world.submit("u@a:2x1"))["u"]["main"] == {"nvidia.com/gpu": "2", "pods": "2"}


def with_other(amount: int) -> Object:
    return build.pod_set(requests={"cpu": 1, "example.com/other": amount})


def test_t17_zero_of_an_undeclared_resource_is_not_recorded() -> None:
    assert usage(f"a({CPU})", with_other(0)) == {"cpu": "1"}


def test_t18_an_undeclared_resource_is_refused_unless_undeclared_ones_are_ignored() -> None:
    world = World(f"a({CPU})")
    assert admitted(world.submit(build.workload("w", "a", with_other(1)))) == []
    assert world.reasons() == {"w": "NoMatchingFlavor"}
    ignoring = {"quotaCheckStrategy": "IgnoreUndeclared"}
    assert usage(f"a({CPU})", with_other(1), resources=ignoring) == {"cpu": "1"}


def test_t19_a_request_above_its_limit_is_misconfigured() -> None:
    world = World(f"a({CPU})")
    wrong = build.pod_set("main", build.container({"cpu": 2}, limits={"cpu": 1}))
    assert admitted(world.submit(build.workload("w", "a", wrong))) == []
    assert world.reasons() == {"w": "Misconfigured"}
    assert world.parked() == {"a": ["w"]}
