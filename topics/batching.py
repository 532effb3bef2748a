"""What waits at a producer, in as few records as the limits allow: a burst of a cluster's events as BATCH."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from topics.sources import BATCH_BYTES, BATCH_EVENTS

DEFAULT_CLUSTER = "default"

#: Types that are records of their own: they mean something between records, or are packed already.
_NOT_MEMBERS = frozenset({"BATCH", "SYNC_BEGIN", "SYNC_END"})


class Addressed(NamedTuple):
    """A value of `quota.events` and the cluster whose partition it goes to."""

    cluster: str
    value: bytes


class _Head(msgspec.Struct):
    type: str | None = None
    cluster: str | None = None


_decode_head = msgspec.json.Decoder(_Head).decode
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def addressed(values: Iterable[bytes], cluster: str | None = None) -> Iterator[Addressed]:
    """Each value with its cluster. What cannot be decoded goes on as it is: the fold rejects it with the reason."""
    fallback = cluster or DEFAULT_CLUSTER
    for value in values:
        yield Addressed(_head(value).cluster or fallback, value)


def bursts(values: Iterable[Addressed]) -> Iterator[Addressed]:
    """Neighbours of one cluster as one BATCH, as far as the limits allow; everything else as it is, in its order."""
    held: list[bytes] = []
    size = 0
    cluster = ""
    for value in values:
        member = _is_member(value.value)
        full = len(held) == BATCH_EVENTS or size + len(value.value) > BATCH_BYTES
        if held and (not member or value.cluster != cluster or full):
            yield _batch(held, cluster)
            held, size = [], 0
        if not member:
            yield value
            continue
        cluster = value.cluster
        held.append(value.value)
        size += len(value.value) + 1
    if held:
        yield _batch(held, cluster)


def _batch(held: list[bytes], cluster: str) -> Addressed:
    if len(held) == 1:
        return Addressed(cluster, held[0])
    name = msgspec.json.encode(cluster)
    return Addressed(cluster, b'{"cluster":' + name + b',"type":"BATCH","events":[' + b",".join(held) + b"]}")


def _is_member(value: bytes) -> bool:
    """A text that is no event is no member either: it would take the whole batch to the dead letters."""
    kind = _head(value).type
    return kind is not None and kind not in _NOT_MEMBERS


def _head(value: bytes) -> _Head:
    try:
        return _decode_head(value)
    except _BAD_JSON:
        return _Head()
