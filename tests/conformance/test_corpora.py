"""Scenarios decided by the reference scheduler, some of each family, compared event by event and at their end.

Compared are, per event and as multisets, reservations (queue, pod sets, flavors, counts, exact usage), preemptions
(victim, reason, preemptor) and inadmissible verdicts, repeated verdicts on one workload once; and at the end usage,
dominant resource shares, parked workloads and the reason token of each waiting workload.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Hashable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ledger.fold import Fold
from tests.model.quota import quantity

HERE = Path(__file__).parent
FAMILIES = ("flat", "fung", "shape", "dynamic", "classic", "hier", "fair", "hier-fair", "facts", "struct")
COMPARED = ("QuotaReserved", "Preempted", "Inadmissible")

Scenario = dict[str, Any]
Verdict = tuple[Hashable, ...]


def read(family: str) -> Iterator[Scenario]:
    with gzip.open(HERE / f"{family}.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


SCENARIOS = [pytest.param(scenario, id=scenario["name"]) for family in FAMILIES for scenario in read(family)]


def pod_sets(decision: dict[str, Any]) -> Hashable:
    """Name, count, flavors and exact usage of each pod set, in the order of names; zero usage left out."""

    def usage(pods: dict[str, Any]) -> frozenset[tuple[str, Fraction]]:
        exact = {resource: quantity(text) for resource, text in pods.get("usage", {}).items()}
        return frozenset((resource, value) for resource, value in exact.items() if value)

    return tuple(
        sorted(
            ((pods["name"], pods["count"], frozenset(pods.get("flavors", {}).items()), usage(pods)))
            for pods in decision["podSets"]
        )
    )


def verdict(decision: dict[str, Any]) -> Verdict:
    """What is compared of a decision, whether the ledger's or the reference's."""
    kind, workload = decision["type"], decision["workload"]
    name = workload if isinstance(workload, str) else f"{workload['namespace']}/{workload['name']}"
    if kind == "QuotaReserved":
        return kind, name, decision["clusterQueue"], pod_sets(decision)
    if kind == "Preempted":
        by = decision["preemptorUID"] if "preemptorUID" in decision else decision["preemptor"]["uid"]
        return kind, name, decision["reason"], by
    return kind, name


class OncePerVerdict:
    """Consecutive Inadmissible verdicts on one workload count as one."""

    def __init__(self) -> None:
        self.last: dict[Hashable, Hashable] = {}

    def __call__(self, decisions: list[dict[str, Any]]) -> Counter[Verdict]:
        result: Counter[Verdict] = Counter()
        for decision in decisions:
            if decision["type"] in COMPARED:
                found = verdict(decision)
                repeated = found[0] == "Inadmissible" == self.last.get(found[1])
                self.last[found[1]] = found[0]
                if not repeated:
                    result[found] += 1
        return result


def play(scenario: Scenario) -> tuple[Fold, list[list[dict[str, Any]]]]:
    fold, decisions = Fold(), []
    for offset, event in enumerate(scenario["events"]):
        outcome = fold.apply(json.dumps({"cluster": "c", **event}).encode(), offset=offset)
        assert outcome.rejections == []
        decisions.append([json.loads(decision.value) for decision in outcome.decisions])
    return fold, decisions


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_event_is_decided_as_the_reference_did(scenario: Scenario) -> None:
    _, decisions = play(scenario)
    ours, theirs = OncePerVerdict(), OncePerVerdict()
    for number, (event, got, wanted) in enumerate(
        zip(scenario["events"], decisions, scenario["decisions"], strict=True)
    ):
        assert ours(got) == theirs(wanted), f"event {number}: {event['type']} {event['object']['kind']}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_final_state_is_that_of_the_reference(scenario: Scenario) -> None:
    fold, _ = play(scenario)
    ledger, final = fold.clusters["c"], scenario["final"]
    usage = ledger.usage()
    held = {queue: {item: used for item, used in usage.get(queue, {}).items() if used} for queue in final["usage"]}
    assert held == final["usage"]
    shares = ledger.shares()
    assert {queue: shares[queue].weighted for queue in final["shares"]} == {
        queue: float(share) for queue, share in final["shares"].items()
    }
    parked = ledger.parked()
    assert {queue: sorted(parked.get(queue, ())) for queue in final["parked"]} == final["parked"]
    # Null and Pending were there before the reference looked; and it keeps the reason of what is no longer waiting.
    reasons = ledger.pending_reasons()
    told = {name: reason for name, reason in final["pending"].items() if reason not in (None, "Pending")}
    assert {name: reasons[name] for name in told if name in reasons} == {
        name: reason for name, reason in told.items() if name in reasons
    }
