"""Records of the events topic (design 4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.events import GREATEST_SIZE, Event, EventType, InvalidRecord, Rejection, decode_event
from ledger.objects import ClusterQueue, UnknownKind, Workload
from ledger.objects.nesting import GREATEST_DEPTH, is_too_deep
from ledger.timestamps import parse_timestamp
from tests.objects.samples import Object, cluster_queue, container, decode, pod_set, workload

AT = "2026-01-01T00:00:05.120Z"
CPU = "spec.podSets[0].template.spec.containers[0].resources.requests[cpu]"


def encoded(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def refusal(value: bytes, **more: Any) -> tuple[str, str]:
    with pytest.raises(InvalidRecord) as caught:
        decode_event(value, **more)
    return caught.value.path, caught.value.reason


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_carries_its_object(change: str) -> None:
    event = decode_event(encoded(cluster="eu-1", at=AT, type=change, object=cluster_queue()))
    assert event == Event("eu-1", parse_timestamp(AT), EventType(change), decode(cluster_queue()))
    assert isinstance(event.object, ClusterQueue)


@pytest.mark.parametrize("change", ["TICK", "SYNC_BEGIN", "SYNC_END", "BOOKMARK", "ERROR"])
def test_other_events_need_no_object_and_ignore_one(change: str) -> None:
    expected = Event("default", None, EventType(change))
    assert decode_event(encoded(type=change)) == expected
    assert decode_event(encoded(type=change, object={"kind": "Status", "apiVersion": "v1", "code": 410})) == expected
    assert decode_event(encoded(type=change, object=None)) == expected


def test_a_list_may_say_which_kinds_it_is_about() -> None:
    assert decode_event(encoded(type="SYNC_BEGIN")).kinds is None
    assert decode_event(encoded(type="SYNC_BEGIN", kinds=[])).kinds == ()
    assert decode_event(encoded(type="SYNC_END", kinds=["Workload"])).kinds == ("Workload",)


@pytest.mark.parametrize(
    ("cluster", "key", "expected"),
    [
        ("eu-1", b"us-1", "eu-1"),
        (None, b"us-1", "us-1"),
        ("", b"us-1", "us-1"),
        (None, b"", "default"),
        (None, None, "default"),
        (None, "münchen".encode(), "münchen"),
    ],
)
def test_the_cluster_is_named_by_the_record_else_by_its_key(
    cluster: str | None, key: bytes | None, expected: str
) -> None:
    assert decode_event(encoded(cluster=cluster, type="TICK"), key=key).cluster == expected


def test_a_kind_without_use_is_named() -> None:
    event = decode_event(encoded(type="ADDED", object={"apiVersion": "v1", "kind": "Pod", "spec": [1]}))
    assert event.object == UnknownKind("v1", "Pod")


def test_the_envelope_of_a_recorded_watch_is_ignored() -> None:
    watch = {"cluster": "x", "resource": "workloads.kueue.x-k8s.io", "session": 1}
    event = decode_event(encoded(watch=watch, type="ADDED", object=workload()))
    assert isinstance(event.object, Workload)
    assert event.cluster == "default"


# --- batches ---------------------------------------------------------------------------------------------------


def test_a_batch_keeps_the_order_and_the_times_of_its_members() -> None:
    members = [
        {"type": "ADDED", "object": cluster_queue()},
        {"type": "TICK", "at": AT},
        {"type": "ADDED", "object": workload(), "cluster": "eu-1"},
    ]
    event = decode_event(encoded(cluster="eu-1", type="BATCH", events=members))
    assert event.type is EventType.BATCH
    assert event.members == (
        Event("eu-1", None, EventType.ADDED, decode(cluster_queue())),
        Event("eu-1", parse_timestamp(AT), EventType.TICK),
        Event("eu-1", None, EventType.ADDED, decode(workload())),
    )


def test_a_bad_member_is_rejected_in_its_place_and_the_others_stand() -> None:
    bad = workload(pod_set(container({"cpu": "x"})))
    members = [
        {"type": "ADDED", "object": bad},
        {"type": "TICK"},
        {"type": "BATCH", "events": []},
        {"type": "ADDED"},
        {"type": "TICK", "cluster": "us-1"},
        {"type": "TICK", "at": "now"},
        5,
        {"type": "ADDED", "object": {"kind": "Workload"}},
    ]
    event = decode_event(encoded(cluster="eu-1", type="BATCH", events=members))
    assert event.members == (
        Rejection(
            0, "object.spec.podSets[0].template.spec.containers[0].resources.requests[cpu]", "'x' is not a quantity"
        ),
        Event("eu-1", None, EventType.TICK),
        Rejection(2, "type", "a batch holds no batches"),
        Rejection(3, "object", "is required with type ADDED"),
        Rejection(4, "cluster", "is not the batch's cluster 'eu-1'"),
        Rejection(5, "at", "'now' is not an RFC 3339 time"),
        Rejection(6, "", "Expected `object`, got `int`"),
        Rejection(7, "object.apiVersion", "is required"),
    )


def test_a_batch_without_events_is_refused_and_an_empty_one_is_not() -> None:
    assert refusal(encoded(type="BATCH")) == ("events", "is required with type BATCH")
    assert decode_event(encoded(type="BATCH", events=[])).members == ()


# --- bad records -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (b"", "", "Input data was truncated"),
        (b'{"type":"ADDED","object":{"kind":"Work', "", "Input data was truncated"),
        (b"[]", "", "Expected `object`, got `array`"),
        (b"{}", "type", "is required"),
        (b'{"type":"PATCHED"}', "type", "Invalid enum value 'PATCHED'"),
        (b'{"type":5}', "type", "Expected `str`, got `int`"),
        (b'{"type":"TICK","cluster":5}', "cluster", "Expected `str | null`, got `int`"),
        (b'{"type":"TICK","at":"yesterday"}', "at", "'yesterday' is not an RFC 3339 time"),
        (b'{"type":"TICK","at":1767225605}', "at", "Expected `str | null`, got `int`"),
        (b'{"type":"ADDED"}', "object", "is required with type ADDED"),
        (b'{"type":"ADDED","object":[]}', "object", "Expected `object | null`, got `array`"),
        (b'{"type":"ADDED","object":{}}', "object.kind", "is required"),
        (b'{"type":"ADDED","object":{"kind":"Workload"}}', "object.apiVersion", "is required"),
        (b'{"type":"TICK","x":NaN}', "", "JSON is malformed: invalid character"),
        (b'{"type":"TICK"} {"type":"TICK"}', "", "JSON is malformed: trailing characters"),
        (b'\xff\xfe{"type":"TICK"}', "", "JSON is malformed: invalid character"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(value: bytes, path: str, reason: str) -> None:
    found = refusal(value)
    assert found[0] == path
    assert found[1].startswith(reason)


def test_a_key_that_is_no_text_is_refused() -> None:
    assert refusal(encoded(type="TICK"), key=b"\xff") == ("key", "is not UTF-8")


def test_a_name_with_half_a_character_is_refused() -> None:
    item = workload()
    item["metadata"]["uid"] = "\ud800"
    refusal(encoded(type="ADDED", object=item))


def test_a_record_of_ten_megabytes_is_read_and_a_larger_one_is_not() -> None:
    item = workload()
    item["metadata"]["annotations"] = {"note": "x" * 10 * 2**20}
    assert isinstance(decode_event(encoded(type="ADDED", object=item)).object, Workload)
    item["metadata"]["annotations"] = {"note": "x" * GREATEST_SIZE}
    path, reason = refusal(encoded(type="ADDED", object=item))
    assert path == ""
    assert f"more than {GREATEST_SIZE}" in reason


def nested(levels: int) -> bytes:
    """A tick that nests this deep."""
    return b'{"type":"TICK","x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_every_machine_draws_the_same_line_for_nesting() -> None:
    assert decode_event(nested(GREATEST_DEPTH)).type is EventType.TICK
    too_deep = ("", f"the record is nested more than {GREATEST_DEPTH} levels deep")
    assert refusal(nested(GREATEST_DEPTH + 1)) == too_deep
    assert refusal(nested(1_000_000)) == too_deep
    assert refusal(b'{"a":' * 1_000_000) == too_deep


def test_brackets_inside_texts_do_not_nest() -> None:
    assert not is_too_deep(json.dumps(["[{" * 1000, '"[' * 1000, "\\" * 3 + '"[' * 500]).encode())
    assert not is_too_deep(json.dumps([[[]] * 1000] * 10).encode())
    deep: Object = {}
    for _ in range(GREATEST_DEPTH):
        deep = {'"]}': "]]]", "k": deep}
    assert is_too_deep(json.dumps(deep).encode())
    assert not is_too_deep(json.dumps(deep["k"]).encode())
