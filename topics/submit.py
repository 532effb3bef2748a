"""Submissions: Workloads as they are, Jobs as the Workloads that Kueue would write for them, handed in at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from topics.admin import MissingTopics, partitions_of
from topics.batching import DEFAULT_CLUSTER, Addressed
from topics.reader import read_to_end
from topics.settings import Settings
from topics.sources.packing import packed
from topics.topic import Topics, partition_of
from topics.workload_of_job import InvalidJob, PriorityClasses, workload_of_job

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class InvalidSubmission(ValueError):
    """A file that holds what cannot be submitted; the message says what."""


def submission(values: Iterable[bytes], classes: PriorityClasses, cluster: str | None = None) -> list[Addressed]:
    """The records that hand in the Workloads and Jobs among the values: one BATCH, so priorities count within it."""
    documents = list(_documents(values))
    workloads = [
        _workload(document, classes) for _, document in documents if document.get("kind") in ("Job", "Workload")
    ]
    others = sorted({str(document.get("kind", "?")) for _, document in documents} - {"Job", "Workload"})
    if others:
        raise InvalidSubmission(f"only Workloads and Jobs can be submitted, not {', '.join(others)}: ingest those")
    if not workloads:
        raise InvalidSubmission("there is no Workload and no Job in it")
    name = cluster or DEFAULT_CLUSTER
    events = (_encode({"cluster": name, "type": "ADDED", "object": workload}) for workload in workloads)
    return [Addressed(name, value) for value in packed(events, name)]


async def recorded_classes(settings: Settings, cluster: str | None = None) -> PriorityClasses:
    """The priority classes of a cluster, as its events have them."""
    classes = PriorityClasses()
    topics = Topics.of(settings)
    try:
        partitions = await partitions_of(settings, topics.events)
    except MissingTopics:
        return classes
    name = cluster or DEFAULT_CLUSTER
    async for records in read_to_end(settings, topics.events.name, partition_of(name, partitions)):
        for record in records:
            if record.value and b"PriorityClass" in record.value and record.key == name.encode():
                for type_, document in _documents([record.value], strict=False):
                    classes.observe(type_, document)
    return classes


def _workload(document: dict[str, Any], classes: PriorityClasses) -> dict[str, Any]:
    if document.get("kind") == "Workload":
        return document
    try:
        return workload_of_job(document, classes)
    except (AttributeError, TypeError) as problem:
        raise InvalidJob(f"the Job is not as a Job is: {problem}") from problem


def _documents(values: Iterable[bytes], *, strict: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of events, members of batches too, with the events' types."""
    for value in values:
        try:
            event = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            if strict:
                raise InvalidSubmission(
                    f"it cannot be read: {problem}: {value[:80].decode(errors='replace')}"
                ) from None
            continue
        if isinstance(event, dict):
            members = event.get("events") if event.get("type") == "BATCH" else [event]
            for member in members if isinstance(members, list) else ():
                if isinstance(member, dict) and isinstance(member.get("object"), dict):
                    yield str(member.get("type", "ADDED")), member["object"]
