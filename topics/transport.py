"""Faust's aiokafka transport, changed: chunks in, no commits of its own, partitions opened and closed.

A record that passes through Faust alone costs more than folding it, so the consumer delivers one message per chunk of
records. Offsets are committed by the partitions' transactions only. The transaction manager's rebalance hooks, which
run before any record flows, open and close the partitions.

The overridden methods are private to faust-streaming 0.15: the kill, zombie and rebalance tests guard an upgrade.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from faust.transport.consumer import TransactionManager
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

logger = logging.getLogger("topics.transport")

#: Chunks of one partition that may wait before the consumer waits too: bounds memory.
WAITING_CHUNKS = 3
POLL_SECONDS = 1.0
FETCH_WAIT_MS = 50
RECHECK_SECONDS = 0.25


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Faust's consumer, with short waits for data."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        """One fetch is under way per broker; while one for idle partitions waits, those with data wait as well.

        Faust fixes that wait at 1.5 s, which shows as steps of that length.
        """
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class ChunkConsumer(driver.Consumer):  # type: ignore[misc]
    """Delivers lists of records; leaves offsets alone."""

    logger = logging.getLogger("faust.transport.consumer")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: defaultdict[TP, deque[ConsumerMessage]] = defaultdict(deque)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _drain_messages(self, fetcher: Any) -> None:
        try:
            while not (self._stopped.is_set() or fetcher._stopped.is_set()):
                await self.sleep(0)
                if self.should_stop:
                    break
                await self._deliver_next_records()
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.transport.app.should_stop:
                raise
        except Exception:
            logger.exception("reading stopped")
            raise

    async def _deliver_next_records(self) -> None:
        records, active = await self._wait_next_records(POLL_SECONDS)
        generation = self.app.consumer_generation_id
        if not records or self.should_stop:
            return
        if not self.flow_active:
            await self.perform_seek()
            return
        size = self.app.chunk_size
        for place, fetched in records.items():
            if active is not None and place not in active and place not in self._buffered_partitions:
                continue
            for chunk in _chunks(fetched, size):
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    return  # a rebalance: these records will be fetched again
                message = self._chunk_message(place, chunk, generation)
                await self._wait_for_room(place)
                await self.wait_first(self.callback(message), self.suspend_flow.wait())
                self._waiting[place].append(message)
                self._read_offset[place] = message.offset

    def _chunk_message(self, place: TP, chunk: list[Any], generation: int) -> ConsumerMessage:
        last = chunk[-1]
        return ConsumerMessage(
            last.topic,
            last.partition,
            last.offset,
            last.timestamp / 1000.0,
            last.timestamp_type,
            (),
            None,
            chunk,
            None,
            0,
            0,
            place,
            generation_id=generation,
        )

    async def _wait_for_room(self, place: TP) -> None:
        waiting = self._waiting[place]
        while self.flow_active and not self.should_stop:
            while waiting and waiting[0].acked:
                waiting.popleft()
            if len(waiting) < WAITING_CHUNKS:
                return
            await self.app.wait_for_chunk(RECHECK_SECONDS)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        await super().on_partitions_revoked(revoked)
        self._waiting.clear()

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Nothing: the partitions' transactions carry the offsets. Faust's own lists are emptied."""
        for acked in self._acked.values():
            acked.clear()
        for index in self._acked_index.values():
            index.clear()
        return False

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust looks here for commits that it did not make itself."""


class PartitionManager(TransactionManager):  # type: ignore[misc]
    """Rebalances open and close partitions; Faust's own transactions are not used."""

    logger = logging.getLogger("faust.transport.transactions")

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        await self.app.partitions.settle(_numbers(revoked))

    async def on_rebalance(self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP]) -> None:
        await self.app.partitions.reassign(_numbers(assigned))

    async def on_stop(self) -> None:
        await self.app.partitions.close()

    async def commit(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        return True

    async def flush(self) -> None:
        await self.producer.flush()

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Any,
        *,
        transactional_id: str | None = None,
    ) -> Any:
        return await self.producer.send(topic, key, value, partition, timestamp, headers)


class ChunkTransport(driver.Transport):  # type: ignore[misc]
    """The aiokafka transport with the two above."""

    Consumer: ClassVar[type[ChunkConsumer]] = ChunkConsumer
    TransactionManager: ClassVar[type[PartitionManager]] = PartitionManager


def _numbers(places: set[TP]) -> set[int]:
    return {place.partition for place in places}


def _chunks(records: list[Any], size: int) -> Iterator[list[Any]]:
    return (records[start : start + size] for start in range(0, len(records), size))
