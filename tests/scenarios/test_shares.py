"""Worked shares: T79, S89, S90 and the examples of admission 6.4 and preemption 4.1, as the ledger tells them."""

from __future__ import annotations

from math import inf

import pytest

from tests.world import BOTH, World


@pytest.mark.parametrize(
    ("tree", "holders", "shares"),
    [
        pytest.param("r{a(4 w=2), b(4), c(12)}", ("x@a:6", "y@b:5"), {"a": 50.0, "b": 50.0, "c": 0.0}, id="6.4"),
        pytest.param(
            "r{a(f1:5 f2:5), b(f1:15 f2:3)}", ("x@a:f1=15",), {"a": 10 * 1000.0 / 28, "b": 0.0}, id="two_flavors"
        ),
        pytest.param("r{a(2 ll=0), b(3 ll=0)}", ("x@a:3",), {"a": 0.0, "b": 0.0}, id="t79_nothing_lendable"),
        pytest.param("r(40){h(0 bl=8){x(0)}}", ("x1@x:8",), {"x": 1000.0}, id="s89_a_limit_above"),
        pytest.param("k{x(cpu0), y(cpuU)}", ("x1@x:cpu1",), {"x": 1000 * 1000.0 / 2**63, "y": 0.0}, id="s90_unlimited"),
        pytest.param("k{a(3 w=0), b(3)}", ("a1@a:4",), {"a": inf, "b": 0.0}, id="weight_zero"),
        pytest.param(
            "r(6){l(2){a(0)}, m(2 w=2){d(0), e(0)}}", ("d1@d:5", "e1@e:3"), {"a": 0.0, "d": 500.0, "e": 300.0}, id="r4"
        ),
    ],
)
def test_shares_of_queues(tree: str, holders: tuple[str, ...], shares: dict[str, float]) -> None:
    assert World(tree, *holders, strategies=BOTH).shares() == shares


def test_s89_the_share_of_a_cohort_is_taken_as_seen_from_its_parent() -> None:
    decisions = World("r(40){h(0 bl=8){x(0)}}", strategies=BOTH).submit("w@x:8")
    changed = {
        d.get("cohort") or d["clusterQueue"]: (d["share"], d["weightedShare"])
        for d in decisions
        if d["type"] == "ShareChanged"
    }
    assert changed == {"x": (1000.0, 1000), "h": (200.0, 200)}


def test_s90_a_tiny_share_is_published_as_one() -> None:
    decisions = World("k{x(cpu0), y(cpuU)}", strategies=BOTH).submit("w@x:cpu1")
    (changed,) = (d for d in decisions if d["type"] == "ShareChanged")
    assert (changed["clusterQueue"], changed["weightedShare"]) == ("x", 1)
    assert 0 < changed["share"] < 1e-12
