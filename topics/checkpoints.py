"""Checkpoints of a partition in a compacted topic: states of its clusters, and how far the log is in them.

A cluster's state is packed and cut into parts, each a record with the key `[cluster, part]`. One more record, the
manifest, names the next offset, and of every cluster the hash of its state, its last decision and its parts. All are
written in the transaction of the chunk after which they are the state, so there is a whole checkpoint or none. A
cluster that did not change since the checkpoint before keeps its parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ledger.checkpoint import Damaged, OtherSchema, hash_of_state, load, save
from ledger.ledger import Ledger
from topics.garbage import without_garbage_collection
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import Topics

MANIFEST_KEY: Final = b'{"manifest":"quota.checkpoints"}'
MANIFEST_VERSION: Final = 1

PART_BYTES: Final = 512 * 1024
"""A part is smaller than the smallest message size that brokers allow by default."""

_OFFSET_BYTES: Final = 8
_PACKING: Final = 1

Parts = list[tuple[bytes, bytes | None]]


class UnusableCheckpoint(RuntimeError):
    """A checkpoint of another version: the message names the command that folds the log anew."""


class ClusterEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One cluster in the manifest. `written_at` is the next offset of the checkpoint that its parts belong to."""

    parts: int
    written_at: int
    state_bytes: int
    state_hash: str
    seq: int
    last_hash: str


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What belongs to the newest checkpoint. `decisions_from` is an offset of `quota.decisions` not after the first
    decision that is not in the states. `stopped` are clusters without a state, with the offset where each stopped."""

    version: int
    next_offset: int
    decisions_from: int
    clusters: dict[str, ClusterEntry]
    stopped: dict[str, int] = {}
    unknown_kinds: dict[str, int] = {}


class _Versioned(msgspec.Struct):
    version: int = 0


@dataclass
class Checkpoint:
    """A whole checkpoint, as it was read."""

    manifest: Manifest
    states: dict[str, bytes] = field(default_factory=dict)

    def ledgers(self) -> dict[str, Ledger]:
        """The ledgers; raises UnusableCheckpoint where another version of the ledger wrote them."""
        try:
            with without_garbage_collection():
                return {cluster: load(state) for cluster, state in self.states.items()}
        except OtherSchema as problem:
            raise UnusableCheckpoint(f"{problem}. {REBUILD}") from None


REBUILD: Final = "Run `quota-ledger worker --rebuild` once: it folds the log from its start and writes a new checkpoint"


class CheckpointWriter:
    """Makes the records of checkpoints; remembers what it wrote, for the next one."""

    def __init__(self, manifest: Manifest | None = None) -> None:
        self._before: dict[str, ClusterEntry] = dict(manifest.clusters) if manifest is not None else {}

    def take(self, fold: Any, next_offset: int, changed: set[str], stopped: Mapping[str, int]) -> PendingCheckpoint:
        """The states of the clusters that changed, between two events; packed later, beside the fold."""
        with without_garbage_collection():
            states = {
                cluster: save(ledger)
                for cluster, ledger in sorted(fold.clusters.items())
                if cluster not in stopped and (cluster in changed or cluster not in self._before)
            }
        heads = {
            cluster: (ledger.seq, ledger.last_hash)
            for cluster, ledger in sorted(fold.clusters.items())
            if cluster not in stopped
        }
        return PendingCheckpoint(
            self, next_offset, states, heads, dict(stopped), dict(sorted(fold.unknown_kinds.items()))
        )

    def pack(self, pending: PendingCheckpoint, decisions_from: int) -> Parts:
        """Records in the order of their keys, the manifest last."""
        records: Parts = []
        clusters: dict[str, ClusterEntry] = {}
        for cluster, (seq, last_hash) in pending.heads.items():
            before = self._before.get(cluster)
            state = pending.states.get(cluster)
            if state is None:
                assert before is not None
                clusters[cluster] = before
                continue
            parts = list(_parts(cluster, pending.next_offset, zlib.compress(state, _PACKING)))
            records += parts
            if before is not None:
                records += [(_part_key(cluster, number), None) for number in range(len(parts), before.parts)]
            clusters[cluster] = ClusterEntry(
                len(parts), pending.next_offset, len(state), hash_of_state(state), seq, last_hash
            )
        manifest = Manifest(
            MANIFEST_VERSION, pending.next_offset, decisions_from, clusters, pending.stopped, pending.unknown_kinds
        )
        self._before = clusters
        records.append((MANIFEST_KEY, msgspec.json.encode(manifest, order="deterministic")))
        return records


@dataclass
class PendingCheckpoint:
    """States as bytes, to be packed and written in the transaction of their chunk."""

    writer: CheckpointWriter
    next_offset: int
    states: dict[str, bytes]
    heads: dict[str, tuple[int, str]]
    stopped: dict[str, int]
    unknown_kinds: dict[str, int]

    def records(self, decisions_from: int) -> Parts:
        return self.writer.pack(self, decisions_from)

    @property
    def size(self) -> int:
        return sum(map(len, self.states.values()))


async def newest_checkpoint(settings: Settings, topics: Topics, partition: int) -> Checkpoint | None:
    """The newest checkpoint of a partition, verified; None where there is none. Raises Damaged, UnusableCheckpoint."""
    records: dict[bytes, bytes] = {}
    async for batch in read_to_end(settings, topics.checkpoints.name, partition):
        for record in batch:
            if record.value is None:
                records.pop(record.key, None)
            else:
                records[record.key] = record.value
    return assembled(records)


def assembled(records: Mapping[bytes, bytes]) -> Checkpoint | None:
    """The checkpoint that the newest record of every key makes."""
    raw = records.get(MANIFEST_KEY)
    if raw is None:
        return None
    manifest = _manifest(raw)
    checkpoint = Checkpoint(manifest)
    for cluster, entry in manifest.clusters.items():
        packed = bytearray()
        for number in range(entry.parts):
            value = records.get(_part_key(cluster, number))
            if value is None or int.from_bytes(value[:_OFFSET_BYTES], "big") != entry.written_at:
                raise Damaged(f"part {number} of {entry.parts} of cluster {cluster!r} is missing")
            packed += value[_OFFSET_BYTES:]
        checkpoint.states[cluster] = _unpacked(cluster, bytes(packed), entry)
    return checkpoint


def _manifest(raw: bytes) -> Manifest:
    try:
        version = msgspec.json.decode(raw, type=_Versioned).version
        if version != MANIFEST_VERSION:
            raise UnusableCheckpoint(
                f"the checkpoint's manifest has version {version}, this worker reads {MANIFEST_VERSION}. {REBUILD}"
            )
        return msgspec.json.decode(raw, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Damaged(f"the manifest cannot be read: {problem}") from None


def _unpacked(cluster: str, packed: bytes, entry: ClusterEntry) -> bytes:
    try:
        state = zlib.decompress(packed, bufsize=entry.state_bytes)
    except zlib.error as problem:
        raise Damaged(f"the state of cluster {cluster!r} cannot be unpacked: {problem}") from None
    if hash_of_state(state) != entry.state_hash:
        raise Damaged(f"the state of cluster {cluster!r} has not the hash that the manifest names")
    return state


def _part_key(cluster: str, number: int) -> bytes:
    return msgspec.json.encode((cluster, number))


def _parts(cluster: str, next_offset: int, packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    for number, start in enumerate(range(0, len(packed), PART_BYTES)):
        part = packed[start : start + PART_BYTES]
        yield _part_key(cluster, number), next_offset.to_bytes(_OFFSET_BYTES, "big") + part
