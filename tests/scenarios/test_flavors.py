"""Worked scenarios T41 to T57: which flavor a pod set gets, the memory of the search, and partial admission."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders as build
from tests.builders import Object
from tests.world import World, admitted, counts, flavors, victims

GPU = "nvidia.com/gpu"


def chosen(world: World, incoming: str | Object) -> str:
    """The flavor of the GPUs of the one pod set of a workload that is admitted at once."""
    given = flavors(world.submit(incoming))
    (pod_sets,) = given.values()
    return pod_sets["main"][GPU]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        pytest.param("root{a(f1:4 f2:4), b(f1:4)}", "f1", id="t41_borrowing_stops_the_search"),
        pytest.param("root{a(f1:4 f2:4 borrow=next), b(f1:4)}", "f1", id="t42_the_best_of_all_is_borrowing"),
        pytest.param("root{a(f1:4 f2:8 borrow=next), b(f1:4)}", "f2", id="t43_no_borrowing_is_better"),
    ],
)
def test_borrowing_and_the_next_flavor(tree: str, expected: str) -> None:
    assert chosen(World(tree), "w@a:6") == expected


def test_t44_the_next_flavor_is_tried_before_preemption_unless_told_to_stop() -> None:
    assert chosen(World("a(f1:4 f2:4 W=LP)", "v@a:f1=4 p0"), "w@a:3 p5") == "f2"
    stopping = World("a(f1:4 f2:4 W=LP preempt=stop)", "v@a:f1=4 p0")
    assert victims(stopping.submit("w@a:3 p5")) == {"v": "ICQ"}


def test_t45_a_flavor_without_candidates_does_not_stop_the_search() -> None:
    assert chosen(World("a(f1:4 f2:4 W=LP preempt=stop)", "v@a:f1=4 p9"), "w@a:3 p5") == "f2"


T46 = "root{{a(f1:4 f2:1 W=LP borrow=next preempt=next {preference}), b(f2:5)}}"


def test_t46_the_preference_weighs_borrowing_against_preemption() -> None:
    assert chosen(World(T46.format(preference=""), "v@a:f1=4 p0"), "w@a:3 p5") == "f2"
    preempting = World(T46.format(preference="pref=POB"), "v@a:f1=4 p0")
    decisions = preempting.submit("w@a:3 p5")
    assert (admitted(decisions), victims(decisions)) == ([], {"v": "ICQ"})


T47 = "root{{a(f1:g2 f1:h4 W=LP borrow=next preempt=next {preference}), b(f1:g4 f1:h0)}}"


def test_t47_the_worst_resource_by_preference_can_hide_a_lack_of_quota() -> None:
    world = World(T47.format(preference="pref=POB"), "v@a:h4 p0")
    decisions = world.submit("w@a:g3,h2 p5")
    assert (admitted(decisions), victims(decisions)) == ([], {})
    assert world.reasons() == {"w": "WaitingForQuota"}
    assert world.parked() == {}
    world = World(T47.format(preference=""), "v@a:h4 p0")
    assert victims(world.submit("w@a:g3,h2 p5")) == {"v": "ICQ"}


def two_pod_sets(name: str, first: int, second: int) -> Object:
    return build.workload(
        name, "a", build.pod_set("p", requests={GPU: first}), build.pod_set("q", requests={GPU: second})
    )


def test_t48_what_an_earlier_pod_set_took_is_not_there_for_the_next() -> None:
    given = flavors(World("a(f1:5 f2:5)").submit(two_pod_sets("w", 3, 3)))
    assert given == {"w": {"p": {GPU: "f1"}, "q": {GPU: "f2"}}}


def constrained(**pod: Any) -> Object:
    return build.workload("w", "a", build.pod_set(requests={GPU: 1}, **pod))


def test_t49_a_selector_is_compared_on_the_labels_a_flavor_has() -> None:
    world = World("a(f1:5 f2:5)", flavors=[build.flavor("f1", {"zone": "a"}), build.flavor("f2")])
    assert chosen(world, constrained(nodeSelector={"zone": "b", "disk": "ssd"})) == "f2"


def test_t50_an_affinity_term_that_becomes_empty_voids_the_affinity() -> None:
    world = World("a(f1:5 f2:5)", flavors=[build.flavor("f1", {"zone": "a"}), build.flavor("f2")])
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        for key, value in (("zone", "b"), ("disk", "ssd"))
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert chosen(world, constrained(affinity={"nodeAffinity": required})) == "f1"


def test_t51_a_flavor_tolerates_its_own_taint_and_a_preference_is_no_taint() -> None:
    taint = {"key": "k", "value": "v"}
    tolerated = build.flavor(
        "f1", taints=[{**taint, "effect": "NoSchedule"}], tolerations=[{"key": "k", "operator": "Exists"}]
    )
    preferred = build.flavor("f2", taints=[{**taint, "effect": "PreferNoSchedule"}])
    world = World("a(f1:1 f2:1)", flavors=[tolerated, preferred])
    assert [chosen(world, f"w{number}@a:1") for number in (1, 2)] == ["f1", "f2"]


def test_t52_the_search_goes_on_where_it_stopped_before_a_lost_race() -> None:
    world = World("root{a(f1:2 f2:2), b(f1:2)}")
    assert admitted(world.submit("wa@a:3 c2", "wb@b:3 c1")) == ["wb"]
    assert world.parked() == {"a": ["wa"]}
    assert world.reasons() == {"wa": "ExceedsMaxQuota"}
    assert flavors(world.finish("wb")) == {"wa": {"main": {GPU: "f1"}}}


def test_t52b_pending_flavors_explore_another_combination() -> None:
    decisions = World("a(f1:5 f2:3)").submit(two_pod_sets("w", 3, 4))
    assert flavors(decisions) == {"w": {"p": {GPU: "f2"}, "q": {GPU: "f1"}}}
    assert [d["cycle"] for d in decisions if d["type"] == "QuotaReserved"] == [2]


def test_t52c_a_workload_is_parked_when_all_combinations_were_looked_at() -> None:
    world = World("a(f1:C4 f2:C4 | g1:2)", "v@a:g1=2")
    assert admitted(world.submit("w@a:C1,1")) == []
    assert world.reasons() == {"w": "WaitingForQuota"}
    assert world.parked() == {"a": ["w"]}


def test_t53_the_most_severe_reason_of_two_groups_is_given() -> None:
    world = World("a(f1:C4 | g1:1)")
    world.submit("w@a:C2,2")
    assert world.reasons() == {"w": "ExceedsMaxQuota"}


def test_t54_the_least_severe_reason_of_one_group_is_given() -> None:
    tainted = build.flavor("f1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    world = World("root{a(f1:9 f2:4), b(f2:4)}", "x@b:f2=4", flavors=[tainted])
    world.submit("w@a:6")
    assert world.reasons() == {"w": "WaitingForQuota"}


def test_t55_the_smallest_good_reduction_is_searched_by_halving() -> None:
    driver = build.pod_set("d", count=2, requests={GPU: 1})
    workers = build.pod_set("k", count=12, min_count=4, requests={GPU: 2})
    given = counts(World("a(17)").submit(build.workload("w", "a", driver, workers)))
    assert given == {"w": {"d": 2, "k": 7}}


def test_t56_preempting_for_the_full_size_comes_before_shrinking() -> None:
    world = World("a(10 W=LP)", "v@a:4 p0")
    assert victims(world.submit("w@a:8x1>=2 p5")) == {"v": "ICQ"}
    assert counts(world.release("v")) == {"w": {"main": 8}}


def test_t57_without_victims_the_workload_shrinks() -> None:
    assert counts(World("a(10 W=LP)", "v@a:4 p0").submit("w@a:8x1>=2 p0")) == {"w": {"main": 6}}
