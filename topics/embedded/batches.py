"""Record batches (magic 2) as bytes: their headers, and the control batches that end transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from aiokafka.record.util import calc_crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = _HEADER.size
_BEFORE_LENGTH = 12
_MAGIC = 2
_CHECKED_FROM = 21
_TRANSACTIONAL = 0x10
_CONTROL = 0x20


class Damaged(ValueError):
    """Bytes that are no batch of records."""


class Batch(NamedTuple):
    """What the header of a batch says. `size`: all its bytes."""

    base_offset: int
    size: int
    checksum: int
    attributes: int
    last_delta: int
    newest: int
    producer: int
    epoch: int
    sequence: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_delta

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)


def header(data: bytes, position: int = 0) -> Batch:
    """The batch that begins here; raises `Damaged`."""
    if len(data) - position < HEADER_BYTES:
        raise Damaged("too short for a batch")
    (base, length, _, magic, checksum, attributes, last_delta, _, newest, producer, epoch, sequence, _) = (
        _HEADER.unpack_from(data, position)
    )
    if magic != _MAGIC or length < HEADER_BYTES - _BEFORE_LENGTH or last_delta < 0:
        raise Damaged(f"no batch of format 2 (magic {magic}, length {length})")
    return Batch(base, length + _BEFORE_LENGTH, checksum, attributes, last_delta, newest, producer, epoch, sequence)


def split(data: bytes) -> Iterator[tuple[Batch, bytes]]:
    """The batches of a produce request, each checked."""
    position = 0
    while position < len(data):
        batch = header(data, position)
        body = data[position : position + batch.size]
        if len(body) < batch.size or not intact(batch, body):
            raise Damaged("the checksum of a batch is wrong")
        yield batch, body
        position += batch.size


def intact(batch: Batch, body: bytes) -> bool:
    """Whether the bytes are those that were sent: the offset is not part of the checksum, so it may be set."""
    return bool(calc_crc32c(body[_CHECKED_FROM : batch.size]) == batch.checksum)


def placed(body: bytes, offset: int) -> bytes:
    """The batch with the offset that the log gives it."""
    return struct.pack(">q", offset) + body[8:]


def marker(offset: int, producer: int, epoch: int, *, committed: bool, now_ms: int) -> bytes:
    """The control batch that ends a producer's transaction in a partition."""
    key = struct.pack(">hh", 0, int(committed))
    value = struct.pack(">hi", 0, 0)
    record = bytes((0, 0, 0, len(key) * 2)) + key + bytes((len(value) * 2,)) + value + bytes((0,))
    records = bytes((len(record) * 2,)) + record
    length = HEADER_BYTES + len(records) - _BEFORE_LENGTH
    attributes = _TRANSACTIONAL | _CONTROL

    def packed(checksum: int) -> bytes:
        numbers = (offset, length, 0, _MAGIC, checksum, attributes, 0, now_ms, now_ms, producer, epoch, -1, 1)
        return _HEADER.pack(*numbers) + records

    return packed(calc_crc32c(packed(0)[_CHECKED_FROM:]))


def commits(body: bytes) -> bool:
    """Whether a control batch is the marker of a commit."""
    return body[HEADER_BYTES + 5 : HEADER_BYTES + 9] == struct.pack(">hh", 0, 1)
