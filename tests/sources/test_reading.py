"""Whatever form a source has, its events are the same."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from topics.sources import SourceEvent, numbered_events, open_source, read_events, unpacked

FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {
        "name": "a100",
        "uid": "11111111-1111-1111-1111-111111111111",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
}


def named(name: str, **metadata: Any) -> dict[str, Any]:
    return {**FLAVOR, "metadata": {**FLAVOR["metadata"], "name": name, "uid": f"uid-{name}", **metadata}}


def events_of(text: str | bytes, cluster: str | None = None) -> list[Any]:
    raw = text.encode() if isinstance(text, str) else text
    return [json.loads(event) for event in read_events(io.BytesIO(raw), cluster)]


def test_lines_of_events_pass_through_byte_for_byte() -> None:
    lines = b'{"type":"TICK",  "at":"2026-01-01T00:00:00Z"}\n{"cluster":"b","type":"TICK"}\n'
    assert list(read_events(io.BytesIO(lines))) == lines.splitlines()


def test_the_offset_of_an_event_is_its_zero_based_line_and_empty_lines_count() -> None:
    source = io.BytesIO(b'\n{"type":"TICK"}\n\n  \n{"type":"TICK"}')
    assert list(numbered_events(source)) == [SourceEvent(1, b'{"type":"TICK"}'), SourceEvent(4, b'{"type":"TICK"}')]


def test_a_broken_line_among_events_is_left_to_the_fold() -> None:
    source = io.BytesIO(b'{"type":"TICK"}\n{"type":"TI\nnot json\n\xff\xfe\n{"type":"TICK"}\n')
    assert [event.value for event in numbered_events(source)] == [
        b'{"type":"TICK"}',
        b'{"type":"TI',
        b"not json",
        b"\xff\xfe",
        b'{"type":"TICK"}',
    ]


def test_a_broken_first_line_does_not_hide_the_events_after_it() -> None:
    source = io.BytesIO(b'{"type":"TI\n{"type":"TICK"}\n')
    assert [event.value for event in numbered_events(source)] == [b'{"type":"TI', b'{"type":"TICK"}']


def test_an_event_without_a_cluster_gets_the_one_asked_for() -> None:
    text = '{"type":"TICK"}\n{"cluster":"b","type":"TICK"}\n{}\n'
    assert events_of(text, "a") == [
        {"cluster": "a", "type": "TICK"},
        {"cluster": "b", "type": "TICK"},
        {"cluster": "a"},
    ]


def test_a_line_beyond_the_limit_is_cut_and_the_next_one_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topics.sources.reader.LINE_LIMIT", 20)
    source = io.BytesIO(b'{"type":"TICK"}\n{"type":"' + b"X" * 100 + b'"}\n{"type":"TICK"}\n')
    assert list(numbered_events(source)) == [
        SourceEvent(0, b'{"type":"TICK"}'),
        SourceEvent(1, b'{"type":"' + b"X" * 13),
        SourceEvent(2, b'{"type":"TICK"}'),
    ]


def test_gzip_is_known_by_its_first_bytes_not_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(gzip.compress(b'{"type":"TICK"}\n'))
    assert list(read_events(path)) == [b'{"type":"TICK"}']
    with open_source(path) as source:
        assert source.read() == b'{"type":"TICK"}\n'


@pytest.mark.parametrize("text", ['{"type":"TICK"}', json.dumps(FLAVOR, indent=1), "kind: Cohort\nmetadata: {name: a}"])
def test_a_byte_order_mark_is_not_part_of_the_first_event(text: str) -> None:
    assert events_of(b"\xef\xbb\xbf" + text.encode()) == events_of(text)


def test_an_empty_source_has_no_events() -> None:
    assert events_of("") == []
    assert events_of("\n\n") == []
    assert list(read_events(unpacked(io.BytesIO(b"")))) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
def test_a_list_from_kubectl_is_one_batch_of_the_moment_of_its_newest_stamp(indent: int | None) -> None:
    later = named("b", creationTimestamp="2026-01-01T00:00:09Z")
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": [FLAVOR, later]}, indent=indent)
    at = "2026-01-01T00:00:09.000Z"
    assert events_of(document, "eu-1") == [
        {
            "cluster": "eu-1",
            "type": "BATCH",
            "events": [
                {"cluster": "eu-1", "at": at, "type": "ADDED", "object": FLAVOR},
                {"cluster": "eu-1", "at": at, "type": "ADDED", "object": later},
            ],
        }
    ]


def test_a_typed_list_gives_its_items_their_kind() -> None:
    bare = {"metadata": FLAVOR["metadata"]}
    document = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavorList", "items": [bare]}
    assert events_of(json.dumps(document)) == [{"at": "2026-01-01T00:00:00.000Z", "type": "ADDED", "object": FLAVOR}]


def test_a_list_beyond_a_batch_is_held_together_by_a_pair_that_names_no_kinds() -> None:
    items = [named(f"f{number}") for number in range(2_500)]
    events = events_of(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "eu-1")
    assert events[0] == {"cluster": "eu-1", "type": "SYNC_BEGIN", "kinds": []}
    assert events[-1] == {"cluster": "eu-1", "type": "SYNC_END", "kinds": []}
    batches = events[1:-1]
    assert [batch["type"] for batch in batches] == ["BATCH"] * len(batches)
    assert all(len(batch["events"]) <= 1_000 for batch in batches)
    assert all(len(json.dumps(batch, separators=(",", ":"))) <= 530_000 for batch in batches)
    assert [event["object"] for batch in batches for event in batch["events"]] == items


def test_a_stream_of_written_out_events_is_one_event_a_document() -> None:
    documents = [{"type": "ADDED", "object": FLAVOR}, {"type": "DELETED", "object": FLAVOR}]
    text = "\n".join(json.dumps(document, indent=4) for document in documents)
    assert events_of(text) == documents
    assert events_of(json.dumps(documents, indent=4)) == documents


def test_documents_laid_out_without_indent_are_parted_all_the_same() -> None:
    text = "".join(json.dumps(named(name), indent=0) + "\n" for name in "abc")
    assert [event["object"]["metadata"]["name"] for event in events_of(text)] == ["a", "b", "c"]


def test_lines_of_objects_are_additions() -> None:
    text = json.dumps(FLAVOR) + "\n" + json.dumps(named("b")) + "\n"
    at = "2026-01-01T00:00:00.000Z"
    assert events_of(text) == [
        {"at": at, "type": "ADDED", "object": FLAVOR},
        {"at": at, "type": "ADDED", "object": named("b")},
    ]


def test_a_cut_off_document_comes_as_it_was_written() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [FLAVOR]}, indent=1)[:-20].encode()
    assert list(read_events(io.BytesIO(text))) == [text.strip()]


def test_a_json_document_of_something_else_comes_as_it_was_written() -> None:
    text = json.dumps({"about": "cats", "items": [1]}, indent=1).encode()
    assert list(read_events(io.BytesIO(text))) == [text]
