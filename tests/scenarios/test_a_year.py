"""A log of ticks, backoffs and samples, long as a year: it replays without a clock, and costs what its events cost."""

from __future__ import annotations

import sys
import time
from types import FrameType

import pytest

from ledger.fold import Fold
from tests import builders as build
from tests.builders import Object
from tests.life import GPU, Life

MINUTE, HOUR, DAY = 60, 3600, 86_400
RULES = {
    "admissionFairSharing": {"usageHalfLifeTime": "24h", "usageSamplingInterval": "5m"},
    "waitForPodsReady": {"timeout": "30m", "requeuingStrategy": {"backoffBaseSeconds": 60, "backoffMaxSeconds": 3600}},
}


def local_queue(name: str) -> Object:
    return build.local_queue(name, "a")


def waiting_for_ever(number: int) -> Object:
    """Its backoff ends long after the log."""
    target = build.workload(f"asleep-{number:05}", "x", requests={GPU: 1})
    target["status"] = {
        "conditions": [build.condition("Requeued", False, "PodsReadyTimeout", 0)],
        "requeueState": {"count": 9, "requeueAt": build.moment(10_000 * DAY + number)},
    }
    return target


def played(days: int, *, asleep: int = 100) -> Life:
    """A tick a minute. Two jobs whose pods never get ready time out, give their quota back and come again, with
    longer and longer backoffs; a third runs all the time; many others sleep. Every day a job comes and ends."""
    life = Life(rules="ledger", **RULES)
    life.queue("a", 4, fair=True)
    life.add(*(local_queue(name) for name in "xyz"))
    life.send("ADDED", *(waiting_for_ever(number) for number in range(asleep)))
    life.at(1000).job("steady", 1, queue="z")
    life.at(1001).pods("steady", True)
    life.at(1002).job("w-x", 1, queue="x")
    life.at(1003).job("w-y", 1, queue="y")
    for minute in range(17, 17 + days * 24 * 60):
        decided = life.tick(minute * MINUTE)
        for decision in decided:
            if decision["type"] == "Evicted":
                life.give_back(decision["workload"]["name"])
        if minute % (24 * 60) == 0:
            life.job(f"daily-{minute}", 1, queue="y")
            life.finish(f"daily-{minute}")
            life.delete(f"daily-{minute}")
    return life


def replayed(records: list[bytes]) -> tuple[list[bytes], Fold]:
    fold = Fold()
    decisions = [
        decision.value
        for offset, record in enumerate(records)
        for decision in fold.apply(record, offset=offset, key=b"test").decisions
    ]
    return decisions, fold


def calls_of(fold: Fold, records: list[bytes], offset: int) -> int:
    """How many functions these records call."""
    calls = 0

    def count(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal calls
        calls += kind == "call"

    sys.setprofile(count)
    try:
        for number, record in enumerate(records):
            fold.apply(record, offset=offset + number, key=b"test")
    finally:
        sys.setprofile(None)
    return calls


def test_later_weeks_cost_what_the_first_ones_cost_however_many_sleep() -> None:
    """Work is counted in calls, event by event: neither the length of the log nor who waits adds to it."""
    costs = {}
    for asleep in (10, 2000):
        records = played(8, asleep=asleep).records
        begun = next(n for n, record in enumerate(records) if b'"TICK"' in record) + 2 * 24 * 60
        third = (len(records) - begun) // 3
        _, fold = replayed(records[:begun])
        parts = [records[begun + n * third : begun + (n + 1) * third] for n in range(3)]
        costs[asleep] = [calls_of(fold, part, begun + n * third) for n, part in enumerate(parts)]
    for cost in costs.values():
        assert max(cost) < 1.05 * min(cost), costs
    assert sum(costs[2000]) < 1.05 * sum(costs[10]), costs


def test_a_log_of_ticks_backoffs_and_samples_replays_without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    life = played(3)

    def no_clock() -> float:
        raise AssertionError("a replay asked for the time")

    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"):
        monkeypatch.setattr(time, name, no_clock)
    decisions, fold = replayed(life.records)
    monkeypatch.undo()
    assert len(decisions) == len(life.decisions)
    assert fold.clusters["test"].last_hash == life.ledger.last_hash
    reasons = [d["reason"] for d in life.decisions if d["type"] in ("Evicted", "Requeued")]
    assert reasons.count("PodsReadyTimeout") > 60
    assert reasons.count("BackoffFinished") > 60
    assert sum(d["type"] == "ShareChanged" for d in life.decisions) > 3 * 24 * 12


@pytest.mark.slow
def test_a_year_of_ticks_a_minute_ends_where_its_rules_lead() -> None:
    life = played(365)
    ticks = sum(b'"TICK"' in record for record in life.records)
    assert ticks == 365 * 24 * 60
    decisions, fold = replayed(life.records)
    assert fold.clusters["test"].last_hash == life.ledger.last_hash
    assert len(decisions) == len(life.decisions)
    ended = [d for d in life.decisions if d["type"] == "Requeued" and d["reason"] == "BackoffFinished"]
    by_name = {name: sum(d["workload"]["name"] == name for d in ended) for name in ("w-x", "w-y")}
    # Timeout 30 min and backoff an hour, after 1, 2, 4, 8, 16, 32 minutes: 90 minutes a round.
    rounds = 365 * 24 * 60 // 90
    assert all(rounds <= count <= rounds + 5 for count in by_name.values()), by_name
    asleep = life.ledger.state.forest.queues["a"].pending
    assert len(asleep) == 100 + sum(life.ledger.state.workloads["team", n].reservation is None for n in ("w-x", "w-y"))
