"""The producer of `quota.events`: every record in the partition of its cluster, acknowledged by all replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from topics.admin import ensure_topics
from topics.arriving import arriving
from topics.batching import Addressed, bursts
from topics.settings import Settings
from topics.topic import MAX_RECORD_BYTES, partition_of

LINGER_MS = 5
BATCH_BYTES = 512 * 1024


WRITTEN_TWICE = "What was written before it changes nothing when it comes twice"


class RecordTooLarge(ValueError):
    """A record that the log does not take; the message says what to do."""


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
        async for waiting in arriving(values):
            under_way = []
            for cluster, value in bursts(waiting) if pack else waiting:
                partition = partition_of(cluster, topics.events.partitions)
                try:
                    sent = await producer.send(topics.events.name, value, key=cluster.encode(), partition=partition)
                except MessageSizeTooLargeError:
                    raise RecordTooLarge(
                        f"a record of cluster {cluster} has {len(value):,} bytes, the log takes {MAX_RECORD_BYTES:,}: "
                        f"split it (a BATCH into several), and ingest again. {WRITTEN_TWICE}"
                    ) from None
                under_way.append(sent)
                done.records[cluster] = done.records.get(cluster, 0) + 1
            for future in under_way:
                try:
                    written = await future
                except MessageSizeTooLargeError:
                    raise RecordTooLarge(
                        f"the broker refuses a batch of records for {topics.events.name}: set max.message.bytes of "
                        f"that topic to {MAX_RECORD_BYTES}, and ingest again. {WRITTEN_TWICE}"
                    ) from None
                done.ends[written.partition] = max(done.ends.get(written.partition, 0), written.offset + 1)
    finally:
        await producer.stop()
    return done
