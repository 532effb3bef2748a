"""What was reported about stopped and deleted queues, deactivation, execution time and node failure, decided by the
rules (admission 7.6 to 7.9, 4.1, 4.9; objects 2.7, 2.8)."""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.life import GPU, Life, steps


def two_queues() -> Life:
    """a and b lend to each other; w is admitted in a with 4 of its 4."""
    life = Life("k{a(4), b(4)}")
    life.at(1000).job("w", 4)
    return life


# Stopped queues.


def test_a_queue_on_hold_admits_nobody_even_when_quota_comes_back() -> None:
    """Kueue issue 1651."""
    life = Life("a(4)")
    life.at(1000).job("w", 4)
    life.at(1001).job("next", 4)
    life.at(1002).stop("ClusterQueue", "a", "Hold")
    assert steps(life.at(1003).finish("w")) == ["Released w Finished"]
    assert steps(life.at(1004).job("more", 1)) == []
    assert steps(life.at(1005).stop("ClusterQueue", "a", "None")) == ["Reserved next", "Admitted next"]


def test_a_local_queue_on_hold_lets_run_what_runs() -> None:
    """Kueue pull request 2173: what was admitted still counts."""
    life = Life("a(8)")
    life.add(build.local_queue("other", "a"))
    life.at(1000).job("w", 4)
    life.at(1001).stop("LocalQueue", "a", "Hold")
    assert life.held("a") == 4
    assert steps(life.at(1002).job("v", 1)) == []
    assert steps(life.at(1003).job("u", 1, queue="other")) == ["Reserved u", "Admitted u"]
    assert steps(life.at(1004).stop("LocalQueue", "a", "None")) == ["Reserved v", "Admitted v"]


def test_a_stopped_queue_still_lends_and_its_workloads_are_no_victims() -> None:
    """4.9.3: its quota and usage count, its workloads can be neither admitted nor preempted."""
    life = Life("k{a(4 R=Any), b(4)}")
    life.at(1000).job("greedy", 6, queue="b")
    life.at(1001).stop("ClusterQueue", "b", "Hold")
    assert steps(life.at(1002).job("in", 4)) == []
    assert steps(life.at(1003).job("small", 2)) == ["Reserved small", "Admitted small"]
    assert life.usage() == {"a": {f"f1/{GPU}": 2}, "b": {f"f1/{GPU}": 6}}


def test_both_queues_stopped_the_local_one_is_named() -> None:
    """7.6: the LocalQueue is looked at first."""
    life = Life("a(4)")
    life.at(1000).stop("ClusterQueue", "a", "HoldAndDrain")
    life.at(1001).stop("LocalQueue", "a", "HoldAndDrain")
    assert steps(life.at(1002).hold("w@a:4")) == ["Evicted w LocalQueueStopped"]


def test_who_was_drained_by_one_queue_waits_for_that_one_only() -> None:
    """7.4.4: the reason of the eviction says whose restart brings it back."""
    life = Life("a(4)")
    life.at(1000).job("w", 4)
    life.at(1001).stop("ClusterQueue", "a", "HoldAndDrain")
    life.at(1002).give_back("w")
    life.at(1003).stop("LocalQueue", "a", "Hold")
    assert steps(life.at(1004).stop("ClusterQueue", "a", "None")) == []
    assert steps(life.at(1005).stop("LocalQueue", "a", "None")) == [
        "Requeued w ClusterQueueRestarted",
        "Reserved w",
        "Admitted w",
    ]


def test_a_queue_that_goes_from_drained_to_hold_takes_nobody_back() -> None:
    life = Life("a(4)")
    life.at(1000).job("w", 4)
    life.at(1001).stop("ClusterQueue", "a", "HoldAndDrain")
    life.at(1002).give_back("w")
    assert steps(life.at(1003).stop("ClusterQueue", "a", "Hold")) == []
    assert steps(life.at(1004).stop("ClusterQueue", "a", "None")) == [
        "Requeued w ClusterQueueRestarted",
        "Reserved w",
        "Admitted w",
    ]


def test_a_queue_that_goes_from_hold_to_drained_evicts_what_still_runs() -> None:
    life = two_queues()
    assert steps(life.at(1001).stop("ClusterQueue", "a", "Hold")) == []
    assert steps(life.at(1002).stop("ClusterQueue", "a", "HoldAndDrain")) == ["Evicted w ClusterQueueStopped"]


def test_a_queue_that_starts_again_before_the_quota_is_back_takes_its_workload_at_the_release() -> None:
    life = two_queues()
    life.at(1001).stop("ClusterQueue", "a", "HoldAndDrain")
    assert steps(life.at(1002).stop("ClusterQueue", "a", "None")) == []
    assert steps(life.at(1010).give_back("w")) == [
        "Released w ClusterQueueStopped",
        "Requeued w ClusterQueueRestarted",
        "Reserved w",
        "Admitted w",
    ]


def test_draining_does_not_touch_who_is_leaving_already() -> None:
    """7.4.1: evicted once, for the first reason."""
    life = Life("a(4 W=LP)")
    life.at(1000).job("w", 4)
    life.at(1001).job("in", 4, priority=5)
    assert steps(life.at(1002).stop("ClusterQueue", "a", "HoldAndDrain")) == []
    assert steps(life.at(1003).give_back("w")) == ["Released w Preempted", "Requeued w Preempted"]


def test_a_backoff_does_not_end_a_stop() -> None:
    life = Life("a(4)", waitForPodsReady={"timeout": "100s"})
    life.at(1000).job("w", 4)
    life.tick(1100)
    life.at(1101).give_back("w")
    life.at(1102).stop("ClusterQueue", "a", "Hold")
    assert steps(life.tick(1160)) == ["Requeued w BackoffFinished"]
    assert steps(life.at(1170).stop("ClusterQueue", "a", "None")) == ["Reserved w", "Admitted w"]


def test_a_workload_that_arrives_at_a_stopped_queue_waits_like_the_others() -> None:
    life = Life("a(4)")
    life.stop("ClusterQueue", "a", "HoldAndDrain")
    assert steps(life.job("w", 4)) == []
    assert steps(life.stop("ClusterQueue", "a", "None")) == ["Reserved w", "Admitted w"]


# Deleted queues.


def test_the_quota_of_a_deleted_queue_can_no_longer_be_borrowed() -> None:
    """Kueue issue 5937: the cohort went on lending what a deleted queue had brought."""
    life = Life("k{a(4), b(4)}")
    life.send("DELETED", life.objects["ClusterQueue", "", "b"])
    assert steps(life.job("w", 6)) == []
    assert life.reasons() == {"w": "ExceedsMaxQuota"}
    assert steps(life.job("v", 4)) == ["Reserved v", "Admitted v"]


def test_a_queue_is_drained_before_it_is_deleted() -> None:
    """Kueue issue 2835: HoldAndDrain is how a queue that is in use is deleted."""
    life = two_queues()
    life.at(1001).stop("ClusterQueue", "a", "HoldAndDrain")
    life.at(1002).give_back("w")
    life.send("DELETED", life.objects["ClusterQueue", "", "a"])
    assert life.usage() == {}
    assert life.reasons() == {"w": None}
    assert list(life.ledger.state.forest.queues) == ["b"]


def test_a_workload_whose_local_queue_is_deleted_runs_on_and_finishes() -> None:
    life = two_queues()
    life.send("DELETED", life.objects["LocalQueue", "team", "a"])
    assert life.held("a") == 4
    assert steps(life.finish("w")) == ["Released w Finished"]


def test_a_terminating_workload_is_not_admitted_and_keeps_what_it_has() -> None:
    """Objects 2.8: held until it is finished or gone, not until deletion is asked for."""
    life = two_queues()
    life.at(1001).job("next", 8, queue="b")
    target = life.copy("w")
    target["metadata"]["deletionTimestamp"] = build.moment(1010)
    assert steps(life.at(1010).change(target)) == []
    assert life.held("a") == 4
    waiting = life.copy("next")
    waiting["metadata"]["deletionTimestamp"] = build.moment(1011)
    life.change(waiting)
    assert steps(life.at(1012).delete("w")) == ["Released w Deleted"]


def test_a_workload_that_is_made_anew_under_its_name_is_another_one() -> None:
    """Objects 2.8: deleted by hand while its job lives, it comes back with a new uid and as a new arrival."""
    life = Life("a(4)", waitForPodsReady={"timeout": "100s"})
    life.at(1000).job("w", 4)
    life.tick(1100)
    assert steps(life.at(1101).delete("w")) == ["Released w Deleted"]
    assert steps(life.at(1102).job("w", 4, uid="another")) == ["Reserved w", "Admitted w"]
    assert life.ledger.state.workloads["team", "w"].requeue_count == 0


# Deactivation.


def test_a_workload_that_was_never_admitted_can_be_deactivated_and_come_back() -> None:
    life = two_queues()
    life.at(1001).job("next", 8)
    assert steps(life.at(1002).activate("next", False)) == ["Evicted next Deactivated"]
    assert life.reasons() == {}
    assert steps(life.at(1003).finish("w")) == ["Released w Finished"]
    assert steps(life.at(1004).activate("next", True)) == ["Reserved next", "Admitted next"]


def test_a_workload_that_is_active_again_before_it_stopped_is_counted_again() -> None:
    """7.7.4."""
    life = two_queues()
    life.change(life.copy("w"))
    assert steps(life.activate("w", False)) == ["Evicted w Deactivated", "Released w Deactivated"]
    assert life.usage() == {}
    life.activate("w", True)
    assert life.held("a") == 4
    assert life.ledger.state.workloads["team", "w"].is_evicted


def test_a_cause_that_the_cluster_wrote_is_told_with_the_eviction() -> None:
    """7.7.2: the reason of DeactivationTarget is the underlying cause."""
    life = two_queues()
    target = build.with_conditions(
        life.copy("w"), build.condition("DeactivationTarget", True, "EvictedOnManagerCluster", 1001)
    )
    target["spec"]["active"] = False
    assert steps(life.change(target)) == [
        "Evicted w DeactivatedDueToEvictedOnManagerCluster",
        "Released w Deactivated",
    ]


# Maximum execution time.


def test_the_time_of_a_reservation_without_admission_is_not_counted() -> None:
    """Kueue KEP 3125: the clock begins with the admission; a check may take as long as it needs."""
    life = Life()
    life.check("k1")
    life.queue(checks=[{"name": "k1"}])
    life.at(1000).job("w", 1, maximumExecutionTimeSeconds=100)
    assert steps(life.tick(5000)) == []
    life.at(5010).answer("w", k1="Ready")
    life.at(5011).pods("w", True)
    assert steps(life.tick(5109)) == []
    assert steps(life.tick(5110)) == ["Evicted w DeactivatedDueToMaximumExecutionTimeExceeded"]


def test_every_admission_is_counted_in_whole_seconds() -> None:
    """7.2.8: three admissions of 30.9 s are 90 s."""
    life = Life("a(4)")
    life.at(1000).job("w", 4, maximumExecutionTimeSeconds=100)
    life.pods("w", True)
    for begins in (1000, 2000, 3000):
        life.at(begins + 30.9).stop("ClusterQueue", "a", "HoldAndDrain")
        life.at(begins + 30.9).give_back("w")
        life.at(begins + 1000).stop("ClusterQueue", "a", "None")
    assert life.ledger.state.workloads["team", "w"].executed_seconds == 90
    assert steps(life.tick(4009)) == []
    assert steps(life.tick(4010)) == ["Evicted w DeactivatedDueToMaximumExecutionTimeExceeded"]


def test_what_the_cluster_says_of_past_time_wins() -> None:
    life = Life("a(4)")
    life.at(1000).job("w", 4, maximumExecutionTimeSeconds=100)
    life.pods("w", True)
    target = life.copy("w")
    target["status"]["accumulatedPastExecutionTimeSeconds"] = 95
    assert steps(life.at(1004).change(target)) == []
    assert steps(life.tick(1005)) == ["Evicted w DeactivatedDueToMaximumExecutionTimeExceeded"]


def test_a_time_that_is_made_shorter_strikes_at_once() -> None:
    life = Life("a(4)")
    life.at(1000).job("w", 4, maximumExecutionTimeSeconds=1000)
    life.at(1001).pods("w", True)
    target = life.copy("w")
    target["spec"]["maximumExecutionTimeSeconds"] = 60
    assert steps(life.at(1100).change(target)) == ["Evicted w DeactivatedDueToMaximumExecutionTimeExceeded"]


def test_a_timer_of_a_workload_that_is_gone_strikes_nobody() -> None:
    life = Life("a(4)")
    life.at(1000).job("w", 4, maximumExecutionTimeSeconds=100)
    life.at(1010).delete("w")
    life.at(1020).job("w", 4, uid="another")
    life.at(1021).pods("w", True)
    assert life.ledger.next_deadline() is None
    assert steps(life.tick(9000)) == []


# Node failure.


def test_a_node_that_failed_is_decided_where_topology_is_and_told_here() -> None:
    """7.4.4, 8.5: whether another node can take its place is outside of these rules; unhealthyNodes alone evicts
    nobody, the eviction that the cluster writes does, and the workload waits for nothing but its release."""
    life = two_queues()
    target = life.copy("w")
    target["status"]["unhealthyNodes"] = [{"name": "n1"}, {"name": "n2"}]
    assert steps(life.at(1001).change(target)) == []
    assert steps(life.at(1002).say("w", "Evicted", True, "NodeFailures")) == ["Evicted w NodeFailures"]
    assert life.held("a") == 4
    assert steps(life.at(1003).give_back("w")) == [
        "Released w NodeFailures",
        "Requeued w NodeFailures",
        "Reserved w",
        "Admitted w",
    ]


@pytest.mark.parametrize("reason", ["Preempted", "NodeFailures"])
def test_a_pod_of_its_own_is_not_taken_back(reason: str) -> None:
    """7.4.2, SkipReassignmentForPodOwnedWorkloads: Requeued stays False for a workload that one pod owns."""
    life = two_queues()
    life.change(life.copy("w"))
    life.say("w", "Evicted", True, reason)
    life.say("w", "Requeued", False, reason)
    target = life.copy("w")
    target["status"].pop("admission")
    target = build.with_conditions(target, build.condition("QuotaReserved", False, "PendingEvaluation", 1010))
    assert steps(life.at(1010).change(target)) == [f"Released w {reason}"]
    assert steps(life.tick(9000)) == []
    assert life.parked() == {"a": ["w"]}


def test_a_victim_that_is_deactivated_and_comes_back_waits_for_nothing() -> None:
    """7.4.2: after a preemption nobody has to say that it may be queued; a deactivation in between changes nothing."""
    life = Life("a(4 W=LP)")
    life.at(1000).job("w", 4)
    life.at(1001).job("in", 4, priority=5)
    life.at(1002).activate("w", False)
    target = life.copy("w")
    target["spec"]["active"] = True
    target["status"] = {"conditions": [build.condition("QuotaReserved", False, "PendingEvaluation", 1003)]}
    life.at(1003).change(target)
    assert steps(life.at(1004).finish("in")) == ["Released in Finished", "Reserved w", "Admitted w"]


def test_a_local_queue_that_starts_again_looks_at_no_backoff() -> None:
    """4.1.4, a quirk of the reference: what a LocalQueue brings goes to the heap, and may be reserved."""
    life = Life("a(4)", waitForPodsReady={"timeout": "100s"})
    life.at(1000).job("w", 4)
    life.tick(1100)
    life.at(1101).give_back("w")
    life.at(1110).stop("LocalQueue", "a", "Hold")
    assert steps(life.at(1120).stop("LocalQueue", "a", "None")) == ["Reserved w", "Admitted w"]
    assert steps(life.tick(1160)) == []
    assert steps(life.tick(1220)) == ["Evicted w PodsReadyTimeout"]
