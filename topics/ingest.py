"""The producer of `quota.events`: every record in the partition of its cluster, acknowledged by all replicas."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from aiokafka import AIOKafkaProducer

from topics.admin import ensure_topics
from topics.batching import Addressed, bursts
from topics.settings import Settings
from topics.topic import MAX_RECORD_BYTES, partition_of

LINGER_MS = 5
BATCH_BYTES = 512 * 1024
#: Records read ahead, and records under way at once: bounds memory, not speed.
MAX_WAITING = 5_000


@dataclass
class Ingested:
    """What was written, per cluster."""

    records: dict[str, int] = field(default_factory=dict)
    #: Per partition the offset after the last record written.
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.records.values())


async def ingest(settings: Settings, values: Iterable[Addressed], *, pack: bool = False) -> Ingested:
    """Write the values in their order, each as soon as it comes. Returns when the brokers have them all.

    With `pack`, what waits when the one before is written becomes BATCH records.
    """
    topics = await ensure_topics(settings)
    producer = AIOKafkaProducer(
        **settings.client(),
        enable_idempotence=True,
        acks="all",
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_RECORD_BYTES,
    )
    await producer.start()
    done = Ingested()
    try:
        async for waiting in _as_they_come(values):
            under_way = []
            for cluster, value in bursts(waiting) if pack else waiting:
                partition = partition_of(cluster, topics.events.partitions)
                under_way.append(
                    await producer.send(topics.events.name, value, key=cluster.encode(), partition=partition)
                )
                done.records[cluster] = done.records.get(cluster, 0) + 1
            for future in under_way:
                written = await future
                done.ends[written.partition] = max(done.ends.get(written.partition, 0), written.offset + 1)
    finally:
        await producer.stop()
    return done


async def _as_they_come(values: Iterable[Addressed]) -> AsyncIterator[list[Addressed]]:
    """What waits, in lists. A thread reads: standard input may be silent for hours while records must go out."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Addressed | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(MAX_WAITING)

    def read() -> None:
        end: BaseException | None = None
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            try:
                for value in values:
                    room.acquire()
                    loop.call_soon_threadsafe(queue.put_nowait, value)
            except Exception as problem:
                end = problem
            loop.call_soon_threadsafe(queue.put_nowait, end)

    threading.Thread(target=read, name="source", daemon=True).start()
    while True:
        item = await queue.get()
        waiting: list[Addressed] = []
        while isinstance(item, Addressed):
            waiting.append(item)
            room.release()
            if queue.empty() or len(waiting) == MAX_WAITING:
                break
            item = queue.get_nowait()
        if waiting:
            yield waiting
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return
