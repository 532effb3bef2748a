"""The whole life of workloads on a real cluster: reserved, admitted, preempted, evicted, in the order Kueue decided.

From Kueue's own status writes: R, P as in `test_recordings`, A, admitted, and E, evicted for another reason. The fold
comes to the same sequence by itself: an eviction that a timer brings is decided before the fact arrives.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ledger.fold import Fold
from tests.recorded.test_recordings import HERE, Step, is_new, is_true, lines, pod_sets, what_kueue_did

LIVES = ("checks", "podsready", "podsready-block", "stops", "maxexec", "prioclass", "afs", "partial", "elastic")
MERGED = ("podsready", "podsready-block", "stops", "afs", "partial", "preempt2", "tree", "checks")


def lives_in_kueue(name: str) -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = {}
    before: dict[str, dict[str, dict[str, str]]] = {}
    preemptions = {uid: iter([s for s in taken if s[0] == "P"]) for uid, taken in what_kueue_did(name).items()}
    for line in lines(name):
        event = json.loads(line)
        target = event.get("object", {})
        if target.get("kind") != "Workload" or event["type"] == "DELETED":
            continue
        uid, status = target["metadata"]["uid"], target.get("status", {})
        now = {condition["type"]: condition for condition in status.get("conditions", ())}
        last, before[uid] = before.get(uid, {}), now
        taken = steps.setdefault(uid, [])
        if is_true(now, "QuotaReserved") and not is_true(last, "QuotaReserved"):
            taken.append(("R", pod_sets(status["admission"]["podSetAssignments"])))
        if is_true(now, "Admitted") and not is_true(last, "Admitted"):
            taken.append(("A",))
        if is_true(now, "Evicted") and is_new(now, last):
            reason = now["Evicted"]["reason"]
            taken.append(next(preemptions[uid]) if reason == "Preempted" else ("E", reason))
    return steps


def lives_in_the_fold(name: str, *, merged: bool = False) -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = {}
    fold = Fold()
    for offset, line in enumerate(lines(name)):
        value = with_merged_retries(line) if merged and offset == 0 else line.rstrip(b"\n")
        outcome = fold.apply(value, offset=offset)
        assert outcome.rejections == []
        for record in outcome.decisions:
            decision = json.loads(record.value)
            taken = steps.setdefault((decision.get("workload") or {}).get("uid", ""), [])
            if (step := step_of(decision)) is not None:
                taken.append(step)
    return steps


def step_of(decision: dict[str, Any]) -> Step | None:
    kind = decision["type"]
    if kind == "QuotaReserved":
        return ("R", pod_sets(decision["podSets"]))
    if kind == "Admitted":
        return ("A",)
    if kind == "Preempted":
        return ("P", decision["reason"], decision["preemptor"]["uid"])
    return ("E", decision["reason"]) if kind == "Evicted" else None


def with_merged_retries(line: bytes) -> bytes:
    event = json.loads(line)
    event["object"]["ledger"]["retryDelay"] = "1s"
    return json.dumps(event).encode()


@pytest.mark.parametrize("name", LIVES)
def test_every_workload_lives_as_in_kueue(name: str) -> None:
    expected, lived = lives_in_kueue(name), lives_in_the_fold(name)
    assert {uid: lived.get(uid, []) for uid in expected} == expected
    assert any(expected.values())


@pytest.mark.parametrize("name", MERGED)
def test_retries_that_are_merged_for_a_second_come_to_the_same(name: str) -> None:
    """4.7.5: what the reference does; `ledger.retryDelay` makes the fold do it too."""
    expected, lived = lives_in_kueue(name), lives_in_the_fold(name, merged=True)
    assert {uid: lived.get(uid, []) for uid in expected} == expected


def test_the_recordings_hold_every_kind_of_eviction() -> None:
    reasons = {step[1] for name in LIVES for taken in lives_in_kueue(name).values() for step in taken if step[0] == "E"}
    assert reasons == {
        "AdmissionCheck",
        "ClusterQueueStopped",
        "Deactivated",
        "DeactivatedDueToAdmissionCheck",
        "DeactivatedDueToMaximumExecutionTimeExceeded",
        "DeactivatedDueToRequeuingLimitExceeded",
        "LocalQueueStopped",
        "PodsReadyTimeout",
    }


def test_the_recordings_are_whole() -> None:
    for name in LIVES:
        with gzip.open(HERE / f"{name}.jsonl.gz") as file:
            assert json.loads(file.readline())["object"]["kind"] == "Configuration"
