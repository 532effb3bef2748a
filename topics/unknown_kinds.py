"""Kinds that the ledger does not know, counted and named at the producer: the fold skips them without a decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from ledger.objects.decoding import ObjectHeader, UnknownKind, find_kind


class _Member(msgspec.Struct):
    object: ObjectHeader | None = None


class _Event(msgspec.Struct):
    object: ObjectHeader | None = None
    events: list[_Member] = []


_decode = msgspec.json.Decoder(_Event).decode


class UnknownKinds:
    """Counts while events pass."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def passing(self, values: Iterable[bytes]) -> Iterator[bytes]:
        """The values as they are."""
        for value in values:
            self._count(value)
            yield value

    def text(self) -> str:
        """What was counted, for a person; empty where there was nothing."""
        return ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.counts.items()))

    def _count(self, value: bytes) -> None:
        try:
            event = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the fold says why
        for header in (event.object, *(member.object for member in event.events)):
            if header is None or not header.kind or not header.api_version:
                continue
            kind = find_kind(header)
            if isinstance(kind, UnknownKind):
                self.counts[f"{kind.api_version}/{kind.kind}"] += 1
