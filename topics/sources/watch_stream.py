"""A recorded watch of many resources, as events (kueue-objects 0.1 and 10).

Each line names its cluster, its resource and the number of the connection (`session`). A first connection, and the one
after an ERROR (410, the resource version is too old), begin with a list of everything that is there and end it with a
BOOKMARK marked `k8s.io/initial-events-end`. Such a list becomes

    {"type": "SYNC_BEGIN", "kinds": ["Workload"]}  the objects  {"type": "SYNC_END", "kinds": ["Workload"]}

so that no cycle sees half of it, and what is not in it is gone, of that kind only. A connection that resumes from an
old version repeats events instead; the fold knows them by uid and resourceVersion.

One more thing is done for starts: a list that ends is closed only when the next line is known. Where that line opens
another list of the same cluster, the new one is opened first: while a cluster's resources are listed one after the
other, no cycle runs in between.

Lines carry no time of arrival. The time of an event is the newest time stamp seen so far in its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ledger.timestamps import Timestamp, format_timestamp
from topics.sources.moments import newest_moment
from topics.sources.packing import Unreadable

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Watch(msgspec.Struct):
    resource: str
    cluster: str | None = None
    session: int = 1


class _Line(msgspec.Struct):
    watch: _Watch
    type: str
    object: msgspec.Raw
    at: str | None = None


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Head(msgspec.Struct):
    kind: str = ""
    metadata: _Metadata | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_encode = msgspec.json.encode


class WatchStream:
    """The connections of one recording: which resources are being listed, what time it is in each cluster."""

    def __init__(self, cluster: str | None = None) -> None:
        self._default = cluster or "default"
        self._sessions: dict[tuple[str, str], int] = {}
        self._expired: set[tuple[str, str]] = set()
        self._listing: set[tuple[str, str]] = set()
        self._ending: dict[str, list[bytes]] = {}
        self._now: dict[str, Timestamp] = {}

    def events(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """The events of all lines in their order."""
        for line in lines:
            try:
                read = _decode_line(line)
                head = _decode_head(read.object)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                yield Unreadable(line.strip())
                continue
            yield from self._event(read, head)
        for cluster in sorted(self._ending):
            yield from self._ending[cluster]

    def _event(self, line: _Line, head: _Head) -> Iterator[bytes]:
        cluster = line.watch.cluster or self._default
        key = (cluster, line.watch.resource)
        ending = self._ending.pop(cluster, [])
        if self._opens_a_list(key, line):
            self._listing.add(key)
            yield self._sync(cluster, "SYNC_BEGIN", head.kind)
        yield from ending
        if line.type == "ERROR":
            self._expired.add(key)
            self._listing.discard(key)
        elif line.type == "BOOKMARK" and key in self._listing and _ends_the_list(head):
            self._listing.discard(key)
            self._ending.setdefault(cluster, []).append(self._sync(cluster, "SYNC_END", head.kind))
            return
        yield self._watch_event(cluster, line)

    def _opens_a_list(self, key: tuple[str, str], line: _Line) -> bool:
        """A first connection lists; a later one does where the one before it ended in an error."""
        if line.type == "ERROR" or self._sessions.get(key) == line.watch.session:
            return False
        first = key not in self._sessions
        self._sessions[key] = line.watch.session
        if key in self._expired:
            self._expired.discard(key)
            return True
        return first

    def _watch_event(self, cluster: str, line: _Line) -> bytes:
        moment = newest_moment(line.object)
        if moment is not None and moment > self._now.get(cluster, moment - 1):
            self._now[cluster] = Timestamp(moment)
        return (
            self._start(cluster, line.at)
            + b'"type":'
            + _encode(line.type)
            + (b"" if line.type == "ERROR" else b',"object":' + bytes(line.object))
            + b"}"
        )

    def _sync(self, cluster: str, kind_of_event: str, kind: str) -> bytes:
        return (
            self._start(cluster, None) + b'"type":"' + kind_of_event.encode() + b'","kinds":' + _encode([kind]) + b"}"
        )

    def _start(self, cluster: str, at: str | None) -> bytes:
        start = b'{"cluster":' + _encode(cluster) + b","
        if at is not None:
            return start + b'"at":' + _encode(at) + b","
        if cluster in self._now:
            return start + b'"at":"' + format_timestamp(self._now[cluster]).encode() + b'",'
        return start


def _ends_the_list(head: _Head) -> bool:
    annotations = head.metadata.annotations if head.metadata is not None else None
    return (annotations or {}).get(_INITIAL_EVENTS_END) == "true"
