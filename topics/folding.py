"""What the Kafka side needs of the fold: the interface of `ledger.fold.Fold`, no more.

`topics` drives whatever has this shape, so the streaming tests and the worker's benchmark can put a trivial fold in the
place of the real one and measure the streaming alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ledger.fold import Fold as LedgerFold

#: (cluster, ClusterQueue, flavor, resource), as `ledger.fold.RowKey`.
RowKey = tuple[str, str, str, str]


class Decision(Protocol):
    """One decision: its canonical bytes, hash inside."""

    @property
    def cluster(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def value(self) -> bytes: ...
    @property
    def hash(self) -> str: ...


class Rejection(Protocol):
    """A record, or a member of a BATCH, that could not be decoded or breaks a rule."""

    @property
    def cluster(self) -> str | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def index(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def reason(self) -> str: ...


class Outcome(Protocol):
    """What one record of `quota.events` came to."""

    @property
    def decisions(self) -> Sequence[Decision]: ...
    @property
    def rejections(self) -> Sequence[Rejection]: ...


class Fold(Protocol):
    """State of all clusters of one partition. Pure: the same records give the same bytes."""

    def apply(
        self, value: bytes, *, offset: int, key: bytes | None = None, timestamp: Any | None = None
    ) -> Outcome: ...

    def drain_rows(self) -> Mapping[Any, Any]: ...


#: Makes the empty fold of a partition from the topic's name and the partition's number.
FoldFactory = Callable[[str, int], Fold]


def ledger_fold(topic: str, partition: int) -> Fold:
    """The real fold."""
    return LedgerFold(topic, partition)
