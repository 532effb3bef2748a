"""The log of one partition: a file of batches, appended to, and an index of it in memory."""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from aiokafka import errors
from aiokafka.record.default_records import DefaultRecordBatch

from topics.embedded.appending import Appender, DiskFull
from topics.embedded.batches import HEADER_BYTES, Batch, Damaged, commits, header, intact, marker, placed, split
from topics.embedded.compaction import needed

#: A compacted log is compacted again when so many bytes were added, or as many as it has.
COMPACTED_AFTER = 16 * 1024 * 1024
#: As many batches of a producer are known again when it repeats them, as in Kafka.
KNOWN_BATCHES = 5
_SEQUENCES = 2**31


class Refused(Exception):
    """An answer to the client: one of Kafka's errors."""

    def __init__(self, error: type[errors.BrokerResponseError]) -> None:
        super().__init__(error.__name__)
        self.code: int = error.errno


class Aborted(NamedTuple):
    first_offset: int
    producer: int
    marker_offset: int


@dataclass
class _Producer:
    """The last batches of an idempotent producer: (first sequence, last sequence, base offset)."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=KNOWN_BATCHES))


class Found(NamedTuple):
    data: bytes
    aborted: list[Aborted]


class PartitionLog:
    """Append, read from an offset, end transactions. Whatever is answered is in the file."""

    def __init__(self, path: Path, *, compacted: bool = False) -> None:
        self.path = path
        self.waiting: set[asyncio.Future[None]] = set()
        self._compacted = compacted
        self._compacted_size = 0
        self._file: int | None = None
        self._appender = Appender(path)
        self._forget()
        if path.exists():
            self._load()
            self._compact_where_due()

    def _forget(self) -> None:
        self.end = 0
        self.size = 0
        self._bases: list[int] = []
        self._lasts: list[int] = []
        self._positions: list[int] = []
        self._newest: list[int] = []
        self._open: dict[int, int] = {}
        self._aborted: list[Aborted] = []
        self._producers: dict[int, _Producer] = {}

    @property
    def stable_end(self) -> int:
        """Up to here a reader of committed records may read: the first record of an open transaction."""
        return min(self._open.values(), default=self.end)

    def append(self, data: bytes, *, largest: int) -> int:
        """The batches of a request; the offset of the first. A batch that was there already is not written again."""
        first: int | None = None
        for batch, body in list(split(data)):
            if batch.size > largest:
                raise Refused(errors.MessageSizeTooLargeError)
            offset = self._repeated(batch) if batch.producer >= 0 else None
            if offset is None:
                offset = self.end
                self._write(placed(body, offset))
                self._know(batch._replace(base_offset=offset), body)
            first = offset if first is None else first
        if first is None:
            raise Damaged("no batch")
        self._wake()
        return first

    def end_transaction(self, producer: int, epoch: int, *, committed: bool) -> None:
        """Nothing where the producer has no open transaction here: it is ended already, or wrote nothing."""
        if producer not in self._open:
            return
        body = marker(self.end, producer, epoch, committed=committed, now_ms=time.time_ns() // 1_000_000)
        self._write(body)
        self._know(header(body), body)
        self._compact_where_due()
        self._wake()

    def read(self, offset: int, largest: int, *, committed: bool) -> Found:
        """Whole batches from an offset on, at least one where there is one."""
        upto = self.stable_end if committed else self.end
        if not 0 <= offset <= self.end:
            raise Refused(errors.OffsetOutOfRangeError)
        first = bisect_left(self._lasts, offset)
        stop = bisect_left(self._bases, upto)
        if first >= stop:
            return Found(b"", [])
        begin, last = self._positions[first], stop
        if self._position(stop) - begin > largest:
            last = max(first + 1, bisect_right(self._positions, begin + largest, first, stop) - 1)
        finish = self._position(last)
        return Found(self._bytes(begin, finish - begin), self._aborted_in(offset, self._lasts[last - 1]))

    def first_at(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and time of the first record that is not older."""
        for number, newest in enumerate(self._newest):
            if newest >= timestamp:
                for record in DefaultRecordBatch(self._body(number)):
                    if record.timestamp >= timestamp:
                        return record.offset, record.timestamp
        return None

    def delete(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _compact_where_due(self) -> None:
        grown = self.size - self._compacted_size
        if self._compacted and not self._open and grown > max(COMPACTED_AFTER, self._compacted_size):
            try:
                self.compact()
            except OSError as problem:
                # It can wait, until as much again was added.
                self._new_path.unlink(missing_ok=True)
                self._appender.refused(problem)
                self._compacted_size = self.size

    def compact(self) -> None:
        """Leave out what newer records replace. The offsets stay; a kill leaves the old file or the new one."""
        batches = [header(self._body(number)) for number in range(len(self._bases))]
        aborted: set[int] = set()
        for gone in self._aborted:
            first, stop = bisect_left(self._bases, gone.first_offset), bisect_left(self._bases, gone.marker_offset)
            aborted.update(number for number in range(first, stop) if batches[number].producer == gone.producer)
        with self._new_path.open("wb") as file:
            for number in needed(batches, self._body, aborted):
                file.write(self._body(number))
        self._new_path.replace(self.path)
        self.close()
        self._forget()
        self._load()
        self._compacted_size = self.size

    @property
    def _new_path(self) -> Path:
        return self.path.with_suffix(".new")

    def _body(self, number: int) -> bytes:
        return self._bytes(self._positions[number], self._position(number + 1) - self._positions[number])

    def _position(self, number: int) -> int:
        return self._positions[number] if number < len(self._positions) else self.size

    def _aborted_in(self, first: int, last: int) -> list[Aborted]:
        since = bisect_left(self._aborted, first, key=lambda aborted: aborted.marker_offset)
        return sorted(aborted for aborted in self._aborted[since:] if aborted.first_offset <= last)

    def _repeated(self, batch: Batch) -> int | None:
        """The offset of the same batch, written before; raises where it is not the producer's next one."""
        known = self._producers.get(batch.producer)
        if known is None:
            return None
        if batch.epoch < known.epoch:
            raise Refused(errors.InvalidProducerEpoch)
        if batch.epoch > known.epoch or not known.batches:
            if batch.sequence != 0 and batch.epoch > known.epoch:
                raise Refused(errors.OutOfOrderSequenceNumber)
            return None
        last = (batch.sequence + batch.last_delta) % _SEQUENCES
        for first_sequence, last_sequence, offset in known.batches:
            if (first_sequence, last_sequence) == (batch.sequence, last):
                return offset
        if batch.sequence != (known.batches[-1][1] + 1) % _SEQUENCES:
            raise Refused(errors.OutOfOrderSequenceNumber)
        return None

    def _write(self, body: bytes) -> None:
        try:
            self._appender.append(self._opened(), body, self.size)
        except DiskFull:
            raise Refused(errors.KafkaStorageError) from None

    def _know(self, batch: Batch, body: bytes) -> None:
        """The batch at the end of the file, in the index."""
        self._bases.append(batch.base_offset)
        self._lasts.append(batch.last_offset)
        self._positions.append(self.size)
        self._newest.append(batch.newest)
        self.size += batch.size
        self.end = batch.last_offset + 1
        if batch.producer < 0:
            return
        known = self._producers.get(batch.producer)
        if known is None or batch.epoch > known.epoch:
            known = self._producers[batch.producer] = _Producer(batch.epoch)
        if batch.control:
            first = self._open.pop(batch.producer, None)
            if first is not None and not commits(body):
                self._aborted.append(Aborted(first, batch.producer, batch.base_offset))
            return
        known.batches.append((batch.sequence, (batch.sequence + batch.last_delta) % _SEQUENCES, batch.base_offset))
        if batch.transactional:
            self._open.setdefault(batch.producer, batch.base_offset)

    def _load(self) -> None:
        """The index, from the headers. A batch that a kill cut short was never answered: it is cut off."""
        file = self._opened()
        length = os.fstat(file).st_size
        while self.size < length:
            try:
                head = self._bytes(self.size, HEADER_BYTES + 16)
                batch = header(head)
                last = self.size + batch.size >= length
                if self.size + batch.size > length or batch.base_offset < self.end:
                    raise Damaged("cut short")
                if last and not intact(batch, self._bytes(self.size, batch.size)):
                    raise Damaged("cut short")
            except Damaged:
                os.ftruncate(file, self.size)
                return
            self._know(batch, head)

    def _bytes(self, position: int, size: int) -> bytes:
        return os.pread(self._opened(), size, position)

    def _opened(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        return self._file

    def _wake(self) -> None:
        for waiter in self.waiting:
            if not waiter.done():
                waiter.set_result(None)
        self.waiting.clear()
