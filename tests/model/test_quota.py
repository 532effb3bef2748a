"""The second model itself, against the worked values of admission 3.8 and 6.4 and preemption 0.2, 4.1 and 9.9."""

from __future__ import annotations

import json

import pytest

from tests.model.quota import QuotaModel
from tests.world import World

GPU = ("f1", "nvidia.com/gpu")


def model_of(tree: str, *holders: str) -> QuotaModel:
    """The model of everything that a world was told."""
    model = QuotaModel()
    for record in World(tree, *holders).records:
        model.observe(json.loads(record))
    return model


@pytest.mark.parametrize(
    ("tree", "holders", "available", "potential"),
    [
        pytest.param("r{a(10), b(6)}", ("x@a:4", "y@b:9"), {"a": 3, "b": 3}, {"a": 16, "b": 16}, id="a"),
        pytest.param("r{a(10 ll=4), b(6 ll=2)}", ("x@a:7",), {"a": 5, "b": 9}, {"a": 12, "b": 10}, id="b"),
        pytest.param("r{a(10), b(6 bl=3)}", ("y@b:5",), {"b": 4}, {"b": 9}, id="c"),
        pytest.param("r(5){m(2/bl=4/ll=1){x(3)}, y(8)}", (), {"x": 9, "y": 14}, {"x": 9, "y": 14}, id="d"),
        pytest.param("r(5){m(2/bl=4/ll=1){x(3)}, y(8)}", ("h@x:7",), {"x": 2, "y": 11}, {"x": 9}, id="d'"),
        pytest.param("r{a(4), b(5)}", ("x@a:8",), {"a": 1, "b": 1}, {}, id="e"),
        pytest.param("r{a(10 ll=4), b(0)}", ("y@b:9",), {"a": 1, "b": 0}, {}, id="f"),
    ],
)
def test_table_3_8(tree: str, holders: tuple[str, ...], available: dict[str, int], potential: dict[str, int]) -> None:
    model = model_of(tree, *holders)
    assert {queue: model.available(queue, GPU) for queue in available} == available
    assert {queue: model.potential(("ClusterQueue", queue), GPU) for queue in potential} == potential


def test_usage_above_the_local_quota_reaches_the_parents() -> None:
    model = model_of("r(5){m(2/bl=4/ll=1){x(3)}, y(8)}", "h@x:7")
    nodes = [("ClusterQueue", "x"), ("Cohort", "m"), ("Cohort", "r")]
    assert [model.used(node, GPU) for node in nodes] == [7, 7, 3]
    assert [model.subtree(node, GPU) for node in nodes] == [3, 5, 14]


@pytest.mark.parametrize(
    ("tree", "holders", "shares"),
    [
        pytest.param("r{a(4 w=2), b(4), c(12)}", ("x@a:6", "y@b:5"), {"a": 50.0, "b": 50.0, "c": 0.0}, id="6.4"),
        pytest.param("r{a(f1:5 f2:5), b(f1:15 f2:3)}", ("x@a:f1=15",), {"a": 10 * 1000.0 / 28}, id="two flavors"),
        pytest.param("r{a(2 ll=0), b(3 ll=0)}", ("x@a:3",), {"a": 0.0}, id="T79"),
        pytest.param("r(40){h(0 bl=8){x(0)}}", ("x1@x:8",), {"x": 1000.0}, id="S89"),
        pytest.param("r(6){l(2){a(0)}, m(2 w=2){d(0), e(0)}}", ("d1@d:5", "e1@e:3"), {"d": 500.0}, id="R4.9"),
        pytest.param("k{a(3 w=0), b(3)}", ("a1@a:4",), {"a": float("inf")}, id="weight zero"),
        pytest.param("k{x(cpu0), y(cpuU)}", ("x1@x:cpu1",), {"x": 1000 * 1000.0 / 2**63}, id="S90"),
    ],
)
def test_shares(tree: str, holders: tuple[str, ...], shares: dict[str, float]) -> None:
    model = model_of(tree, *holders)
    assert {queue: model.shares()[queue] for queue in shares} == shares


@pytest.mark.parametrize(
    ("tree", "holders", "cohort", "share"),
    [
        ("r(40){h(0 bl=8){x(0)}}", ("x1@x:8",), "h", 200.0),
        ("r(6){l(2){a(0)}, m(2 w=2){d(0), e(0)}}", ("d1@d:5", "e1@e:3"), "m", 300.0),
    ],
)
def test_shares_of_cohorts(tree: str, holders: tuple[str, ...], cohort: str, share: float) -> None:
    assert model_of(tree, *holders).share(("Cohort", cohort)) == share
