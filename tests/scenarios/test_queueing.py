"""Worked scenarios T31 to T40: the order of a queue, its two strategies, parking and retries."""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.world import World, admitted, victims


def test_t31_priority_then_creation_then_uid_order_a_queue() -> None:
    world = World("a(3)")
    assert admitted(world.submit("x@a:1 p5 c10 uid=u2", "y@a:1 p5 c10 uid=u1", "z@a:1 p6 c99")) == ["z", "y", "x"]


@pytest.mark.parametrize(
    ("reason", "timestamp", "first"),
    [("PodsReadyTimeout", "Eviction", "y"), ("PodsReadyTimeout", "Creation", "x"), ("Preempted", "Eviction", "x")],
)
def test_t32_an_eviction_for_pods_not_ready_moves_a_workload_back(reason: str, timestamp: str, first: str) -> None:
    world = World("a(1)", waitForPodsReady={"timeout": "30m", "requeuingStrategy": {"timestamp": timestamp}})
    requeued = build.with_conditions(
        build.workload("x", "a", requests={"nvidia.com/gpu": 1}, created=10),
        build.condition("QuotaReserved", False, "Pending", 51),
        build.condition("Evicted", True, reason, 50),
        build.condition("Requeued", True, reason, 52),
    )
    other = build.workload("y", "a", requests={"nvidia.com/gpu": 1}, created=30)
    assert admitted(world.submit(requeued, other)) == [first]


def test_t33_a_strict_head_that_does_not_fit_blocks_its_queue() -> None:
    world = World("a(10 strict)", "x@a:6")
    world.submit("w@a:9 c1")
    assert admitted(world.submit("v@a:1 c2")) == []
    assert world.reasons() == {"w": "WaitingForQuota", "v": None}
    assert world.parked() == {}


def test_t34_in_best_effort_its_equals_are_parked_with_it_and_the_next_is_tried() -> None:
    world = World("a(10)", "x@a:6")
    decisions = world.submit("w@a:9 c1", "u@a:9 c2", "v@a:1 c3")
    assert [(d["workload"]["name"], d["cycle"]) for d in decisions if d["type"] == "QuotaReserved"] == [("v", 2)]
    assert world.parked() == {"a": ["u", "w"]}


def test_t35_quota_released_in_the_cohort_brings_parked_workloads_back() -> None:
    world = World("root{a(10), b(2)}")
    world.submit("x@a:6", "y@b:2")
    world.submit("w@a:5 c1", "u@a:5 c2", "v@a:1 c3")
    assert world.parked() == {"a": ["u", "w"]}
    assert admitted(world.finish("y")) == ["w"]
    assert world.parked() == {"a": ["u"]}


def test_t36_a_workload_that_does_not_fit_after_a_retry_is_parked_again() -> None:
    """In the fold no retry lands while a head is in flight: it takes effect before or after the cycle."""
    world = World("root{a(10), b(2)}")
    world.submit("x@a:6", "y@b:2")
    world.submit("w@a:8 c1")
    assert world.parked() == {"a": ["w"]}
    assert admitted(world.finish("y")) == []
    assert world.parked() == {"a": ["w"]}
    assert world.reasons() == {"w": "WaitingForQuota"}


@pytest.mark.parametrize(("strategy", "head"), [("", "w"), ("strict", "v")])
def test_t37_a_preemptor_stays_ahead_of_higher_priorities_in_best_effort(strategy: str, head: str) -> None:
    world = World(f"a(4 W=LP {strategy})", "x@a:4 p0")
    assert victims(world.submit("w@a:4 p1")) == {"x": "ICQ"}
    world.submit("v@a:4 p9")
    assert admitted(world.release("x"))[0] == head


def leaves_without_a_retry(world: World, queue: str, nominal: int) -> list:
    """The queue takes its usage to another cohort: nobody in the old one is told (4.7.3)."""
    gpus = build.group(f1=[build.quota("nvidia.com/gpu", nominal)])
    return world.change(build.cluster_queue(queue, gpus, cohort="elsewhere"))


def test_t38_only_a_relevant_change_brings_a_parked_workload_back() -> None:
    world = World("root{a(4), b(0)}", "y@b:4")
    waiting = build.workload("w", "a", build.pod_set(count=2, requests={"nvidia.com/gpu": 2}))
    world.submit(waiting)
    assert world.parked() == {"a": ["w"]}
    leaves_without_a_retry(world, "b", 0)
    assert world.parked() == {"a": ["w"]}
    world.change(build.with_conditions(world.workload("w"), build.condition("PodsReady", False, "WaitForStart", 201)))
    assert world.parked() == {"a": ["w"]}
    changed = {**world.workload("w")}
    changed["status"] = {**changed["status"], "reclaimablePods": [{"name": "main", "count": 1}]}
    assert admitted(world.change(changed)) == ["w"]
    assert world.usage()["a"] == {"f1/nvidia.com/gpu": 2}


def test_t39_a_backoff_is_waited_for_whatever_happens() -> None:
    world = World("a(4)", "x@a:4")
    waiting = build.workload("w", "a", requests={"nvidia.com/gpu": 4})
    waiting["status"] = {"requeueState": {"count": 1, "requeueAt": build.moment(300)}}
    world.submit(waiting)
    assert admitted(world.finish("x")) == []
    assert world.parked() == {"a": ["w"]}
    assert admitted(world.tick(299)) == []
    assert admitted(world.tick(300)) == ["w"]


def test_t40_a_namespace_that_does_not_match_does_not_block_a_strict_queue() -> None:
    world = World("a(4 strict unselective)")
    assert admitted(world.submit("w@a:1 c1", "v@a:1 c2")) == []
    assert world.reasons() == {"w": "Misconfigured", "v": "Misconfigured"}
    assert world.parked() == {"a": ["v", "w"]}
