"""Records that cannot be decoded or break a rule go to the dead letters; the fold goes on as if they were not there."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.fold import Fold
from tests import builders as build
from tests.properties.random_worlds import RandomWorld, without_place

GPU = "nvidia.com/gpu"


def bad_records() -> dict[str, bytes]:
    def record(target: object, change: object = "ADDED", **more: object) -> bytes:
        return json.dumps({"cluster": "test", "type": change, "object": target, **more}).encode()

    def queue(nominal: object, **limits: object) -> build.Object:
        target = build.cluster_queue("q0", build.group(f1=[build.quota(GPU, 1)]))
        target["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].update(nominalQuota=nominal, **limits)
        return target

    def workload(**spec: object) -> build.Object:
        target = build.workload("bad", "q0", requests={GPU: 1})
        target["spec"].update(spec)
        return target

    whole = record(workload())
    return {
        "empty": b"",
        "no json": b"\x00\xff\xfe",
        "truncated": whole[: len(whole) // 2],
        "a list": b"[]",
        "a number": b"17",
        "trailing garbage": whole + b"}",
        "not a number": whole.replace(b'"priority": 0', b'"priority": NaN'),
        "a type that does not exist": record(workload(), change="REPLACED"),
        "a type that is a number": record(workload(), change=1),
        "an object that is a text": record("workload"),
        "a time that is none": record(workload(), at="yesterday"),
        "deeply nested": b'{"type":"ADDED","object":' * 20000,
        "negative quota": record(queue("-1")),
        "a quota that is a word": record(queue("many")),
        "a quota that is a list": record(queue([1])),
        "negative borrowing limit": record(queue("1", borrowingLimit="-1")),
        "a borrowing limit without cohort": record(queue("1", borrowingLimit="1")),
        "a lending limit above nominal": record({**queue("1", lendingLimit="2")}),
        "a negative request": record(build.workload("bad", "q0", requests={GPU: -1})),
        "a request that is a word": record(build.workload("bad", "q0", requests={GPU: "some"})),
        "a priority out of range": record(workload(priority=2**40)),
        "a priority that is a text": record(workload(priority="high")),
        "no pod sets": record(workload(podSets=[])),
        "pod sets that are a map": record(workload(podSets={})),
        "a minimum above the count": record(workload(podSets=[build.pod_set(count=1, min_count=2)])),
        "a workload without name": record({**workload(), "metadata": {"namespace": "team"}}),
        "a negative weight": record({**queue("1"), "spec": {**queue("1")["spec"], "fairSharing": {"weight": "-1"}}}),
    }


BAD = bad_records()


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_record_is_rejected_with_its_bytes_and_a_reason(kind: str) -> None:
    outcome = Fold().apply(BAD[kind], offset=7, key=b"test")
    assert outcome.decisions == []
    (rejection,) = outcome.rejections
    assert (rejection.offset, rejection.index, rejection.value) == (7, 0, BAD[kind])
    assert rejection.reason


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_the_fold_goes_on_as_if_bad_records_were_not_there(seed: int) -> None:
    records = RandomWorld(seed).run(15).world.records
    random = Random(seed)
    plain, disturbed = Fold(), Fold()
    for offset, record in enumerate(records):
        for bad in random.sample(list(BAD.values()), k=random.choice((0, 1, 3))):
            assert disturbed.apply(bad, offset=offset, key=b"test").decisions == []
        expected = plain.apply(record, offset=offset, key=b"test")
        assert disturbed.apply(record, offset=offset, key=b"test") == expected or [
            d.value for d in disturbed.apply(record, offset=offset, key=b"test").decisions
        ] == [d.value for d in expected.decisions]
    assert disturbed.drain_rows() == plain.drain_rows()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_no_damage_to_a_record_stops_the_fold(seed: int) -> None:
    """Bytes changed, lost or inserted: the record is rejected or taken for what it now says, never more."""
    random = Random(seed)
    fold = Fold()
    for offset, record in enumerate(damaged_log(random)):
        outcome = fold.apply(record, offset=offset, key=b"test")
        for rejection in outcome.rejections:
            assert rejection.value == record
            assert rejection.reason
    healthy = build.encode(build.event("TICK", at=10**6))
    assert fold.apply(healthy, offset=10**6, key=b"test").rejections == []


LOGS = [RandomWorld(seed).run(12).world.records for seed in range(6)]


def damaged_log(random: Random) -> list[bytes]:
    """A log in which every third record was damaged."""
    return [damage(random, record) if random.random() < 0.3 else record for record in random.choice(LOGS)]


def damage(random: Random, record: bytes) -> bytes:
    place = random.randrange(len(record))
    kind = random.randrange(4)
    if kind == 0:
        return record[:place]
    if kind == 1:
        return record[:place] + bytes([random.randrange(256)]) + record[place + 1 :]
    if kind == 2:
        return record[:place] + random.choice([b"null", b"-", b"1e999999999", b"[]", b"{}", b'""']) + record[place:]
    return with_a_value_changed(random, record)


def with_a_value_changed(random: Random, record: bytes) -> bytes:
    """One value somewhere inside replaced by another of any type."""
    tree = json.loads(record)
    at = tree
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return json.dumps(tree).encode()
        key = random.choice(keys)
        if isinstance(at[key], (dict, list)) and random.random() < 0.8:
            at = at[key]
            continue
        at[key] = random.choice([None, True, -1, 2**70, 1.5, "", "x" * 300, "1e999999999", [], {}, [{}]])
        return json.dumps(tree).encode()


def test_decisions_of_damaged_logs_are_the_same_twice() -> None:
    records = damaged_log(Random(5))
    first, second = (
        [
            without_place(json.loads(decision.value))
            for offset, record in enumerate(records)
            for decision in fold.apply(record, offset=offset, key=b"test").decisions
        ]
        for fold in (Fold(), Fold())
    )
    assert first == second
