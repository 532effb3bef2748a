"""Records of `quota.events`: watch events, ticks, list boundaries and batches (design 4).

A record is looked at twice, both times in C: once for what it is, skipping over the object, and once with the
decoder of the object's kind. Both skip what nobody reads, managed fields above all.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ledger.objects.decoding import (
    KubernetesObject,
    ObjectHeader,
    UnknownKind,
    decode_deleted,
    decode_kind,
    described,
    find_kind,
)
from ledger.objects.errors import InvalidObject
from ledger.objects.nesting import GREATEST_DEPTH, is_too_deep
from ledger.timestamps import Timestamp, parse_timestamp

GREATEST_SIZE = 16 * 2**20
"""Bytes a record may have."""

DEFAULT_CLUSTER = "default"


class EventType(StrEnum):
    """What a record says happened."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"
    SYNC_BEGIN = "SYNC_BEGIN"
    SYNC_END = "SYNC_END"
    TICK = "TICK"
    BATCH = "BATCH"


_WITH_OBJECT = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})


class InvalidRecord(Exception):
    """A record that goes to the dead letters, with the place in its JSON and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """A member of a batch that could not be read; the others stand."""

    index: int
    path: str
    reason: str


class Event(msgspec.Struct, frozen=True, gc=False):
    """`at` is None where the record carries no time of its own.

    `kinds` is what a SYNC_BEGIN or SYNC_END lists: None is every kind, `()` is none, so that nothing is taken for gone.
    """

    cluster: str
    at: Timestamp | None
    type: EventType
    object: KubernetesObject | UnknownKind | None = None
    members: tuple[Event | Rejection, ...] = ()
    kinds: tuple[str, ...] | None = None


class _Envelope(msgspec.Struct, gc=False):
    type: EventType
    cluster: str | None = None
    at: str | None = None
    object: ObjectHeader | None = None
    events: list[msgspec.Raw] | None = None
    kinds: tuple[str, ...] | None = None


_envelope_decoder = msgspec.json.Decoder(_Envelope)


def decode_event(value: bytes, *, key: bytes | None = None) -> Event:
    """Read one record. Raises InvalidRecord with the place and the reason, and nothing else.

    A record without a cluster belongs to the one its key names, else to `default`.
    """
    if len(value) > GREATEST_SIZE:
        raise InvalidRecord("", f"the record has {len(value)} bytes, more than {GREATEST_SIZE}")
    if is_too_deep(value):
        raise InvalidRecord("", f"the record is nested more than {GREATEST_DEPTH} levels deep")
    envelope = _envelope(value)
    cluster = envelope.cluster or _cluster_of_key(key)
    if envelope.type is EventType.BATCH:
        return _decode_batch(envelope, cluster)
    return _decode_single(envelope, value, cluster)


def _envelope(value: bytes) -> _Envelope:
    try:
        return _envelope_decoder.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        failure = described(error)
        raise InvalidRecord(failure.path, failure.reason) from None


def _cluster_of_key(key: bytes | None) -> str:
    if not key:
        return DEFAULT_CLUSTER
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InvalidRecord("key", "is not UTF-8") from None


def _decode_single(envelope: _Envelope, value: bytes, cluster: str) -> Event:
    at = _time(envelope.at)
    if envelope.type not in _WITH_OBJECT:
        return Event(cluster, at, envelope.type, kinds=envelope.kinds)
    if envelope.object is None:
        raise InvalidRecord("object", f"is required with type {envelope.type.value}")
    try:
        kind = find_kind(envelope.object)
        if isinstance(kind, UnknownKind):
            return Event(cluster, at, envelope.type, kind)
        if envelope.type is EventType.DELETED:
            return Event(cluster, at, envelope.type, decode_deleted(value, kind, inside="object"))
        return Event(cluster, at, envelope.type, decode_kind(value, kind, inside="object"))
    except InvalidObject as error:
        raise InvalidRecord(f"object.{error.path}" if error.path else "object", error.reason) from None


def _decode_batch(envelope: _Envelope, cluster: str) -> Event:
    at = _time(envelope.at)
    if envelope.events is None:
        raise InvalidRecord("events", "is required with type BATCH")
    members = tuple(_decode_member(raw, index, cluster) for index, raw in enumerate(envelope.events))
    return Event(cluster, at, EventType.BATCH, None, members)


def _decode_member(raw: msgspec.Raw, index: int, cluster: str) -> Event | Rejection:
    try:
        value = bytes(raw)
        envelope = _envelope(value)
        if envelope.type is EventType.BATCH:
            raise InvalidRecord("type", "a batch holds no batches")
        if envelope.cluster and envelope.cluster != cluster:
            raise InvalidRecord("cluster", f"is not the batch's cluster {cluster!r}")
        return _decode_single(envelope, value, cluster)
    except InvalidRecord as error:
        return Rejection(index, error.path, error.reason)


def _time(text: str | None) -> Timestamp | None:
    if text is None:
        return None
    try:
        return parse_timestamp(text)
    except ValueError as error:
        raise InvalidRecord("at", str(error)) from None
