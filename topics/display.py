"""Decisions and rows for a person's terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from topics.quota_rows import QuotaRow

_STYLES = {
    "QuotaReserved": "green",
    "Admitted": "bold green",
    "Preempted": "bold red",
    "Evicted": "red",
    "Released": "cyan",
    "Requeued": "yellow",
    "Pending": "yellow",
    "Inadmissible": "magenta",
    "ShareChanged": "dim",
    "QuotaChanged": "blue",
}
_WIDEST_TYPE = max(len(name) for name in _STYLES)


def decision_line(value: bytes, *, with_cluster: bool = True) -> Text:
    """One decision as one line: when, what, who, where, and the few words that matter for its type."""
    decision = msgspec.json.decode(value)
    kind = str(decision.get("type", "?"))
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{_time(decision.get('at'))}  ", style="dim")
    if with_cluster:
        line.append(f"{decision.get('cluster', '')}/{decision.get('seq', '')}  ", style="dim")
    line.append(f"{kind:<{_WIDEST_TYPE}}  ", style=_STYLES.get(kind, ""))
    workload = decision.get("workload")
    if isinstance(workload, dict):
        line.append(f"{workload.get('namespace', '')}/{workload.get('name', '')}", style="bold")
    for name in ("clusterQueue", "cohort"):
        if decision.get(name):
            line.append(f"  {decision[name]}" if workload or name == "cohort" else str(decision[name]))
    detail = _detail(kind, decision)
    if detail:
        line.append("  ")
        line.append(detail, style="dim" if kind == "ShareChanged" else "")
    return line


def quota_table(rows: Sequence[QuotaRow]) -> Table:
    """The table `quota`: what is there, what is held, what is borrowed."""
    several = len({row.cluster for row in rows}) > 1
    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = ["cluster"] if several else []
    for name in (*columns, "ClusterQueue", "flavor", "resource"):
        table.add_column(name, no_wrap=True)
    for name in ("nominal", "borrowing limit", "lending limit", "reserved", "used", "borrowed"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        amounts = [_amount(row.value, name) for name in ("nominal", "borrowingLimit", "lendingLimit")]
        held = [_amount(row.value, name) for name in ("reserved", "used", "borrowed")]
        style = "yellow" if held[2] not in ("0", "-") else None
        cluster = [row.cluster] if several else []
        table.add_row(*cluster, row.cluster_queue, row.flavor, row.resource, *amounts, *held, style=style)
    return table


def _detail(kind: str, decision: Mapping[str, Any]) -> str:
    if kind in ("QuotaReserved", "Released"):
        return _pod_sets(decision.get("podSets") or ())
    if kind == "Preempted":
        preemptor = decision.get("preemptor") or {}
        by = f"{preemptor.get('namespace', '')}/{preemptor.get('name', '')}"
        return f"{decision.get('reason', '')} by {by} of {preemptor.get('clusterQueue', '?')}"
    if kind == "ShareChanged":
        return f"share {decision.get('share', '?')} {decision.get('dominantResource') or ''}".rstrip()
    if kind == "QuotaChanged":
        where = "/".join(str(decision[name]) for name in ("flavor", "resource") if decision.get(name))
        return f"{where} {_plain(decision.get('before'))} -> {_plain(decision.get('after'))}".strip()
    words = [str(decision[name]) for name in ("reason", "message") if decision.get(name)]
    return ": ".join(words)


def _pod_sets(pod_sets: Iterable[Mapping[str, Any]]) -> str:
    parts = []
    for pod_set in pod_sets:
        flavors: Mapping[str, str] = pod_set.get("flavors") or {}
        usage: Mapping[str, str] = pod_set.get("usage") or {}
        amounts = ", ".join(
            f"{amount} {resource}" + (f" on {flavors[resource]}" if resource in flavors else "")
            for resource, amount in sorted(usage.items())
        )
        parts.append(f"{pod_set.get('name', '')} x{pod_set.get('count', '')}: {amounts}")
    return "; ".join(parts)


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in sorted(value.items()))
    return str(value)


def _amount(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "-" if value is None else str(value)


def _time(at: Any) -> str:
    """The time of day: the date is in the record."""
    text = str(at or "")
    return text[11:].rstrip("Z") if len(text) > 11 else text
