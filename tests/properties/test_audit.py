"""After every event of random worlds the second model agrees with the ledger on usage, room and shares."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.tree import available, potential
from tests.model.quota import QuotaModel, plus
from tests.properties.random_worlds import RandomWorld


class Auditor:
    """Follows a world with the second model and compares after every record."""

    def __init__(self) -> None:
        self.model = QuotaModel()
        self.records = 0
        self.decisions = 0
        self.compared = 0

    def __call__(self, played: RandomWorld) -> None:
        world = played.world
        for record in world.records[self.records :]:
            self.model.observe(json.loads(record))
        for decision in world.decisions[self.decisions :]:
            self.model.decide(decision)
        self.records, self.decisions = len(world.records), len(world.decisions)
        assert world.usage() == self.model.usage()
        self.compare_shares(played)
        self.compare_room(played)

    def compare_shares(self, played: RandomWorld) -> None:
        """Every ClusterQueue outside circles; equal to the last bit."""
        shares = played.world.ledger.shares()
        expected = self.model.shares()
        assert {queue: shares[queue].weighted for queue in expected} == expected
        self.compared += sum(1 for share in expected.values() if 0 < share < math.inf)

    def compare_room(self, played: RandomWorld) -> None:
        state = played.world.ledger.state
        for name in self.model.queues:
            node = ("ClusterQueue", name)
            if self.model.leads_into_a_circle(node):
                continue
            for flavor, resource in sorted(self.model.declared(node)):
                number = state.numbers.number(flavor, resource)
                queue = state.forest.queues[name]
                got = available(queue, number), potential(queue, number)
                wanted = self.model.available(name, (flavor, resource)), self.model.potential(node, (flavor, resource))
                assert got == wanted, (name, flavor, resource)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_usage_room_and_shares_agree_with_the_second_model_after_every_event(seed: int) -> None:
    RandomWorld(seed, audit=Auditor()).run(25)


def test_the_random_worlds_are_worth_auditing() -> None:
    """They borrow, preempt, release, close circles and overdraw."""
    auditor = Auditor()
    seen: dict[str, int] = {}
    circles = 0
    for seed in range(30):
        auditor = Auditor()
        played = RandomWorld(seed, audit=auditor).run(25)
        for decision in played.world.decisions:
            seen[decision["type"]] = seen.get(decision["type"], 0) + 1
        seen["shares compared"] = seen.get("shares compared", 0) + auditor.compared
        circles += any(auditor.model.leads_into_a_circle(node) for node in auditor.model.all_nodes())
    decided = ("QuotaReserved", "Preempted", "Released", "Pending", "QuotaChanged", "ShareChanged")
    for kind in (*decided, "shares compared"):
        assert seen.get(kind, 0) >= 20, seen
    assert circles >= 1


@pytest.mark.parametrize("seed", range(20))
def test_the_quota_table_tells_what_the_second_model_computes(seed: int) -> None:
    """Rows drained at any time, laid over each other, give nominal, reserved and borrowed of every queue."""
    from tests.model.quota import amount

    table: dict[tuple[str, str, str], object] = {}
    auditor = Auditor()

    def drain(played: RandomWorld) -> None:
        auditor(played)
        if played.plays % 3 == 0:
            lay_over(played)

    def lay_over(played: RandomWorld) -> None:
        for key, row in played.world.fold.drain_rows().items():
            place = (key.cluster_queue, key.flavor, key.resource)
            if row is None:
                table.pop(place, None)
            else:
                table[place] = row

    played = RandomWorld(seed, audit=drain).run(25)
    lay_over(played)
    model = auditor.model
    expected = {}
    for name in model.queues:
        node = ("ClusterQueue", name)
        for flavor, resource in model.declared(node):
            pair = (flavor, resource)
            expected[name, flavor, resource] = (
                model.nominal(node, pair),
                model.used(node, pair),
                model.borrowed(name, pair),
            )
    got = {
        place: tuple(amount(text, place[2]) for text in (row.nominal, row.reserved, row.borrowed))
        for place, row in table.items()
    }
    assert {place: got.get(place) for place in expected} == expected
    undeclared = {place: amounts for place, amounts in got.items() if place not in expected}
    assert all(amounts[0] == 0 and amounts[1] > 0 for amounts in undeclared.values()), undeclared


def test_the_model_saturates_as_the_rules_say() -> None:
    assert plus(2**63 - 1, -5) == 2**63 - 1
