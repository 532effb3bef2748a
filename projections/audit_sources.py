"""Where an audit reads events and decisions: files, an archive, Kafka. Each gives lists, as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from ledger.checkpoint import load
from ledger.ledger import Ledger
from projections.archive import CHECKPOINT, DECISIONS, EVENTS, MAGIC, ArchivedEvent, ArchiveReader, DamagedArchive
from projections.audit import Line
from topics.reader import Record, read_to_end
from topics.recorded import head_of
from topics.recovery import EventsMissing, applied_events
from topics.settings import Settings
from topics.sources import numbered_events, open_source, unpacked

LIST = 1_000


class AuditProblem(Exception):
    """The audit cannot be made: the message says why and what to do."""


def is_archive(path: Path) -> bool:
    """Whether the file begins as an archive does. Raises DamagedArchive where it was one before a byte was changed."""
    with path.open("rb") as file:
        first = file.read(len(MAGIC))
    if first == MAGIC:
        return True
    alike = sum(found == expected for found, expected in zip(first, MAGIC, strict=False))
    if alike > len(MAGIC) // 2 or path.suffix == ".qla":
        raise DamagedArchive(f"bytes 0 to {len(MAGIC) - 1}", "they are not the first line of an archive")
    return False


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file of decisions, packed or not."""
    with path.open("rb") as raw:
        yield unpacked(raw)


def topic_of_decisions(path: Path) -> str | None:
    """The topic that the first decision names as its cause."""
    with opened(path) as file:
        head = head_of(file.readline())
    return None if head is None else str(head.cause.get("topic", ""))


async def file_events(path: Path, cluster: str | None) -> AsyncIterator[list[Line]]:
    with open_source(path) as source:
        lines: list[Line] = []
        for event in numbered_events(source, cluster):
            lines.append(Line(event.offset, event.value))
            if len(lines) == LIST:
                yield lines
                lines = []
        if lines:
            yield lines


async def file_decisions(path: Path) -> AsyncIterator[list[bytes]]:
    with opened(path) as file:
        while lines := file.readlines(1 << 20):
            yield [line.rstrip(b"\n") for line in lines]


async def archived_events(path: Path, partition: int) -> AsyncIterator[list[ArchivedEvent]]:
    with path.open("rb") as file:
        for _, payload in ArchiveReader(file).frames(partition, (EVENTS,)):
            yield _decode_events(payload)


async def archived_decisions(path: Path, partition: int) -> AsyncIterator[list[bytes]]:
    with path.open("rb") as file:
        for _, payload in ArchiveReader(file).frames(partition, (DECISIONS,)):
            yield [value for _, value in _decode_decisions(payload)]


def archived_ledgers(path: Path, partition: int) -> tuple[int, list[Ledger]]:
    """The first offset of the archive's events and the states there."""
    with path.open("rb") as file:
        found = [
            (frame.first, load(payload)) for frame, payload in ArchiveReader(file).frames(partition, (CHECKPOINT,))
        ]
    return (found[0][0] if found else 0), [ledger for _, ledger in found]


async def kafka_events(
    settings: Settings, topic: str, partition: int, start: int, stop: int
) -> AsyncGenerator[list[Record], None]:
    try:
        async with aclosing(applied_events(settings, topic, partition, start, stop)) as lists:
            async for records in lists:
                yield records
    except EventsMissing as missing:
        raise AuditProblem(_missing_words(missing, f"{topic}/{partition}", stop)) from None


def _missing_words(missing: EventsMissing, place: str, stop: int) -> str:
    if missing.begins:
        return (
            f"{place} begins at offset {missing.begins}: what was before is gone. "
            "Audit from the checkpoint with --from-checkpoint; an archive of that time has the rest"
        )
    return (
        f"{place} ends before offset {missing.ends}, but was applied up to {stop}: events are gone. "
        "An archive of that time has them"
    )


async def kafka_decisions(
    settings: Settings, topic: str, partition: int, start: int = 0
) -> AsyncGenerator[list[bytes], None]:
    async with aclosing(read_to_end(settings, topic, partition, start=start)) as lists:
        async for records in lists:
            yield [record.value or b"" for record in records]


_decode_events = msgspec.msgpack.Decoder(list[ArchivedEvent]).decode
_decode_decisions = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode
