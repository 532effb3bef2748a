"""Events that were handed in together, in as few records as the limits allow (design section 4, BATCH)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

BATCH_EVENTS = 1_000
BATCH_BYTES = 512 * 1024


class Unreadable(bytes):
    """A text that is no event, as it was written. It stands in a record of its own, so that only it is rejected."""


def packed(events: Iterator[bytes], cluster: str | None) -> Iterator[bytes]:
    """One event as it is; up to a batch of them as one BATCH; more as batches between SYNC_BEGIN and SYNC_END.

    The pair names no kinds (`"kinds": []`): no cycle runs before everything was read, and nothing is taken for gone
    because it was not among the events.
    """
    name = b"" if cluster is None else b'"cluster":' + msgspec.json.encode(cluster) + b","
    held: list[bytes] = []
    size = 0
    opened = False
    for event in events:
        if isinstance(event, Unreadable):
            yield event
            continue
        if held and (len(held) == BATCH_EVENTS or size + len(event) > BATCH_BYTES):
            if not opened:
                yield b"{" + name + b'"type":"SYNC_BEGIN","kinds":[]}'
                opened = True
            yield _batch(held, name)
            held, size = [], 0
        held.append(event)
        size += len(event) + 1
    if held:
        yield _batch(held, name)
    if opened:
        yield b"{" + name + b'"type":"SYNC_END","kinds":[]}'


def _batch(events: list[bytes], name: bytes) -> bytes:
    if len(events) == 1:
        return events[0]
    return b"{" + name + b'"type":"BATCH","events":[' + b",".join(events) + b"]}"
