"""A partition's state out of the log itself: fold what is applied, without a word, and meet every recorded decision.

The record of the quota changelog under `APPLIED_KEY` is written in the transaction of each chunk; it says how far the
log is applied. Everything before it is folded again here, and every decision that the fold gives must be the next one
in `quota.decisions`, byte for byte; the rows must be those of the changelog. Where they part the worker stops and says
where: going on would mean two histories (design section 8).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from topics.codec import APPLIED_KEY, decode_applied, encode_row, encode_row_key
from topics.folding import Decision, Fold
from topics.reader import Record, read_to_end
from topics.settings import Settings
from topics.topic import Topics

#: The event loop gets its turn this often while the fold runs, so that Kafka's clients stay alive.
SLICE_SECONDS = 0.005


class LogMismatch(RuntimeError):
    """The fold of `quota.events` and what was written from it before are not the same."""


@dataclass
class Recovered:
    """What the log says about a partition."""

    next_offset: int = 0
    rows: dict[bytes, bytes] = field(default_factory=dict)
    events: int = 0
    decisions: int = 0


async def recover(fold: Fold, settings: Settings, topics: Topics, partition: int) -> Recovered:
    """Bring an empty fold up to the applied offset, verifying on the way."""
    recovered = await _read_changelog(settings, topics, partition)
    recorded = _RecordedDecisions(settings, topics.decisions.name, partition)
    rows: dict[bytes, bytes] = {}
    turn = time.monotonic()
    last_offset = -1
    async for records in _applied_events(settings, topics, partition, recovered.next_offset):
        for record in records:
            outcome = fold.apply(
                record.value or b"", offset=record.offset, key=record.key, timestamp=record.timestamp * 1000
            )
            recovered.events += 1
            recovered.decisions += len(outcome.decisions)
            if outcome.decisions:
                await recorded.meet(outcome.decisions, record.offset)
            if time.monotonic() - turn > SLICE_SECONDS:
                await asyncio.sleep(0)
                turn = time.monotonic()
        last_offset = records[-1].offset
        _drain(fold, rows)
    await recorded.meet_end(last_offset)
    _meet_rows(rows, recovered.rows, partition)
    return recovered


async def _read_changelog(settings: Settings, topics: Topics, partition: int) -> Recovered:
    recovered = Recovered()
    async for records in read_to_end(settings, topics.quota.name, partition):
        for record in records:
            if record.key == APPLIED_KEY:
                recovered.next_offset = decode_applied(record.value)
            elif record.value is None:
                recovered.rows.pop(record.key, None)
            else:
                recovered.rows[record.key] = record.value
    return recovered


async def _applied_events(
    settings: Settings, topics: Topics, partition: int, next_offset: int
) -> AsyncIterator[list[Record]]:
    if next_offset == 0:
        return
    name = topics.events.name
    first = True
    reached = 0
    async for records in read_to_end(settings, name, partition, stop=next_offset):
        if first and records[0].offset > 0:
            raise LogMismatch(
                f"{name}/{partition} begins at offset {records[0].offset}: the state cannot be folded from the start. "
                f"The topic must keep its records for ever (retention.ms=-1)"
            )
        first = False
        reached = records[-1].offset + 1
        yield records
    if first:
        raise LogMismatch(
            f"{name}/{partition} has no records below offset {next_offset}, but that is how far it was applied"
        )
    if reached < next_offset:
        raise LogMismatch(f"{name}/{partition} ends at offset {reached}, but was applied up to {next_offset}")


class _RecordedDecisions:
    """The decisions topic, read in step with the fold."""

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self._place = f"{topic}/{partition}"
        self._lists = read_to_end(settings, topic, partition)
        self._records: list[Record] = []
        self._index = 0

    async def _next(self) -> Record | None:
        while self._index >= len(self._records):
            try:
                self._records = await anext(self._lists)
            except StopAsyncIteration:
                return None
            self._index = 0
        record = self._records[self._index]
        self._index += 1
        return record

    async def meet(self, decisions: Sequence[Decision], offset: int) -> None:
        """The next recorded decisions are these; or raise, naming the event and both records."""
        for decision in decisions:
            record = await self._next()
            if record is None:
                raise LogMismatch(
                    f"{self._place} ends before decision {decision.cluster}/{decision.seq} of event {offset}:\n"
                    f"  folded:   {_text(decision.value)}"
                )
            if record.value != decision.value:
                raise LogMismatch(
                    f"{self._place} offset {record.offset} is not decision {decision.cluster}/{decision.seq} "
                    f"of event {offset}:\n"
                    f"  recorded: {_text(record.value)}\n"
                    f"  folded:   {_text(decision.value)}"
                )

    async def meet_end(self, offset: int) -> None:
        record = await self._next()
        await self._lists.aclose()  # type: ignore[attr-defined]
        if record is not None:
            raise LogMismatch(
                f"{self._place} offset {record.offset} holds a decision that the events up to offset {offset} "
                f"do not give:\n  recorded: {_text(record.value)}"
            )


def _drain(fold: Fold, rows: dict[bytes, bytes]) -> None:
    for key, row in fold.drain_rows().items():
        if row is None:
            rows.pop(encode_row_key(key), None)
        else:
            rows[encode_row_key(key)] = encode_row(row)


def _meet_rows(folded: dict[bytes, bytes], recorded: dict[bytes, bytes], partition: int) -> None:
    if folded == recorded:
        return
    key = min(key for key in folded.keys() | recorded.keys() if folded.get(key) != recorded.get(key))
    raise LogMismatch(
        f"the quota table's changelog of partition {partition} differs from the fold in row {_text(key)}:\n"
        f"  recorded: {_text(recorded.get(key))}\n"
        f"  folded:   {_text(folded.get(key))}"
    )


def _text(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode(errors="replace")
