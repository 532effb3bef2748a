"""Replay of a file: its events folded, the decisions written as JSON lines (design section 9).

Events are read, folded and forgotten one by one: memory holds the live objects of the clusters and nothing of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ledger.fold import Fold, Rejection
from ledger.timestamps import Timestamp
from topics.sources import SourceEvent

Write = Callable[[bytes], object]

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass
class Summary:
    """What a replay came to."""

    events: int = 0
    decisions: int = 0
    rejected: int = 0
    unknown_kinds: Counter[str] = field(default_factory=Counter)


def replay(
    events: Iterable[SourceEvent],
    topic: str,
    write: Write,
    reject: Callable[[SourceEvent, list[Rejection]], None],
) -> Summary:
    """Fold the events of one file; `write` gets each decision as a line, `reject` each record that was refused.

    An event without a time happened when the event before it did, whatever the cluster of that one.
    """
    fold = Fold(topic, 0)
    summary = Summary(unknown_kinds=fold.unknown_kinds)
    before: Timestamp | None = None
    for event in events:
        outcome = fold.apply(event.value, offset=event.offset, timestamp=before)
        summary.events += 1
        if outcome.at is not None:
            before = outcome.at
        for decision in outcome.decisions:
            write(decision.value + b"\n")
        summary.decisions += len(outcome.decisions)
        if outcome.rejections:
            summary.rejected += 1
            reject(event, list(outcome.rejections))
    return summary


def dead_letter(topic: str, event: SourceEvent, rejections: list[Rejection]) -> bytes:
    """One rejected record as a line of JSON: where it was, every reason, and the record as it was written."""
    letter: dict[str, Any] = {
        "cluster": next((each.cluster for each in rejections if each.cluster), "default"),
        "topic": topic,
        "partition": 0,
        "offset": event.offset,
        "rejections": [{"index": each.index, "path": each.path, "reason": each.reason} for each in rejections],
    }
    try:
        letter["value"] = event.value.decode()
    except UnicodeDecodeError:
        letter["valueBase64"] = event.value
    return _encode(letter) + b"\n"


def described(topic: str, event: SourceEvent, rejections: list[Rejection], limit: int = 300) -> Iterator[str]:
    """The reasons of a rejection for a person: one line each, whatever signs the record holds."""
    for each in rejections:
        place = f"{topic} offset {event.offset}" + (f" index {each.index}" if each.index else "")
        where = f"{each.path}: " if each.path else ""
        text = f"{place}: {where}{each.reason}"
        plain = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
        yield plain if len(plain) <= limit else plain[:limit] + " ..."
