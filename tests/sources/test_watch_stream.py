"""A recorded watch: lists that begin, end, overlap and start over (kueue-objects 0.1)."""

from __future__ import annotations

import io
import json
from typing import Any

from topics.sources import read_events


def line(resource: str, kind: str, type_: str = "ADDED", session: int = 1, **metadata: Any) -> str:
    watch = {"cluster": "east", "resource": resource, "version": "v1", "session": session}
    return json.dumps({"watch": watch, "type": type_, "object": {"kind": kind, "metadata": metadata}})


def listed(resource: str, kind: str, session: int = 1) -> str:
    return line(resource, kind, "BOOKMARK", session, annotations={"k8s.io/initial-events-end": "true"})


def shapes(*lines: str) -> list[tuple[str, str]]:
    found = []
    for value in read_events(io.BytesIO("\n".join(lines).encode())):
        event = json.loads(value)
        assert event["cluster"] == "east"
        what = event.get("kinds") or [event.get("object", {}).get("metadata", {}).get("name", "")]
        found.append((event["type"], *what))
    return found


def test_a_first_connection_is_a_list_of_its_kind() -> None:
    assert shapes(
        line("cohorts", "Cohort", name="a"),
        line("cohorts", "Cohort", name="b"),
        listed("cohorts", "Cohort"),
        line("cohorts", "Cohort", "MODIFIED", name="b"),
    ) == [
        ("SYNC_BEGIN", "Cohort"),
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("SYNC_END", "Cohort"),
        ("MODIFIED", "b"),
    ]


def test_an_empty_list_opens_and_closes() -> None:
    assert shapes(listed("cohorts", "Cohort")) == [("SYNC_BEGIN", "Cohort"), ("SYNC_END", "Cohort")]


def test_a_list_stays_open_until_the_next_one_of_the_start_is_open() -> None:
    assert shapes(
        listed("cohorts", "Cohort"),
        line("nodes", "Node", name="n"),
        listed("nodes", "Node"),
        line("nodes", "Node", "MODIFIED", name="n"),
    ) == [
        ("SYNC_BEGIN", "Cohort"),
        ("SYNC_BEGIN", "Node"),
        ("SYNC_END", "Cohort"),
        ("ADDED", "n"),
        ("SYNC_END", "Node"),
        ("MODIFIED", "n"),
    ]


def test_a_connection_that_resumes_lists_nothing() -> None:
    assert shapes(
        listed("cohorts", "Cohort"),
        line("cohorts", "Cohort", "MODIFIED", 2, name="a"),
        line("cohorts", "Cohort", "BOOKMARK", 2),
    )[2:] == [("MODIFIED", "a"), ("BOOKMARK", "")]


def test_after_an_error_the_next_connection_lists_again() -> None:
    error = json.dumps(
        {
            "watch": {"cluster": "east", "resource": "cohorts", "version": "v1", "session": 2},
            "type": "ERROR",
            "object": {"kind": "Status", "code": 410, "reason": "Expired"},
        }
    )
    assert shapes(
        listed("cohorts", "Cohort"),
        error,
        line("cohorts", "Cohort", "ADDED", 3, name="a"),
        listed("cohorts", "Cohort", 3),
        line("cohorts", "Cohort", "MODIFIED", 3, name="a"),
    )[2:] == [
        ("ERROR", ""),
        ("SYNC_BEGIN", "Cohort"),
        ("ADDED", "a"),
        ("SYNC_END", "Cohort"),
        ("MODIFIED", "a"),
    ]


def test_the_time_of_an_event_is_the_newest_stamp_seen() -> None:
    lines = [
        line("cohorts", "Cohort", name="a"),
        line("cohorts", "Cohort", name="b", creationTimestamp="2026-01-01T00:00:05Z"),
        line("cohorts", "Cohort", name="c", creationTimestamp="2026-01-01T00:00:01Z"),
        line("cohorts", "Cohort", name="d", managedFields=[{"time": "2026-01-01T00:00:07Z"}]),
    ]
    events = [json.loads(value) for value in read_events(io.BytesIO("\n".join(lines).encode()))]
    assert [event.get("at") for event in events] == [
        None,
        None,
        "2026-01-01T00:00:05.000Z",
        "2026-01-01T00:00:05.000Z",
        "2026-01-01T00:00:07.000Z",
    ]


def test_a_broken_line_is_left_to_the_fold() -> None:
    lines = [line("cohorts", "Cohort", name="a"), '{"watch": {"resou', listed("cohorts", "Cohort")]
    values = list(read_events(io.BytesIO("\n".join(lines).encode())))
    assert values[2] == b'{"watch": {"resou'
    assert json.loads(values[3])["type"] == "SYNC_END"
