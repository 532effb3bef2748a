"""Workload slices of elastic jobs (admission 8.2)."""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.life import GPU, Life, steps


def slice_of(name: str, replaces: str, gpus: int, **more: object) -> Object:
    target = build.workload(name, "a", build.pod_set("main", requests={GPU: 1}, count=gpus), **more)
    target["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": f"{NAMESPACE}/{replaces}"}
    return target


def with_a_slice(gpus: int = 3, **more: str) -> Life:
    life = Life("a(10 W=LP)", **more)
    life.submit(build.workload("old", "a", build.pod_set("main", requests={GPU: 1}, count=gpus)))
    return life


def test_a_larger_slice_takes_over_in_one_step_and_only_the_growth_must_fit() -> None:
    life = with_a_slice(6)
    assert steps(life.submit(slice_of("new", "old", 10))) == [
        "Reserved new",
        "Released old WorkloadSliceReplaced",
        "Admitted new",
    ]
    assert life.held("a") == 10
    [reserved] = life.decisions[-3]["podSets"]
    assert reserved == {"name": "main", "count": 10, "flavors": {GPU: "f1"}, "usage": {GPU: "10"}}


def test_a_slice_that_is_too_large_leaves_the_old_one_alone() -> None:
    life = with_a_slice(6)
    assert steps(life.submit(slice_of("new", "old", 11))) == []
    assert life.held("a") == 6


def test_a_replaced_slice_never_waits_again() -> None:
    life = with_a_slice(3)
    shown = life.copy("old")
    life.submit(slice_of("new", "old", 5))
    assert steps(life.change({**shown, "metadata": {**shown["metadata"], "labels": {"late": "news"}}})) == []
    assert life.held("a") == 5
    assert steps(life.finish("old")) == []


def test_a_growing_slice_may_preempt_but_not_the_one_it_replaces() -> None:
    life = with_a_slice(3)
    life.job("other", 7, priority=-5)
    assert steps(life.submit(slice_of("new", "old", 5, priority=3))) == ["Preempted other InClusterQueue"]
    assert steps(life.give_back("other"))[2:] == ["Reserved new", "Released old WorkloadSliceReplaced", "Admitted new"]


def test_a_slice_shrinks_in_place() -> None:
    life = with_a_slice(8)
    life.job("waiting", 6)
    target = life.copy("old")
    target["spec"]["podSets"][0]["count"] = 4
    assert steps(life.change(target)) == ["Released old ScaledDown", "Reserved waiting", "Admitted waiting"]
    assert life.held("a") == 10


@pytest.mark.parametrize(("rules", "held"), [("ledger", 9), ("kueue-0.19", 13)])
def test_the_reference_hands_out_the_replaced_quota_twice_in_one_cycle(rules: str, held: int) -> None:
    """The replaced slice counts as a victim for those after it in the cycle, though only the growth was charged."""
    life = Life("k{a(10), b(0)}", rules=rules)
    life.submit(build.workload("old", "a", build.pod_set("main", requests={GPU: 1}, count=4)))
    other = build.workload("other", "b", requests={GPU: 4}, priority=-5)
    life.submit(slice_of("new", "old", 9), other)
    assert sum(life.held(queue) for queue in ("a", "b")) == held


def test_a_fact_that_replaces_a_slice_is_not_charged_twice() -> None:
    life = with_a_slice(3)
    fact = build.holding(
        slice_of("new", "old", 5), "a", [build.assignment("main", {GPU: "f1"}, {GPU: 5}, count=5)], at=life.now
    )
    assert steps(life.add(fact)) == ["Released old WorkloadSliceReplaced"]
    assert life.held("a") == 5
