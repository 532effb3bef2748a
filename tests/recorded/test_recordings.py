"""Watch streams of a real cluster on which Kueue decided: the fold comes to the same sequence for every workload.

From Kueue's own status writes: R, quota reserved (flavors and count of each pod set), and P, preempted (reason and
preemptor). The order between workloads is not compared, because Kueue writes in parallel.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.fold import Fold

HERE = Path(__file__).parent
RECORDINGS = ("shapes", "flavors", "preempt2", "tree", "fair2", "slowstop", "settled-mig", "settled-whole")

Step = tuple[Any, ...]


def lines(name: str) -> Iterator[bytes]:
    with gzip.open(HERE / f"{name}.jsonl.gz", "rb") as file:
        yield from file


def pod_sets(assignments: list[dict[str, Any]]) -> list[Step]:
    return sorted((pods["name"], pods.get("count", 0), sorted(pods.get("flavors", {}).items())) for pods in assignments)


def what_kueue_did(name: str) -> dict[str, list[Step]]:
    """The steps of every workload (uid), from the transitions of its conditions."""
    steps: dict[str, list[Step]] = {}
    before: dict[str, dict[str, dict[str, str]]] = {}
    for line in lines(name):
        event = json.loads(line)
        target = event.get("object", {})
        if target.get("kind") != "Workload" or event["type"] == "DELETED":
            continue
        uid, status = target["metadata"]["uid"], target.get("status", {})
        now = {condition["type"]: condition for condition in status.get("conditions", ())}
        last = before.get(uid, {})
        before[uid] = now
        taken = steps.setdefault(uid, [])
        if is_true(now, "QuotaReserved") and not is_true(last, "QuotaReserved"):
            taken.append(("R", pod_sets(status["admission"]["podSetAssignments"])))
        if is_true(now, "Evicted") and now["Evicted"]["reason"] == "Preempted" and is_new(now, last):
            told = now.get("Preempted", {})
            by = re.search(r"UID: ([0-9a-f-]+)", told.get("message") or now["Evicted"].get("message", ""))
            taken.append(("P", told.get("reason"), by[1] if by else ""))
    return steps


def is_true(conditions: dict[str, dict[str, str]], kind: str) -> bool:
    return conditions.get(kind, {}).get("status") == "True"


def is_new(now: dict[str, dict[str, str]], last: dict[str, dict[str, str]]) -> bool:
    return not is_true(last, "Evicted") or now["Evicted"]["lastTransitionTime"] != last["Evicted"]["lastTransitionTime"]


def what_the_fold_decided(name: str) -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = {}
    fold = Fold()
    for offset, line in enumerate(lines(name)):
        outcome = fold.apply(line.rstrip(b"\n"), offset=offset)
        assert outcome.rejections == []
        for record in outcome.decisions:
            decision = json.loads(record.value)
            taken = steps.setdefault((decision.get("workload") or {}).get("uid", ""), [])
            if decision["type"] == "QuotaReserved":
                taken.append(("R", pod_sets(decision["podSets"])))
            elif decision["type"] == "Preempted":
                taken.append(("P", decision["reason"], decision["preemptor"]["uid"]))
    return steps


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_workload_goes_through_the_steps_that_kueue_decided(name: str) -> None:
    expected = what_kueue_did(name)
    decided = what_the_fold_decided(name)
    assert {uid: decided.get(uid, []) for uid in expected} == expected
    assert any(expected.values())
