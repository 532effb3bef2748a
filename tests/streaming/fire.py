"""Exactly once under fire: workers killed again and again, a second one that comes and goes, a broker that restarts.

python -m tests.streaming.fire --broker kafka|embedded --events 50000 --kills 25 --restarts 2 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from random import Random
from typing import Any

from benchmarks.generated import GeneratedCohort, batch, made
from ledger.fold import Fold
from tests.streaming.apache_kafka import apache_kafka
from tests.streaming.log import (
    aborted_records,
    assert_written_once,
    nothing_hangs,
    wait_until_committed,
    waiting,
    write_events,
)
from tests.streaming.workers import WorkerProcess
from topics.admin import ensure_topics
from topics.broker import EmbeddedBroker
from topics.folding import ledger_fold
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import Topics, partition_of

PARTITIONS = 4


@dataclass
class Fire:
    """What happened."""

    kills: int = 0
    restarts: int = 0
    joined: int = 0
    aborted: int = 0
    checkpoints: int = 0
    decisions: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def clusters() -> list[str]:
    """A cluster for every partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < PARTITIONS:
        found.setdefault(partition_of(f"fire-{number}", PARTITIONS), f"fire-{number}")
        number += 1
    return [found[partition] for partition in sorted(found)]


def load(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """Events of four clusters in which workloads come and go, as the decisions of a fold allow."""
    streams = [_cluster_events(name, seed * 100 + number) for number, name in enumerate(clusters())]
    for number in range(count):
        yield next(streams[number % len(streams)])


def _cluster_events(name: str, seed: int) -> Iterator[tuple[bytes, bytes]]:
    cohort, fold, random = GeneratedCohort(seed), Fold(), Random(seed)
    offset = 0
    setting = [batch([made("Namespace", "team", version="v1"), made("ResourceFlavor", "a100")])]
    setting.append(batch(list(cohort.objects())))
    running = 0
    while True:
        if setting:
            value = setting.pop(0)
        elif running > 0 and random.random() < 0.52:
            value = cohort.finish()
            running -= 1
        else:
            value = cohort.submission()
        for decision in fold.apply(value, offset=offset).decisions:
            found = json.loads(decision.value)
            if found["type"] == "QuotaReserved":
                cohort.observe(found)
                running += 1
        offset += 1
        yield name.encode(), value.replace(b'"cluster":"bench"', b'"cluster":"%b"' % name.encode(), 1)


def run(broker: Any, *, events: int, kills: int, restarts: int, seed: int, folder: Path) -> Fire:
    """The whole test against a started broker; raises where something was lost, repeated or left open."""
    began = time.monotonic()
    random, fire = Random(seed), Fire()
    settings = Settings(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"fire-{seed}",
        topic_prefix=f"fire{seed}.",
        partitions=PARTITIONS,
        session_timeout_seconds=10,
        chunk_size=60,
        checkpoint_events=300,
        metrics_port=0,
    )
    records = list(load(events, seed))
    asyncio.run(ensure_topics(settings))
    asyncio.run(write_events(settings, records[: events // 4]))
    rounds: Queue[None] = Queue()
    writer = threading.Thread(target=_write_by_rounds, args=(settings, records[events // 4 :], kills, rounds))
    writer.start()
    restart_at = {kills * (number + 1) // (restarts + 1) for number in range(restarts)}
    second: WorkerProcess | None = None
    with ExitStack() as stack:
        for kill in range(kills):
            rounds.put(None)
            first = stack.enter_context(_worker(settings, "a", folder, sleep=0.03))
            if kill % 6 == 2 and second is None:
                second = stack.enter_context(_worker(settings, "b", folder, sleep=0.03))
                fire.joined += 1
            if random.random() < 0.7:
                _wait_until_it_folds(first)
                time.sleep(random.uniform(0.0, 2.5))
            else:
                time.sleep(random.uniform(0.0, 6.0))
            if kill in restart_at:
                _restart(broker, random)
                fire.restarts += 1
                time.sleep(random.uniform(0.0, 4.0))
            if first.alive:
                first.kill()
                fire.kills += 1
            else:
                fire.notes.append(f"worker a ended by itself: {first.text()[-200:]!r}")
            if second is not None and kill % 6 == 5:
                if kill % 12 == 5:
                    second.terminate(60)
                else:
                    second.kill()
                    fire.kills += 1
                second = None
        if second is not None and second.alive:
            second.terminate(60)
    writer.join()
    while True:
        with _worker(settings, "a", folder, sleep=0.0) as last:
            _wait_until_it_folds(last)
            asyncio.run(wait_until_committed(settings, events, seconds=600))
            while asyncio.run(waiting(settings)):
                time.sleep(0.1)
            code = last.terminate(60)
            assert code == 0, f"exit code {code}: {last.text()[-2000:]}"
        if not asyncio.run(waiting(settings)):
            break
    asyncio.run(_verify(settings, fire, folder))
    fire.seconds = time.monotonic() - began
    return fire


def _worker(settings: Settings, name: str, folder: Path, sleep: float) -> WorkerProcess:
    """Static members, so that a successor need not wait for the session of the dead to end."""
    used = settings.replaced(instance_id=f"{settings.group_id}-{name}")
    return WorkerProcess(used, folder / f"worker-{name}.log", fold="ledger", sleep=sleep)


def _wait_until_it_folds(worker: WorkerProcess, seconds: float = 20.0) -> None:
    """Until it has a partition; a worker that gets none, because the broker is away, is killed all the same."""
    seen = worker.text().count("events up to offset")
    deadline = time.monotonic() + seconds
    while worker.alive and time.monotonic() < deadline and worker.text().count("events up to offset") <= seen:
        time.sleep(0.05)


def _write_by_rounds(settings: Settings, records: list[tuple[bytes, bytes]], kills: int, rounds: Queue[None]) -> None:
    """The load goes on while workers die, a part for each; the producer waits out a broker that is away."""
    size = len(records) // kills + 1
    for start in range(0, len(records), size):
        rounds.get()
        asyncio.run(_write_patiently(settings, records[start : start + size]))


async def _write_patiently(settings: Settings, records: list[tuple[bytes, bytes]]) -> None:
    """Idempotent, so that what is sent again after a restart is in the log once."""
    from aiokafka import AIOKafkaProducer

    topics = Topics.of(settings)
    while True:
        producer = AIOKafkaProducer(**settings.client(), enable_idempotence=True, request_timeout_ms=120_000)
        try:
            await producer.start()
            break
        except Exception:
            await producer.stop()
            await asyncio.sleep(0.5)
    try:
        futures = [
            await producer.send(
                topics.events.name,
                value,
                key=key,
                partition=partition_of(key.decode(), settings.partitions),
                timestamp_ms=1_767_225_600_000,
            )
            for key, value in records
        ]
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


def _restart(broker: Any, random: Random) -> None:
    """The broker dies under the workers, in the middle of their transactions, and comes back."""
    broker.kill()
    time.sleep(random.uniform(0.5, 4.0))
    broker.start()


async def _verify(settings: Settings, fire: Fire, folder: Path) -> None:
    await assert_written_once(settings, ledger_fold)
    fire.aborted = await aborted_records(settings)
    topics = Topics.of(settings)
    for partition in range(settings.partitions):
        seqs: dict[str, int] = {}
        async for records in read_to_end(settings, topics.decisions.name, partition):
            for record in records:
                decision = json.loads(record.value)
                assert decision["seq"] == seqs.get(decision["cluster"], 0) + 1
                seqs[decision["cluster"]] = decision["seq"]
                fire.decisions += 1
        async for records in read_to_end(settings, topics.checkpoints.name, partition):
            fire.checkpoints += sum(1 for record in records if b"manifest" in record.key)
    await nothing_hangs(settings)
    for arguments in (["--export", str(folder / "fire.qla")], [str(folder / "fire.qla")]):
        done = subprocess.run(
            [sys.executable, "-c", "from projections.cli import main; main()", "audit", *arguments],
            env=os.environ | settings.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        fire.notes.append(done.stdout.strip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", choices=("kafka", "embedded"), default="kafka")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker: Any = (
            EmbeddedBroker(folder / "broker") if asked.broker == "embedded" else apache_kafka(folder / "broker")
        )
        broker.start()
        try:
            fire = run(
                broker,
                events=asked.events,
                kills=asked.kills,
                restarts=asked.restarts,
                seed=asked.seed,
                folder=folder,
            )
        finally:
            broker.stop()
    print(f"{asked.broker}, seed {asked.seed}, {asked.events:,} events: {fire}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
