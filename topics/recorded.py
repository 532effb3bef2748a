"""Decisions as they were written, handed out cluster by cluster: for recovery and for the audit."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec


class Head(msgspec.Struct, rename="camel"):
    """What tells one decision from another."""

    cluster: str
    seq: int
    prev: str = ""
    hash: str = ""
    rules: str = ""
    at: str = ""
    type: str = ""
    cause: dict[str, Any] = {}
    cluster_queue: str = ""
    cohort: str = ""
    preemptor: dict[str, Any] = {}

    @property
    def offset(self) -> int:
        """Of the event that is its cause; 0 where it names none."""
        found = self.cause.get("offset")
        return found if isinstance(found, int) else 0


_decode_head = msgspec.json.Decoder(Head).decode


def head_of(value: bytes) -> Head | None:
    """None where the bytes are no decision at all."""
    try:
        return _decode_head(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Recorded:
    """The decisions of a partition in their order; a cluster's may be ahead of those of another.

    `known` names, per cluster, the seq up to which decisions are no news: a checkpoint's.
    """

    def __init__(self, lists: AsyncIterator[list[bytes]], known: dict[str, int] | None = None) -> None:
        self._lists = lists
        self._values: list[bytes] = []
        self._index = 0
        self._waiting: dict[str, deque[bytes]] = {}
        self._known = dict(known or {})

    def meet(self, decisions: Sequence[Any]) -> int:
        """How many of these are the next records, one after the other, as far as those are at hand and no cluster is
        ahead; the usual case, without waiting and without decoding."""
        if self._waiting:
            return 0
        values, first = self._values, self._index
        index, end = first, len(values)
        for decision in decisions:
            if index == end or values[index] != decision.value:
                break
            index += 1
        self._index = index
        return index - first

    async def next(self, cluster: str, expected: bytes) -> bytes | None:
        """The cluster's next decision; usually the next of the log, and equal to what is expected."""
        waiting = self._waiting.get(cluster)
        if waiting:
            first = waiting.popleft()
            if not waiting:
                del self._waiting[cluster]
            return first
        while (value := await self._take()) is not None:
            if value == expected:
                return value
            head = head_of(value)
            if head is None:
                return value
            if head.seq <= self._known.get(head.cluster, 0):
                continue
            if head.cluster == cluster:
                return value
            self._waiting.setdefault(head.cluster, deque()).append(value)
        return None

    async def rest(self) -> AsyncIterator[bytes]:
        """What nobody asked for."""
        for cluster in sorted(self._waiting):
            for value in self._waiting[cluster]:
                yield value
        while (left := await self._take()) is not None:
            head = head_of(left)
            if head is None or head.seq > self._known.get(head.cluster, 0):
                yield left

    async def _take(self) -> bytes | None:
        while self._index >= len(self._values):
            try:
                self._values = await anext(self._lists)
            except StopAsyncIteration:
                return None
            self._index = 0
        value = self._values[self._index]
        self._index += 1
        return value
