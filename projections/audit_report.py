"""An audit's outcome for a person: the summary, and a first difference as two records side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from projections.audit import Difference, Result
from projections.auditing import Report
from projections.rules_diff import Change

_ABSENT = object()


def summary_line(results: Sequence[Result], seconds: float) -> str:
    events = sum(result.events for result in results)
    decisions = sum(result.decisions for result in results)
    clusters = sum(result.clusters for result in results)
    checkpoints = sum(result.checkpoints for result in results)
    rate = f", {events / seconds:,.0f} events/s" if seconds > 0 else ""
    met = f", {checkpoints:,} states of checkpoints met" if checkpoints else ""
    return (
        f"{events:,} events of {clusters:,} cluster{'' if clusters == 1 else 's'} folded, "
        f"{decisions:,} decisions as recorded{met}, in {seconds:.1f} s{rate}"
    )


def show_difference(console: Console, difference: Difference) -> None:
    """Both records, what they differ in marked, and the state of the queues that they name."""
    place = f"{difference.topic}/{difference.partition} offset {difference.offset}"
    console.print(Text(f"cluster {difference.cluster}, decision {difference.seq}: {difference.what}", style="bold red"))
    console.print(f"  cause: {place}", highlight=False)
    if difference.rules_recorded or difference.rules_folded:
        console.print(
            f"  rules: recorded {difference.rules_recorded or 'nothing'}, folded {difference.rules_folded}",
            highlight=False,
        )
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "recorded", "folded"):
        table.add_column(name, overflow="fold")
    recorded, folded = _document(difference.recorded), _document(difference.folded)
    for name in dict.fromkeys([*recorded, *folded]):
        left, right = recorded.get(name, _ABSENT), folded.get(name, _ABSENT)
        style = "" if left == right else "bold yellow"
        table.add_row(Text(name, style="dim"), Text(_text(left), style=style), Text(_text(right), style=style))
    console.print(table)
    for name, state in difference.queues.items():
        console.print(Group(Text(f"  {name}", style="bold"), *[Text(f"    {k}: {_text(v)}") for k, v in state.items()]))


def show_change(console: Console, change: Change) -> None:
    console.print(Text(f"event {change.partition}/{change.offset}", style="bold"))
    for sign, style, decisions in (("-", "red", change.removed), ("+", "green", change.added)):
        for decision in decisions:
            console.print(Text(f"  {sign} {_sentence(decision)}", style=style))


def document(reports: Sequence[Report], problems: Sequence[str]) -> bytes:
    """Everything as one line of JSON."""
    return msgspec.json.encode(
        {
            "partitions": [msgspec.to_builtins(report.result, enc_hook=str, builtin_types=()) for report in reports],
            "changes": [msgspec.to_builtins(change) for report in reports for change in report.changes],
            "problems": list(problems),
        },
        enc_hook=str,
    )


def _sentence(decision: dict[str, Any]) -> str:
    workload = decision.get("workload") or {}
    who = f" {workload.get('namespace')}/{workload.get('name')}" if workload else ""
    where = decision.get("clusterQueue") or decision.get("cohort") or ""
    more = {
        name: value
        for name, value in decision.items()
        if name in ("reason", "message", "podSets", "preemptor", "share", "before", "after", "flavor", "resource")
    }
    return f"{decision.get('cluster')}/{decision.get('seq')} {decision.get('type')}{who} in {where} {_text(more)}"


def _document(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"bytes": value.decode(errors="replace")[:2000]}
    return found if isinstance(found, dict) else {"bytes": value.decode(errors="replace")}


def _text(value: object) -> str:
    if value is _ABSENT:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
