"""What the streaming commands of `quota-ledger` do, as plain functions of typed arguments that return exit codes.

0 done, 1 something is wrong (no broker, a mismatch, a record that cannot be submitted), 2 wrong use. Results go to
standard output, everything else to standard error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import msgspec
from aiokafka.errors import KafkaError
from rich.console import Console

from topics.admin import BrokerUnreachable, MissingTopics, TopicMismatch
from topics.batching import Addressed, addressed, bursts
from topics.broker import BrokerNotStarted
from topics.development import WorkerChild, WorkerStopped, running, until_signal, wait_until_folded
from topics.settings import InvalidSettings, Settings
from topics.sources import read_events
from topics.unknown_kinds import UnknownKinds
from topics.workload_of_job import InvalidJob

#: How results are written: for a person, or one JSON object a line. None: as standard output is a terminal or not.
Output = Literal["text", "json"]

DONE = 0
WRONG = 1
WRONG_USE = 2

DEMO = Path(__file__).with_name("demo.jsonl")
SHOWN_DECISIONS = 40
FOLD_SECONDS = 600.0


def worker(settings: Settings | None = None, *, log_level: str = "INFO", rebuild: bool = False) -> int:
    """Run the worker against `KAFKA_BOOTSTRAP_SERVERS` until SIGTERM or SIGINT."""
    from topics.worker import run_worker

    def run() -> int:
        used = settings or Settings.from_environment()
        return run_worker(used.replaced(rebuild=True) if rebuild else used, log_level=log_level)

    return guarded(run, logs=True)


def ingest(source: str, settings: Settings | None = None, *, cluster: str | None = None, pack: bool = False) -> int:
    """Put the events of a file, or of standard input (`-`), into `quota.events`.

    Each event stays a record, so the decisions are those of a replay of the file. With `pack` neighbours become BATCH
    records, in which cycles run once; of standard input those that wait while the ones before are written.
    """
    from topics.ingest import ingest as write

    def run() -> int:
        _verify_readable(source)
        errors = Console(stderr=True)
        unknown = UnknownKinds()
        events = addressed(unknown.passing(_events(source, cluster)), cluster)
        live = source == "-"
        began = time.monotonic()
        written = asyncio.run(
            write(
                settings or Settings.from_environment(),
                bursts(events) if pack and not live else events,
                pack=pack and live,
            )
        )
        seconds = time.monotonic() - began
        clusters = ", ".join(f"{name} {count:,}" for name, count in sorted(written.records.items()))
        errors.print(f"{written.total:,} records into quota.events in {seconds:.1f} s ({clusters or 'nothing'})")
        if unknown.counts:
            errors.print(f"of kinds that the ledger does not know: {unknown.text()}")
        return DONE

    return guarded(run)


def submit(source: str, settings: Settings | None = None, *, cluster: str | None = None) -> int:
    """Submit the Workloads and Jobs of a file; a Job becomes the Workload that Kueue would write for it."""
    from topics.ingest import ingest as write
    from topics.submit import recorded_classes, submission

    async def run() -> int:
        _verify_readable(source)
        used = settings or Settings.from_environment()
        records = submission(_events(source, cluster), await recorded_classes(used, cluster), cluster)
        await write(used, records)
        for name in _workloads(records):
            print(name)
        return DONE

    return guarded(lambda: asyncio.run(run()))


def decisions(
    settings: Settings | None = None,
    *,
    follow: bool = False,
    cluster: str | None = None,
    output: Output | None = None,
) -> int:
    """Write the decisions that are there; with `follow` go on as they are made, until SIGINT."""

    async def run() -> int:
        write = _decision_writer(output, with_cluster=cluster is None)
        await _write_decisions(settings or Settings.from_environment(), write, cluster=cluster, follow=follow)
        return DONE

    return guarded(lambda: asyncio.run(run()))


def quota(
    settings: Settings | None = None,
    *,
    cluster_queue: str | None = None,
    cluster: str | None = None,
    output: Output | None = None,
) -> int:
    """Write the table `quota`: who holds how much of what, and how much of it is borrowed."""
    from topics.display import quota_table
    from topics.quota_rows import quota_rows

    def run() -> int:
        rows = asyncio.run(
            quota_rows(settings or Settings.from_environment(), cluster=cluster, cluster_queue=cluster_queue)
        )
        if (output or _output()) == "json":
            for row in rows:
                sys.stdout.buffer.write(msgspec.json.encode(row.document()) + b"\n")
            sys.stdout.flush()
        elif rows:
            _console().print(quota_table(rows))
        else:
            Console(stderr=True).print("the table has no such rows")
        return DONE

    return guarded(run)


def up(
    source: str | None = None,
    settings: Settings | None = None,
    *,
    demo: bool = False,
    stay: bool | None = None,
    cluster: str | None = None,
    data_directory: Path | None = None,
    port: int | None = None,
) -> int:
    """Broker (embedded where `KAFKA_BOOTSTRAP_SERVERS` is unset, for development only) and worker on this machine.

    With a source, or the demo's: ingest it, fold it, show the decisions and the table. `stay`: go on until SIGINT;
    by default `up` stays and `up FILE` ends.
    """
    embedded = not os.environ.get("KAFKA_BOOTSTRAP_SERVERS") and settings is None
    source = str(DEMO) if demo and source is None else source
    stays = source is None if stay is None else stay
    passing = not stays and data_directory is None and port is None

    def run() -> int:
        if source is not None:
            _verify_readable(source)
        messages = Console(stderr=True)
        with (
            messages.status("starting a broker and a worker" if embedded else "starting a worker"),
            running(
                settings or Settings.from_environment(),
                data_directory=data_directory,
                embedded=embedded,
                port=port,
                passing=passing,
            ) as (used, child),
        ):
            return asyncio.run(_up(used, child, source, cluster, stays, embedded, messages))

    return guarded(run)


async def _up(
    settings: Settings,
    child: WorkerChild,
    source: str | None,
    cluster: str | None,
    stays: bool,
    embedded: bool,
    messages: Console,
) -> int:
    from topics.admin import ensure_topics
    from topics.ingest import ingest as write

    async with until_signal() as stop:
        work = asyncio.create_task(
            _fold_source(settings, child, source, cluster, write)
            if source
            else _started(settings, child, ensure_topics)
        )
        interrupted = asyncio.create_task(stop.wait())
        await asyncio.wait({work, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return DONE
        await work
        if not stays:
            return DONE
        _say_what_runs(settings, child, embedded, messages)
        await _watch(settings, child, interrupted, from_now=True)
        return DONE


async def _started(settings: Settings, child: WorkerChild, ensure: Callable[..., Any]) -> None:
    await ensure(settings)
    child.check()


async def _fold_source(
    settings: Settings, child: WorkerChild, source: str, cluster: str | None, write: Callable[..., Any]
) -> None:
    """Ingest, wait for the worker, show what came of it."""
    from topics.display import quota_table
    from topics.quota_rows import quota_rows

    console = _console()
    began = time.monotonic()
    unknown = UnknownKinds()
    written = await write(settings, addressed(unknown.passing(_events(source, cluster)), cluster))
    await wait_until_folded(settings, written.ends, child, FOLD_SECONDS)
    seconds = time.monotonic() - began
    several = len(written.records) > 1
    shown: deque[bytes] = deque(maxlen=SHOWN_DECISIONS)
    count = 0
    async for values in _decisions(settings):
        shown.extend(values)
        count += len(values)
    _, line = _decision_writers()
    if count > len(shown):
        console.print(f"... {count - len(shown):,} decisions before these", style="dim")
    for value in shown:
        console.print(line(value, with_cluster=several))
    rows = await quota_rows(settings)
    if rows:
        console.print()
        console.print(quota_table(rows))
    console.print()
    console.print(
        f"{written.total:,} records of {len(written.records)} cluster{'s' if several else ''} "
        f"folded into {count:,} decisions in {seconds:.1f} s",
        style="dim",
    )
    if unknown.counts:
        console.print(f"of kinds that the ledger does not know: {unknown.text()}", style="dim")


def _decisions(settings: Settings, *, cluster: str | None = None, follow: bool = False) -> Any:
    from topics.decision_stream import decisions as read

    return read(settings, cluster=cluster, follow=follow)


async def _write_decisions(
    settings: Settings, write: Callable[[bytes], None], *, cluster: str | None, follow: bool
) -> None:
    async with until_signal() as stop, aclosing(_decisions(settings, cluster=cluster, follow=follow)) as lists:
        async for values in lists:
            for value in values:
                write(value)
            sys.stdout.flush()
            if stop.is_set():
                return


async def _watch(settings: Settings, child: WorkerChild, interrupted: asyncio.Task[Any], *, from_now: bool) -> None:
    """Show decisions as they are made until interrupted or the worker is gone."""
    _, line = _decision_writers()
    console = _console()
    began = not from_now
    async with aclosing(_decisions(settings, follow=True)) as lists:
        async for values in lists:
            if began:
                for value in values:
                    console.print(line(value))
            began = began or not values
            child.check()
            if interrupted.done():
                return


def _say_what_runs(settings: Settings, child: WorkerChild, embedded: bool, messages: Console) -> None:
    kind = "embedded broker (development only)" if embedded else "broker"
    messages.print(f"[bold]{kind}[/bold]  {settings.bootstrap_servers}", highlight=False)
    where = f"metrics http://{settings.metrics_host}:{settings.metrics_port}/metrics" if settings.metrics_port else ""
    messages.print(f"[bold]worker[/bold]  {where}  log {child.log}", highlight=False)
    if embedded and settings.bootstrap_servers != Settings().bootstrap_servers:
        messages.print(f"in another terminal: export KAFKA_BOOTSTRAP_SERVERS={settings.bootstrap_servers}")
    for command, meaning in (
        ("quota-ledger ingest FILE", "events, lists, manifests into the log"),
        ("quota-ledger submit FILE", "Jobs and Workloads"),
        ("quota-ledger decisions --follow", "decisions"),
        ("quota-ledger quota", "the table"),
    ):
        messages.print(f"  {command:<32} {meaning}", highlight=False)
    messages.print("Ctrl-C stops everything; decisions appear below")


def _events(source: str, cluster: str | None) -> Iterator[bytes]:
    """Objects without a creationTimestamp are created now."""
    return read_events(source, cluster, created=time.time_ns() // 1000)


def _verify_readable(source: str) -> None:
    """Wrong use is told before anything is started or written."""
    if source != "-":
        Path(source).open("rb").close()


def _workloads(records: list[Addressed]) -> Iterator[str]:
    for record in records:
        event = msgspec.json.decode(record.value)
        for member in event.get("events", [event]):
            metadata = member.get("object", {}).get("metadata")
            if metadata:
                yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"


def _output() -> Output:
    return "text" if sys.stdout.isatty() else "json"


def _console() -> Console:
    """Standard output; lines are not broken where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=200, soft_wrap=True)


def _decision_writer(output: Output | None, *, with_cluster: bool) -> Callable[[bytes], None]:
    as_json, line = _decision_writers()
    if (output or _output()) == "json":
        return as_json
    console = _console()
    return lambda value: console.print(line(value, with_cluster=with_cluster))


def _decision_writers() -> tuple[Callable[[bytes], None], Callable[..., Any]]:
    from topics.display import decision_line

    def as_json(value: bytes) -> None:
        sys.stdout.buffer.write(value + b"\n")

    return as_json, decision_line


def guarded(command: Callable[[], int], *, logs: bool = False) -> int:
    """The command's exit code; what a person can do something about is a message, not a traceback.

    Only the worker logs: elsewhere Kafka's client would tell every try to connect, and then the message says it again.
    """
    if not logs:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        return command()
    except (InvalidSettings, FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        print(f"quota-ledger: {problem}", file=sys.stderr)
        return WRONG_USE
    except BrokenPipeError:
        # The reader of a pipe has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return 130
    except (
        BrokerUnreachable,
        BrokerNotStarted,
        InvalidJob,
        KafkaError,
        MissingTopics,
        TimeoutError,
        TopicMismatch,
        ValueError,
        WorkerStopped,
    ) as problem:
        print(f"quota-ledger: {problem}", file=sys.stderr)
        return WRONG
