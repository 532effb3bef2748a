"""waitForPodsReady: timeouts, backoff, the requeuing limit, blocked admission (T90 to T92, admission 7.5)."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.life import backoff_seconds
from tests import builders as build
from tests.life import Life, steps


def world(*, block: bool = False, recovery: str | None = None, rules: str = "kueue-0.19", **strategy: Any) -> Life:
    waiting: dict[str, Any] = {"timeout": "300s", "blockAdmission": block, "requeuingStrategy": strategy}
    if recovery is not None:
        waiting["recoveryTimeout"] = recovery
    life = Life(rules=rules, waitForPodsReady=waiting)
    life.queue()
    return life


def test_t90_each_timeout_waits_longer_and_the_fourth_deactivates() -> None:
    life = world(backoffBaseSeconds=60, backoffLimitCount=3)
    assert steps(life.at(1000).job("w")) == ["Reserved w", "Admitted w"]
    admitted = 1000
    for delay in (60, 120, 240):
        assert steps(life.tick(admitted + 299)) == []
        assert steps(life.tick(admitted + 300)) == ["Evicted w PodsReadyTimeout"]
        given_back = life.at(admitted + 310).give_back("w")
        assert steps(given_back) == ["Released w PodsReadyTimeout", "Requeued w PodsReadyTimeout"]
        assert given_back[-1]["notBefore"] == build.moment(admitted + 300 + delay)
        assert steps(life.tick(admitted + 299 + delay)) == []
        again = life.tick(admitted + 300 + delay)
        assert steps(again) == ["Requeued w BackoffFinished", "Reserved w", "Admitted w"]
        admitted += 300 + delay
    assert steps(life.tick(admitted + 300)) == ["Evicted w DeactivatedDueToRequeuingLimitExceeded"]
    assert steps(life.activate("w", False)) == ["Released w Deactivated"]


@pytest.mark.parametrize(
    ("rules", "after"),
    [("ledger", ["Requeued w Reactivated", "Reserved w", "Admitted w"]), ("kueue-0.19", [])],
)
def test_t90_a_reactivated_workload_counts_from_nothing(rules: str, after: list[str]) -> None:
    """7.4.7: the reference leaves those unqueued that it deactivated itself."""
    life = world(backoffBaseSeconds=60, backoffLimitCount=0, rules=rules)
    life.at(1000).job("w")
    life.tick(1300)
    life.activate("w", False)
    life.give_back("w")
    assert steps(life.activate("w", True)) == after
    assert life.ledger.state.workloads["team", "w"].requeue_count == 0


def test_t91_a_workload_that_does_not_recover_is_evicted_after_the_recovery_timeout() -> None:
    life = world(recovery="120s")
    life.at(1000).job("w")
    life.at(1050).pods("w", True)
    life.at(1080).pods("w", False, "WaitForRecovery")
    assert steps(life.tick(1199)) == []
    assert steps(life.tick(1200)) == ["Evicted w PodsReadyTimeout"]


def test_t91_a_recovery_timeout_of_nothing_waits_for_ever() -> None:
    life = world(recovery="0s")
    life.at(1000).job("w")
    life.at(1050).pods("w", True)
    life.at(1080).pods("w", False, "WaitForRecovery")
    assert steps(life.tick(100_000)) == []


def test_t92_a_reservation_waits_until_all_pods_are_ready_and_everything_with_it() -> None:
    life = Life(waitForPodsReady={"timeout": "1h", "blockAdmission": True})
    life.check("k1")
    life.queue("a", checks=[{"name": "k1"}])
    life.queue("b")
    life.queue("c")
    assert steps(life.job("x")) == ["Reserved x"]
    decided = life.submit(build.workload("a", "b", requests={"nvidia.com/gpu": 1}))
    assert [(d["type"], d["reason"]) for d in decided] == [("Pending", "WaitingForPodsReady")]
    decided = life.submit(build.workload("b", "c", requests={"nvidia.com/gpu": 1}))
    assert [(d["type"], d["reason"]) for d in decided] == [("Pending", "PendingEvaluation")]
    assert steps(life.pods("x", True)) == ["Reserved a", "Admitted a"]
    assert life.reasons() == {"b": "WaitingForPodsReady"}
    assert steps(life.pods("a", True)) == ["Reserved b", "Admitted b"]


def test_t92_the_one_that_everything_waited_for_goes_first() -> None:
    life = world(block=True)
    life.job("x")
    life.job("a", priority=1)
    life.job("b", priority=9)
    assert steps(life.finish("x")) == ["Released x Finished", "Reserved a", "Admitted a"]


def asks(name: str, queue: str, **more: Any) -> build.Object:
    return build.workload(name, queue, requests={"nvidia.com/gpu": 1}, **more)


def test_the_rest_of_the_cycle_goes_before_whoever_comes_while_the_loop_waits() -> None:
    """7.5.2: the loop waits inside a cycle, whose heads were chosen before."""
    life = world(block=True)
    life.queue("b")
    life.queue("c")
    life.job("x", queue="c")
    assert steps(life.submit(asks("first", "a", created=10), asks("second", "b", created=20))) == []
    assert steps(life.job("urgent", priority=9)) == []
    assert steps(life.pods("x", True)) == ["Reserved first", "Admitted first"]
    assert steps(life.pods("first", True)) == ["Reserved second", "Admitted second"]
    assert steps(life.pods("second", True)) == ["Reserved urgent", "Admitted urgent"]


def test_one_that_left_while_the_loop_waits_is_passed_over() -> None:
    life = world(block=True)
    life.queue("b")
    life.job("x")
    life.submit(asks("first", "a", created=10), asks("second", "b", created=20))
    life.delete("first")
    assert steps(life.pods("x", True)) == ["Reserved second", "Admitted second"]


def test_a_blocking_loop_takes_the_heads_of_all_queues_in_one_order() -> None:
    """5.6.2: also of queues that share no cohort."""
    life = world(block=True)
    life.queue("b")
    waiting = [asks("a1", "a", created=10), asks("a2", "a", created=11), asks("b1", "b", created=12)]
    assert steps(life.submit(*waiting)) == ["Reserved a1", "Admitted a1"]
    assert steps(life.pods("a1", True)) == ["Reserved b1", "Admitted b1"]
    assert steps(life.pods("b1", True)) == ["Reserved a2", "Admitted a2"]


@pytest.mark.parametrize("grows", [False, True])
def test_the_loop_reserves_what_it_computed_before_it_waited(grows: bool) -> None:
    """7.5.2: on the flavor that was free then, although a better one came back meanwhile; a changed request is new."""
    life = Life(waitForPodsReady={"timeout": "1h", "blockAdmission": True})
    life.add(build.flavor("f1"), build.flavor("f2"))
    quotas = {flavor: [build.quota("nvidia.com/gpu", 2)] for flavor in ("f1", "f2")}
    life.add(build.cluster_queue("a", build.group(**quotas)), build.local_queue("a"))
    life.job("x", 2)
    assert steps(life.job("w")) == []
    if grows:
        life.change(build.workload("w", "a", requests={"nvidia.com/gpu": 2}, created=0))
    (reserved,) = [d for d in life.finish("x") if d["type"] == "QuotaReserved"]
    assert reserved["podSets"][0]["flavors"] == {"nvidia.com/gpu": "f1" if grows else "f2"}


def test_pods_that_are_ready_in_time_end_the_waiting() -> None:
    life = world()
    life.at(1000).job("w")
    life.pods("w", True)
    assert life.ledger.next_deadline() is None
    assert steps(life.tick(10_000)) == []


def test_a_timeout_orders_by_the_eviction_unless_told_otherwise() -> None:
    for timestamp, expected in (("Eviction", 1300), ("Creation", 500)):
        life = world(timestamp=timestamp)
        life.at(1000).job("w", created=500)
        life.tick(1300)
        life.give_back("w")
        assert life.ledger.state.workloads["team", "w"].order_time == (1_767_225_600 + expected) * 1_000_000


def test_the_first_delay_is_not_held_to_the_cap() -> None:
    """7.5.4, 7.5.7."""
    assert [backoff_seconds(n, 60, 3600) for n in range(1, 9)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert [backoff_seconds(n, 60, 10) for n in (1, 2)] == [60, 10]
    assert backoff_seconds(10_000, 60, 3600) == 3600
