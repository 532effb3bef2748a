"""What was reported about priority classes, elastic jobs, partial admission and reclaimable pods, decided by the rules
(admission 1.6, 2.7, 5.10, 7.9, 8.2)."""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.life import GPU, Life, steps


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": build.KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": build.metadata(name, uid=f"wpc-{name}"),
        "value": value,
    }


def of_class(name: str) -> Object:
    return {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}


def slice_of(name: str, replaces: str, *pod_sets: Object, gpus: int = 1, queue: str = "a", **more: object) -> Object:
    target = build.workload(name, queue, *(pod_sets or [pods("main", gpus)]), **more)
    target["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": f"{NAMESPACE}/{replaces}"}
    return target


def pods(name: str, count: int, minimum: int | None = None) -> Object:
    return build.pod_set(name, requests={GPU: 1}, count=count, min_count=minimum)


def reclaim(life: Life, name: str, **counts: int) -> list[str]:
    target = life.copy(name)
    target["status"]["reclaimablePods"] = [{"name": each, "count": count} for each, count in sorted(counts.items())]
    return steps(life.change(target))


def resize(life: Life, name: str, **counts: int) -> list[str]:
    target = life.copy(name)
    for pod_set in target["spec"]["podSets"]:
        pod_set["count"] = counts.get(pod_set["name"], pod_set["count"])
    return steps(life.change(target))


# Priority classes.


def test_changed_classes_turn_the_order_of_two_workloads_round() -> None:
    """Kueue issue 8322: neither of the two changes did anything."""
    life = Life("a(4 W=LP)")
    life.add(priority_class("one", 1000), priority_class("two", 2000))
    life.job("second", 4, priority=2000, priorityClassRef=of_class("two"))
    life.job("first", 4, priority=1000, priorityClassRef=of_class("one"))
    assert steps(life.change(priority_class("two", 500))) == ["Preempted second InClusterQueue"]
    assert steps(life.change(priority_class("one", 3000))) == []
    assert "Reserved first" in steps(life.give_back("second"))


def test_a_class_that_is_added_to_a_waiting_workload_moves_it() -> None:
    """Kueue issue 8320: from no class to some."""
    life = Life("a(4 W=LP)")
    life.add(priority_class("two", 2000))
    life.job("holder", 4, priority=1000)
    life.job("w", 4)
    target = life.copy("w")
    target["spec"].update(priority=2000, priorityClassRef=of_class("two"))
    assert steps(life.change(target)) == ["Preempted holder InClusterQueue"]


def test_a_class_that_is_listed_again_unchanged_overwrites_nothing() -> None:
    """Kueue issue 14698: after a restart the class's value replaced a priority that was set by hand."""
    life = Life("a(4)")
    life.add(priority_class("one", 100))
    life.job("w", 4, priority=100, priorityClassRef=of_class("one"))
    target = life.copy("w")
    target["spec"]["priority"] = 1
    life.change(target)
    listed = life.objects["WorkloadPriorityClass", "", "one"]
    life.apply({"cluster": "test", "type": "SYNC_BEGIN", "kinds": ["WorkloadPriorityClass"]})
    life.apply(build.event("ADDED", listed))
    life.apply({"cluster": "test", "type": "SYNC_END", "kinds": ["WorkloadPriorityClass"]})
    life.send("ADDED", priority_class("one", 100))
    assert life.ledger.state.workloads["team", "w"].priority == 1


def test_a_class_that_is_made_anew_rewrites_all_that_name_it() -> None:
    """1.6.1."""
    life = Life("a(4)")
    life.add(priority_class("one", 100))
    life.job("w", 4, priority=100, priorityClassRef=of_class("one"))
    life.send("DELETED", life.objects["WorkloadPriorityClass", "", "one"])
    assert life.ledger.state.workloads["team", "w"].priority == 100
    life.add({**priority_class("one", 7), "metadata": build.metadata("one", uid="another")})
    assert life.ledger.state.workloads["team", "w"].priority == 7


def test_a_kubernetes_priority_class_of_the_same_name_is_another_thing() -> None:
    life = Life("a(4)")
    life.add(priority_class("one", 100))
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "one"}
    life.job("w", 4, priority=5, priorityClassRef=reference)
    life.change(priority_class("one", 9))
    assert life.ledger.state.workloads["team", "w"].priority == 5


def test_a_class_changes_what_lies_under_a_boost() -> None:
    """1.7.1: the class writes spec.priority; the boost comes on top, also where the two sums happen to be equal."""
    life = Life("a(4)", gates={"PriorityBoost": True})
    life.add(priority_class("one", 10))
    target = build.workload("w", "a", requests={GPU: 1}, priority=10, priorityClassRef=of_class("one"))
    target["metadata"]["annotations"] = {"kueue.x-k8s.io/priority-boost": "5"}
    life.add(target)
    life.change(priority_class("one", 15))
    assert life.ledger.state.workloads["team", "w"].priority == 20


def test_a_class_change_reaches_workloads_of_all_queues_at_once() -> None:
    life = Life("a(4 W=LP), b(4 W=LP)")
    life.add(priority_class("one", 10))
    for queue in ("a", "b"):
        life.job(f"{queue}1", 4, queue=queue, priority=10, priorityClassRef=of_class("one"))
        life.job(f"{queue}2", 4, queue=queue, priority=5)
    assert steps(life.change(priority_class("one", 1))) == [
        "Preempted a1 InClusterQueue",
        "Preempted b1 InClusterQueue",
    ]


# Elastic jobs.


def test_pod_sets_that_did_not_change_are_not_counted_twice() -> None:
    """Kueue pull request 9322."""
    life = Life("a(6)")
    life.submit(build.workload("old", "a", pods("head", 1), pods("worker", 3)))
    assert steps(life.submit(slice_of("new", "old", pods("head", 1), pods("worker", 5)))) == [
        "Reserved new",
        "Released old WorkloadSliceReplaced",
        "Admitted new",
    ]
    assert life.held("a") == 6


def test_one_pod_set_may_shrink_while_another_grows() -> None:
    """Kueue issue 9329: the difference is taken pod set by pod set; each must find room when its turn comes."""
    life = Life("a(5)")
    life.submit(build.workload("old", "a", pods("x", 2), pods("y", 2)))
    assert "Reserved new" in steps(life.submit(slice_of("new", "old", pods("x", 3), pods("y", 1))))
    assert life.held("a") == 4
    assert life.ledger.usage() == {"a": {f"f1/{GPU}": 4}}


def test_a_second_replacement_of_the_same_slice_asks_for_everything() -> None:
    """Kueue pull request 11327: duplicate replacements were all charged. Only a slice that holds quota is replaced."""
    life = Life("a(10)")
    life.submit(build.workload("old", "a", pods("main", 3)))
    life.submit(slice_of("new", "old", gpus=5))
    assert steps(life.submit(slice_of("twin", "old", gpus=6))) == []
    assert life.held("a") == 5
    assert steps(life.finish("new")) == ["Released new Finished", "Reserved twin", "Admitted twin"]
    assert life.held("a") == 6


def test_a_chain_of_slices_holds_only_the_last() -> None:
    life = Life("a(10)")
    life.submit(build.workload("s1", "a", pods("main", 2)))
    for number, gpus in ((2, 4), (3, 7), (4, 10)):
        decided = steps(life.submit(slice_of(f"s{number}", f"s{number - 1}", gpus=gpus)))
        assert decided[1] == f"Released s{number - 1} WorkloadSliceReplaced"
        assert life.held("a") == gpus


def test_a_growing_slice_preempts_what_stands_in_its_way() -> None:
    """Kueue issue 6969: the scale-up stayed pending and evicted nobody."""
    life = Life("a(8 W=LP)")
    life.submit(build.workload("old", "a", pods("main", 4), priority=10))
    life.job("low", 4)
    assert steps(life.submit(slice_of("new", "old", gpus=6, priority=10))) == ["Preempted low InClusterQueue"]
    assert steps(life.give_back("low"))[2:] == ["Reserved new", "Released old WorkloadSliceReplaced", "Admitted new"]


def test_a_slice_that_is_evicted_keeps_its_quota_though_a_larger_one_waits() -> None:
    """Kueue pull request 15661: the reservation went while the pods still ran."""
    life = Life("a(4 W=LP)")
    life.submit(build.workload("old", "a", pods("main", 3)))
    life.submit(slice_of("new", "old", gpus=5))
    assert steps(life.submit(build.workload("urgent", "a", pods("main", 2), priority=9))) == [
        "Preempted old InClusterQueue"
    ]
    assert life.held("a") == 3
    assert steps(life.give_back("old"))[2:] == ["Reserved urgent", "Admitted urgent"]


def test_a_slice_that_waits_for_checks_has_taken_over_already() -> None:
    """8.2: once the new slice is reserved, the old one is finished."""
    life = Life()
    life.check("k1")
    life.queue(checks=[{"name": "k1"}])
    life.submit(build.workload("old", "a", pods("main", 3)))
    life.answer("old", k1="Ready")
    assert steps(life.submit(slice_of("new", "old", gpus=5))) == [
        "Reserved new",
        "Released old WorkloadSliceReplaced",
    ]
    assert life.held("a") == 5
    assert steps(life.answer("new", k1="Ready")) == ["Admitted new"]


def test_a_slice_of_another_queue_is_not_replaced() -> None:
    """8.2: in the same ClusterQueue."""
    life = Life("k{a(4), b(4)}")
    life.submit(build.workload("old", "b", pods("main", 4)))
    assert steps(life.submit(slice_of("new", "old", gpus=5))) == []
    assert life.held("b") == 4


def test_scaling_down_below_what_was_reclaimed_leaves_nothing_and_no_debt() -> None:
    """Kueue issue 12670: reclaimablePods above the count of the pod set. 2.7.2: never below zero."""
    life = Life("a(10)", rules="ledger")
    life.submit(build.workload("w", "a", pods("main", 10)))
    assert reclaim(life, "w", main=6) == ["Released w ReclaimablePods"]
    assert resize(life, "w", main=5) == ["Released w ScaledDown"]
    assert life.held("a") == 0
    assert steps(life.finish("w")) == ["Released w Finished"]
    assert life.usage() == {}


def test_a_scale_down_is_told_with_what_came_back() -> None:
    """Kueue issue 12958: 20 pods, 9 reclaimed, scaled to 10: 2.7.2 counts what is left, 10 - 9."""
    life = Life("a(20)", rules="ledger")
    life.submit(build.workload("w", "a", pods("main", 20)))
    reclaim(life, "w", main=9)
    target = life.copy("w")
    target["spec"]["podSets"][0]["count"] = 10
    [released] = life.change(target)
    assert released["usage"] == {"f1": {GPU: "10"}}
    assert life.held("a") == 1
    assert reclaim(life, "w", main=0) == []
    assert life.held("a") == 10


def test_a_job_that_shrinks_and_grows_again_needs_room_for_its_growth_only() -> None:
    life = Life("a(10)")
    life.submit(build.workload("w", "a", pods("main", 8)))
    resize(life, "w", main=3)
    life.job("other", 5)
    assert steps(life.submit(slice_of("v", "w", gpus=6))) == []
    assert life.reasons() == {"v": "WaitingForQuota"}
    assert "Reserved v" in steps(life.finish("other"))
    assert life.held("a") == 6


# Partial admission and reclaimable pods.


def test_pods_that_were_never_admitted_cannot_be_given_back() -> None:
    """Kueue issue 3141: admitted with 5 of 8; the first three that are done free nothing (2.7.2: min(5, 8 - 3))."""
    life = Life("a(5)", rules="ledger")
    life.submit(build.workload("w", "a", pods("main", 8, 2)))
    assert life.held("a") == 5
    assert reclaim(life, "w", main=3) == []
    assert life.held("a") == 5
    assert reclaim(life, "w", main=4) == ["Released w ReclaimablePods"]
    assert life.held("a") == 4


def test_reclaimed_pods_stay_reclaimed_when_the_workload_waits_again() -> None:
    """Kueue pull request 15256: requests of a waiting workload are net of them too (2.7)."""
    life = Life("a(4 W=LP)", rules="ledger")
    life.submit(build.workload("w", "a", pods("main", 4)))
    reclaim(life, "w", main=3)
    life.job("in", 4, priority=9)
    life.give_back("w")
    life.finish("in")
    assert life.decisions[-2]["podSets"] == [{"name": "main", "count": 1, "flavors": {GPU: "f1"}, "usage": {GPU: "1"}}]
    assert life.held("a") == 1


def test_a_reclaimed_count_that_is_taken_back_is_charged_again() -> None:
    """Kueue issue 14609: restarted pods ran uncounted. The API forbids it; whoever gets it through is charged."""
    life = Life("a(4)", rules="ledger")
    life.submit(build.workload("w", "a", pods("main", 4)))
    reclaim(life, "w", main=3)
    life.job("v", 3)
    reclaim(life, "w", main=0)
    assert life.held("a") == 7
    assert steps(life.job("u", 1)) == []


@pytest.mark.parametrize(
    ("priority", "decided"), [(5, ["Preempted v InClusterQueue"]), (0, ["Reserved w", "Admitted w"])]
)
def test_a_smaller_size_is_tried_only_where_no_victims_are_found(priority: int, decided: list[str]) -> None:
    """Kueue issue 2799, T56, T57."""
    life = Life("a(10 W=LP)")
    life.job("v", 4)
    assert steps(life.submit(build.workload("w", "a", pods("main", 8, 2), priority=priority))) == decided


def test_a_partially_admitted_workload_gets_all_its_pods_the_next_time() -> None:
    """The count of a reservation is that of the reservation; the workload asks for all again."""
    life = Life("a(4)", waitForPodsReady={"timeout": "100s"})
    life.at(1000).job("other", 2)
    life.at(1001).submit(build.workload("w", "a", pods("main", 4, 1)))
    assert life.held("a") == 4
    life.at(1002).pods("other", True)
    life.at(1003).finish("other")
    life.tick(1102)
    life.at(1103).give_back("w")
    assert "Reserved w" in steps(life.tick(1162))
    assert life.decisions[-2]["podSets"][0]["count"] == 4


def test_no_timer_and_no_check_strikes_a_slice_that_was_replaced() -> None:
    life = Life(waitForPodsReady={"timeout": "100s"})
    life.check("k1")
    life.queue(checks=[{"name": "k1"}])
    life.at(1000).submit(build.workload("old", "a", pods("main", 3)))
    life.at(1001).answer("old", k1="Ready")
    life.at(1050).submit(slice_of("new", "old", gpus=5))
    life.at(1051).answer("new", k1="Ready")
    assert life.ledger.next_deadline() == (1_767_225_600 + 1151) * 1_000_000
    assert steps(life.at(1052).answer("old", k1="Rejected")) == []
    assert steps(life.tick(1150)) == []
    assert steps(life.tick(1151)) == ["Evicted new PodsReadyTimeout"]
