"""A self-contained archive of an audit: events, decisions, checkpoints, configuration and versions in one file.

It is a first line and frames: a header that says what the frame holds and where in the log that was, and the packed
payload. Each frame carries a digest over header and payload, and the last one a digest over all digests, so that a
flipped byte, a cut or an exchange is found and located: the frame, its bytes in the file, its offsets in the log.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import BinaryIO, Final, TypeVar

import msgspec

MAGIC: Final = b"quota-ledger archive 1\n"
BLOCK_BYTES: Final = 128 * 1024
"""Unpacked bytes of a frame of records: what is named when one of its bytes is wrong."""

ABOUT: Final = "about"
EVENTS: Final = "events"
DECISIONS: Final = "decisions"
CHECKPOINT: Final = "checkpoint"
END: Final = "end"

Thing = TypeVar("Thing")

_LENGTH = 4
_LARGEST_HEADER = 4096


class DamagedArchive(Exception):
    """Bytes of the archive are not what was written; `place` says where."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class Frame(msgspec.Struct, array_like=True, frozen=True):
    """What a frame holds. `first` and `last` are offsets of records, or the next offset of a checkpoint."""

    kind: str
    partition: int
    first: int
    last: int
    count: int
    packed: int
    cluster: str
    digest: bytes


class ArchivedEvent(msgspec.Struct, array_like=True, frozen=True):
    """A record of `quota.events` as it was."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None


class About(msgspec.Struct, frozen=True, rename="camel"):
    """Who wrote the archive, and of what."""

    version: str
    rules_version: int
    events_topic: str
    decisions_topic: str
    partitions: list[int]
    from_file: bool = False


class ClusterEnd(msgspec.Struct, frozen=True, rename="camel"):
    """One cluster at the end of the archive."""

    cluster: str
    seq: int
    last_hash: str
    state_hash: str
    configuration: dict[str, object]


class End(msgspec.Struct, frozen=True, rename="camel"):
    """Last frame: how many frames there are, their digest, where each cluster stands."""

    frames: int
    digest: str
    clusters: list[ClusterEnd]


class ArchiveWriter:
    """Writes frames; `close` seals them."""

    def __init__(self, file: BinaryIO, about: About) -> None:
        self._file = file
        self._all = blake2b(digest_size=32)
        self._frames = 0
        file.write(MAGIC)
        self._frame(ABOUT, -1, 0, 0, 1, msgspec.json.encode(about))

    def events(self, partition: int, events: Sequence[ArchivedEvent]) -> None:
        for block in _blocks(events, lambda event: len(event.value or b"") + 40):
            payload = msgspec.msgpack.encode(block)
            self._frame(EVENTS, partition, block[0].offset, block[-1].offset, len(block), payload)

    def decisions(self, partition: int, decisions: Sequence[tuple[int, bytes]]) -> None:
        """(offset in the topic, or number in the file; bytes)."""
        for block in _blocks(decisions, lambda decision: len(decision[1]) + 8):
            self._frame(DECISIONS, partition, block[0][0], block[-1][0], len(block), msgspec.msgpack.encode(block))

    def checkpoint(self, partition: int, next_offset: int, cluster: str, state: bytes) -> None:
        self._frame(CHECKPOINT, partition, next_offset, next_offset, 1, state, cluster)

    def close(self, clusters: list[ClusterEnd]) -> None:
        end = End(self._frames, self._all.hexdigest(), clusters)
        self._frame(END, -1, 0, 0, 1, msgspec.json.encode(end, order="deterministic"))

    def _frame(
        self, kind: str, partition: int, first: int, last: int, count: int, payload: bytes, cluster: str = ""
    ) -> None:
        packed = zlib.compress(payload, 6)
        frame = Frame(kind, partition, first, last, count, len(packed), cluster, b"")
        digest = _digest(frame, packed)
        header = msgspec.msgpack.encode(msgspec.structs.replace(frame, digest=digest))
        self._file.write(len(header).to_bytes(_LENGTH, "big") + header + packed)
        self._all.update(digest)
        self._frames += 1


def _digest(frame: Frame, packed: bytes) -> bytes:
    header = msgspec.msgpack.encode(msgspec.structs.replace(frame, digest=b""))
    return blake2b(header + packed, digest_size=32).digest()


def _blocks(things: Sequence[Thing], size: Callable[[Thing], int]) -> Iterator[list[Thing]]:
    block: list[Thing] = []
    held = 0
    for thing in things:
        block.append(thing)
        held += size(thing)
        if held >= BLOCK_BYTES:
            yield block
            block, held = [], 0
    if block:
        yield block


class ArchiveReader:
    """Reads frames in their order, each verified before it is given out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        if file.read(len(MAGIC)) != MAGIC:
            raise DamagedArchive(f"bytes 0 to {len(MAGIC) - 1}", "the first line is not that of an archive")
        frame, payload = next(self.frames())
        if frame.kind != ABOUT:
            raise DamagedArchive("the first frame", "does not say what the archive is")
        self.about: About = msgspec.json.decode(payload, type=About)

    def end(self) -> End:
        """The last frame, after all frames before it were verified."""
        payloads = [payload for _, payload in self.frames(kinds=(END,))]
        found: End = msgspec.json.decode(payloads[-1], type=End)
        return found

    def frames(
        self, partition: int | None = None, kinds: Sequence[str] = (ABOUT, EVENTS, DECISIONS, CHECKPOINT, END)
    ) -> Iterator[tuple[Frame, bytes]]:
        """The frames of these kinds, all or those of one partition; a frame that was changed raises DamagedArchive."""
        self._file.seek(len(MAGIC))
        everything = blake2b(digest_size=32)
        before = "the first line"
        for number in range(1 << 60):
            start = self._file.tell()
            frame, packed = self._read(start, before)
            stop = self._file.tell() - 1
            place = f"bytes {start} to {stop} of the archive, {described(frame)}"
            if _digest(frame, packed) != frame.digest:
                raise DamagedArchive(place, "are not what was written: the digest differs")
            if frame.kind == END:
                self._verify_end(msgspec.json.decode(zlib.decompress(packed), type=End), number, everything, place)
            everything.update(frame.digest)
            before = described(frame)
            if frame.kind in kinds and (partition is None or frame.partition in (partition, -1)):
                yield frame, zlib.decompress(packed)
            if frame.kind == END:
                if self._file.read(1):
                    raise DamagedArchive(f"bytes from {stop + 1}", "follow the end of the archive")
                return

    def _read(self, start: int, before: str) -> tuple[Frame, bytes]:
        size = int.from_bytes(self._file.read(_LENGTH), "big")
        header = self._file.read(size) if 0 < size <= _LARGEST_HEADER else b""
        place = f"bytes {start} to {start + _LENGTH + len(header)} of the archive, after {before}"
        if not header:
            reason = "the archive was cut here" if size == 0 else "the length of a frame's header is wrong"
            raise DamagedArchive(place, reason)
        try:
            frame = msgspec.msgpack.decode(header, type=Frame)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise DamagedArchive(place, f"are no header of a frame: {problem}") from None
        packed = self._file.read(max(0, frame.packed))
        if len(packed) != frame.packed:
            raise DamagedArchive(place, "the archive is cut in this frame, or its length is wrong")
        return frame, packed

    def _verify_end(self, end: End, frames: int, everything: blake2b, place: str) -> None:
        if (end.frames, end.digest) != (frames, everything.hexdigest()):
            raise DamagedArchive(place, f"frames are missing or in another order: {end.frames} were written")


def described(frame: Frame) -> str:
    """What a frame holds, in words."""
    where = f" of partition {frame.partition}" if frame.partition >= 0 else ""
    if frame.kind in (EVENTS, DECISIONS):
        return f"{frame.kind}{where}, offsets {frame.first} to {frame.last}"
    if frame.kind == CHECKPOINT:
        return f"checkpoint of cluster {frame.cluster!r}{where} at offset {frame.first}"
    return f"frame {frame.kind!r}{where}"
