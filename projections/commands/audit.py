"""`quota-ledger audit`: decide everything again and compare with what was written."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from projections.commands.streaming import Output

if TYPE_CHECKING:
    from projections.auditing import Job, Report

SHOWN_CHANGES = 100
SHOWN_DIFFERENCES = 4


def audit_command(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[SOURCE]", help="A file of events, or an archive; without it Kafka is audited."),
    ] = None,
    decisions: Annotated[
        Path | None, typer.Option("--decisions", metavar="FILE", help="The decisions of a file of events.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Only this cluster; in a file, that of events that name none.")
    ] = None,
    from_checkpoint: Annotated[
        bool, typer.Option("--from-checkpoint", help="Begin at the newest checkpoint of each partition.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="ARCHIVE", help="Write all that was audited into one file.")
    ] = None,
    rules_diff: Annotated[
        bool, typer.Option("--rules-diff", help="Show the decisions that these rules make otherwise.")
    ] = False,
    rules: Annotated[
        str | None, typer.Option("--rules", help="With --rules-diff: the rule set, ledger or kueue-0.19.")
    ] = None,
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="Partitions audited at once.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="text, or one line of JSON.")] = Output.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fold the events again and compare every decision, byte for byte.

    Exit codes: 0 all decisions are what the events give, 1 a difference, a changed archive, or (with --rules-diff)
    decisions that change, 2 wrong use.
    """
    from topics.commands import guarded

    if rules is not None and rules not in ("ledger", "kueue-0.19"):
        _wrong_use(f"--rules is {rules!r}, not ledger or kueue-0.19")
    if rules is not None and not rules_diff:
        _wrong_use("--rules goes with --rules-diff")
    for path in (source, decisions):
        if path is not None and not path.is_file():
            _wrong_use(f"{path}: no such file")

    def run() -> int:
        return _audit(source, decisions, cluster, from_checkpoint, export, rules_diff, rules, processes, output, quiet)

    raise typer.Exit(guarded(run))


def _wrong_use(message: str) -> None:
    typer.echo(f"quota-ledger audit: {message}", err=True)
    raise typer.Exit(2)


def _audit(
    source: Path | None,
    decisions: Path | None,
    cluster: str | None,
    from_checkpoint: bool,
    export: Path | None,
    rules_diff: bool,
    rules: str | None,
    processes: int | None,
    output: Output,
    quiet: bool,
) -> int:
    import asyncio

    from projections.archive import DamagedArchive
    from projections.audit_sources import AuditProblem
    from projections.auditing import default_processes, meet_ends, run_jobs
    from projections.auditing import export as write_archive

    began = time.monotonic()
    try:
        jobs = _jobs(source, decisions, cluster, from_checkpoint, rules_diff, rules, export is not None)
        with _Progress(quiet) as progress:
            reports = run_jobs(jobs, processes or default_processes(), progress)
        problems = meet_ends(source, reports) if source and jobs[0].archive and not rules_diff else []
        if export is not None:
            asyncio.run(write_archive(jobs, reports, export))
    except DamagedArchive as problem:
        typer.echo(f"quota-ledger audit: {source}: {problem}", err=True)
        return 1
    except AuditProblem as problem:
        typer.echo(f"quota-ledger audit: {problem}", err=True)
        return 1
    if cluster is not None:
        for report in reports:
            report.result.differences = [d for d in report.result.differences if d.cluster in (cluster, "")]
    _show(reports, problems, time.monotonic() - began, output, rules_diff)
    differs = any(report.result.differences or report.changes for report in reports)
    return 1 if differs or problems else 0


def _jobs(
    source: Path | None,
    decisions: Path | None,
    cluster: str | None,
    from_checkpoint: bool,
    diff: bool,
    rules: str | None,
    ends: bool,
) -> list[Job]:
    from projections.archive import ArchiveReader
    from projections.audit_sources import AuditProblem, is_archive
    from projections.auditing import Job

    if source is not None and is_archive(source):
        with source.open("rb") as file:
            reader = ArchiveReader(file)
            reader.end()  # every byte, before a single event is folded
        return [Job(number, archive=source, diff=diff, rules=rules, ends=True) for number in reader.about.partitions]
    if source is not None:
        if decisions is None:
            raise AuditProblem(f"{source} is a file of events: name its decisions with --decisions FILE")
        return [Job(0, events=source, decisions=decisions, cluster=cluster, diff=diff, rules=rules, ends=ends)]
    import asyncio

    from topics.admin import partitions_of
    from topics.settings import Settings
    from topics.topic import Topics, partition_of

    settings = Settings.from_environment()
    count = asyncio.run(partitions_of(settings, Topics.of(settings).events))
    settings = settings.replaced(partitions=count)
    numbers = range(count) if cluster is None else [partition_of(cluster, count)]
    return [
        Job(number, settings=settings, from_checkpoint=from_checkpoint, diff=diff, rules=rules, ends=ends)
        for number in numbers
    ]


def _show(reports: list[Report], problems: list[str], seconds: float, output: Output, diff: bool) -> None:
    from rich.console import Console

    from projections.audit_report import document, show_change, show_difference, summary_line

    if output is Output.JSON:
        sys.stdout.buffer.write(document(reports, problems) + b"\n")
        sys.stdout.flush()
        return
    console = Console() if sys.stdout.isatty() else Console(width=200, soft_wrap=True)
    differences = [difference for report in reports for difference in report.result.differences]
    for difference in differences[:SHOWN_DIFFERENCES]:
        show_difference(console, difference)
    if len(differences) > SHOWN_DIFFERENCES:
        console.print(f"and {len(differences) - SHOWN_DIFFERENCES} more clusters differ")
    for problem in problems:
        console.print(problem, style="bold red")
    changes = [change for report in reports for change in report.changes]
    for change in changes[:SHOWN_CHANGES]:
        show_change(console, change)
    results = [report.result for report in reports]
    if diff:
        events = sum(result.events for result in results)
        console.print(f"{events:,} events folded, the decisions of {len(changes):,} of them change", highlight=False)
    else:
        console.print(summary_line(results, seconds), highlight=False)


class _Progress:
    """Events so far on standard error, all partitions together, where somebody looks."""

    def __init__(self, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._events: dict[int, int] = {}
        self._began = time.monotonic()

    def __call__(self, partition: int, events: int) -> None:
        self._events[partition] = events
        if self._shown:
            total = sum(self._events.values())
            seconds = max(time.monotonic() - self._began, 0.001)
            sys.stderr.write(f"\r{total:,} events, {total / seconds:,.0f}/s ")
            sys.stderr.flush()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
