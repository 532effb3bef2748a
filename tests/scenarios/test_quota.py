"""Worked scenarios T20 to T30 and the table of 3.8: quota on the cohort tree, seen through what is admitted.

What a queue can get now is the largest request that is reserved at once; what it could ever get is the largest that
is not refused as ExceedsMaxQuota. All preemption policies are Never.
"""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.world import World, admitted


def available(queue: str, tree: str, *holders: str) -> int:
    """The largest request that is reserved at once."""
    fitting = 0
    while admitted(World(tree, *holders).submit(f"probe@{queue}:{fitting + 1}")) == ["probe"]:
        fitting += 1
    return fitting


def potential(queue: str, tree: str, *holders: str) -> int:
    """The largest request that is not refused for ever."""
    size = 1
    while True:
        world = World(tree, *holders)
        world.submit(f"probe@{queue}:{size}")
        if world.reasons().get("probe") == "ExceedsMaxQuota":
            return size - 1
        size += 1


@pytest.mark.parametrize(
    ("queue", "now", "ever", "tree", "holders"),
    [
        pytest.param("a", 3, 16, "root{a(10), b(6)}", ("x@a:4", "y@b:9"), id="t20_a"),
        pytest.param("b", 3, 16, "root{a(10), b(6)}", ("x@a:4", "y@b:9"), id="t20_b"),
        pytest.param("a", 5, 12, "root{a(10 ll=4), b(6 ll=2)}", ("x@a:7",), id="t21_a"),
        pytest.param("b", 9, 10, "root{a(10 ll=4), b(6 ll=2)}", ("x@a:7",), id="t21_b"),
        pytest.param("b", 4, 9, "root{a(10), b(6 bl=3)}", ("y@b:5",), id="t22_b"),
        pytest.param("x", 9, 9, "root(5){m(2/bl=4/ll=1){x(3)}, y(8)}", (), id="t23_x_empty"),
        pytest.param("y", 14, 14, "root(5){m(2/bl=4/ll=1){x(3)}, y(8)}", (), id="t23_y_empty"),
        pytest.param("x", 2, 9, "root(5){m(2/bl=4/ll=1){x(3)}, y(8)}", ("h@x:7",), id="t23_x"),
        pytest.param("y", 11, 14, "root(5){m(2/bl=4/ll=1){x(3)}, y(8)}", ("h@x:7",), id="t23_y"),
        pytest.param("a", 1, 10, "root{a(10 ll=4), b(0)}", ("y@b:9",), id="t25_a"),
        pytest.param("b", 0, 4, "root{a(10 ll=4), b(0)}", ("y@b:9",), id="t25_b"),
        pytest.param("a", 1, 9, "root{a(4), b(5)}", ("x@a:8",), id="row_e_of_3_8_a"),
        pytest.param("b", 1, 9, "root{a(4), b(5)}", ("x@a:8",), id="row_e_of_3_8_b"),
        pytest.param("x", 3, 8, "k{x(4 ll=1), y(4)}", ("h@y:5",), id="example_of_0_2_of_preemption"),
    ],
)
def test_what_a_queue_can_get_now_and_ever(
    queue: str, now: int, ever: int, tree: str, holders: tuple[str, ...]
) -> None:
    assert (available(queue, tree, *holders), potential(queue, tree, *holders)) == (now, ever)


def test_t22_a_request_of_a_queue_within_its_ceiling_waits() -> None:
    world = World("root{a(10), b(6 bl=3)}", "y@b:5")
    world.submit("w@b:5")
    assert world.reasons() == {"w": "WaitingForQuota"}


def test_t24_usage_above_the_local_quota_moves_to_and_from_the_parent() -> None:
    """A sibling without quota sees 4 minus what A put into the parent: 0, then 3, then 0 again."""
    tree = "root{a(10 ll=4), b(0)}"
    assert available("b", tree, "x@a:5") == 4
    assert available("b", tree, "x@a:5", "y@a:4") == 1
    world = World(tree, "x@a:5", "y@a:4")
    world.finish("x")
    assert world.held("a") == 4
    assert admitted(world.submit("probe@b:4")) == ["probe"]


def test_t26_a_shrunk_queue_admits_nothing_until_usage_fell() -> None:
    world = World("a(10)")
    world.submit("x@a:8")
    gpus = build.group(f1=[build.quota("nvidia.com/gpu", 4)])
    world.change(build.cluster_queue("a", gpus))
    world.submit("w4@a:4 c1")
    world.submit("w5@a:5 c2")
    assert world.reasons() == {"w4": "WaitingForQuota", "w5": "ExceedsMaxQuota"}
    assert world.parked() == {"a": ["w4", "w5"]}
    assert world.held("a") == 8
    assert admitted(world.finish("x")) == ["w4"]


def test_t27_a_stopped_queue_still_lends_its_quota() -> None:
    assert admitted(World("root{a(4), b(6 stopped)}").submit("w@a:9")) == ["w"]


def test_t28_a_circle_of_cohorts_suspends_its_queues_until_it_is_opened() -> None:
    world = World("ca{q(4 strict)}")
    world.change(build.cohort("ca", parent="cb"))
    world.add(build.cohort("cb", parent="ca"))
    assert admitted(world.submit("w@q:1")) == []
    assert world.reasons() == {"w": "Suspended"}
    assert admitted(world.change(build.cohort("cb"))) == ["w"]


def test_t29_a_borrowing_limit_of_zero_bounds_the_ceiling() -> None:
    world = World("root{a(2 bl=0), b(8)}")
    world.submit("w@a:3")
    assert world.reasons() == {"w": "ExceedsMaxQuota"}


def test_a_total_beyond_all_bounds_comes_back_under_the_ledgers_own_rules() -> None:
    """0.4.5: of two facts the absurd one ends; the reference forgets what the other one holds."""
    left = {}
    for rules in (None, "kueue-0.19"):
        world = World("root{a(10), b(6)}", rules=rules)
        world.hold("w1@a:9223372036854775807")
        world.hold("w2@a:3")
        world.delete("w1")
        left[rules] = world.fold.clusters["test"].usage()["a"]
    assert left == {None: {"f1/nvidia.com/gpu": 3}, "kueue-0.19": {}}
