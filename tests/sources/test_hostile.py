"""No bytes make a source fail: what is no event comes out as it went in, for the fold to reject."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics.sources import read_events

DEEP = 100_000
SIGNS = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b"- ", b"? ", b"\xff", b"\x00", b"  ", b"&a ", b"*a")
FIELDS = (
    b'"type"',
    b'"watch"',
    b'"object"',
    b'"kind"',
    b'"items"',
    b'"metadata"',
    b'"ADDED"',
    b'"List"',
    b"null",
    b"3",
)
LINES = (
    b"kind: Cohort\n",
    b"metadata: {name: a}\n",
    b"items:\n",
    b"---\n",
    b"...\n",
    b"%YAML 1.1\n",
    b"!!python/name:a ",
)
WORDS = st.sampled_from([*SIGNS, *FIELDS, *LINES])


@given(st.lists(WORDS, max_size=40).map(b"".join) | st.binary(max_size=200))
def test_any_bytes_can_be_read(text: bytes) -> None:
    for event in read_events(io.BytesIO(text), "eu-1"):
        assert event.strip()


@pytest.mark.parametrize(
    "text",
    [
        b"a: " + b"[" * DEEP,
        b"a: " + b"{a: " * DEEP,
        b"- " * DEEP,
        b"? " * DEEP,
        b'{\n"kind": "List", "items": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"kind": "List", "items": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"watch": {"a":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b"x: " + b"9" * DEEP,
    ],
)
def test_deep_nesting_is_left_to_the_fold(text: bytes) -> None:
    assert len(list(read_events(io.BytesIO(text)))) == 1


def test_a_field_of_the_wrong_type_is_for_the_fold_to_name() -> None:
    assert list(read_events(io.BytesIO(b"kind: Cohort\nmetadata: {name: 5}\n"))) == [
        b'{"type":"ADDED","object":{"kind":"Cohort","metadata":{"name":5}}}'
    ]
