"""Compaction of a log, by whole batches: those are left out in which every record has a newer one of the same key.

Coarser than Kafka's, and enough: a checkpoint's parts are batches of their own, replaced by the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aiokafka.record.default_records import DefaultRecordBatch

from topics.embedded.batches import Batch


@dataclass
class _Transaction:
    """Batches of one producer between two of its markers."""

    marker: int
    written: list[int] = field(default_factory=list)


def needed(batches: Sequence[Batch], body: Callable[[int], bytes], aborted: set[int]) -> list[int]:
    """Numbers of the batches that stay; `aborted` are those of transactions that were.

    A producer's last batch stays, for its sequence number, and the last of all, for the end of the log. A marker
    stays with what it ends.
    """
    keep: set[int] = {len(batches) - 1} if batches else set()
    seen: set[bytes] = set()
    producers: set[int] = set()
    ended: dict[int, _Transaction] = {}
    transactions: list[_Transaction] = []
    for number in range(len(batches) - 1, -1, -1):
        batch = batches[number]
        if batch.control:
            ended[batch.producer] = _Transaction(number)
            transactions.append(ended[batch.producer])
            continue
        if batch.transactional and batch.producer in ended:
            ended[batch.producer].written.append(number)
        if batch.producer >= 0 and batch.producer not in producers:
            producers.add(batch.producer)
            keep.add(number)
        if number in aborted:
            continue
        for record in DefaultRecordBatch(body(number)):
            if record.key is None or record.key not in seen:
                keep.add(number)
            if record.key is not None:
                seen.add(record.key)
    for transaction in transactions:
        if any(number in keep for number in transaction.written):
            keep.add(transaction.marker)
    return sorted(keep)
