"""Hold and HoldAndDrain of both kinds of queue, deactivation, release (T87, T88, T93, T94, admission 7.6 to 7.9)."""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.life import GPU, Life, steps


def with_three() -> Life:
    """x is reserved and waits for its check, y is admitted, z waits for room."""
    life = Life()
    life.check("k1")
    life.queue("a", 4, checks=[{"name": "k1"}])
    life.job("y", 2)
    life.answer("y", k1="Ready")
    life.job("x", 2)
    life.job("z", 2)
    return life


def test_t87_a_queue_on_hold_takes_back_what_was_not_admitted() -> None:
    life = with_three()
    assert steps(life.stop("ClusterQueue", "a", "Hold")) == ["Released x Suspended"]
    assert life.held("a") == 2
    assert steps(life.answer("x", k1="Ready")) == []
    assert sorted(life.ledger.state.forest.queues["a"].pending, key=lambda w: w.name)[0].name == "x"
    assert steps(life.stop("ClusterQueue", "a", "None")) == ["Reserved x", "Admitted x"]


@pytest.mark.parametrize(("kind", "reason"), [("ClusterQueue", "ClusterQueue"), ("LocalQueue", "LocalQueue")])
def test_t88_a_drained_queue_evicts_and_takes_its_workloads_again_when_it_restarts(kind: str, reason: str) -> None:
    life = with_three()
    assert steps(life.stop(kind, "a", "HoldAndDrain")) == ["Released x Suspended", f"Evicted y {reason}Stopped"]
    assert steps(life.give_back("y")) == [f"Released y {reason}Stopped"]
    assert steps(life.tick(5000)) == []
    restarted = steps(life.stop(kind, "a", "None"))
    assert f"Requeued y {reason}Restarted" in restarted or "Reserved y" in restarted
    assert life.held("a") == 4


def test_a_local_queue_on_hold_takes_its_workloads_out_of_the_queue() -> None:
    life = with_three()
    life.stop("LocalQueue", "a", "Hold")
    assert list(life.ledger.state.forest.queues["a"].pending) == []
    assert life.held("a") == 2


def test_a_queue_that_is_deleted_ends_reservations_but_not_admissions() -> None:
    life = with_three()
    local_queue = life.objects["LocalQueue", "team", "a"]
    assert steps(life.send("DELETED", local_queue)) == ["Released x Misconfigured"]
    assert life.held("a") == 2


def test_t93_reclaimable_pods_give_their_quota_back() -> None:
    life = Life(rules="ledger")
    life.queue("a", 12)
    life.add(
        build.holding(
            build.workload("w", "a", build.pod_set("main", requests={GPU: 2}, count=10)),
            "a",
            [build.assignment("main", {GPU: "f1"}, {GPU: 12}, count=6)],
        )
    )
    assert life.held("a") == 12
    life.job("waiting", 6)
    target = life.copy("w")
    target["status"]["reclaimablePods"] = [{"name": "main", "count": 7}]
    assert steps(life.change(target)) == ["Released w ReclaimablePods", "Reserved waiting", "Admitted waiting"]
    assert life.held("a") == 12


def test_t94_a_victim_holds_its_quota_until_it_gives_it_back_and_keeps_its_place() -> None:
    life = Life("a(4 W=LP)")
    life.at(201).job("victim", 4, created=100)
    decided = life.at(210).job("in", 4, priority=5)
    assert steps(decided) == ["Preempted victim InClusterQueue"]
    assert steps(life.tick(224)) == []
    assert life.held("a") == 4
    assert steps(life.at(225).give_back("victim")) == [
        "Released victim Preempted",
        "Requeued victim Preempted",
        "Reserved in",
        "Admitted in",
    ]
    assert life.ledger.state.workloads["team", "victim"].order_time == (1_767_225_600 + 100) * 1_000_000


def test_a_deactivated_workload_is_evicted_and_its_quota_is_free_at_once() -> None:
    life = Life("a(4)")
    life.job("w", 4)
    life.job("next", 4)
    assert steps(life.activate("w", False)) == [
        "Evicted w Deactivated",
        "Released w Deactivated",
        "Reserved next",
        "Admitted next",
    ]
    life.finish("next")
    life.give_back("w")
    assert steps(life.activate("w", True)) == ["Requeued w Reactivated", "Reserved w", "Admitted w"]


def test_a_workload_that_was_evicted_for_another_reason_keeps_that_reason() -> None:
    """7.7.2."""
    life = Life("a(4 W=LP)")
    life.job("victim", 4)
    life.job("in", 4, priority=5)
    assert steps(life.activate("victim", False), "victim") == ["Released victim Deactivated"]


def test_an_eviction_by_failed_nodes_is_told_and_waits_for_nothing() -> None:
    life = Life("a(4)")
    life.job("w", 4)
    life.change(life.copy("w"))
    assert steps(life.say("w", "Evicted", True, "NodeFailures")) == ["Evicted w NodeFailures"]
    assert steps(life.give_back("w")) == [
        "Released w NodeFailures",
        "Requeued w NodeFailures",
        "Reserved w",
        "Admitted w",
    ]


def test_a_queue_that_was_drained_and_deleted_takes_its_workloads_when_it_is_made_anew() -> None:
    life = Life("a(4)")
    life.job("w", 4)
    life.stop("ClusterQueue", "a", "HoldAndDrain")
    life.give_back("w")
    gone = life.cluster_queue("a")
    life.send("DELETED", gone)
    gone["spec"]["stopPolicy"] = "None"
    gone["metadata"] = {**gone["metadata"], "uid": "another"}
    assert steps(life.add(gone)) == ["Requeued w ClusterQueueRestarted", "Reserved w", "Admitted w"]


def test_a_workload_that_moves_away_from_a_stopped_local_queue_waits_in_the_other() -> None:
    life = Life("k{a(4), b(4)}")
    life.job("w", 4)
    life.stop("LocalQueue", "a", "HoldAndDrain")
    life.give_back("w")
    target = life.copy("w")
    target["spec"]["queueName"] = "b"
    assert steps(life.change(target))[-2:] == ["Reserved w", "Admitted w"]
    assert life.held("b") == 4


def test_old_news_of_a_withdrawn_reservation_do_not_bring_it_back() -> None:
    life = with_three()
    shown = life.copy("x")
    life.stop("ClusterQueue", "a", "Hold")
    assert steps(life.change({**shown, "metadata": {**shown["metadata"], "labels": {"late": "news"}}})) == []
    assert life.held("a") == 2
