"""The schemas say what the code accepts and writes, and what is written down is what is generated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ledger.decisions import DECISION_TYPES
from projections.replay import replay
from projections.schemas import ASYNCAPI, behind, decisions_schema, documents, events_schema, main
from tests import builders as build
from topics.sources import numbered_events, open_source

EXAMPLE = Path(__file__).parents[2] / "examples" / "first-session.jsonl"


@pytest.fixture(scope="module")
def events() -> Draft202012Validator:
    schema = events_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def decisions() -> Draft202012Validator:
    schema = decisions_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_what_is_written_down_is_what_is_generated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert behind() == []
    assert main(["--check"]) == 0
    assert behind(tmp_path) == list(documents())


def test_the_list_of_decision_types_is_closed() -> None:
    assert [kind.__name__ for kind in DECISION_TYPES] == [
        "QuotaReserved",
        "Recorded",
        "Admitted",
        "Preempted",
        "Evicted",
        "Released",
        "Requeued",
        "Dequeued",
        "Pending",
        "Inadmissible",
        "ShareChanged",
        "QuotaChanged",
        "QueueChanged",
        "Settled",
    ]
    assert len(decisions_schema()["oneOf"]) == len(DECISION_TYPES)


def test_the_example_session_and_its_decisions_follow_the_schemas(
    events: Draft202012Validator, decisions: Draft202012Validator
) -> None:
    written: list[bytes] = []
    with open_source(EXAMPLE) as source:
        records = list(numbered_events(source))
    replay(records, EXAMPLE.name, written.append, lambda event, reasons: pytest.fail(str(reasons)))
    assert written
    for record in records:
        events.validate(json.loads(record.value))
    for line in written:
        decisions.validate(json.loads(line))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "TICK", "at": "2026-01-01T00:00:00Z"},
        {"type": "SYNC_BEGIN", "kinds": ["Workload"]},
        {"type": "SYNC_END", "kinds": []},
        {"type": "BOOKMARK", "object": {"kind": "Workload", "metadata": {"resourceVersion": "1"}}},
        {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}}},
        {"type": "DELETED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}},
        build.batch(build.event("ADDED", build.workload("w", "q", requests={"cpu": 1}))),
    ],
)
def test_events_that_are_accepted(events: Draft202012Validator, event: dict[str, Any]) -> None:
    events.validate(event)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "MADE"},
        {"type": "ADDED"},
        {"type": "ADDED", "object": {"kind": "Workload"}},
        {"type": "BATCH"},
        {"type": "BATCH", "events": [{"type": "BATCH", "events": []}]},
        {"type": "TICK", "cluster": 3},
        {
            "type": "ADDED",
            "object": {**build.workload("w", "q"), "spec": {"podSets": [{"name": "main", "count": "many"}]}},
        },
    ],
)
def test_events_that_are_refused(events: Draft202012Validator, event: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        events.validate(event)


def test_the_asyncapi_document_refers_to_both_schemas() -> None:
    document = json.loads(documents()[ASYNCAPI])
    assert document["asyncapi"] == "3.0.0"
    addresses = {channel["address"] for channel in document["channels"].values()}
    assert addresses == {"quota.events", "quota.decisions"}
    for message in document["components"]["messages"].values():
        assert message["payload"]["schema"]["$ref"].removeprefix("./") in documents()
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]
