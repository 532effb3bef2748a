"""One partition of `quota.events` while this process has it: state, next offset, one transactional producer.

No Faust here: the worker's agent drives it, and so can a test or a plain loop. The order of `open` is what makes it
exactly once: starting the producer fences the previous owner, and only then is the log read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer

from topics import metrics
from topics.checkpoints import CheckpointWriter, PendingCheckpoint
from topics.codec import STOPPED_KEY, decode_row_key, encode_row, encode_row_key, encode_stopped
from topics.folding import FoldFactory, RowKey
from topics.garbage import look_at_everything
from topics.reader import Record, read_to_end
from topics.recovery import SLICE_SECONDS, LogMismatch, Recovered, recover
from topics.settings import Settings
from topics.ticks import LIVE
from topics.topic import Topics
from topics.transaction import InsideTransaction, Outbox, commit, new_producer

logger = logging.getLogger("topics.partition")


class RowTable(Protocol):
    """The table `quota` of one partition: writes are kept for the transaction until they are taken.

    `load` takes rows (None: gone) as the log already has them, which are no changes.
    """

    def load(self, rows: Mapping[RowKey, Any]) -> None: ...
    def __setitem__(self, key: RowKey, row: Any, /) -> None: ...
    def __delitem__(self, key: RowKey, /) -> None: ...
    def take_changes(self) -> list[tuple[bytes, bytes | None]]: ...
    def items(self) -> Any: ...


class PlainTable(dict[RowKey, Any]):
    """The table without Faust."""

    def __init__(self) -> None:
        super().__init__()
        self._changes: list[tuple[bytes, bytes | None]] = []

    def load(self, rows: Mapping[RowKey, Any]) -> None:
        for key, row in rows.items():
            if row is None:
                self.pop(key, None)
            else:
                super().__setitem__(key, row)

    def __setitem__(self, key: RowKey, row: Any) -> None:
        super().__setitem__(key, row)
        self._changes.append((encode_row_key(key), encode_row(row)))

    def __delitem__(self, key: RowKey) -> None:
        self.pop(key, None)
        self._changes.append((encode_row_key(key), None))

    def take_changes(self) -> list[tuple[bytes, bytes | None]]:
        changes, self._changes = self._changes, []
        return changes


class _Keeping:
    """Rows drained during recovery go into the table without becoming changes."""

    def __init__(self, fold: Any, table: RowTable) -> None:
        self._fold = fold
        self._table = table
        self.apply = fold.apply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fold, name)

    def drain_rows(self) -> Mapping[RowKey, Any]:
        rows: Mapping[RowKey, Any] = self._fold.drain_rows()
        self._table.load(rows)
        return rows


class Partition:
    """State + next offset + producer of one partition; `apply` folds a chunk and commits it as one transaction."""

    def __init__(
        self,
        number: int,
        *,
        settings: Settings,
        topics: Topics,
        fold: FoldFactory,
        table: RowTable | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        inside_transaction: InsideTransaction | None = None,
    ) -> None:
        self.number = number
        self.next_offset = 0
        self.table: RowTable = PlainTable() if table is None else table
        self.fold: Any = fold(topics.events.name, number)
        self._settings = settings
        self._topics = topics
        self._on_failure = on_failure
        self._inside_transaction = inside_transaction
        self._producer: AIOKafkaProducer | None = None
        self._lock = asyncio.Lock()
        self._committing: asyncio.Task[None] | None = None
        self._opened = False
        self._closed = False
        self._checkpoints: CheckpointWriter | None = None
        self._changed: set[str] = set()
        self._events_since = 0
        self._log_time = 0
        self._checkpoint_time = 0
        self._decisions_from = 0
        self.stopped: dict[str, int] = {}
        self.live: dict[str, bool] = {}
        self.opened_at = 0
        self.recovered_events = 0

    @property
    def transactional_id(self) -> str:
        """One id per input partition, the same whoever owns it: that is what fences a zombie."""
        return f"{self._settings.group_id}-{self.number}"

    @property
    def is_open(self) -> bool:
        return self._opened and not self._closed

    @property
    def clusters(self) -> Mapping[str, Any]:
        """The ledgers here that go on; a fold that is none has no clusters."""
        clusters: Mapping[str, Any] = getattr(self.fold, "clusters", {})
        return {name: ledger for name, ledger in clusters.items() if name not in self.stopped}

    async def open(self) -> None:
        """Fence the previous owner, then fold what it applied, meeting every recorded decision."""
        async with self._lock:
            began = time.monotonic()
            self._producer = new_producer(self._settings, self.transactional_id)
            await self._producer.start()
            recovered = await recover(_Keeping(self.fold, self.table), self._settings, self._topics, self.number)
            self.next_offset = recovered.next_offset
            await self._take_over(recovered)
            self.opened_at = time.time_ns() // 1000
            self._opened = True
            seconds = time.monotonic() - began
            metrics.recovered(self.number, recovered.events, seconds)
            logger.info(
                "partition %d: folded %d events up to offset %d, %d decisions as recorded, in %.1f s",
                self.number,
                recovered.events,
                recovered.next_offset,
                recovered.decisions,
                seconds,
            )

    async def _take_over(self, recovered: Recovered) -> None:
        """Go on from what was recovered; write what clusters that had stopped missed."""
        self._decisions_from = recovered.decisions_from
        self.recovered_events = recovered.events
        self.stopped = recovered.stopped
        metrics.stopped(self.number, self.stopped)
        if hasattr(self.fold, "clusters"):
            self._checkpoints = CheckpointWriter(recovered.manifest)
            self._changed.update(self.fold.take_changed())
            self._log_time = max((ledger.now for ledger in self.fold.clusters.values()), default=0)
            self._checkpoint_time = self._log_time
            self._events_since = recovered.events
        if self.stopped == recovered.was_stopped and not self._settings.rebuild:
            return
        outbox = Outbox()
        if self._checkpoints is not None:
            # The one before is of other clusters, or nobody trusts it.
            outbox.checkpoint = self._taken_checkpoint(self._checkpoints)
        for decision in recovered.late:
            outbox.add_decision(decision)
        for key in sorted(recovered.rows):
            if decode_row_key(key)[0] in recovered.was_stopped.keys() - self.stopped.keys():
                outbox.add_row(key, None)
        for row_key, row in sorted(self.table.items()):
            if row_key[0] in recovered.was_stopped.keys() - self.stopped.keys():
                outbox.add_row(encode_row_key(row_key), encode_row(row))
        outbox.add_row(STOPPED_KEY, encode_stopped(self.stopped))
        await self._commit(outbox, self.next_offset)

    async def apply(self, records: Sequence[Record]) -> None:
        """Fold a chunk and hand it to a transaction, which runs while the next chunk is folded; at most one behind."""
        async with self._lock:
            if self._closed or not self._opened:
                return
            records = await self._not_yet_applied(records)
            if not records:
                return
            began = time.monotonic()
            outbox = await self._folded(records)
            folded = time.monotonic()
            await self._committed()
            metrics.chunk(self.number, len(records), outbox, folded - began, time.monotonic() - folded, self.fold)
            self._committing = asyncio.create_task(self._commit(outbox, self.next_offset))

    async def settle(self) -> None:
        """Wait until nothing is under way: what was folded is committed."""
        async with self._lock:
            await self._committed()

    async def close(self) -> None:
        """Settle, then give the producer up. What is delivered and not folded is dropped: the next owner reads it."""
        self._closed = True
        look_at_everything()
        async with self._lock:
            await self._committed()
            if self._producer is not None:
                await self._producer.stop()
                self._producer = None

    async def abandon(self) -> None:
        """Give up an `open` that was cancelled: there is nothing to commit."""
        self._closed = True
        look_at_everything()
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def _not_yet_applied(self, records: Sequence[Record]) -> Sequence[Record]:
        """Without redeliveries. Offsets may have gaps, but only where the log has no record."""
        if records[0].offset < self.next_offset:
            records = [record for record in records if record.offset >= self.next_offset]
        if records and records[0].offset > self.next_offset:
            await self._verify_gap(self.next_offset, records[0].offset)
        return records

    async def _verify_gap(self, start: int, stop: int) -> None:
        name = self._topics.events.name
        async for missed in read_to_end(self._settings, name, self.number, start=start, stop=stop):
            raise LogMismatch(
                f"{name}/{self.number}: offset {stop} arrived, but {missed[0].offset} was not applied. "
                f"Was the offset of group {self._settings.group_id} moved?"
            )

    async def _folded(self, records: Sequence[Record]) -> Outbox:
        outbox = Outbox()
        apply = self.fold.apply
        turn = time.monotonic()
        for record in records:
            offset = record.offset
            outcome = apply(record.value or b"", offset=offset, key=record.key, timestamp=record.timestamp * 1000)
            for decision in outcome.decisions:
                outbox.add_decision(decision)
            if outcome.rejections:
                outbox.add_dead_letter(
                    self._topics.events.name, self.number, offset, list(outcome.rejections), record.key, record.value
                )
            self.next_offset = offset + 1
            at = getattr(outcome, "at", None)
            if at is not None:
                self._log_time = max(self._log_time, at)
                if record.key is not None:
                    self.live[record.key.decode(errors="replace")] = abs(at - record.timestamp * 1000) < LIVE
            if time.monotonic() - turn > SLICE_SECONDS:
                await asyncio.sleep(0)
                turn = time.monotonic()
        for key, row in self.fold.drain_rows().items():
            if row is None:
                del self.table[key]
            else:
                self.table[key] = row
        for row_key, value in self.table.take_changes():
            outbox.add_row(row_key, value)
        outbox.checkpoint = self._checkpoint(len(records))
        return outbox

    def _checkpoint(self, events: int) -> PendingCheckpoint | None:
        """The state after this chunk, every so many events or seconds of the log's own time."""
        self._events_since += events
        if self._checkpoints is None or not self._settings.checkpoint_events:
            return None
        self._changed.update(self.fold.take_changed())
        often = self._settings.checkpoint_seconds
        is_time = often > 0 and self._log_time - self._checkpoint_time >= often * 1_000_000
        if self._events_since < self._settings.checkpoint_events and not is_time:
            return None
        return self._taken_checkpoint(self._checkpoints)

    def _taken_checkpoint(self, writer: CheckpointWriter) -> PendingCheckpoint:
        began = time.monotonic()
        pending = writer.take(self.fold, self.next_offset, self._changed, self.stopped)
        metrics.checkpoint(self.number, pending.size, time.monotonic() - began)
        self._events_since, self._checkpoint_time = 0, self._log_time
        self._changed.clear()
        return pending

    async def _committed(self) -> None:
        if self._committing is not None:
            await self._committing
            self._committing = None

    async def _commit(self, outbox: Outbox, next_offset: int) -> None:
        began = time.monotonic()
        try:
            assert self._producer is not None
            self._decisions_from = await commit(
                self._producer,
                outbox,
                topics=self._topics,
                partition=self.number,
                next_offset=next_offset,
                group_id=self._settings.group_id,
                decisions_from=self._decisions_from,
                inside=self._inside_transaction,
            )
        except BaseException as problem:
            if self._on_failure is not None:
                self._on_failure(problem)
            raise
        metrics.transaction(self.number, next_offset, time.monotonic() - began)
