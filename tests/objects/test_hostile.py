"""Whatever bytes arrive, decoding gives an event or names what is wrong, and nothing else happens."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.events import Event, InvalidRecord, Rejection, decode_event
from ledger.objects import Configuration, InvalidObject, Workload, decode_object
from ledger.requests import admissibility_problems, scheduling_shape, total_requests, usage_of_admission
from tests.objects.samples import recorded_lines

LINES = recorded_lines("events.jsonl")
DEFAULT = Configuration()

lines = st.sampled_from(LINES)
texts = st.text(max_size=12) | st.sampled_from(
    ["-1", "1e999999999", "NaN", "\x00", "\ud800", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "main", "cpu"]
)
numbers = st.integers() | st.floats() | st.sampled_from([2**31, -(2**31) - 1, 2**63, 2**64, 10**400])
damages = st.tuples(st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 6))
"""Where, what is put there, how much is taken away."""

values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of every object and list, as (holder, key)."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Any = holder if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def outcome(value: bytes) -> Event | tuple[str, str]:
    """The event, or the place and reason of the refusal."""
    try:
        return decode_event(value)
    except InvalidRecord as error:
        return error.path, error.reason


def decode_and_use(value: bytes) -> Event | None:
    event = outcome(value)
    if isinstance(event, tuple):
        assert event[1]
        return None
    if isinstance(event.object, Workload):
        requests = total_requests(event.object, configuration=DEFAULT)
        assert scheduling_shape(event.object, requests)
        usage_of_admission(event.object)
        admissibility_problems(event.object)
    return event


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(lines, st.data())
def test_a_real_event_with_a_strange_value_somewhere(line: bytes, data: st.DataObject) -> None:
    event = json.loads(line)
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places(event)))
        change = data.draw(st.sampled_from(["replace", "remove", "wrap"]))
        if change == "replace":
            holder[key] = data.draw(values)
        elif change == "wrap":
            holder[key] = [holder[key]]
        else:
            del holder[key]
        if not places(event):
            break
    decode_and_use(json.dumps(event).encode())


@settings(max_examples=400)
@given(
    lines, st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 6)), min_size=1, max_size=4)
)
def test_a_real_event_with_damaged_bytes(line: bytes, places: list[tuple[int, bytes, int]]) -> None:
    damaged = line
    for place, new, removed in places:
        place %= len(damaged) + 1
        damaged = damaged[:place] + new + damaged[place + removed :]
    decode_and_use(damaged)


@given(lines, st.integers(0, 10**6))
def test_a_truncated_event_is_refused(line: bytes, length: int) -> None:
    assert decode_and_use(line[: length % len(line)]) is None


@given(st.binary(max_size=200))
def test_any_bytes(value: bytes) -> None:
    decode_and_use(value)
    with contextlib.suppress(InvalidObject):
        decode_object(value)


@given(st.lists(lines, max_size=5), st.binary(max_size=30))
def test_a_batch_reads_its_members_as_they_would_be_read_alone(members: list[bytes], damage: bytes) -> None:
    shifted = [damage_last(member, damage) for member in members]
    batch = b'{"type":"BATCH","events":[' + b",".join(shifted) + b"]}"
    event = decode_and_use(batch)
    assert event is not None
    for member, alone in zip(event.members, shifted, strict=True):
        found = (member.path, member.reason) if isinstance(member, Rejection) else member
        assert found == outcome(alone)


def damage_last(line: bytes, damage: bytes) -> bytes:
    """The event in the default cluster, with the bytes as the text of its `at`."""
    event = json.loads(line)
    event.pop("cluster", None)
    if damage:
        event["at"] = damage.decode("latin-1")
    return json.dumps(event).encode()


@given(lines)
def test_decoding_is_a_function(line: bytes) -> None:
    assert decode_event(line) == decode_event(line)
    spaced = json.dumps(json.loads(line), indent=1).encode()
    assert decode_event(spaced) == decode_event(line)
