"""Maximum execution time, priority classes, and what time costs (T89, admission 7.8, 1.6, design 5)."""

from __future__ import annotations

import sys
from types import FrameType

from ledger.fold import Fold
from tests import builders as build
from tests.builders import Object, encode, event
from tests.life import GPU, Life, steps


def test_t89_earlier_admissions_count_into_the_execution_time() -> None:
    life = Life("a(4)")
    life.at(1000).job("w", 4, maximumExecutionTimeSeconds=100)
    life.at(1001).pods("w", True)
    life.at(1030).stop("ClusterQueue", "a", "HoldAndDrain")
    life.at(1040).give_back("w")
    life.at(1200).stop("ClusterQueue", "a", "None")
    assert steps(life.decisions, "w")[-3:] == ["Requeued w ClusterQueueRestarted", "Reserved w", "Admitted w"]
    assert steps(life.tick(1259)) == []
    assert steps(life.tick(1260)) == ["Evicted w DeactivatedDueToMaximumExecutionTimeExceeded"]


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": build.KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": build.metadata(name, uid=f"wpc-{name}"),
        "value": value,
    }


def of_class(name: str) -> Object:
    return {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}


def test_a_changed_priority_class_moves_waiting_workloads() -> None:
    life = Life("a(4)")
    life.add(priority_class("low", 10))
    life.job("holder", 4, priority=50)
    life.job("w", 4, priority=10, priorityClassRef=of_class("low"), created=900)
    life.job("other", 4, priority=20, created=800)
    life.change(priority_class("low", 30))
    assert steps(life.finish("holder")) == ["Released holder Finished", "Reserved w", "Admitted w"]


def test_a_changed_priority_class_makes_victims_of_running_workloads() -> None:
    life = Life("a(4 W=LP)")
    life.add(priority_class("high", 100))
    life.job("w", 4, priority=100, priorityClassRef=of_class("high"))
    assert steps(life.job("in", 4, priority=50)) == []
    assert steps(life.change(priority_class("high", 1))) == ["Preempted w InClusterQueue"]


def test_the_priority_that_the_object_shows_later_wins() -> None:
    life = Life("a(4)")
    life.add(priority_class("low", 10))
    life.job("w", 4, priority=10, priorityClassRef=of_class("low"))
    life.change(priority_class("low", 30))
    assert life.ledger.state.workloads["team", "w"].priority == 30
    target = life.copy("w")
    target["spec"]["priority"] = 40
    life.change(target)
    assert life.ledger.state.workloads["team", "w"].priority == 40


def test_timers_strike_in_the_order_of_their_deadlines_before_the_event_that_passes_them() -> None:
    life = Life("a(4)")
    life.at(1000).job("second", 2, maximumExecutionTimeSeconds=50)
    life.at(1001).job("first", 2, maximumExecutionTimeSeconds=10)
    decided = life.at(2000).job("new", 4)
    assert steps(decided) == [
        "Evicted first DeactivatedDueToMaximumExecutionTimeExceeded",
        "Evicted second DeactivatedDueToMaximumExecutionTimeExceeded",
    ]
    assert {decision["at"] for decision in decided} == {build.moment(2000)}


def test_the_next_deadline_is_told_and_asking_changes_nothing() -> None:
    life = Life("a(4)")
    assert life.ledger.next_deadline() is None
    life.at(1000).job("w", 2, maximumExecutionTimeSeconds=50)
    assert life.ledger.next_deadline() == (1_767_225_600 + 1050) * 1_000_000
    life.finish("w")
    assert life.ledger.next_deadline() is None


def waiting_for_its_backoff(number: int, at: float) -> Object:
    """A workload whose backoff ends in a year."""
    target = build.workload(f"w{number:06d}", "a", requests={GPU: 1})
    target["status"] = {
        "conditions": [build.condition("Requeued", False, "PodsReadyTimeout", 0)],
        "requeueState": {"count": 1, "requeueAt": build.moment(at)},
    }
    return target


def calls_for(waiting: int, events: int) -> int:
    """How many function calls a year of ticks takes with so many workloads waiting for their backoff."""
    life = Life("a(4)")
    for number in range(waiting):
        life.fold.apply(encode(event("ADDED", waiting_for_its_backoff(number, 40_000_000 + number), at=300)), offset=0)
    records = [encode(event("TICK", at=400 + number * (31_536_000 / events))) for number in range(events)] + [
        encode(event("TICK", at=40_000_000 - 1))
    ]
    calls = 0

    def count(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal calls
        calls += kind == "call"

    sys.setprofile(count)
    try:
        for offset, record in enumerate(records):
            life.fold.apply(record, offset=offset)
    finally:
        sys.setprofile(None)
    return calls


def test_a_year_of_ticks_costs_what_its_events_cost_however_many_wait() -> None:
    assert calls_for(waiting=5000, events=2000) < 1.1 * calls_for(waiting=10, events=2000)


def test_a_year_of_backoffs_ends_in_as_many_retries() -> None:
    fold = Fold()
    life = Life("a(4)")
    fold = life.fold
    for number in range(500):
        record = encode(event("ADDED", waiting_for_its_backoff(number, 1_000_000 + number * 60_000), at=300))
        fold.apply(record, offset=number)
    requeued = 0
    for day in range(1, 366):
        outcome = fold.apply(encode(event("TICK", at=1_000_000 + day * 86_400)), offset=1000 + day)
        requeued += sum(b'"BackoffFinished"' in decision.value for decision in outcome.decisions)
    assert requeued == 500
    assert life.ledger.next_deadline() is None or life.held("a") == 4


def test_timers_that_one_event_passes_have_their_cycles_one_after_the_other() -> None:
    """The backoff that ends first finds the room first, though the other has the higher priority."""
    life = Life("a(4)")
    for name, ends, priority in (("low", 1000, 0), ("high", 1001, 9)):
        target = build.workload(name, "a", requests={GPU: 4}, priority=priority)
        target["status"] = {
            "conditions": [build.condition("Requeued", False, "PodsReadyTimeout", 0)],
            "requeueState": {"count": 1, "requeueAt": build.moment(ends)},
        }
        life.add(target)
    assert steps(life.tick(2000)) == [
        "Requeued low BackoffFinished",
        "Reserved low",
        "Admitted low",
        "Requeued high BackoffFinished",
    ]
