"""The worker as a process on both brokers: killed, frozen, stopped, restarted; the log always says everything once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from tests.streaming.counting_fold import CountingFold
from tests.streaming.log import (
    aborted_records,
    assert_written_once,
    event_of,
    events_of,
    wait_until_committed,
    write_events,
    written,
)
from tests.streaming.workers import WorkerProcess
from topics.admin import ensure_topics
from topics.settings import Settings
from topics.topic import Topics, partition_of

pytestmark = [pytest.mark.broker, pytest.mark.slow]

KILLS = 6


def run_with_events(settings: Settings, count: int) -> None:
    async def prepare() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(count))

    asyncio.run(prepare())


def test_workers_that_are_killed_write_everything_exactly_once(settings: Settings, tmp_path: Path) -> None:
    small_chunks = settings.replaced(chunk_size=10)
    run_with_events(small_chunks, 3_000)
    log = tmp_path / "worker.log"
    for kill in range(KILLS):
        with WorkerProcess(small_chunks, log, sleep=0.06) as worker:
            asyncio.run(wait_until_committed(small_chunks, 1 + 60 * kill))
            asyncio.run(asyncio.sleep(random.random() * 0.3))
            worker.kill()
    with WorkerProcess(small_chunks, log) as worker:
        asyncio.run(wait_until_committed(small_chunks, 3_000))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(small_chunks, CountingFold))
    assert asyncio.run(aborted_records(small_chunks)) > 0, "no kill met an open transaction: the test proves little"


def test_a_frozen_worker_that_wakes_up_is_fenced(settings: Settings, tmp_path: Path) -> None:
    small_chunks = settings.replaced(chunk_size=10)
    run_with_events(small_chunks, 1_500)
    with WorkerProcess(small_chunks, tmp_path / "first.log", sleep=0.05) as first:
        asyncio.run(wait_until_committed(small_chunks, 100))
        first.freeze()
        with WorkerProcess(small_chunks, tmp_path / "second.log") as second:
            second.wait_for_text("folded")
            first.thaw()
            assert first.wait() == 3, first.text()[-2000:]
            asyncio.run(wait_until_committed(small_chunks, 1_500))
            assert second.terminate() == 0
    asyncio.run(assert_written_once(small_chunks, CountingFold))


def test_a_worker_commits_what_it_has_and_stops_on_sigterm(settings: Settings, tmp_path: Path) -> None:
    small_chunks = settings.replaced(chunk_size=10)
    run_with_events(small_chunks, 1_000)
    with WorkerProcess(small_chunks, tmp_path / "worker.log", sleep=0.02) as worker:
        asyncio.run(wait_until_committed(small_chunks, 50))
        assert worker.terminate() == 0
        assert "CRITICAL" not in worker.text()
    assert asyncio.run(aborted_records(small_chunks)) == 0
    with WorkerProcess(small_chunks, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_committed(small_chunks, 1_000))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(small_chunks, CountingFold))


def test_a_worker_goes_on_where_the_group_has_no_offsets_any_more(settings: Settings, tmp_path: Path) -> None:
    """The brokers forget an idle group's offsets after a week; the log's own record of the applied offset counts."""
    run_with_events(settings, 400)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_committed(settings, 400))
        assert worker.terminate() == 0
    asyncio.run(move_group(settings, 0))
    asyncio.run(write_events(settings, events_of(200)))
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_committed(settings, 600))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(settings, CountingFold))


def test_a_worker_stops_where_the_group_was_moved_over_events(settings: Settings, tmp_path: Path) -> None:
    run_with_events(settings, 60)
    asyncio.run(move_group(settings, 5))
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        assert worker.wait() == 1
        assert "was not applied" in worker.text()


def test_a_worker_stops_where_a_recorded_decision_differs_from_the_fold(settings: Settings, tmp_path: Path) -> None:
    run_with_events(settings, 300)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_committed(settings, 300))
        assert worker.terminate() == 0
    foreign = event_of("eu-1", 1)
    partition = partition_of("eu-1", settings.partitions)
    asyncio.run(write_to(settings, Topics.of(settings).decisions.name, partition, b"eu-1", foreign))
    with WorkerProcess(settings, tmp_path / "second.log") as worker:
        assert worker.wait() == 1
        text = worker.text()
    assert "the log and the fold differ; nothing was written" in text
    assert foreign.decode() in text


def test_poison_goes_to_the_dead_letters_and_the_fold_goes_on(settings: Settings, tmp_path: Path) -> None:
    poison: list[tuple[bytes | None, bytes | None]] = [
        (b"eu-1", b'{"cluster":"eu-1","type":'),
        (b"eu-1", b""),
        (b"eu-1", None),
        (None, b"\xff\xfe"),
        (b"eu-1", b'{"cluster":7}'),
        (b"eu-1", b"[" * 100_000),
        (b"eu-1", b'{"cluster":"eu-1","type":"' + b"x" * 10_000_000),
        (b"eu-1", event_of("eu-1", 1, filler='"' + "y" * 10_000_000 + '"')),
    ]
    mixed = [record for bad in poison for record in (bad, *events_of(40))]

    async def prepare() -> None:
        await ensure_topics(settings)
        await write_events(settings, mixed)

    asyncio.run(prepare())
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_committed(settings, len(mixed)))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(settings, CountingFold))
    letters = [
        letter
        for partition in range(settings.partitions)
        for letter in asyncio.run(written(settings, partition)).dead_letters
    ]
    assert sorted(letters, key=repr) == sorted(poison[:7], key=repr)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(write_events(settings, events_of(5)))
        asyncio.run(wait_until_committed(settings, len(mixed) + 5))
        assert worker.terminate() == 0


def test_partitions_move_between_workers_that_come_and_go(settings: Settings, tmp_path: Path) -> None:
    settings = settings.replaced(chunk_size=20, instance_id=None)
    run_with_events(settings, 6_000)
    with WorkerProcess(settings, tmp_path / "1.log", sleep=0.05) as first:
        asyncio.run(wait_until_committed(settings, 200))
        with WorkerProcess(settings, tmp_path / "2.log", sleep=0.05) as second:
            second.wait_for_text("partition")
            second.wait_for_text("folded")
            asyncio.run(asyncio.sleep(0.5))
            assert first.terminate() == 0
            with WorkerProcess(settings, tmp_path / "3.log", sleep=0.02) as third:
                third.wait_for_text("folded")
                asyncio.run(asyncio.sleep(0.5))
                second.kill()
                asyncio.run(wait_until_committed(settings, 6_000, seconds=60))
                assert third.terminate() == 0
    asyncio.run(assert_written_once(settings, CountingFold))


async def move_group(settings: Settings, offset: int) -> None:
    """Set the group's offsets as an operator might. In a transaction, since members that left are still remembered."""
    name = Topics.of(settings).events.name
    producer = AIOKafkaProducer(**settings.client(), transactional_id=f"operator-of-{settings.group_id}")
    await producer.start()
    try:
        async with producer.transaction():
            places = [TopicPartition(name, partition) for partition in range(settings.partitions)]
            await producer.send_offsets_to_transaction(dict.fromkeys(places, offset), settings.group_id)
    finally:
        await producer.stop()


async def write_to(settings: Settings, topic: str, partition: int, key: bytes, value: bytes) -> None:
    producer = AIOKafkaProducer(**settings.client())
    await producer.start()
    try:
        await producer.send_and_wait(topic, value, key=key, partition=partition)
    finally:
        await producer.stop()
