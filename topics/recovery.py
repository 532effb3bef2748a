"""A partition's state out of the log: the newest checkpoint, then the tail, without a word, meeting every decision.

The record of the quota changelog under `APPLIED_KEY` is written in the transaction of each chunk; it says how far the
log is applied. What lies between the checkpoint and there is folded again, and every decision that the fold gives must
be the cluster's next one in `quota.decisions`, byte for byte; the rows must be those of the changelog.

Where they part, that cluster stops, because going on would mean two histories (design section 8): its events are not
folded any more and nothing is written for it, while the other clusters go on. It stays so until a worker that runs
with `--rebuild` folds the log from its start and meets every decision; then the events it missed are decided.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ledger.checkpoint import Damaged
from topics.checkpoints import Checkpoint, Manifest, newest_checkpoint
from topics.codec import (
    APPLIED_KEY,
    STOPPED_KEY,
    decode_applied,
    decode_row_key,
    decode_stopped,
    encode_row,
    encode_row_key,
)
from topics.folding import Decision, Fold
from topics.garbage import keep_what_lives, without_garbage_collection
from topics.reader import Record, read_to_end
from topics.recorded import Recorded, head_of
from topics.settings import Settings
from topics.topic import Topics

logger = logging.getLogger("topics.recovery")

#: The event loop gets its turn this often while the fold runs, so that Kafka's clients stay alive.
SLICE_SECONDS = 0.005


class LogMismatch(RuntimeError):
    """The fold of `quota.events` and what was written from it before are not the same."""


class EventsMissing(LogMismatch):
    """Events that were applied are gone: those before `begins` (0: none), or those from `ends` on."""

    def __init__(self, message: str, *, begins: int = 0, ends: int = 0) -> None:
        super().__init__(message)
        self.begins = begins
        self.ends = ends


@dataclass
class Recovered:
    """What the log says about a partition."""

    next_offset: int = 0
    rows: dict[bytes, bytes] = field(default_factory=dict)
    events: int = 0
    decisions: int = 0
    decisions_from: int = 0
    manifest: Manifest | None = None
    stopped: dict[str, int] = field(default_factory=dict)
    late: list[Decision] = field(default_factory=list)
    """Decisions of a cluster that had stopped and goes on: they are to be written now."""
    was_stopped: dict[str, int] = field(default_factory=dict)


async def recover(fold: Any, settings: Settings, topics: Topics, partition: int) -> Recovered:
    """Bring an empty fold up to the applied offset, verifying on the way."""
    recovered = await read_changelog(settings, topics, partition)
    rows: dict[bytes, bytes] = {}
    start = 0
    checkpoint = await _checkpoint(fold, settings, topics, partition, recovered.was_stopped)
    if checkpoint is not None:
        with without_garbage_collection():
            start = _load(fold, checkpoint, recovered, topics, partition)
            _drain(fold, rows)
            del checkpoint  # its bytes
            keep_what_lives()
    tail = _Tail(fold, settings, topics, partition, recovered)
    turn = time.monotonic()
    name = topics.events.name
    async with aclosing(applied_events(settings, name, partition, start, recovered.next_offset)) as lists:
        async for records in lists:
            for record in records:
                await tail.fold(record)
                if time.monotonic() - turn > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    turn = time.monotonic()
            _drain(fold, rows)
    await tail.meet_end()
    tail.meet_rows(rows)
    return recovered


async def read_changelog(settings: Settings, topics: Topics, partition: int) -> Recovered:
    recovered = Recovered()
    async for records in read_to_end(settings, topics.quota.name, partition):
        for record in records:
            if record.key == APPLIED_KEY:
                recovered.next_offset = decode_applied(record.value)
            elif record.key == STOPPED_KEY:
                recovered.was_stopped = decode_stopped(record.value)
            elif record.value is None:
                recovered.rows.pop(record.key, None)
            else:
                recovered.rows[record.key] = record.value
    return recovered


async def _checkpoint(
    fold: Any, settings: Settings, topics: Topics, partition: int, stopped: dict[str, int]
) -> Checkpoint | None:
    """A damaged checkpoint is as good as none; one of another version is refused (`UnusableCheckpoint`)."""
    if settings.rebuild or not hasattr(fold, "clusters"):
        return None
    try:
        found = await newest_checkpoint(settings, topics, partition)
        return found if found is None or found.manifest.stopped == stopped else None
    except Damaged as problem:
        logger.error(
            "partition %d: the checkpoint is damaged, the log is folded from its start: %s", partition, problem
        )
        return None


def _load(fold: Any, checkpoint: Checkpoint, recovered: Recovered, topics: Topics, partition: int) -> int:
    manifest = checkpoint.manifest
    if manifest.next_offset > recovered.next_offset:
        raise LogMismatch(
            f"the checkpoint of {topics.events.name}/{partition} is of offset {manifest.next_offset}, "
            f"but the log was applied up to {recovered.next_offset} only"
        )
    for ledger in checkpoint.ledgers().values():
        fold.restore(ledger)
    fold.unknown_kinds.update(manifest.unknown_kinds)
    recovered.manifest = manifest
    recovered.decisions_from = manifest.decisions_from
    # What stopped has no state here: only the whole log can bring it back.
    recovered.stopped = dict(recovered.was_stopped)
    fold.stopped.update(recovered.stopped)
    return manifest.next_offset


async def applied_events(
    settings: Settings, name: str, partition: int, start: int, next_offset: int
) -> AsyncGenerator[list[Record], None]:
    """The events from `start` to the applied offset, in lists. EventsMissing says which of them are gone."""
    if next_offset <= start:
        return
    first = True
    reached = start
    async with aclosing(read_to_end(settings, name, partition, start=start, stop=next_offset)) as lists:
        async for records in lists:
            begins = records[0].offset
            if first and start == 0 and begins > 0:
                raise EventsMissing(
                    f"{name}/{partition} begins at offset {begins}: the state cannot be folded from the start. "
                    f"The topic must keep its records for ever (retention.ms=-1)",
                    begins=begins,
                )
            first = False
            reached = records[-1].offset + 1
            yield records
    if first:
        raise EventsMissing(
            f"{name}/{partition} has no records from {start} to {next_offset}, but that is how far it was applied",
            ends=reached,
        )
    if reached < next_offset:
        raise EventsMissing(
            f"{name}/{partition} ends at offset {reached}, but was applied up to {next_offset}", ends=reached
        )


class _Tail:
    """Folds what was applied, in step with what was decided then."""

    def __init__(self, fold: Any, settings: Settings, topics: Topics, partition: int, recovered: Recovered) -> None:
        self._fold = fold
        self._recovered = recovered
        self._partition = partition
        self._place = f"{topics.decisions.name}/{partition}"
        known = {} if recovered.manifest is None else recovered.manifest.clusters
        self._hashes = {(cluster, entry.seq): entry.last_hash for cluster, entry in known.items()}
        self._recorded = Recorded(
            self._values(settings, topics, recovered), {cluster: entry.seq for cluster, entry in known.items()}
        )

    async def _values(self, settings: Settings, topics: Topics, recovered: Recovered) -> AsyncIterator[list[bytes]]:
        start = recovered.decisions_from
        if start and not await self._is_there(settings, topics, start):
            logger.warning("%s has no decision at offset %d: they are all read", self._place, start)
            start = 0
        async for records in read_to_end(settings, topics.decisions.name, self._partition, start=start):
            recovered.decisions_from = records[-1].offset
            values = [record.value for record in records]
            if self._hashes:
                self._meet_checkpoint(values)
                self._hashes.clear()
            yield values

    async def _is_there(self, settings: Settings, topics: Topics, offset: int) -> bool:
        """Whether a record has the offset that the checkpoint names, as a broker told it when it was written."""
        name = topics.decisions.name
        async for records in read_to_end(settings, name, self._partition, start=offset, stop=offset + 1):
            return bool(records[0].offset == offset)
        return False

    def _meet_checkpoint(self, values: list[bytes]) -> None:
        """The last decision that a checkpoint counts must be the recorded one."""
        for value in values:
            head = head_of(value)
            expected = None if head is None else self._hashes.pop((head.cluster, head.seq), None)
            if head is not None and expected is not None and head.hash != expected:
                self._stop(
                    head.cluster,
                    f"{self._place}: decision {head.cluster}/{head.seq} has another hash than in the checkpoint:\n"
                    f"  recorded:   {head.hash}\n"
                    f"  checkpoint: {expected}",
                )

    async def fold(self, record: Record) -> None:
        recovered = self._recovered
        outcome = self._fold.apply(
            record.value or b"", offset=record.offset, key=record.key, timestamp=record.timestamp * 1000
        )
        recovered.events += 1
        for decision in outcome.decisions:
            cluster = decision.cluster
            if cluster in recovered.stopped:
                continue
            if record.offset >= recovered.was_stopped.get(cluster, recovered.next_offset):
                recovered.late.append(decision)
                continue
            recovered.decisions += 1
            value = await self._recorded.next(cluster, decision.value)
            if value != decision.value:
                self._stop(
                    cluster,
                    f"{self._place} differs at decision {cluster}/{decision.seq} of event {record.offset}:\n"
                    f"  recorded: {_text(value)}\n"
                    f"  folded:   {_text(decision.value)}",
                )

    async def meet_end(self) -> None:
        async for value in self._recorded.rest():
            head = head_of(value)
            if head is not None and head.cluster in self._recovered.stopped:
                continue
            self._stop(
                head.cluster if head is not None else "",
                f"{self._place} holds a decision that the events up to offset {self._recovered.next_offset} "
                f"do not give:\n  recorded: {_text(value)}",
            )

    def meet_rows(self, folded: dict[bytes, bytes]) -> None:
        recorded = self._recovered.rows
        for key in sorted(folded.keys() | recorded.keys()):
            cluster = decode_row_key(key)[0]
            if cluster in self._recovered.was_stopped or cluster in self._recovered.stopped:
                continue
            if folded.get(key) != recorded.get(key):
                self._stop(
                    cluster,
                    f"the quota table's changelog of partition {self._partition} differs from the fold "
                    f"in row {_text(key)}:\n"
                    f"  recorded: {_text(recorded.get(key))}\n"
                    f"  folded:   {_text(folded.get(key))}",
                )

    def _stop(self, cluster: str, report: str) -> None:
        """A log without clusters to stop stops as a whole."""
        if cluster not in getattr(self._fold, "clusters", {}):
            raise LogMismatch(report)
        recovered = self._recovered
        recovered.stopped[cluster] = recovered.was_stopped.get(cluster, recovered.next_offset)
        recovered.late = [decision for decision in recovered.late if decision.cluster != cluster]
        self._fold.stopped.add(cluster)
        logger.critical(
            "cluster %s stopped: the log and the fold differ; nothing is written for it any more. `quota-ledger audit "
            "--cluster %s` shows more, `quota-ledger worker --rebuild` tries again from the start of the log\n%s",
            cluster,
            cluster,
            report,
        )


def _drain(fold: Fold, rows: dict[bytes, bytes]) -> None:
    for key, row in fold.drain_rows().items():
        if row is None:
            rows.pop(encode_row_key(key), None)
        else:
            rows[encode_row_key(key)] = encode_row(row)


def _text(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode(errors="replace")
