"""Admission checks: reserved first, admitted when all are ready; retry, rejection (T83 to T86, admission 7.2, 7.4)."""

from __future__ import annotations

from tests import builders as build
from tests.life import GPU, Life, steps


def world() -> Life:
    """k1 on all flavors, k2 on f2 only; f1 has room for 4, f2 for 4."""
    life = Life()
    life.check("k1")
    life.check("k2")
    life.add(build.flavor("f1"), build.flavor("f2"))
    queue = build.cluster_queue("a", build.group(f1=[build.quota(GPU, 4)], f2=[build.quota(GPU, 4)]))
    checks = [{"name": "k1"}, {"name": "k2", "onFlavors": ["f2"]}]
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": checks}
    life.add(queue, build.local_queue("a"))
    return life


def on_the_second_flavor() -> Life:
    life = world()
    life.job("first", 4)
    life.answer("first", k1="Ready")
    life.job("w", 4)
    return life


def test_t83_a_check_of_another_flavor_is_not_waited_for() -> None:
    life = world()
    assert steps(life.job("w", 4)) == ["Reserved w"]
    assert steps(life.answer("w", k1="Pending")) == []
    assert steps(life.answer("w", k1="Ready")) == ["Admitted w"]


def test_t84_both_checks_must_be_ready_on_the_flavor_that_both_are_for() -> None:
    life = on_the_second_flavor()
    assert steps(life.decisions, "w") == ["Reserved w"]
    assert steps(life.answer("w", k1="Ready")) == []
    assert steps(life.answer("w", k2="Pending")) == []
    assert steps(life.answer("w", k2="Ready")) == ["Admitted w"]


def test_t85_a_retry_with_a_delay_keeps_the_quota_until_the_delay_is_over() -> None:
    life = on_the_second_flavor()
    assert steps(life.at(300).answer("w", k1=("Retry", 30), k2="Ready")) == []
    assert steps(life.tick(329)) == []
    assert steps(life.tick(330)) == ["Evicted w AdmissionCheck"]
    assert life.ledger.usage()["a"] == {f"f1/{GPU}": 4, f"f2/{GPU}": 4}
    assert steps(life.at(332).give_back("w")) == [
        "Released w AdmissionCheck",
        "Requeued w BackoffFinished",
        "Reserved w",
    ]


def test_t85_the_eviction_is_the_order_time_afterwards() -> None:
    life = world()
    life.job("w", 8)
    assert steps(life.decisions, "w") == []
    life = world()
    life.job("w", 4, created=1)
    life.answer("w", k1=("Retry", 30))
    life.tick(300)
    life.job("older", 4, created=250)
    life.job("newer", 4, created=290)
    life.give_back("w")
    waiting = life.ledger.state.workloads["team", "w"]
    assert waiting.order_time == 300_000_000 + 1_767_225_600_000_000


def test_t86_rejection_wins_over_retry_and_frees_the_quota_when_the_workload_is_inactive() -> None:
    life = on_the_second_flavor()
    assert steps(life.answer("w", k1=("Retry", 30), k2="Rejected")) == ["Evicted w DeactivatedDueToAdmissionCheck"]
    assert life.held("a", f"f2/{GPU}") == 4
    assert steps(life.activate("w", False)) == ["Released w Deactivated"]
    assert life.held("a", f"f2/{GPU}") == 0


def test_a_retry_without_a_delay_evicts_at_once() -> None:
    life = on_the_second_flavor()
    assert steps(life.answer("w", k1="Retry")) == ["Evicted w AdmissionCheck"]


def test_a_check_that_turns_pending_later_does_not_take_the_admission_back() -> None:
    life = world()
    life.job("w", 4)
    life.answer("w", k1="Ready")
    assert steps(life.answer("w", k1="Pending")) == []
    assert life.ledger.state.workloads["team", "w"].reservation.admitted


def test_answers_from_before_an_eviction_do_not_count_after_it() -> None:
    """7.4.1: the checks are reset, though the object that gives the quota back still shows the old answers."""
    life = world()
    life.job("w", 4)
    life.answer("w", k1="Ready")
    life.say("w", "PodsReady", True, "Started")
    life.stop("ClusterQueue", "a", "HoldAndDrain")
    answered = life.copy("w")["status"]["admissionChecks"]
    life.give_back("w")
    target = life.copy("w")
    target["status"]["admissionChecks"] = answered
    life.change(target)
    assert steps(life.stop("ClusterQueue", "a", "None")) == ["Requeued w ClusterQueueRestarted", "Reserved w"]
    assert steps(life.answer("w", k1="Ready")) == ["Admitted w"]


def test_a_queue_is_inactive_while_one_of_its_checks_is() -> None:
    life = world()
    life.objects["AdmissionCheck", "", "k2"]["status"]["conditions"] = [build.condition("Active", False, "Down", 1)]
    life.send("MODIFIED", life.objects["AdmissionCheck", "", "k2"])
    assert steps(life.job("w", 4)) == []
    life.objects["AdmissionCheck", "", "k2"]["status"]["conditions"] = [build.condition("Active", True, "Up", 1)]
    assert steps(life.send("MODIFIED", life.objects["AdmissionCheck", "", "k2"])) == ["Reserved w"]


def test_a_check_that_is_taken_off_the_queue_is_not_waited_for_any_more() -> None:
    life = on_the_second_flavor()
    life.answer("w", k1="Ready")
    queue = life.cluster_queue("a")
    queue["spec"]["admissionChecksStrategy"]["admissionChecks"].pop()
    assert steps(life.change(queue)) == ["Admitted w"]
