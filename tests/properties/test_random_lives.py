"""Random lives: checks that answer anything, pods that come and go, queues that stop, time that passes."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from ledger.checkpoint import load, save
from ledger.fold import Fold
from tests.life import Life

PLAYS = 120


def play(seed: int, *, block: bool = False, fair: bool = False) -> Life:
    """A world in which random things happen; the quota of evicted workloads comes back at random times."""
    random = Random(seed)
    blocks: dict[str, object] = {
        "waitForPodsReady": {
            "timeout": f"{random.choice((20, 60, 300))}s",
            "recoveryTimeout": "30s",
            "blockAdmission": block,
            "requeuingStrategy": {"backoffBaseSeconds": 10, "backoffMaxSeconds": 60, "backoffLimitCount": 3},
        }
    }
    if fair:
        blocks["admissionFairSharing"] = {"usageHalfLifeTime": "60s", "usageSamplingInterval": "30s"}
    life = Life(rules=random.choice(("ledger", "kueue-0.19")), **blocks)
    life.check("k1")
    for name in ("a", "b"):
        checks = [{"name": "k1"}] if random.random() < 0.5 else None
        life.queue(name, random.choice((4, 8)), cohort="k", within="LowerPriority", checks=checks, fair=fair)
    names: list[str] = []
    for number in range(PLAYS):
        choice = random.random()
        alive = [name for name in names if ("Workload", "team", name) in life.objects]
        if choice < 0.25 or not alive:
            names.append(f"w{number:03}")
            limit = {"maximumExecutionTimeSeconds": random.choice((15, 90))} if random.random() < 0.3 else {}
            life.job(names[-1], random.randint(1, 4), random.choice("ab"), priority=random.randint(0, 3), **limit)
            continue
        name = random.choice(alive)
        if choice < 0.40:
            life.tick(life.now + random.choice((1, 7, 31, 100)))
        elif choice < 0.50:
            life.answer(name, k1=random.choice(("Ready", "Ready", "Pending", "Retry", ("Retry", 20), "Rejected")))
        elif choice < 0.65:
            life.pods(name, random.random() < 0.7, random.choice(("WaitForStart", "WaitForRecovery")))
        elif choice < 0.72:
            kind, policy = (
                random.choice(("ClusterQueue", "LocalQueue")),
                random.choice(("None", "Hold", "HoldAndDrain")),
            )
            life.stop(kind, random.choice("ab"), policy)
        elif choice < 0.78:
            life.activate(name, random.random() < 0.5)
        elif choice < 0.83:
            life.finish(name)
        elif choice < 0.86:
            life.delete(name)
        else:
            conditions = {c["type"]: c["status"] for c in life.workload(name).get("status", {}).get("conditions", [])}
            if conditions.get("Evicted") == "True" and conditions.get("QuotaReserved") == "True":
                life.give_back(name)
        check(life)
    return life


def check(life: Life) -> None:
    """What holds after every event."""
    ledger = life.ledger
    deadline = ledger.next_deadline()
    assert deadline is None or deadline > ledger.now
    charged: Counter[str] = Counter()
    for workload in ledger.state.workloads.values():
        reservation = workload.reservation
        if reservation is not None and reservation.charged:
            charged[reservation.cluster_queue] += sum(reservation.usage.values())
            assert workload.waiting_in is None
        if workload.is_evicted:
            assert reservation is not None
    assert {queue: sum(rows.values()) for queue, rows in ledger.usage().items() if rows} == dict(charged)
    assert not ledger.state.watched
    assert not ledger.state.restarted


@pytest.mark.parametrize("seed", range(20))
def test_every_event_leaves_the_ledger_in_order(seed: int) -> None:
    life = play(seed, block=seed % 4 == 0, fair=seed % 3 == 0)
    counted = Counter(decision["type"] for decision in life.decisions)
    assert counted["QuotaReserved"]
    assert counted["Released"]


def test_the_random_lives_show_every_kind_of_eviction() -> None:
    reasons = {d["reason"] for seed in range(20) for d in play(seed).decisions if d["type"] == "Evicted"}
    assert {
        "AdmissionCheck",
        "ClusterQueueStopped",
        "Deactivated",
        "DeactivatedDueToAdmissionCheck",
        "DeactivatedDueToMaximumExecutionTimeExceeded",
        "LocalQueueStopped",
        "PodsReadyTimeout",
    } <= reasons


@pytest.mark.parametrize("seed", range(6))
def test_a_worker_that_stops_after_every_event_decides_the_same(seed: int) -> None:
    life = play(seed, block=seed % 2 == 0, fair=seed % 3 == 0)
    whole = Fold()
    decided, expected = [], []
    fold = Fold()
    for offset, record in enumerate(life.records):
        expected += [d.value for d in whole.apply(record, offset=offset).decisions]
        decided += [d.value for d in fold.apply(record, offset=offset).decisions]
        restarted = Fold()
        restarted.clusters = {name: load(save(ledger)) for name, ledger in fold.clusters.items()}
        fold = restarted
    assert decided == expected
    assert [json.loads(value)["type"] for value in expected]
