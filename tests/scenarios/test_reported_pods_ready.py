"""What was reported about waitForPodsReady, decided by the rules (admission 7.5, 7.7, 4.3.4, 4.6)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests import builders as build
from tests.builders import Object
from tests.life import GPU, Life, steps

REQUEUED = "Requeued w BackoffFinished"
AGAIN = [REQUEUED, "Reserved w", "Admitted w"]


def world(*, block: bool = False, rules: str = "kueue-0.19", timeout: int = 300, **more: Any) -> Life:
    """ClusterQueue a with room for 10; a timeout of 300 s and a backoff of 60 s unless told otherwise."""
    strategy = {name: more.pop(name) for name in list(more) if name.startswith(("backoff", "timestamp"))}
    waiting = {"timeout": f"{timeout}s", "blockAdmission": block, "requeuingStrategy": strategy, **more}
    life = Life(rules=rules, waitForPodsReady=waiting)
    life.queue()
    return life


def with_requeue_state(target: Object, count: int, at: float | None) -> Object:
    state: Object = {"count": count}
    if at is not None:
        state["requeueAt"] = build.moment(at)
    return {**target, "status": {**target["status"], "requeueState": state}}


def evicted_and_released(life: Life) -> None:
    """w is admitted at 1000, evicted at 1300 with a backoff until 1360, and gives its quota back at 1310."""
    life.at(1000).job("w")
    assert steps(life.tick(1300)) == ["Evicted w PodsReadyTimeout"]
    life.at(1310).give_back("w")


# The backoff and its count.


def test_a_backoff_ends_once_whatever_the_object_repeats_afterwards() -> None:
    """Kueue issue 2291: Requeued turned True twice for one backoff."""
    life = world()
    evicted_and_released(life)
    assert steps(life.tick(1360)) == AGAIN
    shown = life.copy("w")
    assert (
        steps(life.change(build.with_conditions(shown, build.condition("Requeued", True, "BackoffFinished", 1360))))
        == []
    )
    assert steps(life.tick(1500)) == []
    assert [step for step in steps(life.decisions) if step == REQUEUED] == [REQUEUED]


def test_a_release_before_the_backoff_ends_does_not_push_the_workload() -> None:
    """Kueue pull request 2362: it was pushed to the heap as soon as its quota was back."""
    life = world()
    evicted_and_released(life)
    life.job("other", 10)
    life.finish("other")
    assert steps(life.tick(1359), "w") == []
    assert life.parked() == {"a": ["w"]}
    assert steps(life.tick(1360)) == AGAIN


def test_a_release_after_the_backoff_ended_is_answered_at_once() -> None:
    """7.5.5: the wait ends when the time has passed and the quota is back, whichever comes last."""
    life = world()
    life.at(1000).job("w")
    life.tick(1300)
    assert steps(life.tick(2000)) == []
    assert steps(life.at(2010).give_back("w")) == ["Released w PodsReadyTimeout", *AGAIN]


def test_quota_stays_with_an_evicted_workload_until_it_is_given_back() -> None:
    """Kueue issue 14811: nobody gave the quota of a workload back that did not recover; its requeueAt passed."""
    life = world()
    life.at(1000).job("w", 10)
    life.at(1010).pods("w", True)
    life.at(1020).pods("w", False, "WaitForRecovery")
    life.at(1030).job("next", 1)
    assert steps(life.tick(1320)) == ["Evicted w PodsReadyTimeout"]
    assert steps(life.tick(5000)) == []
    assert life.held("a") == 10
    assert steps(life.activate("w", False)) == ["Released w Deactivated", "Reserved next", "Admitted next"]


def test_each_timeout_counts_one() -> None:
    """Kueue pull request 2063: two writes of one requeue were feared to count twice."""
    life = world()
    evicted_and_released(life)
    shown = with_requeue_state(life.copy("w"), 1, 1360)
    life.change(shown)
    life.change(with_requeue_state(shown, 1, None))
    assert life.ledger.state.workloads["team", "w"].requeue_count == 1
    life.tick(1660)
    life.tick(2000)
    assert life.ledger.state.workloads["team", "w"].requeue_count == 2


def test_a_workload_that_is_deactivated_by_hand_during_its_backoff_starts_anew() -> None:
    """Kueue pull requests 7734 and 7768: the requeue state outlived a deactivation by hand."""
    life = world(backoffBaseSeconds=600, rules="ledger")
    life.at(1000).job("w")
    life.tick(1300)
    life.at(1310).give_back("w")
    assert steps(life.at(1320).activate("w", False)) == []
    target = life.copy("w")
    target["spec"]["active"] = True
    held = build.with_conditions(target, build.condition("Requeued", True, "Reactivated", 1330))
    assert steps(life.at(1330).change(held)) == ["Reserved w", "Admitted w"]
    assert steps(life.tick(1630)) == ["Evicted w PodsReadyTimeout"]
    assert life.at(1640).give_back("w")[-1]["notBefore"] == build.moment(1630 + 600)


def test_a_deactivation_by_hand_during_the_backoff_is_no_second_eviction() -> None:
    """Kueue pull request 2288: it was told as the limit that was exceeded. 7.7.2: the shown eviction stays."""
    life = world(backoffLimitCount=1)
    evicted_and_released(life)
    assert steps(life.at(1320).activate("w", False)) == []
    assert [d["reason"] for d in life.decisions if d["type"] == "Evicted"] == ["PodsReadyTimeout"]


@pytest.mark.parametrize("shows_old_count", [True, False])
def test_a_reactivated_workload_may_time_out_as_often_as_a_new_one(shows_old_count: bool) -> None:
    """Kueue issue 2174: the count survived, and the first timeout deactivated again."""
    life = world(backoffLimitCount=1, rules="ledger")
    evicted_and_released(life)
    life.tick(1360)
    assert steps(life.tick(1660)) == ["Evicted w DeactivatedDueToRequeuingLimitExceeded"]
    life.change(with_requeue_state(life.copy("w"), 1, None) if shows_old_count else life.copy("w"))
    life.activate("w", False)
    life.give_back("w")
    target = life.copy("w")
    target["spec"]["active"] = True
    target["status"].pop("requeueState", None)
    assert steps(life.at(2000).change(target)) == ["Requeued w Reactivated", "Reserved w", "Admitted w"]
    assert steps(life.tick(2300)) == ["Evicted w PodsReadyTimeout"]


def test_without_a_limit_a_workload_is_never_deactivated() -> None:
    """Kueue issue 15255: dry spot capacity used the limit up. 7.5.7: without one the delay stops growing at the cap."""
    life = world(backoffMaxSeconds=240)
    life.at(1000).job("w")
    admitted, delays = 1000, []
    for _ in range(6):
        assert steps(life.tick(admitted + 300)) == ["Evicted w PodsReadyTimeout"]
        until = life.at(admitted + 301).give_back("w")[-1]["notBefore"]
        delays.append(next(n for n in (60, 120, 240) if until == build.moment(admitted + 300 + n)))
        admitted += 300 + delays[-1]
        assert steps(life.tick(admitted)) == AGAIN
    assert delays == [60, 120, 240, 240, 240, 240]


def test_a_later_requeue_time_that_the_object_shows_is_kept() -> None:
    """7.5.4: requeueAt only grows; the jitter that the cluster adds counts as it is."""
    life = world()
    life.at(1000).job("w")
    life.tick(1300)
    life.at(1310).give_back("w")
    life.change(with_requeue_state(life.copy("w"), 1, 1366))
    assert steps(life.tick(1365)) == []
    assert steps(life.tick(1366)) == AGAIN


def test_a_retry_of_the_tree_leaves_waiting_backoffs_alone() -> None:
    """4.6.2: 'queue inadmissible workloads' moves nobody whose time has not come."""
    life = world()
    evicted_and_released(life)
    queue = life.cluster_queue("a")
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "20"
    assert steps(life.at(1320).change(queue)) == []
    assert life.parked() == {"a": ["w"]}


def test_a_changed_limit_counts_from_the_next_timeout_on() -> None:
    life = world()
    evicted_and_released(life)
    life.tick(1360)
    strategy = {"timeout": "300s", "requeuingStrategy": {"backoffLimitCount": 1}}
    assert steps(life.add(build.configuration(waitForPodsReady=strategy))) == []
    assert steps(life.tick(1660)) == ["Evicted w DeactivatedDueToRequeuingLimitExceeded"]


# The order in which it comes back.


@pytest.mark.parametrize(("timestamp", "first"), [("Eviction", "younger"), ("Creation", "w")])
def test_a_timeout_sends_to_the_end_of_the_queue_unless_creation_counts(timestamp: str, first: str) -> None:
    """Kueue issues 599 and 1282."""
    life = world(timestamp=timestamp)
    life.at(1000).job("w", 10, created=10)
    life.at(1001).job("younger", 10, created=1001)
    life.tick(1300)
    life.at(1361).give_back("w")
    assert life.admitted_last() == first


def test_the_order_of_an_eviction_is_forgotten_with_the_next_reservation() -> None:
    """4.3.4: after the next reservation a workload falls back to its creation time."""
    life = world()
    evicted_and_released(life)
    life.tick(1360)
    life.change(life.copy("w"))
    assert life.ledger.state.workloads["team", "w"].order_time == (1_767_225_600 + 1000) * 1_000_000


# When the clock runs.


def test_the_timeout_counts_from_the_admission_not_from_the_reservation() -> None:
    life = Life(waitForPodsReady={"timeout": "300s"})
    life.check("k1")
    life.queue(checks=[{"name": "k1"}])
    life.at(1000).job("w")
    assert steps(life.tick(1400)) == []
    assert steps(life.at(1500).answer("w", k1="Ready")) == ["Admitted w"]
    assert steps(life.tick(1799)) == []
    assert steps(life.tick(1800)) == ["Evicted w PodsReadyTimeout"]


def test_the_recovery_time_counts_from_the_failure_not_from_the_admission() -> None:
    """Kueue issue 2732, pull request 4302."""
    life = world(recoveryTimeout="100s")
    life.at(1000).job("w")
    life.at(1010).pods("w", True)
    life.at(50_000).pods("w", False, "WaitForRecovery")
    assert steps(life.tick(50_099)) == []
    assert steps(life.tick(50_100)) == ["Evicted w PodsReadyTimeout"]


def test_without_a_recovery_timeout_the_timeout_counts_for_recovery_too() -> None:
    """Admission 1.8."""
    life = world()
    life.at(1000).job("w")
    life.at(1010).pods("w", True)
    life.at(1020).pods("w", False, "WaitForRecovery")
    assert steps(life.tick(1319)) == []
    assert steps(life.tick(1320)) == ["Evicted w PodsReadyTimeout"]


def test_a_failure_that_heals_in_time_does_not_count() -> None:
    life = world(recoveryTimeout="100s")
    life.at(1000).job("w")
    life.at(1010).pods("w", True)
    life.at(1020).pods("w", False, "WaitForRecovery")
    life.at(1100).pods("w", True, "Recovered")
    assert steps(life.tick(9000)) == []
    life.at(9010).pods("w", False, "WaitForRecovery")
    assert steps(life.tick(9110)) == ["Evicted w PodsReadyTimeout"]


@pytest.mark.parametrize("reason", ["WaitForStart", "PodsReady", None])
def test_pods_that_never_started_time_out_whatever_the_condition_is_called(reason: str | None) -> None:
    """7.5.3: the old reason PodsReady and a missing condition mean the same."""
    life = world()
    life.at(1000).job("w")
    if reason is not None:
        life.at(1001).pods("w", False, reason)
    assert steps(life.tick(1300)) == ["Evicted w PodsReadyTimeout"]


def test_pods_that_are_not_ready_for_another_reason_do_not_time_out() -> None:
    """7.5.3: any other reason has no timeout."""
    life = world()
    life.at(1000).job("w")
    life.at(1001).pods("w", False, "SomethingElse")
    assert steps(life.tick(9000)) == []


def test_unhealthy_nodes_do_not_shield_from_the_recovery_timeout() -> None:
    """Kueue issue 10660."""
    life = world(recoveryTimeout="100s")
    life.at(1000).job("w")
    life.at(1010).pods("w", True)
    target = life.copy("w")
    target["status"]["unhealthyNodes"] = [{"name": "n1"}]
    life.at(1015).change(target)
    life.at(1020).pods("w", False, "WaitForRecovery")
    assert steps(life.tick(1120)) == ["Evicted w PodsReadyTimeout"]


def test_a_shorter_timeout_strikes_those_that_wait_already() -> None:
    life = world(timeout=3000)
    life.at(1000).job("w")
    life.tick(1500)
    assert steps(life.add(build.configuration(waitForPodsReady={"timeout": "100s"}))) == ["Evicted w PodsReadyTimeout"]


def test_nothing_times_out_where_the_gate_switches_it_off() -> None:
    """Admission 9: DisableWaitForPodsReady."""
    life = Life(gates={"DisableWaitForPodsReady": True}, waitForPodsReady={"timeout": "300s", "blockAdmission": True})
    life.queue()
    life.at(1000).job("w")
    assert steps(life.at(1001).job("v")) == ["Reserved v", "Admitted v"]
    assert steps(life.tick(9000)) == []
    assert life.ledger.next_deadline() is None


def test_without_a_configuration_pods_have_half_an_hour() -> None:
    """Admission 1.8: waitForPodsReady is on by default."""
    life = Life()
    life.queue()
    life.at(1000).job("w")
    assert steps(life.tick(2799)) == []
    assert steps(life.tick(2800)) == ["Evicted w PodsReadyTimeout"]


def test_an_eviction_is_told_with_its_reason_and_message() -> None:
    """Kueue issue 2012: only the job knew."""
    life = world()
    life.at(1000).job("w")
    [told] = life.tick(1300)
    assert (told["type"], told["reason"], told["message"]) == (
        "Evicted",
        "PodsReadyTimeout",
        "Exceeded the PodsReady timeout team/w",
    )


def test_a_victim_of_preemption_does_not_time_out_as_well() -> None:
    """7.5.3: not evicted; the count is not touched."""
    life = Life("a(4 W=LP)", waitForPodsReady={"timeout": "300s"})
    life.at(1000).job("w", 4)
    assert steps(life.at(1290).job("in", 4, priority=5)) == ["Preempted w InClusterQueue"]
    assert steps(life.tick(1400)) == []
    assert life.ledger.state.workloads["team", "w"].requeue_count == 0


# blockAdmission.


def test_one_of_two_in_the_same_record_is_admitted_and_the_other_waits() -> None:
    """Kueue issue 3149."""
    life = world(block=True)
    life.at(1000)
    decided = life.submit(*(build.workload(name, "a", requests={GPU: 1}) for name in ("x", "y")))
    assert steps(decided) == ["Reserved x", "Admitted x"]
    assert life.reasons() == {"y": "WaitingForPodsReady"}


def test_a_workload_without_the_condition_counts_as_not_ready() -> None:
    """Kueue issue 707: everything was admitted while nothing was ready."""
    life = world(block=True)
    life.at(1000).job("x")
    assert steps(life.job("y")) == []
    assert steps(life.pods("x", False, "WaitForStart")) == []
    assert steps(life.pods("x", True)) == ["Reserved y", "Admitted y"]


@pytest.mark.parametrize("how", ["deleted", "finished", "deactivated", "released"])
def test_everything_goes_on_when_who_was_not_ready_is_gone(how: str) -> None:
    life = world(block=True)
    life.at(1000).job("x")
    life.at(1001).job("y")
    if how == "released":
        life.tick(1300)
        decided = life.at(1301).give_back("x")
    else:
        decided = {
            "deleted": lambda: life.delete("x"),
            "finished": lambda: life.finish("x"),
            "deactivated": lambda: life.activate("x", False),
        }[how]()
    assert steps(decided, "y") == ["Reserved y", "Admitted y"]


def test_who_fails_later_blocks_again() -> None:
    life = world(block=True)
    life.at(1000).job("x")
    life.at(1001).pods("x", True)
    life.at(1002).pods("x", False, "WaitForRecovery")
    assert steps(life.at(1003).job("y")) == []
    assert steps(life.at(1004).pods("x", True, "Recovered")) == ["Reserved y", "Admitted y"]


def test_preemption_does_not_wait_for_pods() -> None:
    """7.5.2 is asked where quota would be taken (5.7.9), not where victims are named."""
    life = Life("a(4 W=LP)", waitForPodsReady={"timeout": "1h", "blockAdmission": True})
    life.job("low", 4)
    assert steps(life.job("high", 4, priority=5)) == ["Preempted low InClusterQueue"]


def test_switching_the_block_off_lets_everything_go_on() -> None:
    life = world(block=True)
    life.at(1000).job("x")
    life.at(1001).job("y")
    assert steps(life.add(build.configuration(waitForPodsReady={"timeout": "300s"}))) == ["Reserved y", "Admitted y"]


def test_the_one_everything_waits_for_may_go_away_itself() -> None:
    life = world(block=True)
    life.at(1000).job("x")
    life.at(1001).job("first")
    life.at(1002).job("second")
    assert steps(life.delete("first")) == []
    assert steps(life.pods("x", True)) == ["Reserved second", "Admitted second"]


@pytest.mark.parametrize("until", [None, 1250.0])
def test_a_backoff_that_the_object_takes_back_or_shortens_ends(until: float | None) -> None:
    """4.6: no timer of the ledger ends it then, and no retry moves who is held."""
    life = world()
    waiting = build.workload("w", "a", requests={GPU: 1})
    waiting["status"] = {"conditions": [build.condition("Requeued", True, "NodeFailures", 900)]}
    life.at(1000).add(with_requeue_state(waiting, 1, 2000))
    assert life.parked() == {"a": ["w"]}
    decided = steps(life.at(1100).change(with_requeue_state(waiting, 1, until)))
    assert decided == ([] if until else ["Reserved w", "Admitted w"])
    assert life.ledger.next_deadline() == (1_767_225_600 + (1250 if until else 1100 + 300)) * 1_000_000
    assert steps(life.tick(1250)) == (AGAIN if until else [])


def test_a_backoff_does_not_reach_beyond_the_end_of_time() -> None:
    """The years end with 9999: a log that claims to be there is folded like any other."""
    last = (datetime(9999, 12, 31, 23, 59, tzinfo=UTC) - build.START).total_seconds()
    life = world(backoffBaseSeconds=3600)
    life.at(last - 400).job("w")
    assert steps(life.tick(last)) == ["Evicted w PodsReadyTimeout"]
    assert life.at(last + 1).give_back("w")[-1]["notBefore"] == "9999-12-31T23:59:59.999999Z"
    assert life.parked() == {"a": ["w"]}
