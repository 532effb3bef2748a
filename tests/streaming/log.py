"""The log as the tests write and read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from topics.admin import consumed_offsets
from topics.codec import APPLIED_KEY, decode_applied, encode_row, encode_row_key
from topics.folding import FoldFactory
from topics.reader import end_offsets, read_to_end, reader, wait_until_readable
from topics.settings import Settings
from topics.topic import Topics, partition_of

READABLE_SECONDS = 30.0


def event_of(cluster: str, number: int, type_: str = "ADDED", **more: Any) -> bytes:
    """An event of a cluster, small and distinct."""
    extra = "".join(f',"{name}":{value}' for name, value in more.items())
    return f'{{"cluster":"{cluster}","type":"{type_}","number":{number}{extra}}}'.encode()


def events_of(
    count: int, clusters: Sequence[str] = ("eu-1", "us-2", "ap-3", "sa-4", "af-5", "oc-6")
) -> list[tuple[bytes, bytes]]:
    """(key, value) of events of several clusters in turn."""
    return [
        (clusters[number % len(clusters)].encode(), event_of(clusters[number % len(clusters)], number))
        for number in range(count)
    ]


async def write_events(
    settings: Settings, events: Iterable[tuple[bytes | None, bytes | None]], timestamp: int = 1_767_225_600_000
) -> None:
    """Put records into `quota.events`, each in its cluster's partition."""
    producer = AIOKafkaProducer(**settings.client(), max_request_size=30_000_000, linger_ms=5, max_batch_size=262144)
    await producer.start()
    topics = Topics.of(settings)
    try:
        futures = []
        for key, value in events:
            partition = partition_of((key or b"default").decode(), settings.partitions)
            futures.append(
                await producer.send(topics.events.name, value, key=key, partition=partition, timestamp_ms=timestamp)
            )
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


async def committed(settings: Settings) -> int:
    """Records that the worker's group has consumed, over all partitions."""
    return sum((await consumed_offsets(settings, Topics.of(settings))).values())


async def wait_until_committed(settings: Settings, count: int, seconds: float = 120.0) -> None:
    """Until so many records are consumed. Readers may see what came of them a moment later: wait_until_folded."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (done := await committed(settings)) < count:
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"{done} of {count} events are committed after {seconds} s")
        await asyncio.sleep(0.05)


async def wait_until_folded(settings: Settings, count: int, seconds: float = 120.0) -> None:
    """Until so many records are consumed and everything that came of them is readable."""
    await wait_until_committed(settings, count, seconds)
    await wait_until_readable(settings, seconds)


async def waiting(settings: Settings) -> int:
    """Records that nobody has consumed yet, ticks of workers among them."""
    name = Topics.of(settings).events.name
    places = [TopicPartition(name, partition) for partition in range(settings.partitions)]
    async with reader(settings, name, range(settings.partitions)) as consumer:
        ends = await end_offsets(consumer, places)
    return sum(ends.values()) - await committed(settings)


@dataclass
class Written:
    """What a partition of the log holds, or what a fold of its events must give."""

    decisions: list[bytes] = field(default_factory=list)
    dead_letters: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    next_offset: int = 0


async def written(settings: Settings, partition: int, isolation: str = "read_committed") -> Written:
    """What the worker wrote for a partition."""
    topics = Topics.of(settings)
    found = Written()
    await wait_until_readable(settings, READABLE_SECONDS)
    async for records in read_to_end(settings, topics.decisions.name, partition, isolation=isolation):
        found.decisions += [record.value for record in records]
    async for records in read_to_end(settings, topics.dead_letters.name, partition, isolation=isolation):
        found.dead_letters += [(record.key, record.value) for record in records]
    async for records in read_to_end(settings, topics.quota.name, partition, isolation=isolation):
        for record in records:
            if record.key == APPLIED_KEY:
                found.next_offset = decode_applied(record.value)
            elif record.value is None:
                found.rows.pop(record.key, None)
            else:
                found.rows[record.key] = record.value
    return found


async def folded(settings: Settings, partition: int, fold: FoldFactory, stop: int | None = None) -> Written:
    """What the fold of a partition's events gives, in this process."""
    topics = Topics.of(settings)
    state = fold(topics.events.name, partition)
    expected = Written()
    async for records in read_to_end(settings, topics.events.name, partition, stop=stop):
        for record in records:
            outcome = state.apply(
                record.value or b"", offset=record.offset, key=record.key, timestamp=record.timestamp * 1000
            )
            expected.decisions += [decision.value for decision in outcome.decisions]
            if outcome.rejections:
                expected.dead_letters.append((record.key, record.value))
            expected.next_offset = record.offset + 1
    for key, row in state.drain_rows().items():
        if row is not None:
            expected.rows[encode_row_key(key)] = encode_row(row)
    return expected


async def assert_written_once(settings: Settings, fold: FoldFactory) -> None:
    """Every decision, dead letter and row exactly once, bytes and order as the fold gives them.

    Of what was written nothing may wait but ticks: a worker that stops may have written one that nobody folds any more.
    """
    name = Topics.of(settings).events.name
    for partition in range(settings.partitions):
        found = await written(settings, partition)
        expected = await folded(settings, partition, fold, found.next_offset)
        assert len(found.decisions) == len(expected.decisions), f"partition {partition}"
        assert found == expected, f"partition {partition}"
        async for records in read_to_end(settings, name, partition, start=found.next_offset):
            left = [record.value for record in records if b'"type":"TICK"' not in (record.value or b"")]
            assert left == [], f"partition {partition}"


async def aborted_records(settings: Settings) -> int:
    """Decisions of transactions that were under way when a worker died: how sharp the test was."""
    count = 0
    for partition in range(settings.partitions):
        everything = await written(settings, partition, "read_uncommitted")
        count += len(everything.decisions) - len((await written(settings, partition)).decisions)
    return count


async def nothing_hangs(settings: Settings) -> None:
    """No transaction is open: the end for readers of committed records is the end."""
    for topic in Topics.of(settings).all():
        places = [TopicPartition(topic.name, partition) for partition in range(settings.partitions)]
        ends = []
        for isolation in ("read_committed", "read_uncommitted"):
            async with reader(settings, topic.name, range(settings.partitions), isolation=isolation) as consumer:
                ends.append(await end_offsets(consumer, places))
        assert ends[0] == ends[1], f"a transaction hangs in {topic.name}: {ends}"
