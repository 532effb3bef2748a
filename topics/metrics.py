"""Prometheus metrics of the worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client import Counter, Gauge, Histogram, start_http_server

from topics.transaction import Outbox

_LABELS = ("partition",)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

EVENTS = Counter("quota_ledger_events", "Records of quota.events folded.", _LABELS)
DECISIONS = Counter("quota_ledger_decisions", "Decisions written to quota.decisions.", _LABELS)
DEAD_LETTERS = Counter("quota_ledger_dead_letters", "Records written to quota.deadletter.", _LABELS)
ROWS = Counter("quota_ledger_table_rows", "Rows written to the quota table's changelog.", _LABELS)
FOLD_SECONDS = Histogram("quota_ledger_fold_seconds", "Time to fold a chunk of records.", _LABELS, buckets=_SECONDS)
WAIT_SECONDS = Histogram(
    "quota_ledger_commit_wait_seconds",
    "Time a folded chunk waited for the transaction before.",
    _LABELS,
    buckets=_SECONDS,
)
TRANSACTION_SECONDS = Histogram(
    "quota_ledger_transaction_seconds", "Time of one transaction.", _LABELS, buckets=_SECONDS
)
NEXT_OFFSET = Gauge("quota_ledger_next_offset", "Offset of quota.events up to which all is committed.", _LABELS)
RECOVERED_EVENTS = Gauge("quota_ledger_recovered_events", "Events folded when the partition was opened.", _LABELS)
RECOVERY_SECONDS = Gauge("quota_ledger_recovery_seconds", "Time to open the partition.", _LABELS)
STOPPED_CLUSTERS = Gauge(
    "quota_ledger_stopped_cluster",
    "1 for a cluster that stopped: its log and the fold differ.",
    ("partition", "cluster"),
)
CHECKPOINTS = Counter("quota_ledger_checkpoints", "Checkpoints written.", _LABELS)
CHECKPOINT_BYTES = Gauge("quota_ledger_checkpoint_bytes", "Bytes of the states in the last checkpoint.", _LABELS)
CHECKPOINT_SECONDS = Gauge("quota_ledger_checkpoint_seconds", "Time the fold stood still for it.", _LABELS)
UNKNOWN_KINDS = Gauge(
    "quota_ledger_unknown_kind_events", "Objects of kinds that the ledger does not know.", ("partition", "kind")
)


def serve(host: str, port: int) -> None:
    """Answer Prometheus on a port."""
    start_http_server(port, addr=host)


def recovered(partition: int, events: int, seconds: float) -> None:
    RECOVERED_EVENTS.labels(partition).set(events)
    RECOVERY_SECONDS.labels(partition).set(seconds)


def stopped(partition: int, clusters: Iterable[str]) -> None:
    for cluster in clusters:
        STOPPED_CLUSTERS.labels(partition, cluster).set(1)


def checkpoint(partition: int, size: int, seconds: float) -> None:
    CHECKPOINTS.labels(partition).inc()
    CHECKPOINT_BYTES.labels(partition).set(size)
    CHECKPOINT_SECONDS.labels(partition).set(seconds)


def chunk(partition: int, events: int, outbox: Outbox, folding: float, waiting: float, fold: Any) -> None:
    EVENTS.labels(partition).inc(events)
    DECISIONS.labels(partition).inc(len(outbox.decisions))
    DEAD_LETTERS.labels(partition).inc(len(outbox.dead_letters))
    ROWS.labels(partition).inc(len(outbox.rows))
    FOLD_SECONDS.labels(partition).observe(folding)
    WAIT_SECONDS.labels(partition).observe(waiting)
    for kind, count in sorted(getattr(fold, "unknown_kinds", {}).items()):
        UNKNOWN_KINDS.labels(partition, kind).set(count)


def transaction(partition: int, next_offset: int, seconds: float) -> None:
    TRANSACTION_SECONDS.labels(partition).observe(seconds)
    NEXT_OFFSET.labels(partition).set(next_offset)
