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
    "Recorded": "green",
    "Admitted": "bold green",
    "Preempted": "bold red",
    "Evicted": "red",
    "Released": "cyan",
    "Requeued": "yellow",
    "Dequeued": "dim",
    "Pending": "yellow",
    "Inadmissible": "magenta",
    "ShareChanged": "dim",
    "QuotaChanged": "blue",
    "QueueChanged": "blue",
    "Settled": "cyan",
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
    for name in _places(decision):
        line.append(f"  {name}" if workload else name)
    detail = _detail(kind, decision)
    if detail:
        line.append("  ")
        line.append(detail, style="dim" if kind == "ShareChanged" else "")
    return line


def _places(decision: Mapping[str, Any]) -> list[str]:
    """What a decision is about besides a workload: the one queue or cohort, first the smallest."""
    local = decision.get("localQueue")
    if isinstance(local, dict) and not decision.get("workload"):
        return [f"{local.get('namespace', '')}/{local.get('name', '')}"]
    found = decision.get("clusterQueue") or decision.get("cohort")
    return [str(found)] if found else []


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
    if kind == "QuotaReserved":
        borrowed = _amounts(decision.get("borrowed") or {})
        return _pod_sets(decision.get("podSets") or ()) + (f"; borrowed {borrowed}" if borrowed else "")
    if kind == "Recorded":
        told = [word for word in ("admitted" if decision.get("admitted") else "", decision.get("evicted")) if word]
        return "; ".join([_pod_sets(decision.get("podSets") or ()), *map(str, told)])
    if kind == "Released":
        return f"{decision.get('reason', '')}: {_amounts(decision.get('usage') or {})}"
    if kind == "Preempted":
        preemptor = decision.get("preemptor") or {}
        by = f"{preemptor.get('namespace', '')}/{preemptor.get('name', '')}"
        return f"{decision.get('reason', '')} by {by} of {preemptor.get('clusterQueue', '?')}"
    if kind == "Settled":
        differences = ", ".join(f"{key} {amount}" for key, amount in sorted((decision.get("difference") or {}).items()))
        return f"{decision.get('settled', 0)} of {decision.get('slots', 0)} claims: {differences or 'as charged'}"
    if kind == "ShareChanged":
        share = "infinite" if decision.get("share") is None else f"{decision['share']:g}"
        return f"share {share} {decision.get('dominantResource') or ''}".rstrip()
    if kind == "QuotaChanged":
        where = "/".join(str(decision[name]) for name in ("flavor", "resource") if decision.get(name))
        return f"{where}: {_quota(decision.get('before'))} -> {_quota(decision.get('after'))}"
    if kind == "QueueChanged":
        state = "active" if decision.get("active") else "inactive"
        leads_to = f" to {decision.get('clusterQueue', '')}" if decision.get("localQueue") else ""
        return f"{state}{leads_to}, {decision.get('reason', '')}: {decision.get('message', '')}".rstrip(": ")
    if kind == "Pending" and decision.get("missing"):
        missing = ", ".join(
            f"{each.get('missing')} {each.get('resource')} missing on {each.get('flavor')}"
            for each in decision["missing"]
        )
        return f"{decision.get('reason', '')}: {missing}"
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


def _amounts(amounts: Mapping[str, Mapping[str, str]]) -> str:
    """Flavor -> resource -> quantity."""
    return ", ".join(
        f"{amount} {resource} on {flavor}"
        for flavor, resources in sorted(amounts.items())
        for resource, amount in sorted(resources.items())
    )


def _quota(values: Mapping[str, str] | None) -> str:
    if not values:
        return "nothing"
    limits = (
        (f"{word} at most", values.get(name)) for word, name in (("borrow", "borrowingLimit"), ("lend", "lendingLimit"))
    )
    return " ".join([values.get("nominal", "?"), *(f"({word} {limit})" for word, limit in limits if limit is not None)])


def _amount(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "-" if value is None else str(value)


def _time(at: Any) -> str:
    """The time of day: the date is in the record."""
    text = str(at or "")
    return text[11:].rstrip("Z") if len(text) > 11 else text
