"""Closed clusters come to rest: under the default rules no circle of preemptions goes on for ever.

A cluster is closed when, after a workload arrived, nothing happens but victims giving their quota back and waiting
again. The reference has no such guarantee, which the last test shows on the same clusters.
"""

from __future__ import annotations

import pytest

from tests.properties.random_worlds import SETTLED_AFTER, RandomWorld, closed_world
from tests.world import Decision

BLOCKS = 24
CLUSTERS_A_BLOCK = 100


def stops(played: RandomWorld) -> list[Decision]:
    return [d for d in played.world.decisions if d["type"] == "Pending" and d["reason"] == "PreemptionLoop"]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_closed_cluster_settles(block: int) -> None:
    for seed in range(block * CLUSTERS_A_BLOCK, (block + 1) * CLUSTERS_A_BLOCK):
        played = closed_world(seed, rules=None)
        assert played.world.victims_to_release == [], f"cluster {seed} preempts for ever"


def test_the_reference_rules_preempt_for_ever_in_some_of_the_same_clusters() -> None:
    endless = [seed for seed in range(400) if closed_world(seed, rules="kueue-0.19").world.victims_to_release]
    assert endless
    for seed in endless:
        played = closed_world(seed, rules=None)
        assert stops(played), f"cluster {seed} was not stopped, yet it settled in {SETTLED_AFTER} victims"


def test_rule_sets_differ_only_by_stopping_loops() -> None:
    """Up to the first stopped loop both rule sets decide the same; where none is stopped, always."""
    compared = 0
    for seed in range(150):
        ours, theirs = closed_world(seed, rules=None), closed_world(seed, rules="kueue-0.19")
        for mine, reference in zip(ours.world.decisions, theirs.world.decisions, strict=False):
            if mine["type"] == "Pending" and mine["reason"] == "PreemptionLoop":
                break
            assert essence(mine) == essence(reference), f"cluster {seed}"
            compared += 1
    assert compared > 1000


def essence(decision: Decision) -> Decision:
    return {key: decision.get(key) for key in ("seq", "type", "workload", "reason", "preemptor", "podSets", "at")}
