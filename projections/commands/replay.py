"""`quota-ledger replay FILE`: fold a file of events, write the decisions as JSON lines."""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

if TYPE_CHECKING:
    from ledger.fold import Rejection
    from projections.replay import Summary
    from topics.sources import SourceEvent

REPORTED_REJECTIONS = 100
"""So many rejected records are named on the terminal; all of them go to the dead letters and into the count."""


def replay_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Events; .gz is unpacked, - is standard input.")],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="OUT", help="Where decisions go; .gz is packed, - is standard output."),
    ] = "-",
    dead_letters: Annotated[
        str | None, typer.Option("--dead-letters", metavar="FILE", help="Where rejected records go, with every reason.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster of events that name none.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a record was rejected.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Fold a file of events and write the decisions as JSON lines.

    FILE holds JSON lines of events, a recorded watch, a list from `kubectl get -o json`, or YAML manifests.

    Exit codes: 0 done, 1 a record was rejected and --strict is set, 2 wrong use.
    """
    from projections.replay import dead_letter, described, replay
    from topics.garbage import settle_garbage_collection
    from topics.sources import DamagedSource, numbered_events, unpacked

    topic = file if file == "-" else Path(file).name
    with ExitStack() as stack:
        source = stack.enter_context(_opened_source(file))
        out = stack.enter_context(_opened_output(output))
        letters = stack.enter_context(_opened_output(dead_letters)) if dead_letters is not None else None
        rejected = 0

        def reject(event: SourceEvent, rejections: list[Rejection]) -> None:
            nonlocal rejected
            rejected += 1
            if letters is not None:
                letters.write(dead_letter(topic, event, rejections))
            if rejected <= REPORTED_REJECTIONS:
                for line in described(topic, event, rejections):
                    typer.echo(f"rejected: {line}", err=True)

        settle_garbage_collection()
        started = time.monotonic()
        events: Iterable[SourceEvent] = numbered_events(unpacked(source), cluster)
        if not quiet and sys.stderr.isatty():
            events = _with_progress(events, topic, source)
        try:
            summary = replay(events, topic, out.write, reject)
        except DamagedSource as problem:
            typer.echo(f"quota-ledger replay: {problem}", err=True)
            raise typer.Exit(1) from None
        out.flush()
        seconds = time.monotonic() - started
    if not quiet:
        _report(summary, seconds)
    if strict and summary.rejected:
        raise typer.Exit(1)


@contextmanager
def _opened_source(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with _or_wrong_use(lambda: open(file, "rb")) as source:
        yield source


@contextmanager
def _opened_output(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdout.buffer
    elif file.endswith(".gz"):
        # no name and no time inside, so that the same decisions give the same bytes
        with (
            _or_wrong_use(lambda: open(file, "wb")) as raw,
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        ):
            yield cast(BinaryIO, packed)
    else:
        with _or_wrong_use(lambda: open(file, "wb", buffering=1 << 20)) as out:
            yield out


def _or_wrong_use(opening: Callable[[], BinaryIO]) -> BinaryIO:
    """The file, or exit code 2 with the system's own words."""
    try:
        return opening()
    except OSError as problem:
        typer.echo(f"quota-ledger replay: {problem.filename}: {problem.strerror}", err=True)
        raise typer.Exit(2) from None


def _with_progress(events: Iterable[SourceEvent], topic: str, source: BinaryIO) -> Iterator[SourceEvent]:
    """The same events, with a bar on standard error that follows the place in the file, unpacked or not."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    total = _size(source)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(topic, total=total, events=0)
        for number, event in enumerate(events):
            yield event
            if number % 256 == 0:
                progress.update(task, completed=source.tell() if total else 0, events=number + 1)


def _size(source: BinaryIO) -> int | None:
    """The size of a file; a pipe or a terminal has none."""
    try:
        return os.fstat(source.fileno()).st_size if source.seekable() else None
    except (OSError, ValueError):
        return None


def _report(summary: Summary, seconds: float) -> None:
    rate = f", {summary.events / seconds:,.0f} records/s" if seconds > 0 else ""
    typer.echo(
        f"{summary.events:,} records, {summary.decisions:,} decisions, {summary.rejected:,} rejected"
        f" in {seconds:.2f} s{rate}",
        err=True,
    )
    if summary.unknown_kinds:
        named = ", ".join(f"{kind} {count:,}" for kind, count in sorted(summary.unknown_kinds.items()))
        typer.echo(f"skipped, of kinds the ledger does not know: {named}", err=True)
