"""Valid records in an order that no cluster would send: the fold takes them all, and its tables stay what they say."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.amounts import add, subtract
from ledger.fold import Fold
from ledger.ledger import Ledger
from tests import builders as build
from tests.properties.random_worlds import RandomWorld

Record = dict[str, Any]


def scrambled(seed: int) -> list[Record]:
    """The log of a random world, disordered and then sent twice: objects go and come back, change early and late, lose
    their uids and their versions, time jumps both ways, and lists begin and end anywhere."""
    random = Random(seed)
    records = [json.loads(record) for record in RandomWorld(seed).run(20).world.records]
    places = [place + random.uniform(0, random.choice((1, 10, 40))) for place in range(len(records))]
    result = []
    for _, record in sorted(zip(places, records, strict=True), key=lambda pair: pair[0]):
        for part in [record, *record.get("events", ())]:
            if "object" in part:
                part["type"] = random.choices(("ADDED", "MODIFIED", "DELETED"), (6, 6, 1))[0]
                _disturb(part["object"].get("metadata", {}), random)
        record["at"] = build.moment(random.choice((0, 60, 200, 4000, 10**6)) + random.random())
        result.append(record)
        if random.random() < 0.1:
            kinds = random.choice(({}, {"kinds": []}, {"kinds": ["Workload"]}, {"kinds": ["ClusterQueue", "Cohort"]}))
            result.append({**build.event("SYNC_BEGIN"), **kinds})
        if random.random() < 0.4:
            result += [{**event, "type": "SYNC_END"} for event in result if event["type"] == "SYNC_BEGIN"][-1:]
    return [*result, *result]


def _disturb(metadata: Record, random: Random) -> None:
    if random.random() < 0.3:
        metadata.pop("resourceVersion", None)
    if random.random() < 0.2:
        metadata["uid"] = random.choice(("", "taken", "another"))
    if random.random() < 0.05:
        metadata["deletionTimestamp"] = build.moment(0)


def check_tables(ledger: Ledger) -> None:
    """Usage is the sum of the charges, a cohort's is that of its children, and nobody waits while holding quota."""
    state = ledger.state
    for name, queue in state.forest.queues.items():
        charged: dict[int, int] = {}
        for holder in state.reserved_in.get(name, {}).values():
            assert holder.reservation is not None
            assert holder.waiting_in is None
            for fr, value in holder.reservation.usage.items():
                charged[fr] = add(charged.get(fr, 0), value)
        assert {fr: used for fr, used in queue.usage.items() if used} == {fr: v for fr, v in charged.items() if v}
        assert all(state.workloads.get(waiting.key) is waiting for waiting in queue.pending)
    for cohort in state.forest.cohorts.values():
        if cohort.tree.cyclic:
            continue
        above: dict[int, int] = {}
        for child in (*cohort.child_cohorts.values(), *cohort.child_queues.values()):
            for fr, used in child.usage.items():
                above[fr] = add(above.get(fr, 0), max(0, subtract(used, child.local.get(fr, 0))))
        assert {fr: used for fr, used in cohort.usage.items() if used} == {fr: v for fr, v in above.items() if v}


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_any_order_of_valid_records_is_folded_and_the_tables_stay_true(seed: int) -> None:
    fold, again = Fold(), Fold()
    decided, repeated = [], []
    for offset, record in enumerate(scrambled(seed)):
        value = build.encode(record)
        decided += [decision.value for decision in fold.apply(value, offset=offset, key=b"test").decisions]
        repeated += [decision.value for decision in again.apply(value, offset=offset, key=b"test").decisions]
        for ledger in fold.clusters.values():
            check_tables(ledger)
    assert decided == repeated
