"""A fold with the interface of `ledger.fold.Fold` and nothing behind it: one decision per event, one row per cluster.

The streaming tests run on it, so that what they find is the streaming's; the worker's benchmark runs on it too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

_encoder = msgspec.json.Encoder()


class Event(msgspec.Struct):
    """As much of an event as the stand-in reads; anything else is decoded and skipped."""

    cluster: str | None = None
    type: str = "ADDED"


class Row(msgspec.Struct):
    events: int
    last_offset: int


class RowKey(NamedTuple):
    cluster: str
    cluster_queue: str
    flavor: str
    resource: str


class Decision(NamedTuple):
    cluster: str
    seq: int
    value: bytes
    hash: str


class Rejection(NamedTuple):
    cluster: str | None
    offset: int
    index: int
    path: str
    reason: str
    value: bytes


class Outcome(NamedTuple):
    decisions: list[Decision]
    rejections: list[Rejection]


@dataclass
class _Cluster:
    seq: int = 0
    hash: str = ""


@dataclass
class CountingFold:
    """Counts the events of each cluster. A DELETED event takes the row of its cluster away."""

    topic: str = "quota.events"
    partition: int = 0
    unknown_kinds: Counter[str] = field(default_factory=Counter)
    _clusters: dict[str, _Cluster] = field(default_factory=dict)
    _rows: dict[RowKey, Row | None] = field(default_factory=dict)
    _decoder: msgspec.json.Decoder[Event] = field(default_factory=lambda: msgspec.json.Decoder(Event))

    def apply(self, value: bytes, *, offset: int, key: bytes | None = None, timestamp: Any | None = None) -> Outcome:
        try:
            event = self._decoder.decode(value)
        except (msgspec.DecodeError, ValueError) as problem:
            cluster_of_key = key.decode(errors="replace") if key else None
            return Outcome([], [Rejection(cluster_of_key, offset, 0, "", str(problem), value)])
        name = event.cluster or (key.decode() if key else "default")
        cluster = self._clusters.get(name)
        if cluster is None:
            cluster = self._clusters[name] = _Cluster()
        cluster.seq += 1
        body = b'{"seq":%d,"cluster":"%s","cause":{"topic":"%s","partition":%d,"offset":%d},"prev":"%s"' % (
            cluster.seq,
            name.encode(),
            self.topic.encode(),
            self.partition,
            offset,
            cluster.hash.encode(),
        )
        cluster.hash = blake2b(body, digest_size=32).hexdigest()
        row = RowKey(name, "queue", "flavor", "gpu")
        self._rows[row] = None if event.type == "DELETED" else Row(cluster.seq, offset)
        return Outcome([Decision(name, cluster.seq, body + b',"hash":"%s"}' % cluster.hash.encode(), cluster.hash)], [])

    def drain_rows(self) -> dict[RowKey, Row | None]:
        rows = dict(sorted(self._rows.items(), key=lambda item: item[0]))
        self._rows.clear()
        return rows
