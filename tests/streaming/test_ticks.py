"""Time written into the log: one tick when a timer is due and no event carries it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.builders import cluster_queue, encode, event, flavor, group, local_queue, namespace, quota, workload
from tests.streaming.log import write_events, written
from tests.streaming.workers import WorkerProcess
from topics.admin import ensure_topics
from topics.settings import Settings
from topics.ticks import DOWNTIME, GRACE, REPEAT, DueTicks
from topics.topic import partition_of

SECOND = 1_000_000
NOON = 1_800_000_000 * SECOND


@dataclass
class Clocked:
    now: int
    deadline: int | None

    def next_deadline(self) -> int | None:
        return self.deadline


@dataclass
class Owned:
    clusters: Mapping[str, Clocked]
    live: Mapping[str, bool] = field(default_factory=lambda: {"eu-1": True})
    opened_at: int = NOON
    number: int = 3


def test_a_deadline_that_has_passed_asks_for_one_tick_with_the_time_of_the_clock() -> None:
    due, partition = DueTicks(), Owned({"eu-1": Clocked(NOON, NOON + SECOND)})
    assert due.of(partition, NOON + SECOND) == []
    clock = NOON + SECOND + GRACE
    [tick] = due.of(partition, clock)
    assert (tick.partition, tick.cluster) == (3, "eu-1")
    assert json.loads(tick.value) == {"cluster": "eu-1", "at": "2027-01-15T08:00:01.250Z", "type": "TICK"}
    assert due.of(partition, clock + SECOND) == []


def test_a_tick_that_was_not_folded_is_asked_for_again_after_a_while() -> None:
    due, partition = DueTicks(), Owned({"eu-1": Clocked(NOON, NOON)})
    assert len(due.of(partition, NOON + GRACE)) == 1
    assert due.of(partition, NOON + GRACE + REPEAT - 1) == []
    assert len(due.of(partition, NOON + GRACE + REPEAT)) == 1


def test_another_deadline_of_the_cluster_has_a_tick_of_its_own() -> None:
    due, ledger = DueTicks(), Clocked(NOON, NOON)
    partition = Owned({"eu-1": ledger})
    due.of(partition, NOON + GRACE)
    ledger.deadline = NOON + SECOND
    assert len(due.of(partition, NOON + 2 * SECOND)) == 1


def test_a_recording_that_was_written_to_the_log_is_left_alone() -> None:
    partition = Owned({"eu-1": Clocked(NOON, NOON)}, live={"eu-1": False})
    assert DueTicks().of(partition, NOON + 10 * SECOND) == []


def test_after_a_restart_only_deadlines_of_late_count_until_a_record_comes() -> None:
    ledger = Clocked(NOON, NOON + DOWNTIME)
    partition = Owned({"eu-1": ledger}, live={}, opened_at=NOON + 2 * DOWNTIME)
    assert DueTicks().of(partition, NOON + 3 * DOWNTIME) == []
    ledger.deadline = NOON + DOWNTIME + 1
    assert len(DueTicks().of(partition, NOON + 3 * DOWNTIME)) == 1


@pytest.mark.broker
def test_a_workload_runs_out_of_time_though_nothing_else_happens(embedded_settings: Settings, tmp_path: Path) -> None:
    """The maximum execution time passes: the worker writes the TICK, the fold evicts, the file agrees."""
    settings = embedded_settings
    number = partition_of("test", settings.partitions)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    objects = [
        namespace(),
        flavor("f1"),
        cluster_queue("cq", group(f1=[quota("nvidia.com/gpu", 4)])),
        local_queue("cq"),
        workload("short", "cq", requests={"nvidia.com/gpu": 1}, maximumExecutionTimeSeconds=1),
    ]

    async def run() -> list[dict[str, object]]:
        await ensure_topics(settings)
        await write_events(
            settings,
            [(b"test", encode({**event("ADDED", each), "at": now})) for each in objects],
            timestamp=int(datetime.now(UTC).timestamp() * 1000),
        )
        for _ in range(200):
            decisions = [json.loads(value) for value in (await written(settings, number)).decisions]
            if any(decision["type"] == "Evicted" for decision in decisions):
                break
            await asyncio.sleep(0.1)
        return decisions

    with WorkerProcess(settings, tmp_path / "worker.log", fold="ledger") as worker:
        decisions = asyncio.run(run())
        assert worker.terminate() == 0
    steps = [(d["type"], d.get("reason")) for d in decisions if d["type"] in ("QuotaReserved", "Admitted", "Evicted")]
    assert steps == [
        ("QuotaReserved", None),
        ("Admitted", None),
        ("Evicted", "DeactivatedDueToMaximumExecutionTimeExceeded"),
    ]
