"""The audit: fold `quota.events` again and meet `quota.decisions`, record by record (design 8).

The rules are asked anew for every event; what they give must be what was written, byte for byte, hash and chain
included. In each cluster the first difference ends the comparison of that cluster, because everything after it follows
from it; other clusters go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ledger.decisions import GENESIS, RULES_VERSION, DecisionRecord, hash_of
from ledger.fold import Fold, Outcome
from ledger.timestamps import Timestamp
from ledger.tree import Node
from topics.recorded import Head, Recorded, head_of

PROGRESS_EVENTS = 2_000
"""Events between two words about how far it is."""


class EventRecord(Protocol):
    """A record of `quota.events`; `timestamp` is Kafka's, in milliseconds."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp(self) -> int | None: ...


class Line(NamedTuple):
    """An event of a file."""

    offset: int
    value: bytes
    key: bytes | None = None
    timestamp: int | None = None


class Difference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where what is written and what the rules give part: both records (None: there is none), cause, state."""

    what: str
    cluster: str
    seq: int
    topic: str
    partition: int
    offset: int
    recorded: bytes | None
    folded: bytes | None
    rules_recorded: str = ""
    rules_folded: str = ""
    queues: dict[str, dict[str, Any]] = {}


class Result(msgspec.Struct, rename="camel"):
    """What an audit of one partition, or file, came to."""

    topic: str
    partition: int
    events: int = 0
    decisions: int = 0
    first_offset: int = 0
    next_offset: int = 0
    clusters: int = 0
    rejected: int = 0
    checkpoints: int = 0
    seconds: float = 0.0
    newer_offset: int = 0
    """Behind the last event of decisions that were written while the audit ran; 0: there are none."""
    differences: list[Difference] = []


class Auditor:
    """Audits one partition. `fold` is empty, or loaded from a checkpoint.

    `stop` is set where a worker may go on writing meanwhile: decisions of events from this offset on are newer than the
    audit. Where it is None the log is whole, and each of its decisions must have its event.
    """

    def __init__(self, fold: Fold, *, first_offset: int = 0, stop: int | None = None, from_file: bool = False) -> None:
        self.fold = fold
        self._stop = stop
        self.result = Result(fold.topic, fold.partition, first_offset=first_offset, next_offset=first_offset)
        self._from_file = from_file
        self._before: Timestamp | None = None
        self._differing: set[str] = set()

    async def run(
        self,
        events: AsyncIterator[Sequence[EventRecord]],
        decisions: AsyncIterator[list[bytes]],
        *,
        after: Callable[[Fold, int], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Result:
        """Fold every event and meet every decision. `after` is called between lists of events."""
        recorded = Recorded(decisions, {name: ledger.seq for name, ledger in self.fold.clusters.items()})
        result = self.result
        told = 0
        fold, meet = self._fold, recorded.meet
        async for records in events:
            for record in records:
                folded = fold(record).decisions
                if not folded:
                    continue
                met = 0 if self._differing else meet(folded)
                result.decisions += met
                if met < len(folded):
                    await self._meet(recorded, folded[met:], record.offset)
            if records:
                result.events += len(records)
                result.next_offset = records[-1].offset + 1
            if after is not None:
                after(self.fold, result.next_offset)
            if progress is not None and result.events - told >= PROGRESS_EVENTS:
                told = result.events
                progress(told)
        await self._meet_end(recorded)
        result.clusters = len(self.fold.clusters)
        if progress is not None:
            progress(result.events)
        return result

    def _fold(self, record: EventRecord) -> Outcome:
        timestamp = self._before
        if not self._from_file:
            timestamp = None if record.timestamp is None else Timestamp(record.timestamp * 1000)
        outcome = self.fold.apply(record.value or b"", offset=record.offset, key=record.key, timestamp=timestamp)
        if outcome.at is not None:
            self._before = outcome.at
        if outcome.rejections:
            self.result.rejected += 1
        return outcome

    async def _meet(self, recorded: Recorded, decisions: Sequence[DecisionRecord], offset: int) -> None:
        """Decisions that are not the next of the log, or not at hand yet."""
        for decision in decisions:
            if decision.cluster in self._differing:
                continue
            found = await recorded.next(decision.cluster, decision.value)
            if found == decision.value:
                self.result.decisions += 1
            else:
                self._differ(decision.cluster, decision.seq, decision.value, found, offset)

    async def _meet_end(self, recorded: Recorded) -> None:
        """Decisions that nobody asked for are a difference, unless they are newer than the audit."""
        async for value in recorded.rest():
            head = head_of(value)
            if head is None:
                self._differ("", 0, None, value, self.result.next_offset)
                return
            if head.cluster in self._differing:
                continue
            if self._stop is not None and head.offset >= self._stop:
                self.result.newer_offset = max(self.result.newer_offset, head.offset + 1)
                continue
            self._differ(head.cluster, head.seq, None, value, head.offset)

    def _differ(self, cluster: str, seq: int, folded: bytes | None, recorded: bytes | None, offset: int) -> None:
        self._differing.add(cluster)
        theirs = head_of(recorded) if recorded is not None else None
        ours = head_of(folded) if folded is not None else None
        difference = Difference(
            what=_what(folded, recorded, ours, theirs, self.result.next_offset),
            cluster=cluster,
            seq=seq,
            topic=self.fold.topic,
            partition=self.fold.partition,
            offset=offset,
            recorded=recorded,
            folded=folded,
            rules_recorded=theirs.rules if theirs else "",
            rules_folded=ours.rules if ours else f"version {RULES_VERSION}",
            queues=self._queues_of(cluster, [head for head in (theirs, ours) if head is not None]),
        )
        self.result.differences = [*self.result.differences, difference]

    def _queues_of(self, cluster: str, heads: list[Head]) -> dict[str, dict[str, Any]]:
        """The state of the queues and cohorts that the two records name."""
        ledger = self.fold.clusters.get(cluster)
        if ledger is None:
            return {}
        names = {
            name for head in heads for name in (head.cluster_queue, head.preemptor.get("clusterQueue", "")) if name
        }
        forest = ledger.state.forest
        found: dict[str, dict[str, Any]] = {}
        for name in sorted(names):
            queue = forest.queues.get(name)
            if queue is not None:
                waiting = ["/".join(state.key) for state in queue.pending]
                found[name] = {
                    **self._table(cluster, queue),
                    "holders": sorted("/".join(holder.key) for holder in queue.holders.values()),
                    "waiting": waiting,
                }
                for cohort in queue.path[1:]:
                    found.setdefault(f"cohort {cohort.name}", self._table(cluster, cohort))
        return found

    def _table(self, cluster: str, node: Node) -> dict[str, Any]:
        numbers = self.fold.clusters[cluster].state.numbers
        rows = numbers.by_name({*node.nominal, *node.usage, *node.subtree})
        return {
            "quota": {"/".join(numbers.names[fr]): node.subtree.get(fr, 0) for fr in rows},
            "usage": {"/".join(numbers.names[fr]): node.usage.get(fr, 0) for fr in rows},
        }


def _what(
    folded: bytes | None, recorded: bytes | None, ours: Head | None, theirs: Head | None, next_offset: int
) -> str:
    """In one line what kind of difference it is: what an auditor asks first."""
    if recorded is None:
        return "the decision is missing: the log ends before it"
    if theirs is None:
        return "the record is no decision"
    if theirs.hash != hash_of(recorded):
        return "the record was changed after it was written: its hash is not that of its bytes"
    if ours is None and theirs.offset >= next_offset:
        return f"the event of this decision is missing: the events end before offset {next_offset}"
    if ours is None or folded is None:
        return "the record is a decision that the events do not give"
    if theirs.seq < ours.seq:
        return f"the record is a repetition: seq {theirs.seq} where {ours.seq} follows"
    if theirs.seq > ours.seq:
        return f"records are missing: seq {theirs.seq} where {ours.seq} follows"
    if theirs.prev != ours.prev:
        if ours.prev == GENESIS:
            return "the chain does not begin with the first record"
        return f"the chain is broken: prev is not the hash of seq {ours.seq - 1}"
    if theirs.rules != ours.rules:
        return f"decided by rules {theirs.rules}, these rules are {ours.rules}: see --rules-diff"
    return "the rules decide otherwise"
