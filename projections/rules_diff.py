"""An old log under other rules: exactly the decisions that change (`quota-ledger audit --rules-diff`).

For each event the decisions that were recorded and those that these rules make are compared as multisets, without what
only numbers them. What happened afterwards in the cluster is in the log as facts, and facts win: so after a change both
histories run on the same events, and only what the rules themselves decide otherwise is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from ledger.fold import Fold
from ledger.ledger import Ledger
from ledger.objects.configuration import Configuration
from ledger.timestamps import Timestamp
from projections.audit import PROGRESS_EVENTS, EventRecord, Result
from topics.recorded import head_of

NUMBERING = ("seq", "prev", "hash", "rules", "cycle")
"""What shifts with any change before it and decides nothing."""

_KIND = b'"Configuration"'
_encode = msgspec.json.Encoder(order="deterministic").encode


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """One event whose decisions change: those that are gone, those that are new."""

    partition: int
    offset: int
    removed: list[dict[str, Any]]
    added: list[dict[str, Any]]


class RulesDiff:
    """Compares one partition. `rules` names a rule set that replaces the Configuration's; None keeps it."""

    def __init__(self, fold: Fold, rules: str | None, *, from_file: bool = False) -> None:
        self._fold = fold
        self._rules = rules
        self._from_file = from_file
        self._before: Timestamp | None = None
        self._values: list[bytes] = []
        self._index = 0
        self.result = Result(fold.topic, fold.partition)
        self.changes: list[Change] = []

    async def run(
        self,
        events: AsyncIterator[Sequence[EventRecord]],
        decisions: AsyncIterator[list[bytes]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        async for records in events:
            for record in records:
                folded = self._apply(record)
                recorded = await self._recorded_until(decisions, record.offset)
                self.result.decisions += len(recorded)
                self._compare(record.offset, recorded, folded)
                if progress is not None and self.result.events % PROGRESS_EVENTS == 0:
                    progress(self.result.events)
        self.result.clusters = len(self._fold.clusters)

    def _apply(self, record: EventRecord) -> list[bytes]:
        value = record.value or b""
        if self._rules is not None:
            value = with_rules(value, self._rules)
            self._make_ledger(value, record.key)
        timestamp = self._before
        if not self._from_file:
            timestamp = None if record.timestamp is None else Timestamp(record.timestamp * 1000)
        outcome = self._fold.apply(value, offset=record.offset, key=record.key, timestamp=timestamp)
        if outcome.at is not None:
            self._before = outcome.at
        self.result.events += 1
        self.result.next_offset = record.offset + 1
        return [decision.value for decision in outcome.decisions]

    def _make_ledger(self, value: bytes, key: bytes | None) -> None:
        """A cluster that has no Configuration yet, or never gets one, begins with the rules that were asked for."""
        try:
            cluster = msgspec.json.decode(value, type=_Cluster).cluster or (key or b"default").decode()
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if cluster not in self._fold.clusters:
            ledger = self._fold.clusters[cluster] = Ledger(cluster)
            ledger.state.configuration = msgspec.convert({"ledger": {"rules": self._rules}}, Configuration)

    async def _recorded_until(self, decisions: AsyncIterator[list[bytes]], offset: int) -> list[bytes]:
        found: list[bytes] = []
        while True:
            while self._index >= len(self._values):
                try:
                    self._values = await anext(decisions)
                except StopAsyncIteration:
                    return found
                self._index = 0
            head = head_of(self._values[self._index])
            if head is not None and head.offset > offset:
                return found
            found.append(self._values[self._index])
            self._index += 1

    def _compare(self, offset: int, recorded: list[bytes], folded: list[bytes]) -> None:
        if recorded == folded:
            return
        before, after = Counter(map(essence, recorded)), Counter(map(essence, folded))
        removed, added = before - after, after - before
        if removed or added:
            self.changes.append(
                Change(
                    self._fold.partition,
                    offset,
                    [msgspec.json.decode(value) for value in removed.elements()],
                    [msgspec.json.decode(value) for value in added.elements()],
                )
            )


class _Cluster(msgspec.Struct):
    cluster: str | None = None


def essence(value: bytes) -> bytes:
    """A decision without what numbers it; what is none as it is."""
    try:
        decision = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decision = None
    if not isinstance(decision, dict):
        return _encode({"bytes": value.decode(errors="replace")})
    for name in NUMBERING:
        decision.pop(name, None)
    return _encode(decision)


def with_rules(value: bytes, rules: str) -> bytes:
    """An event whose Configurations, if it has any, ask for these rules."""
    if _KIND not in value:
        return value
    try:
        event = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
    if not isinstance(event, dict):
        return value
    members = event.get("events")
    for member in [event, *(members if isinstance(members, list) else [])]:
        target = member.get("object") if isinstance(member, dict) else None
        if isinstance(target, dict) and target.get("kind") == "Configuration":
            ledger = target.get("ledger")
            target["ledger"] = {**(ledger if isinstance(ledger, dict) else {}), "rules": rules}
    return msgspec.json.encode(event)
