"""Admission fair sharing: decay, penalties, settlement, order (S77 to S86, preemption section 7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.consumption import Account, Consumption, alpha, double_of, times
from ledger.objects.configuration import AdmissionFairSharing
from ledger.objects.durations import Duration
from ledger.timestamps import SECOND, Timestamp
from tests import builders as build
from tests.builders import Object
from tests.life import GPU, Life, steps

NANO = 10**9


def rules(half_life: int, interval: int = 300, **weights: float) -> Consumption:
    consumption = Consumption()
    consumption.rules = AdmissionFairSharing(Duration(half_life * SECOND), Duration(interval * SECOND), weights)
    return consumption


def account(consumption: Consumption, key: tuple[str, str], weight: float = 1.0, **consumed: float) -> Account:
    opened = consumption.open(key, None, Timestamp(0))
    opened.weight = weight
    opened.consumed = {name: int(value * NANO) for name, value in consumed.items()}
    return opened


X, Y, Z = ("team", "x"), ("team", "y"), ("team", "z")


def test_s77_history_and_what_runs_are_cut_off_each_for_itself() -> None:
    consumption = rules(600)
    of_x = account(consumption, X, cpu=10)
    of_x.running = {"w": {"cpu": 4 * NANO}}
    assert consumption.sample(of_x, Timestamp(300 * SECOND))
    assert of_x.consumed == {"cpu": 8_242_640_686}
    assert times(10 * NANO, 0.7071067811865476) == 7_071_067_811
    assert times(4 * NANO, alpha(300 * SECOND, 600 * SECOND)) == 1_171_572_875


def test_s78_without_anything_running_history_decays() -> None:
    consumption = rules(86400)
    of_x = account(consumption, X, cpu=8)
    consumption.sample(of_x, Timestamp(300 * SECOND))
    assert of_x.consumed == {"cpu": 7_980_769_063}


def test_s79_a_penalty_settles_once() -> None:
    consumption = rules(300)
    of_x = account(consumption, X)
    consumption.charge(of_x, "w", {"cpu": 4000}, Timestamp(0))
    assert of_x.penalties == {"w": {"cpu": 2 * NANO}}
    consumption.settle(of_x, "w", Timestamp(0))
    consumption.settle(of_x, "w", Timestamp(0))
    assert of_x.consumed == {"cpu": 2 * NANO}


def test_the_example_of_the_text() -> None:
    """h 600 s, s 300 s, 6 cores assumed at 0, admitted at 20, sampled at 320."""
    consumption = rules(600)
    of_x = account(consumption, X)
    consumption.charge(of_x, "w", {"cpu": 6000}, Timestamp(0))
    assert consumption.usage(X) == 1.757359312
    consumption.admit(of_x, "w", {"cpu": 6000}, Timestamp(20 * SECOND))
    consumption.settle(of_x, "w", Timestamp(20 * SECOND))
    assert of_x.consumed == {"cpu": 1_894_399_501}
    assert not consumption.sample(of_x, Timestamp(300 * SECOND))
    assert consumption.sample(of_x, Timestamp(320 * SECOND))
    assert of_x.consumed == {"cpu": 3_096_902_045}


def test_s80_weights_divide_usage() -> None:
    consumption = rules(600)
    account(consumption, X, cpu=2)
    account(consumption, Y, weight=2.0, cpu=3)
    assert (consumption.usage(X), consumption.usage(Y)) == (2.0, 1.5)


def test_s81_a_weight_of_nothing_stands_behind_all() -> None:
    consumption = rules(600)
    account(consumption, Z, weight=0.0)
    account(consumption, X, cpu=50)
    assert consumption.usage(Z) == float("inf") > consumption.usage(X)


def test_s83_resource_weights_choose_what_counts() -> None:
    consumption = rules(600, cpu=0.0)
    account(consumption, X, cpu=1000, gpu=1)
    account(consumption, Y, cpu=1, gpu=10)
    assert (consumption.usage(X), consumption.usage(Y)) == (1.0, 10.0)


def test_s86_a_waiting_penalty_makes_a_sample_due_at_once_and_no_half_life_forgets_all() -> None:
    consumption = rules(600)
    of_x = account(consumption, X, cpu=10)
    assert not consumption.sample(of_x, Timestamp(100 * SECOND))
    consumption.charge(of_x, "w", {"cpu": 1000}, Timestamp(100 * SECOND))
    assert consumption.sample(of_x, Timestamp(100 * SECOND))
    forgetful = rules(0)
    of_y = account(forgetful, Y, cpu=10)
    forgetful.charge(of_y, "w", {"cpu": 1000}, Timestamp(0))
    assert of_y.penalties == {"w": {"cpu": 0}}
    forgetful.sample(of_y, Timestamp(300 * SECOND))
    assert of_y.consumed == {}


def test_weights_are_mantissa_times_a_power_of_ten() -> None:
    assert double_of(3 * NANO // 10) == 3 * 10.0**-1 == 0.30000000000000004
    assert double_of(2 * NANO) == 2.0


# The same through the fold.


def local_queue(name: str, weight: str = "1") -> Object:
    target = build.local_queue(name, "a")
    target["spec"]["fairSharing"] = {"weight": weight}
    return target


def world(nominal: int = 4, *, within: str | None = None, half_life: str = "600s", checks: bool = False) -> Life:
    """ClusterQueue a with the LocalQueues x, y and z. Rules `ledger`: retries are not merged for a second."""
    life = Life(rules="ledger", admissionFairSharing={"usageHalfLifeTime": half_life, "usageSamplingInterval": "300s"})
    if checks:
        life.check("k1")
    life.queue("a", nominal, fair=True, within=within, checks=[{"name": "k1"}] if checks else None)
    for name in "xyz":
        life.add(local_queue(name))
    return life


def consumed(life: Life, queue: str) -> float:
    return float(life.ledger.state.consumption.usage(("team", queue)))


def test_s80_smaller_usage_is_served_first_whatever_the_priority() -> None:
    life = world()
    life.at(1000).job("x0", 4, queue="x")
    life.job("x1", 4, queue="x", priority=9)
    life.job("y1", 4, queue="y")
    assert steps(life.finish("x0")) == ["Released x0 Finished", "Reserved y1", "Admitted y1"]


def test_s80_equal_usage_leaves_the_priority_to_decide() -> None:
    life = world()
    life.job("z0", 4, queue="z")
    life.job("y1", 4, queue="y")
    life.job("x1", 4, queue="x", priority=9)
    assert steps(life.finish("z0")) == ["Released z0 Finished", "Reserved x1", "Admitted x1"]


def test_s82_usage_comes_before_the_sticky_preemptor() -> None:
    life = world(within="LowerPriority")
    life.job("x0", 1, queue="x")
    life.job("low", 3, queue="z", priority=-5)
    life.job("h", 4, queue="x", priority=1)
    assert steps(life.decisions)[-2:] == ["Preempted low InClusterQueue", "Preempted x0 InClusterQueue"]
    life.job("m", 4, queue="y")
    life.give_back("x0")
    assert "Reserved m" in steps(life.give_back("low"))


def test_s84_the_largest_consumer_is_the_first_victim() -> None:
    for fair, expected in ((True, "u3"), (False, "u2")):
        life = world(6, within="LowerPriority") if fair else Life("a(6 W=LP)", rules="ledger")
        if not fair:
            life.add(local_queue("x"), local_queue("y"))
        life.job("u1", 2, queue="x", priority=3)
        life.job("u2", 2, queue="y", priority=1)
        life.job("u3", 2, queue="x", priority=2)
        assert steps(life.job("in", 2, queue="a", priority=9)) == [f"Preempted {expected} InClusterQueue"]


def test_s85_a_penalty_goes_with_its_workload_and_stays_with_one_that_waits_again() -> None:
    life = world(checks=True)
    life.job("w", 2, queue="x")
    penalty = consumed(life, "x")
    assert penalty > 0
    life.delete("w")
    assert consumed(life, "x") == 0.0
    life.job("v", 2, queue="x")
    life.stop("ClusterQueue", "a", "Hold")
    assert consumed(life, "x") == penalty


def test_samples_tell_what_moved() -> None:
    life = world()
    life.at(1000).job("w", 2, queue="x")
    assert life.tick(1299) == []
    [told] = life.tick(1300)
    assert told["type"] == "ShareChanged"
    assert told["localQueue"] == {"namespace": "team", "name": "x"}
    assert told["share"] == consumed(life, "x")
    assert list(told["consumed"]) == [GPU]


def test_idle_local_queues_have_no_timer() -> None:
    life = world()
    assert life.ledger.next_deadline() is None
    life.at(1000).job("w", 2, queue="x")
    assert life.ledger.next_deadline() is not None


def test_the_time_without_consumption_is_not_charged_to_the_first_workload() -> None:
    """R7.8: an idle LocalQueue is sampled too; nothing of a year counts for a workload that just began."""
    life = world()
    life.tick(31_536_000)
    life.job("w", 2, queue="x")
    fresh = world()
    fresh.at(1000).job("w", 2, queue="x")
    assert abs(consumed(life, "x") - consumed(fresh, "x")) < 2 * alpha(300 * SECOND, 600 * SECOND)


def test_a_ledger_that_takes_over_begins_with_what_the_status_says() -> None:
    life = world()
    target = local_queue("w")
    target["status"] = {"fairSharing": {"admissionFairSharingStatus": {"consumedResources": {"cpu": "2500m"}}}}
    life.add(target)
    assert consumed(life, "w") == 2.5


@pytest.mark.parametrize("half_life", ["600s", "0s"])
def test_the_same_log_gives_the_same_bytes(half_life: str) -> None:
    def played() -> list[Any]:
        life = world(half_life=half_life)
        life.at(1000).job("x0", 2, queue="x")
        life.job("y0", 2, queue="y")
        life.tick(5000)
        return [json.dumps(decision) for decision in life.decisions]

    assert played() == played()


def shown(name: str, amount: str, at: float) -> Object:
    target = local_queue(name)
    sample = {"consumedResources": {GPU: amount}, "lastUpdate": build.moment(at)}
    target["status"] = {"fairSharing": {"admissionFairSharingStatus": sample}}
    return target


def test_a_sample_that_the_cluster_took_wins_over_our_own() -> None:
    life = world()
    life.at(1000).job("w", 2, queue="x")
    assert life.at(1200).change(shown("x", "1500m", 1200)) == [], "the cluster has not shown the admission yet"
    life.change(life.copy("w"))
    [told] = life.at(1210).change(shown("x", "1500m", 1210))
    assert (told["type"], told["share"]) == ("ShareChanged", 1.5)
    assert consumed(life, "x") == 1.5


def test_a_sample_from_before_a_settlement_is_old_news() -> None:
    life = world()
    life.at(1000).job("w", 2, queue="x")
    before = consumed(life, "x")
    assert life.at(1001).change(shown("x", "0", 1000)) == []
    assert consumed(life, "x") == before


def test_the_echo_of_our_own_sample_changes_nothing() -> None:
    life = world()
    life.at(1000).job("w", 2, queue="x")
    life.change(life.copy("w"))
    [told] = life.tick(1300)
    due = life.ledger.next_deadline()
    assert life.at(1302).change(shown("x", told["consumed"][GPU], 1300)) == []
    assert life.ledger.next_deadline() == due


def test_what_is_rewritten_behind_a_sticky_head_does_not_pile_up() -> None:
    life = world(within="LowerPriority")
    life.job("low", 4, queue="z", priority=-5)
    life.job("head", 4, queue="x", priority=1)
    assert steps(life.decisions)[-1] == "Preempted low InClusterQueue"
    for number in range(300):
        life.job("follower", 4, queue="x", priority=1, created=number)
    pending = life.ledger.state.forest.queues["a"].pending
    assert [state.name for state in pending] == ["head", "follower"]
    assert len(pending._heads_of["team", "x"]) < 100
    assert "Reserved head" in steps(life.give_back("low"))
