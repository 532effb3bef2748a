"""The fold over one partition of `quota.events`: records in, decisions out, one ledger for each cluster."""

from __future__ import annotations

from collections import Counter

import msgspec

from ledger import events
from ledger.decisions import DecisionRecord
from ledger.events import Event, EventType, InvalidRecord, decode_event
from ledger.ledger import Ledger
from ledger.objects.decoding import UnknownKind
from ledger.rows import Row, RowKey
from ledger.timestamps import Timestamp


class Rejection(msgspec.Struct, frozen=True):
    """A record, or a member of a batch, that goes to the dead letters. `value` are the bytes of the whole record."""

    cluster: str | None
    offset: int
    index: int
    path: str
    reason: str
    value: bytes


class Outcome(msgspec.Struct, frozen=True):
    """What became of one record. `at` is the time it carried or was given, None where there was none."""

    decisions: list[DecisionRecord]
    rejections: list[Rejection]
    at: Timestamp | None = None


class Fold:
    """All clusters of one partition (or file). `unknown_kinds` counts objects that were skipped, by version and kind.

    Events of a cluster in `stopped` change nothing: whoever drives the fold found that it differs from the log.
    """

    def __init__(self, topic: str = "quota.events", partition: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.clusters: dict[str, Ledger] = {}
        self.unknown_kinds: Counter[str] = Counter()
        self.stopped: set[str] = set()
        self._touched: set[str] = set()
        self._changed: set[str] = set()

    def apply(
        self, value: bytes, *, offset: int, key: bytes | None = None, timestamp: Timestamp | None = None
    ) -> Outcome:
        """Fold one record. `timestamp` is the record's own time, for an event that carries none (design 4).

        Never raises for what a record says: that becomes a rejection, and the state is as if the record, or the member
        of a batch, had not been there.
        """
        try:
            event = decode_event(value, key=key)
        except InvalidRecord as error:
            return Outcome([], [Rejection(None, offset, 0, error.path, error.reason, value)])
        if event.at is None and timestamp is not None:
            event = msgspec.structs.replace(event, at=timestamp)
        if event.cluster in self.stopped:
            return Outcome([], [], event.at)
        ledger = self.clusters.get(event.cluster)
        if ledger is None:
            ledger = self.clusters[event.cluster] = Ledger(event.cluster)
        self._touched.add(event.cluster)
        self._changed.add(event.cluster)
        self._count_unknown(event)
        decisions = ledger.apply(event, self.topic, self.partition, offset)
        rejections = [
            Rejection(event.cluster, offset, member.index, member.path, member.reason, value)
            for member in event.members
            if isinstance(member, events.Rejection)
        ]
        return Outcome(decisions, rejections, event.at)

    def drain_rows(self) -> dict[RowKey, Row | None]:
        """Rows of the quota table that changed since the last call, by key; None for a row that is gone."""
        rows: dict[RowKey, Row | None] = {}
        for cluster in sorted(self._touched):
            rows.update(self.clusters[cluster].drain_rows())
        self._touched.clear()
        return rows

    def restore(self, ledger: Ledger) -> None:
        """Take in a ledger that was saved. All its rows are drained next."""
        self.clusters[ledger.cluster] = ledger
        for queue in ledger.state.forest.queues.values():
            ledger.state.dirty_rows.update((queue.name, fr) for fr in {*queue.nominal, *queue.usage})
        self._touched.add(ledger.cluster)

    def take_changed(self) -> set[str]:
        """Clusters that had events since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def _count_unknown(self, event: Event) -> None:
        members = event.members if event.type is EventType.BATCH else (event,)
        for member in members:
            if isinstance(member, Event) and isinstance(member.object, UnknownKind):
                self.unknown_kinds[f"{member.object.api_version}/{member.object.kind}"] += 1
