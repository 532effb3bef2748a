"""One transaction per chunk of records: decisions, dead letters, rows of the table, consumed offset; or nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalOperation, MessageSizeTooLargeError

from topics.checkpoints import PendingCheckpoint
from topics.codec import APPLIED_KEY, dead_letter_headers, encode_applied
from topics.folding import Decision, Rejection
from topics.settings import Settings
from topics.topic import MAX_DEAD_LETTER_BYTES, Topics

#: Records are packed into batches of at most this size; a larger record is a batch of its own.
BATCH_BYTES = 900 * 1024
#: A transaction that stays open for longer is aborted by the broker: as long as a broker may be away, within what
#: brokers allow by default.
LEAST_TRANSACTION_SECONDS = 60
LONGEST_TRANSACTION_SECONDS = 900
MAX_REQUEST_BYTES = MAX_DEAD_LETTER_BYTES + 1024 * 1024

Headers = list[tuple[str, bytes]]
OutgoingRecord = tuple[bytes | None, bytes | None, Headers]


class BatchTooLarge(ValueError):
    """The broker refuses what the worker writes: its topic takes less than the ledger needs."""


#: Called inside every transaction, before its offsets are sent: where the kill tests sleep.
InsideTransaction = Callable[[], Awaitable[None]]


@dataclass
class Outbox:
    """What a chunk came to, in order."""

    decisions: list[OutgoingRecord] = field(default_factory=list)
    dead_letters: list[OutgoingRecord] = field(default_factory=list)
    rows: list[OutgoingRecord] = field(default_factory=list)
    checkpoint: PendingCheckpoint | None = None

    def add_decision(self, decision: Decision) -> None:
        self.decisions.append((decision.cluster.encode(), decision.value, []))

    def add_dead_letter(
        self,
        topic: str,
        partition: int,
        offset: int,
        rejections: list[Rejection],
        key: bytes | None,
        value: bytes | None,
    ) -> None:
        """One dead letter per rejected record, however many members of a BATCH were bad."""
        self.dead_letters.append((key, value, dead_letter_headers(topic, partition, offset, rejections)))

    def add_row(self, key: bytes, value: bytes | None) -> None:
        self.rows.append((key, value, []))


def new_producer(settings: Settings, transactional_id: str) -> AIOKafkaProducer:
    """The producer of one input partition. Starting it fences whoever held the id, and ends an open transaction."""
    patience = settings.broker_patience_seconds
    open_for = min(max(patience, LEAST_TRANSACTION_SECONDS), LONGEST_TRANSACTION_SECONDS)
    producer = AIOKafkaProducer(
        **settings.client(),
        transactional_id=transactional_id,
        transaction_timeout_ms=open_for * 1000,
        linger_ms=0,
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_REQUEST_BYTES,
    )
    # aiokafka gives up on a batch when a request would time out (40 s). It is sent again under its number instead,
    # which writes it once, for as long as a broker may be away.
    producer._request_timeout_ms = patience * 1000
    producer._message_accumulator._batch_ttl = patience
    return producer


async def commit(
    producer: AIOKafkaProducer,
    outbox: Outbox,
    *,
    topics: Topics,
    partition: int,
    next_offset: int,
    group_id: str,
    decisions_from: int = 0,
    inside: InsideTransaction | None = None,
) -> int:
    """Write a chunk. Every batch's future is awaited: a commit succeeds even where a batch was refused.

    Returns the offset of `quota.decisions` after which the next decision will be, as far as it is known;
    `decisions_from` is what it was before.
    """
    checkpoint: list[OutgoingRecord] = []
    if outbox.checkpoint is not None:
        packed = await asyncio.to_thread(outbox.checkpoint.records, decisions_from)
        checkpoint = [(key, value, []) for key, value in packed]
    applied: OutgoingRecord = (APPLIED_KEY, encode_applied(next_offset), [])
    await producer.begin_transaction()
    sent = []
    for topic, records in (
        (topics.decisions.name, outbox.decisions),
        (topics.dead_letters.name, outbox.dead_letters),
        (topics.quota.name, [*outbox.rows, applied]),
        (topics.checkpoints.name, checkpoint),
    ):
        for batch in _batches(producer, records):
            try:
                sent.append((topic, batch.size(), await producer.send_batch(batch, topic, partition=partition)))
            except IllegalOperation:
                # Fenced since the batch before: its future says so.
                for _, _, future in sent:
                    await future
                raise
    for topic, size, future in sent:
        try:
            metadata = await future
        except MessageSizeTooLargeError:
            raise BatchTooLarge(
                f"the broker refuses a batch of {size:,} bytes for {topic}: set max.message.bytes of that topic to "
                f"{MAX_REQUEST_BYTES} (kafka-configs --alter --topic {topic} --add-config "
                f"max.message.bytes={MAX_REQUEST_BYTES}), and start the worker again. Nothing of its chunk was written"
            ) from None
        if topic == topics.decisions.name:
            decisions_from = metadata.offset
    if inside is not None:
        await inside()
    offsets = {TopicPartition(topics.events.name, partition): next_offset}
    await producer.send_offsets_to_transaction(offsets, group_id)
    await producer.commit_transaction()
    return decisions_from


def _batches(producer: AIOKafkaProducer, records: list[OutgoingRecord]) -> Iterator[Any]:
    """Batches below the request size: split before the broker would refuse, not after."""
    timestamp = int(time.time() * 1000)
    batch = None
    for key, value, headers in records:
        if batch is not None and batch.append(timestamp=timestamp, key=key, value=value, headers=headers) is not None:
            continue
        if batch is not None:
            yield batch
        batch = producer.create_batch()
        if batch.append(timestamp=timestamp, key=key, value=value, headers=headers) is None:
            raise ValueError(f"a record of {len(value or b'')} bytes does not fit into an empty batch")
    if batch is not None:
        batch.close()
        yield batch
