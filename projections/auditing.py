"""Audits of files, archives and Kafka: a job for each partition, as many at once as there are processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from ledger.checkpoint import hash_of_state, save
from ledger.decisions import RULES_VERSION
from ledger.fold import Fold
from projections import audit_sources as sources
from projections.archive import About, ArchivedEvent, ArchiveReader, ArchiveWriter, ClusterEnd, End
from projections.audit import Auditor, Difference, Result
from projections.audit_sources import AuditProblem
from projections.rules_diff import Change, RulesDiff
from topics.checkpoints import Checkpoint, newest_checkpoint
from topics.codec import encode_row, encode_row_key
from topics.garbage import settle_garbage_collection
from topics.reader import read_to_end
from topics.recorded import head_of
from topics.recovery import Recovered, read_changelog
from topics.settings import Settings
from topics.topic import Topics

APPLIED_SECONDS = 10.0

Told = Callable[[int, int], None]
"""Partition, events so far."""


@dataclass(frozen=True)
class Job:
    """One partition to be audited, as it is given to a process. Exactly one of the three sources is set."""

    partition: int
    settings: Settings | None = None
    archive: Path | None = None
    events: Path | None = None
    decisions: Path | None = None
    cluster: str | None = None
    from_checkpoint: bool = False
    diff: bool = False
    rules: str | None = None
    ends: bool = False
    """Whether it is wanted where each cluster stands in the end: an archive is written, or met."""


class Report(msgspec.Struct, rename="camel"):
    """What a job came to."""

    result: Result
    ends: list[ClusterEnd] = []
    changes: list[Change] = []


def run_jobs(jobs: Sequence[Job], processes: int, told: Told) -> list[Report]:
    """Every job's report, in the order of partitions."""
    if processes <= 1 or len(jobs) == 1:
        return [run_job(job, told) for job in jobs]
    context = multiprocessing.get_context("spawn")
    words: Any = context.Queue()
    with ProcessPoolExecutor(
        min(processes, len(jobs)), mp_context=context, initializer=_remember_queue, initargs=(words,)
    ) as pool:
        futures = [pool.submit(_run_in_process, job) for job in jobs]
        while not all(future.done() for future in futures):
            _pass_on(words, told, futures)
        return [future.result() for future in futures]


def _pass_on(words: Any, told: Told, futures: list[Future[Report]]) -> None:
    try:
        told(*words.get(timeout=0.2))
    except queue.Empty:
        return


_words: Any = None


def _remember_queue(words: Any) -> None:
    global _words
    _words = words


def _run_in_process(job: Job) -> Report:
    return run_job(job, lambda partition, events: _words.put((partition, events)))


def default_processes() -> int:
    return max(1, os.cpu_count() or 1)


def run_job(job: Job, told: Told) -> Report:
    """One partition, from start to end."""
    settle_garbage_collection()
    began = time.monotonic()
    report = asyncio.run(_run(job, told))
    report.result.seconds = time.monotonic() - began
    return report


async def _run(job: Job, told: Told) -> Report:
    if job.events is not None:
        assert job.decisions is not None
        topic = sources.topic_of_decisions(job.decisions) or job.events.name
        fold = Fold(topic, 0)
        events: Any = sources.file_events(job.events, job.cluster)
        return await _compare(job, fold, 0, events, sources.file_decisions(job.decisions), told)
    if job.archive is not None:
        with job.archive.open("rb") as file:
            about = ArchiveReader(file).about
        first, ledgers = sources.archived_ledgers(job.archive, job.partition)
        fold = Fold(about.events_topic, job.partition)
        for ledger in ledgers:
            fold.restore(ledger)
        events = sources.archived_events(job.archive, job.partition)
        decisions = sources.archived_decisions(job.archive, job.partition)
        return await _compare(job, fold, first, events, decisions, told, from_file=about.from_file)
    return await _run_kafka(job, told)


async def _compare(
    job: Job,
    fold: Fold,
    first: int,
    events: Any,
    decisions: Any,
    told: Told,
    *,
    from_file: bool | None = None,
    stop: int | None = None,
    **more: Any,
) -> Report:
    is_file = job.events is not None if from_file is None else from_file
    if job.diff:
        diff = RulesDiff(fold, job.rules, from_file=is_file)
        await diff.run(events, decisions, progress=lambda count: told(job.partition, count))
        return Report(diff.result, changes=diff.changes)
    auditor = Auditor(fold, first_offset=first, stop=stop, from_file=is_file)
    result = await auditor.run(events, decisions, progress=lambda count: told(job.partition, count), **more)
    return Report(result, ends=ends_of(fold) if job.ends else [])


async def _run_kafka(job: Job, told: Told) -> Report:
    settings = job.settings
    assert settings is not None
    topics = Topics.of(settings)
    changelog = await read_changelog(settings, topics, job.partition)
    checkpoint = await newest_checkpoint(settings, topics, job.partition)
    fold = Fold(topics.events.name, job.partition)
    start = decisions_from = 0
    if job.from_checkpoint and checkpoint is not None:
        for ledger in checkpoint.ledgers().values():
            fold.restore(ledger)
        start, decisions_from = checkpoint.manifest.next_offset, checkpoint.manifest.decisions_from
    stop = changelog.next_offset
    meeting = None if job.from_checkpoint or job.diff else _Meeting(checkpoint)
    async with (
        aclosing(sources.kafka_events(settings, topics.events.name, job.partition, start, stop)) as events,
        aclosing(sources.kafka_decisions(settings, topics.decisions.name, job.partition, decisions_from)) as decisions,
    ):
        met: Any = events
        if meeting is not None and checkpoint is not None and start < checkpoint.manifest.next_offset:
            met = _split_at(events, checkpoint.manifest.next_offset)
        report = await _compare(job, fold, start, met, decisions, told, stop=stop, after=meeting)
    if job.diff:
        return report
    if report.result.newer_offset:
        await _expect_applied(settings, topics, job.partition, report.result.newer_offset)
    if meeting is not None:
        report.result.checkpoints = meeting.met
        report.result.differences = [*report.result.differences, *meeting.differences]
    if not report.result.differences:
        report.result.differences = _meet_rows(fold, changelog, job.partition)
    return report


async def _expect_applied(settings: Settings, topics: Topics, partition: int, offset: int) -> None:
    """Decisions of newer events came with the offset that applies them; the end of a transaction takes a moment."""
    deadline = time.monotonic() + APPLIED_SECONDS
    while (applied := (await read_changelog(settings, topics, partition)).next_offset) < offset:
        if time.monotonic() > deadline:
            raise AuditProblem(
                f"{topics.decisions.name}/{partition} has decisions of events up to offset {offset - 1}, but "
                f"{topics.quota.name}/{partition} says that events were applied up to {applied} only: it was cut"
            )
        await asyncio.sleep(0.5)


async def _split_at(events: Any, offset: int) -> Any:
    """The same records, one list ending right before the offset."""
    async for records in events:
        before = [record for record in records if record.offset < offset]
        if before and len(before) < len(records):
            yield before
            yield records[len(before) :]
        else:
            yield records


class _Meeting:
    """Compares the state with the newest checkpoint when the fold comes by."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self.met = 0
        self.differences: list[Difference] = []

    def __call__(self, fold: Fold, next_offset: int) -> None:
        checkpoint = self._checkpoint
        if checkpoint is None or next_offset != checkpoint.manifest.next_offset:
            return
        for cluster, entry in checkpoint.manifest.clusters.items():
            state = hash_of_state(save(fold.clusters[cluster])) if cluster in fold.clusters else ""
            if state == entry.state_hash:
                self.met += 1
            else:
                self.differences.append(
                    Difference(
                        what=f"the checkpoint's state {entry.state_hash} is not that of the fold, {state or 'nothing'}",
                        cluster=cluster,
                        seq=entry.seq,
                        topic=fold.topic,
                        partition=fold.partition,
                        offset=next_offset,
                        recorded=None,
                        folded=None,
                    )
                )


def _meet_rows(fold: Fold, changelog: Recovered, partition: int) -> list[Difference]:
    """The table `quota` must be what the fold holds."""
    folded = {encode_row_key(key): encode_row(row) for key, row in fold.drain_rows().items() if row is not None}
    recorded = {
        key: value for key, value in changelog.rows.items() if msgspec.json.decode(key)[0] not in changelog.was_stopped
    }
    for key in sorted(folded.keys() | recorded.keys()):
        if folded.get(key) != recorded.get(key):
            return [
                Difference(
                    what=f"the table's row {key.decode(errors='replace')} differs from the fold",
                    cluster=str(msgspec.json.decode(key)[0]),
                    seq=0,
                    topic=fold.topic,
                    partition=partition,
                    offset=changelog.next_offset,
                    recorded=recorded.get(key),
                    folded=folded.get(key),
                )
            ]
    return []


def ends_of(fold: Fold) -> list[ClusterEnd]:
    """Where each cluster stands: the chain, the state, the Configuration it was decided by."""
    return [
        ClusterEnd(
            cluster,
            ledger.seq,
            ledger.last_hash,
            hash_of_state(save(ledger)),
            msgspec.to_builtins(ledger.state.configuration, enc_hook=_plain),
        )
        for cluster, ledger in sorted(fold.clusters.items())
    ]


def _plain(value: object) -> object:
    return int(value) if isinstance(value, int) else str(value)


# Archives


def meet_ends(path: Path, reports: Sequence[Report]) -> list[str]:
    """Words about clusters that do not end as the archive says; none where they do."""
    with path.open("rb") as file:
        reader = ArchiveReader(file)
        expected: End = reader.end()
        about = reader.about
    found = {end.cluster: end for report in reports for end in report.ends}
    problems = []
    for end in expected.clusters:
        mine = found.get(end.cluster)
        if mine is None or (mine.seq, mine.last_hash) != (end.seq, end.last_hash):
            problems.append(f"cluster {end.cluster} does not end with decision {end.seq} as the archive says")
        elif (about.version, about.rules_version) == (_version(), RULES_VERSION) and mine.state_hash != end.state_hash:
            problems.append(f"the last state of cluster {end.cluster} is not the archived one")
    return problems


async def export(jobs: Sequence[Job], reports: Sequence[Report], path: Path) -> None:
    """Everything that was audited, as a file that anybody can audit again."""
    first = jobs[0]
    topics = Topics.of(first.settings) if first.settings is not None else None
    about = About(
        version=_version(),
        rules_version=RULES_VERSION,
        events_topic=reports[0].result.topic,
        decisions_topic=topics.decisions.name if topics is not None else str(first.decisions and first.decisions.name),
        partitions=[job.partition for job in jobs],
        from_file=first.events is not None,
    )
    with path.open("wb") as file:
        writer = ArchiveWriter(file, about)
        for job, report in zip(jobs, reports, strict=True):
            await _export_partition(writer, job, report, topics)
        writer.close([end for report in reports for end in report.ends])


async def _export_partition(writer: ArchiveWriter, job: Job, report: Report, topics: Topics | None) -> None:
    result = report.result
    if job.events is not None:
        assert job.decisions is not None
        async for lines in sources.file_events(job.events, job.cluster):
            writer.events(0, [ArchivedEvent(line.offset, line.key, line.value, line.timestamp) for line in lines])
        number = 0
        async for values in sources.file_decisions(job.decisions):
            writer.decisions(0, list(enumerate(values, start=number)))
            number += len(values)
        return
    settings = job.settings
    assert settings is not None and topics is not None
    decisions_from = 0
    if job.from_checkpoint and result.first_offset:
        checkpoint = await newest_checkpoint(settings, topics, job.partition)
        if checkpoint is None or checkpoint.manifest.next_offset != result.first_offset:
            raise AuditProblem(f"partition {job.partition} has a newer checkpoint by now; export once more")
        decisions_from = checkpoint.manifest.decisions_from
        for cluster, state in checkpoint.states.items():
            writer.checkpoint(job.partition, result.first_offset, cluster, state)
    begin, end = result.first_offset, result.next_offset
    async with aclosing(sources.kafka_events(settings, topics.events.name, job.partition, begin, end)) as lists:
        async for records in lists:
            writer.events(job.partition, [ArchivedEvent(r.offset, r.key, r.value, r.timestamp) for r in records])
    async with aclosing(read_to_end(settings, topics.decisions.name, job.partition, start=decisions_from)) as lists:
        async for records in lists:
            writer.decisions(job.partition, [(r.offset, r.value) for r in records if _belongs(r.value, result)])


def _belongs(value: bytes, result: Result) -> bool:
    head = head_of(value)
    return head is None or result.first_offset <= head.offset < result.next_offset


def _version() -> str:
    return version("quota-ledger")
