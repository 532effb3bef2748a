"""Decisions as a reader sees them: committed ones, from all partitions, each once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from topics.admin import partitions_of
from topics.reader import MAX_RECORDS, Record, end_offsets, reader
from topics.settings import Settings
from topics.topic import Topics


class _Head(msgspec.Struct):
    cluster: str
    seq: int


_decode_head = msgspec.json.Decoder(_Head).decode


class Once:
    """Drops a decision whose id (cluster, seq) was seen: nothing writes one twice, but a reader need not trust that."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def is_news(self, value: bytes) -> bool:
        head = _decode_head(value)
        if head.seq <= self._seen.get(head.cluster, 0):
            return False
        self._seen[head.cluster] = head.seq
        return True


async def decisions(
    settings: Settings, *, cluster: str | None = None, follow: bool = False
) -> AsyncIterator[list[bytes]]:
    """Decisions in lists as they arrive, a cluster's in the order of their seq; without `follow` those there now."""
    topics = Topics.of(settings)
    count = await partitions_of(settings, topics.decisions)
    places = [TopicPartition(topics.decisions.name, partition) for partition in range(count)]
    key = None if cluster is None else cluster.encode()
    once = Once()
    async with reader(settings, topics.decisions.name, range(count)) as consumer:
        ends = await end_offsets(consumer, places)
        while follow or not await _all_read(consumer, ends):
            fetched = await consumer.getmany(timeout_ms=500, max_records=MAX_RECORDS)
            values = [
                record.value
                for place in sorted(fetched)
                for record in fetched[place]
                if (follow or record.offset < ends[place]) and _is_wanted(record, key) and once.is_news(record.value)
            ]
            if values or follow:
                yield values


def _is_wanted(record: Record, key: bytes | None) -> bool:
    return record.value is not None and (key is None or record.key == key)


async def _all_read(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
    for place, end in ends.items():
        if await consumer.position(place) < end:
            return False
    return True
