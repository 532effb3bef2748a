"""Which form a source has, and its events one after the other at constant memory."""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import msgspec

from topics.sources.cluster import ABSENT, with_cluster
from topics.sources.objects import ObjectReader
from topics.sources.packing import packed
from topics.sources.watch_stream import WatchStream
from topics.sources.yaml_documents import yaml_documents

LINE_LIMIT = 16 * 1024 * 1024
"""No record may be larger: of a longer line the first bytes are kept, so that its rejection can show them."""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SourceEvent(NamedTuple):
    """One event and its place: the zero-based line in a file of JSON lines of events, else the event's number."""

    offset: int
    value: bytes


class _Form(msgspec.Struct, rename="camel"):
    """What tells the forms apart."""

    type: str | None = None
    kind: str | None = None
    watch: msgspec.Raw = ABSENT


_decode_form = msgspec.json.Decoder(_Form).decode


@contextmanager
def open_source(path: str | Path) -> Iterator[BinaryIO]:
    """The file, or standard input for `-`, unpacked where it is gzip."""
    if str(path) == "-":
        # a reader of its own: a thread that waits in it does not keep the interpreter from closing its standard input
        with open(sys.stdin.fileno(), "rb", closefd=False) as standard_input:
            yield unpacked(standard_input)
        return
    with open(path, "rb") as file:
        yield unpacked(file)


def read_events(source: BinaryIO | str | Path, cluster: str | None = None, *, created: int = 0) -> Iterator[bytes]:
    """The events of a source; see `numbered_events`."""
    if isinstance(source, (str, Path)):
        with open_source(source) as file:
            yield from read_events(file, cluster, created=created)
        return
    for event in numbered_events(source, cluster, created=created):
        yield event.value


def numbered_events(source: BinaryIO, cluster: str | None = None, *, created: int = 0) -> Iterator[SourceEvent]:
    """The events of a source with their places.

    `cluster` is the cluster of whatever names none. `created` (microseconds since the epoch) is the time from which
    objects without a creationTimestamp are counted: the first is created then, each later one a microsecond after.
    """
    lines = _lines(source)
    ahead: list[bytes] = []
    first = b""
    for line in lines:
        ahead.append(line if ahead else line.removeprefix(_BYTE_ORDER_MARK))
        first = ahead[-1].strip()
        if first:
            break
    everything = _chain(ahead, lines)
    reader = ObjectReader(cluster, created)
    if first in (b"{", b"["):
        yield from _numbered(reader.documents(_json_documents(everything)))
    elif not first.startswith((b"{", b"[")):
        yield from _numbered(packed(reader.manifests(yaml_documents(everything)), cluster))
    else:
        form = _form(first)
        if form.watch is not ABSENT:
            yield from _numbered(WatchStream(cluster).events(line for line in everything if line.strip()))
        elif form.kind is not None:
            yield from _numbered(reader.documents(line for line in everything if line.strip()))
        else:
            yield from _event_lines(everything, cluster)


def _form(line: bytes) -> _Form:
    try:
        return _decode_form(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Form()


def _event_lines(lines: Iterator[bytes], cluster: str | None) -> Iterator[SourceEvent]:
    """JSON lines as they are; a line without a cluster gets the one that was asked for."""
    for number, line in enumerate(lines):
        value = line.strip()
        if not value:
            continue
        if cluster is not None:
            value = with_cluster(value, cluster)
        yield SourceEvent(number, value)


def _json_documents(lines: Iterator[bytes]) -> Iterator[bytes]:
    """JSON documents written over many lines: each ends with the line that closes its first bracket.

    No string goes over the end of a line, so brackets can be counted line by line. What remains at the end is given out
    whole.
    """
    held: list[bytes] = []
    depth = 0
    for line in lines:
        held.append(line)
        bare = _STRINGS.sub(b"", line)
        opened = bare.count(b"{") + bare.count(b"[")
        closed = bare.count(b"}") + bare.count(b"]")
        depth += opened - closed
        if depth <= 0 and closed:
            yield b"".join(held).strip()
            held, depth = [], 0
    rest = b"".join(held).strip()
    if rest:
        yield rest


def _numbered(values: Iterator[bytes]) -> Iterator[SourceEvent]:
    for number, value in enumerate(values):
        yield SourceEvent(number, value)


def _chain(ahead: list[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
    yield from ahead
    yield from lines


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Lines of the source; of a line beyond the limit only the first bytes, the rest is passed over."""
    while True:
        line = source.readline(LINE_LIMIT + 2)
        if not line:
            return
        if len(line) > LINE_LIMIT and not line.endswith(b"\n"):
            while (rest := source.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
                pass
        yield line


def unpacked(file: BinaryIO) -> BinaryIO:
    """The same stream, read through gzip where its first bytes say so."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(cast(io.RawIOBase, _Unpacked(fileobj=buffered)), 1 << 20)
    return buffered


class DamagedSource(ValueError):
    """The packed bytes of a source are not what was written, or not all of it."""


class _Unpacked(gzip.GzipFile):
    """Says in one way what `gzip` says in three."""

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            name = getattr(self.fileobj, "name", "the source")
            raise DamagedSource(f"{name}: the gzip stream is damaged: {problem}") from None
