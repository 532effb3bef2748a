"""Reading a topic without a group: from start to end, committed records only, patient with a restarting broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from topics.settings import Settings
from topics.topic import MAX_RECORD_BYTES, Topics

#: A record as aiokafka gives it: key, value, offset, timestamp (milliseconds), partition, headers.
Record = Any

MAX_RECORDS = 4_000
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.25
FETCH_BYTES = 4 * 1024 * 1024


@asynccontextmanager
async def reader(
    settings: Settings, topic: str, partitions: Iterable[int], *, isolation: str = "read_committed"
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer assigned to the partitions, at their first record."""
    assigned = [TopicPartition(topic, partition) for partition in partitions]
    async with _consumer(settings, assigned, isolation) as consumer:
        await consumer.seek_to_beginning(*assigned)
        yield consumer


async def end_offsets(consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends of the partitions: with read_committed the last stable offsets."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        try:
            return dict(await consumer.end_offsets(list(partitions)))
        except (KafkaError, OSError):
            if asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(PAUSE_SECONDS)


async def wait_until_readable(settings: Settings, seconds: float) -> None:
    """Until a reader of committed records sees all that the worker has written by now.

    Kafka shows the committed offsets of a group before it has written the markers that end the transaction in every
    partition: whoever waits for the offsets has to wait for the rest, too. Raises TimeoutError where a transaction
    stays open.
    """
    places = [
        TopicPartition(topic.name, partition)
        for topic in Topics.of(settings).all()
        for partition in range(topic.partitions)
    ]
    async with _consumer(settings, places, "read_uncommitted") as consumer:
        ends = await end_offsets(consumer, places)
    deadline = asyncio.get_running_loop().time() + seconds
    async with _consumer(settings, places, "read_committed") as consumer:
        while True:
            stable = await end_offsets(consumer, places)
            behind = sorted(place.topic for place in places if stable[place] < ends[place])
            if not behind:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"a transaction stays open in {behind[0]} for more than {seconds:.0f} s")
            await asyncio.sleep(0.01)


async def read_to_end(
    settings: Settings,
    topic: str,
    partition: int,
    *,
    start: int | None = None,
    stop: int | None = None,
    isolation: str = "read_committed",
) -> AsyncGenerator[list[Record], None]:
    """Records of a partition in lists as they arrive, up to `stop` or the end that it has at the start of reading.

    The position is compared with the end, never the number of records: markers and aborted data have offsets too. Who
    may leave before the end closes it (`contextlib.aclosing`), with it its consumer.
    """
    place = TopicPartition(topic, partition)
    async with reader(settings, topic, [partition], isolation=isolation) as consumer:
        end = (await end_offsets(consumer, [place]))[place]
        if stop is not None:
            end = min(end, stop)
        if start is not None:
            consumer.seek(place, start)
        while await consumer.position(place) < end:
            fetched = await consumer.getmany(place, timeout_ms=500, max_records=MAX_RECORDS)
            records = [record for record in fetched.get(place, ()) if record.offset < end]
            if records:
                yield records


@asynccontextmanager
async def _consumer(
    settings: Settings, assigned: Sequence[TopicPartition], isolation: str
) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = await _started(settings, isolation)
    try:
        consumer.assign(assigned)
        yield consumer
    finally:
        await consumer.stop()


async def _started(settings: Settings, isolation: str) -> AIOKafkaConsumer:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        consumer = AIOKafkaConsumer(
            **settings.client(),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
            max_partition_fetch_bytes=max(FETCH_BYTES, MAX_RECORD_BYTES),
            fetch_max_wait_ms=250,
        )
        try:
            await consumer.start()
            return consumer
        except (KafkaError, OSError):
            await consumer.stop()
            if asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
