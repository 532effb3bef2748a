"""Two recordings in which Kueue preempts in a circle without end, taken as inputs only under the default rules.

Workloads come and finish as recorded and every victim comes back at once. The ledger stops each circle in its first
repeated round and names it.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ledger.fold import Fold
from tests import builders as build
from tests.builders import START

HERE = Path(__file__).parent


class ClosedCluster:
    """Plays recorded inputs; whoever is preempted gives the quota back and waits again, a millisecond later."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.offset = 0
        self.at = START
        self.workloads: dict[str, dict[str, Any]] = {}
        self.decisions: list[dict[str, Any]] = []

    @property
    def second(self) -> float:
        """The present in seconds since the start of every test."""
        return (self.at - START).total_seconds()

    def play(self, line: dict[str, Any]) -> list[dict[str, Any]]:
        """One input and everything that follows from it until the cluster rests."""
        self.at = max(self.at, datetime.fromisoformat(line["at"]))
        if "finish" in line:
            target = build.finished(self.workloads[line["finish"]], at=self.second)
            decided = self.apply("MODIFIED", target)
        else:
            decided = self.apply(line["type"], line["object"])
        following = decided
        for _ in range(200):
            back = [d["workload"]["name"] for d in following if d["type"] == "Preempted"]
            if not back:
                return decided
            following = []
            for name in sorted(back):
                self.at += timedelta(milliseconds=1)
                following += self.apply("MODIFIED", build.released(self.workloads[name], at=self.second))
            decided = decided + following
        raise AssertionError("the cluster does not come to rest")

    def apply(self, change: str, target: dict[str, Any]) -> list[dict[str, Any]]:
        if target["kind"] == "Workload":
            self.workloads[target["metadata"]["name"]] = target
        record = {"cluster": "c", "at": build.moment(self.second), "type": change, "object": target}
        if "metadata" in target:
            target["metadata"] = {**target["metadata"], "resourceVersion": str(10**6 + self.offset)}
        outcome = self.fold.apply(json.dumps(record).encode(), offset=self.offset)
        assert outcome.rejections == []
        self.offset += 1
        decisions = [json.loads(decision.value) for decision in outcome.decisions]
        for decision in decisions:
            self.remember(decision)
        self.decisions += decisions
        return decisions

    def remember(self, decision: dict[str, Any]) -> None:
        name = (decision.get("workload") or {}).get("name")
        if decision["type"] == "QuotaReserved":
            given = [
                build.assignment(pods["name"], pods["flavors"], pods["usage"], count=pods["count"])
                for pods in decision["podSets"]
            ]
            self.workloads[name] = build.holding(self.workloads[name], decision["clusterQueue"], given, at=self.second)
        elif decision["type"] == "Preempted":
            self.workloads[name] = build.evicted(self.workloads[name], at=self.second, preempted=decision["reason"])


@pytest.mark.parametrize("name", ["preempt-loop", "fair-loop"])
def test_a_circle_of_preemptions_is_stopped_in_its_first_repeated_round(name: str) -> None:
    cluster = ClosedCluster()
    stops = []
    with gzip.open(HERE / f"{name}-inputs.jsonl.gz", "rt") as lines:
        for line in lines:
            decided = cluster.play(json.loads(line))
            stopped = [d for d in decided if d["type"] == "Pending" and d["reason"] == "PreemptionLoop"]
            preempted = [d for d in decided if d["type"] == "Preempted"]
            rounds = Counter((d["preemptor"]["name"], d["workload"]["name"]) for d in preempted)
            # Without a circle nobody is preempted twice by the same. With circles: once on the way in, and at most once
            # more in the repeated round of each, until that is stopped.
            assert max(rounds.values(), default=0) <= (len(stopped) + 2 if stopped else 1), rounds
            stops += stopped
    assert stops
    for stop in stops:
        assert len(stop["members"]) >= 2
        preemptions = {d["seq"]: d for d in cluster.decisions if d["type"] == "Preempted"}
        assert stop["round"]
        assert set(stop["round"]) <= set(preemptions)


def test_a_stopped_preemptor_goes_on_when_the_quota_of_its_queue_grows() -> None:
    cluster = ClosedCluster()
    queues: dict[str, dict[str, Any]] = {}
    stop: list[dict[str, Any]] = []
    with gzip.open(HERE / "preempt-loop-inputs.jsonl.gz", "rt") as lines:
        while not stop:
            line = json.loads(next(lines))
            if line.get("object", {}).get("kind") == "ClusterQueue":
                queues[line["object"]["metadata"]["name"]] = line["object"]
            stop = [d for d in cluster.play(line) if d["type"] == "Pending" and d["reason"] == "PreemptionLoop"]
    queue = queues[stop[0]["clusterQueue"]]
    for group in queue["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            flavor["resources"] = [{"name": quota["name"], "nominalQuota": "1000"} for quota in flavor["resources"]]
    decided = cluster.apply("MODIFIED", queue)
    assert stop[0]["workload"] in [d["workload"] for d in decided if d["type"] == "QuotaReserved"]
