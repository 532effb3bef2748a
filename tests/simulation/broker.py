"""A simulated broker for the worker's own code: transactions, fencing, aborted records, and a death at any step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from aiokafka.errors import ProducerFenced

from topics.settings import Settings


class Killed(Exception):
    """The process is gone: nothing after this line happened."""


class Log:
    """All topics of one partition number. `kill_in` steps from now the worker dies; None: it lives."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topics: dict[str, list[Any]] = {}
        self.ends: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.kill_in: int | None = None
        self.aborted = 0

    def step(self) -> None:
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                raise Killed

    def append(self, topic: str, key: bytes | None, value: bytes | None, headers: Any = ()) -> int:
        offset = self.ends.get(topic, 0)
        self.ends[topic] = offset + 1
        record = SimpleNamespace(offset=offset, key=key, value=value, timestamp=1_767_225_600_000, headers=headers)
        self.topics.setdefault(topic, []).append(record)
        return offset

    async def read_to_end(
        self,
        settings: Settings,
        topic: str,
        partition: int,
        *,
        start: int | None = None,
        stop: int | None = None,
        isolation: str = "read_committed",
    ) -> AsyncIterator[list[Any]]:
        records = [
            record
            for record in self.topics.get(topic, ())
            if (start is None or record.offset >= start) and (stop is None or record.offset < stop)
        ]
        at = 0
        while at < len(records):
            self.step()
            size = self.random.choice((1, 3, 50))
            yield records[at : at + size]
            at += size
            await asyncio.sleep(0)


class Batch:
    def __init__(self, room: int) -> None:
        self.records: list[tuple[Any, Any, Any]] = []
        self._room = room

    def append(self, *, timestamp: int, key: Any, value: Any, headers: Any) -> object | None:
        if len(self.records) >= self._room:
            return None
        self.records.append((key, value, headers))
        return self

    def close(self) -> None:
        pass

    def size(self) -> int:
        return sum(len(value or b"") for _, value, _ in self.records)


class Producer:
    """What the worker's transaction needs of a producer."""

    def __init__(self, log: Log, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._epoch = 0
        self._open: list[tuple[str, Batch]] = []

    async def start(self) -> None:
        self._log.step()
        self._epoch = self._log.epochs[self._id] = self._log.epochs.get(self._id, 0) + 1

    async def stop(self) -> None:
        self._open = []

    def _alive(self) -> None:
        if self._log.epochs[self._id] != self._epoch:
            raise ProducerFenced

    async def begin_transaction(self) -> None:
        self._log.step()
        self._alive()

    def create_batch(self) -> Batch:
        return Batch(self._log.random.choice((1, 4, 1_000)))

    async def send_batch(self, batch: Batch, topic: str, *, partition: int) -> Any:
        self._log.step()
        self._alive()
        self._open.append((topic, batch))
        metadata: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # The records of a transaction have their offsets before it is committed.
        position = self._log.ends.get(topic, 0) + sum(len(b.records) for t, b in self._open[:-1] if t == topic)
        metadata.set_result(SimpleNamespace(offset=position))
        return metadata

    async def send_offsets_to_transaction(self, offsets: Any, group_id: str) -> None:
        self._log.step()
        self._alive()

    async def commit_transaction(self) -> None:
        log = self._log
        self._alive()
        try:
            log.step()
        except Killed:
            # The broker ends the transaction of the dead: its records keep their offsets, and nobody sees them.
            for topic, batch in self._open:
                log.ends[topic] = log.ends.get(topic, 0) + len(batch.records) + 1
                log.aborted += len(batch.records)
            raise
        touched = []
        for topic, batch in self._open:
            touched.append(topic)
            for key, value, headers in batch.records:
                log.append(topic, key, value, headers)
        for topic in sorted(set(touched)):
            log.ends[topic] += 1  # the marker
        self._open = []
        log.step()  # committed, but nobody lived to hear it


@contextmanager
def simulated(log: Log) -> Iterator[None]:
    """The worker's modules read and write this log."""
    with (
        mock.patch("topics.partition.new_producer", lambda settings, name: Producer(log, name)),
        mock.patch("topics.partition.read_to_end", log.read_to_end),
        mock.patch("topics.recovery.read_to_end", log.read_to_end),
        mock.patch("topics.checkpoints.read_to_end", log.read_to_end),
    ):
        yield
