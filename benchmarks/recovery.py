"""Checkpoint, recovery and audit of a partition with many workloads: python -m benchmarks.recovery [WORKLOADS]

A real broker (the embedded one), the worker's own partition. Reports the size of the checkpoint, the time to save and
to load it, and the time from starting to open the partition until it is live.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.generated import QUEUES, GeneratedCohort, setup
from ledger.checkpoint import load, save
from ledger.fold import Fold
from tests.streaming.log import write_events
from topics.admin import ensure_topics
from topics.broker import EmbeddedBroker
from topics.folding import ledger_fold
from topics.partition import Partition
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import Topics

PER_COHORT = 23 * QUEUES
TAIL = 2_000


def events_of(cohorts: list[GeneratedCohort], tail: int) -> Iterator[bytes]:
    """Everything that is there, then life that goes on."""
    fold = Fold()
    for offset, value in enumerate(setup(cohorts)):
        outcome = fold.apply(value, offset=offset)
        for decision in outcome.decisions:
            if decision.value.startswith(b'{"type":"QuotaReserved"'):
                found = json.loads(decision.value)
                cohorts[int(found["workload"]["name"].split("-")[1])].observe(found)
        yield value
    for number in range(tail):
        cohort = cohorts[number % len(cohorts)]
        yield cohort.submission() if number % 2 or not cohort._running else cohort.finish()


async def run(settings: Settings, values: list[bytes]) -> dict[str, Any]:
    topics = Topics.of(settings)
    await ensure_topics(settings)
    await write_events(settings, [(b"bench", value) for value in values])
    records = [r async for batch in read_to_end(settings, topics.events.name, 0) for r in batch]
    partition = Partition(0, settings=settings, topics=topics, fold=ledger_fold)
    await partition.open()
    head = len(records) - TAIL
    for start in range(0, len(records), 500):
        await partition.apply(records[start : start + 500])
        if start < head <= start + 500:
            partition._events_since = settings.checkpoint_events  # a checkpoint near the end of the head
    await partition.close()
    del partition
    gc.collect()
    began, cpu = time.monotonic(), time.process_time()
    again = Partition(0, settings=settings, topics=topics, fold=ledger_fold)
    await again.open()
    found = {
        "recovery seconds": round(time.monotonic() - began, 2),
        "recovery cpu seconds": round(time.process_time() - cpu, 2),
        "tail events": again.recovered_events,
        "workloads": len(again.fold.clusters["bench"].state.workloads),
    }
    ledger = again.fold.clusters["bench"]
    gc.collect()
    cpu = time.process_time()
    state = save(ledger)
    found["save cpu seconds"] = round(time.process_time() - cpu, 2)
    packed = zlib.compress(state, 1)
    found["checkpoint bytes"], found["packed bytes"] = len(state), len(packed)
    cpu = time.process_time()
    load(state)
    found["load cpu seconds"] = round(time.process_time() - cpu, 2)
    await again.close()
    return found


def main() -> int:
    workloads = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    gc.set_threshold(50_000, 20, 50)
    cohorts = [GeneratedCohort(number) for number in range(workloads // PER_COHORT + 1)]
    values = list(events_of(cohorts, TAIL))
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder)) as broker:
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            topic_prefix="bench.",
            group_id="bench",
            partitions=1,
            checkpoint_events=10**9,
            checkpoint_seconds=0,
            metrics_port=0,
        )
        found = asyncio.run(run(settings, values))
        for name, value in found.items():
            print(f"{name:<24} {value:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
