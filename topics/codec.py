"""Bytes of what the worker writes besides decisions: rows of the table, the applied offset, dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from topics.folding import Rejection, RowKey

#: Key of the record of the quota changelog that says how far `quota.events` is applied. No row's key looks like it.
APPLIED_KEY = b'{"applied":"quota.events"}'

#: Clusters that stopped because the log and the fold differ, in the quota changelog.
STOPPED_KEY = b'{"stopped":"quota.events"}'

#: Longest path or reason that a dead letter carries; hostile input cannot make its own description large.
MAX_TEXT = 1_000

HEADER_CLUSTER = "cluster"
HEADER_TOPIC = "topic"
HEADER_PARTITION = "partition"
HEADER_OFFSET = "offset"
HEADER_REJECTIONS = "rejections"

_encoder = msgspec.json.Encoder(order="deterministic")


class Applied(msgspec.Struct, frozen=True):
    """The offset of `quota.events` up to which everything is applied and written, in the same transaction."""

    next_offset: int = msgspec.field(name="nextOffset")


class RejectedMember(msgspec.Struct, frozen=True):
    """One reason of a dead letter: which member of the record (0 where it is no BATCH), where, why."""

    index: int
    path: str
    reason: str


class DeadLetter(msgspec.Struct, frozen=True):
    """A rejected record as a reader of `quota.deadletter` sees it."""

    cluster: str
    topic: str
    partition: int
    offset: int
    rejections: tuple[RejectedMember, ...]
    value: bytes | None


_applied_decoder = msgspec.json.Decoder(Applied)
_stopped_decoder = msgspec.json.Decoder(dict[str, int])
_key_decoder = msgspec.json.Decoder(tuple[str, str, str, str])
_rejections_decoder = msgspec.json.Decoder(tuple[RejectedMember, ...])


def encode_row_key(key: RowKey) -> bytes:
    return _encoder.encode(tuple(key))


def decode_row_key(value: bytes) -> RowKey:
    return _key_decoder.decode(value)


def encode_row(row: Any) -> bytes:
    """A row depends on the state only, so one fold gives one encoding whatever the chunks were."""
    return _encoder.encode(row)


def encode_applied(next_offset: int) -> bytes:
    return _encoder.encode(Applied(next_offset))


def decode_applied(value: bytes) -> int:
    return _applied_decoder.decode(value).next_offset


def encode_stopped(stopped: dict[str, int]) -> bytes | None:
    """Cluster -> offset of the first event that is not in its decisions; nothing where no cluster stopped."""
    return _encoder.encode(stopped) if stopped else None


def decode_stopped(value: bytes | None) -> dict[str, int]:
    return {} if value is None else _stopped_decoder.decode(value)


def dead_letter_headers(
    topic: str, partition: int, offset: int, rejections: Sequence[Rejection]
) -> list[tuple[str, bytes]]:
    """Headers of a dead letter. Its key and value are the rejected record's own, so it can be put back as it is."""
    members = [RejectedMember(each.index, each.path[:MAX_TEXT], each.reason[:MAX_TEXT]) for each in rejections]
    cluster = next((each.cluster for each in rejections if each.cluster), "default")
    return [
        (HEADER_CLUSTER, cluster.encode()),
        (HEADER_TOPIC, topic.encode()),
        (HEADER_PARTITION, b"%d" % partition),
        (HEADER_OFFSET, b"%d" % offset),
        (HEADER_REJECTIONS, _encoder.encode(members)),
    ]


def decode_dead_letter(value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> DeadLetter:
    named = dict(headers)
    return DeadLetter(
        cluster=named[HEADER_CLUSTER].decode(),
        topic=named[HEADER_TOPIC].decode(),
        partition=int(named[HEADER_PARTITION]),
        offset=int(named[HEADER_OFFSET]),
        rejections=_rejections_decoder.decode(named[HEADER_REJECTIONS]),
        value=value,
    )
