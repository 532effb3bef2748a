"""The producer of `quota.events`: every record in the partition of its cluster, acknowledged by all replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiokafka import AIOKafkaProducer

from topics.admin import ensure_topics
from topics.arriving import arriving
from topics.batching import Addressed
from topics.settings import Settings
from topics.topic import MAX_RECORD_BYTES, partition_of

LINGER_MS = 10
BATCH_BYTES = 512 * 1024
#: Records under way at once: bounds memory, not speed.
MAX_UNDER_WAY = 5_000


@dataclass
class Ingested:
    """What was written, per cluster."""

    records: dict[str, int] = field(default_factory=dict)
    #: Per partition the offset after the last record written.
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.records.values())


async def ingest(
    settings: Settings, values: Iterable[Addressed], progress: Callable[[int], object] = lambda count: None
) -> Ingested:
    """Write the values in their order. Returns when the brokers have them all."""
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
    under_way: list[asyncio.Future[object]] = []

    async def acknowledged() -> None:
        for future in under_way:
            written = await future
            partition, offset = written.partition, written.offset  # type: ignore[attr-defined]
            done.ends[partition] = max(done.ends.get(partition, 0), offset + 1)
        progress(len(under_way))
        under_way.clear()

    try:
        async for some in arriving(values):
            for cluster, value in some:
                partition = partition_of(cluster, topics.events.partitions)
                sent = await producer.send(topics.events.name, value, key=cluster.encode(), partition=partition)
                under_way.append(sent)
                done.records[cluster] = done.records.get(cluster, 0) + 1
                if len(under_way) >= MAX_UNDER_WAY:
                    await acknowledged()
        await acknowledged()
    finally:
        await producer.stop()
    return done
