"""What was reported about admission checks and two-phase admission, decided by the rules (admission 7.2, 7.4, 4.9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders as build
from tests.builders import Object
from tests.life import GPU, Life, steps

MULTIKUEUE, PROVISIONING = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


def world(*checks: Object, rules: str = "kueue-0.19", **more: Any) -> Life:
    """ClusterQueue a: f1 with room for 4, then f2 with room for 4; the checks given, k1 on all flavors by default."""
    life = Life(rules=rules, **more)
    named = list(checks) or [{"name": "k1"}]
    for check in named:
        life.check(check["name"])
    life.add(build.flavor("f1"), build.flavor("f2"))
    queue = build.cluster_queue("a", build.group(f1=[build.quota(GPU, 4)], f2=[build.quota(GPU, 4)]))
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": named}
    life.add(queue, build.local_queue("a"))
    return life


def check(name: str, *flavors: str) -> Object:
    return {"name": name, "onFlavors": list(flavors)} if flavors else {"name": name}


def require(life: Life, *checks: Object) -> list[Any]:
    """The ClusterQueue names these checks from now on."""
    queue = life.cluster_queue("a")
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": list(checks)}
    return life.change(queue)


def turn(life: Life, name: str, active: bool) -> list[Any]:
    target: Object = dict(life.objects["AdmissionCheck", "", name])
    target["status"] = {"conditions": [build.condition("Active", active, "Active", life.now)]}
    return life.change(target)


def asking_for_a_retry() -> Object:
    """A workload that waits, and whose check answers Retry."""
    waiting = build.workload("w", "a", requests={GPU: 1})
    answered = {"name": "k1", "state": "Retry", "message": "", "lastTransitionTime": build.moment(100)}
    return {**waiting, "status": {"admissionChecks": [answered]}}


# Retry.


def test_a_check_that_asks_for_a_retry_gets_one() -> None:
    """Kueue issue 3322: the workload was evicted and never came back."""
    life = world()
    life.at(1000).job("w", 4)
    assert steps(life.at(1010).answer("w", k1="Retry")) == ["Evicted w AdmissionCheck"]
    assert steps(life.at(1020).give_back("w")) == [
        "Released w AdmissionCheck",
        "Requeued w BackoffFinished",
        "Reserved w",
    ]
    assert steps(life.at(1030).answer("w", k1="Ready")) == ["Admitted w"]


def test_a_retry_that_arrives_during_the_eviction_does_not_evict_twice() -> None:
    """Kueue issue 3543: a controller answered Retry while the eviction was under way."""
    life = world()
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1="Retry")
    assert steps(life.at(1015).answer("w", k1="Retry")) == []
    life.at(1020).give_back("w")
    assert [step for step in steps(life.decisions) if "Evicted" in step] == ["Evicted w AdmissionCheck"]
    assert life.held("a", f"f1/{GPU}") == 4


@pytest.mark.parametrize(("rules", "after"), [("kueue-0.19", []), ("ledger", ["Reserved w"])])
def test_a_check_that_stops_asking_for_a_retry_lets_its_workload_in(rules: str, after: list[str]) -> None:
    """Kueue issue 3543: refused for a failed check, the workload was not looked at when the check was reset (4.5.6)."""
    life = world(rules=rules)
    life.add(asking_for_a_retry())
    assert life.reasons() == {"w": "PendingEvaluation"}
    assert steps(life.answer("w", k1="Pending")) == after


def test_a_workload_whose_check_asks_for_a_retry_is_not_offered_quota() -> None:
    """Kueue pull request 1763: Retry means that it is not considered until the check says otherwise (5.2)."""
    life = world()
    assert steps(life.add(asking_for_a_retry())) == []
    assert life.reasons() == {"w": "PendingEvaluation"}


def test_the_longest_delay_of_all_checks_counts() -> None:
    """Kueue issue 3258; 7.4.6: the maximum of transition time and delay."""
    life = world(check("k1"), check("k2"))
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1=("Retry", 100))
    assert steps(life.at(1020).answer("w", k2=("Retry", 30))) == []
    assert steps(life.tick(1109)) == []
    assert steps(life.tick(1110)) == ["Evicted w AdmissionCheck"]


def test_a_delay_that_is_over_when_it_is_told_evicts_at_once() -> None:
    life = world()
    life.at(1000).job("w", 4)
    target = life.copy("w")
    answered = {"name": "k1", "state": "Retry", "message": "", "requeueAfterSeconds": 5}
    target["status"]["admissionChecks"] = [{**answered, "lastTransitionTime": build.moment(1001)}]
    assert steps(life.at(1030).change(target)) == ["Evicted w AdmissionCheck"]


def test_a_check_that_changes_its_mind_during_the_delay_keeps_the_workload() -> None:
    life = world()
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1=("Retry", 100))
    assert steps(life.at(1050).answer("w", k1="Ready")) == ["Admitted w"]
    assert steps(life.tick(1200)) == []


def in_a_shown_delay(rules: str = "kueue-0.19") -> Life:
    """The workload w holds quota; its check asked for a retry at 1010, and the object shows requeueAt 1110."""
    life = world(rules=rules)
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1=("Retry", 100))
    target = life.copy("w")
    target["status"]["requeueState"] = {"requeueAt": build.moment(1110)}
    assert steps(life.at(1011).change(target)) == []
    return life


@pytest.mark.parametrize(
    ("rules", "at_once", "at_the_end"),
    [("kueue-0.19", [], ["Admitted w"]), ("ledger", ["Admitted w"], [])],
)
def test_a_check_that_turns_ready_in_a_shown_delay_admits_when_it_is_over(
    rules: str, at_once: list[str], at_the_end: list[str]
) -> None:
    """7.4.6: the reference's controller waits for requeueAt before it looks at anything else of a holder."""
    life = in_a_shown_delay(rules)
    assert steps(life.at(1050).answer("w", k1="Ready")) == at_once
    assert steps(life.tick(1109)) == []
    assert steps(life.tick(1110)) == at_the_end


@pytest.mark.parametrize(
    ("rules", "at_once", "at_the_end"),
    [
        ("kueue-0.19", [], ["Evicted w DeactivatedDueToAdmissionCheck"]),
        ("ledger", ["Evicted w DeactivatedDueToAdmissionCheck"], []),
    ],
)
def test_a_check_that_rejects_in_a_shown_delay_deactivates_when_it_is_over(
    rules: str, at_once: list[str], at_the_end: list[str]
) -> None:
    """7.4.5, 7.4.6."""
    life = in_a_shown_delay(rules)
    assert steps(life.at(1050).answer("w", k1="Rejected")) == at_once
    assert steps(life.tick(1110)) == at_the_end


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
@pytest.mark.parametrize(("kind", "name"), [("ClusterQueue", "a"), ("LocalQueue", "a")])
def test_a_queue_that_stops_in_a_shown_delay_is_obeyed_after_the_checks(kind: str, name: str, policy: str) -> None:
    """7.4.6, 7.6: when the delay is over the checks come first, and their eviction is the one."""
    life = in_a_shown_delay()
    assert steps(life.at(1050).stop(kind, name, policy)) == []
    assert steps(life.tick(1110)) == ["Evicted w AdmissionCheck"]


def test_a_check_that_turns_ready_while_its_queue_is_on_hold_in_a_shown_delay_admits() -> None:
    """7.2.5 before 7.6: who is admitted runs on in a queue on hold."""
    life = in_a_shown_delay()
    life.at(1050).stop("ClusterQueue", "a", "Hold")
    assert steps(life.at(1060).answer("w", k1="Ready")) == []
    assert steps(life.tick(1110)) == ["Admitted w"]


def test_no_timeout_strikes_in_a_shown_delay() -> None:
    """7.4.6, 7.8.1: a delay that is longer than the time a workload may run ends with the check's eviction."""
    life = world()
    life.at(1000).job("w", 4, maximumExecutionTimeSeconds=60)
    life.at(1010).answer("w", k1="Ready")
    life.at(1015).answer("w", k1=("Retry", 100))
    target = life.copy("w")
    target["status"]["requeueState"] = {"requeueAt": build.moment(1115)}
    life.at(1016).change(target)
    assert steps(life.tick(1114)) == []
    assert steps(life.tick(1115)) == ["Evicted w AdmissionCheck"]


def test_an_admitted_workload_is_evicted_by_a_retry_too() -> None:
    """7.2.7: of later answers only Retry and Rejected act on it. Kueue issue 10660: unhealthy nodes or not."""
    life = world()
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1="Ready")
    target = life.copy("w")
    target["status"]["unhealthyNodes"] = [{"name": "n1"}]
    life.at(1015).change(target)
    assert steps(life.at(1020).answer("w", k1="Retry")) == ["Evicted w AdmissionCheck"]


def test_a_backoff_that_ends_later_than_the_delay_of_a_check_is_waited_for() -> None:
    """7.4.6: requeueAt is never made earlier."""
    life = world(waitForPodsReady={"timeout": "100s", "requeuingStrategy": {"backoffBaseSeconds": 500}})
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1="Ready")
    life.tick(1110)
    life.at(1120).give_back("w")
    late = life.copy("w")
    late["status"]["admissionChecks"] = [
        {"name": "k1", "state": "Retry", "message": "", "requeueAfterSeconds": 1, "lastTransitionTime": life.moment()}
    ]
    life.change(late)
    assert life.ledger.next_deadline() == (1_767_225_600 + 1610) * 1_000_000


# Rejection.


def test_a_rejection_during_another_eviction_is_not_lost() -> None:
    """Kueue issue 10807, pull request 14309: it was dropped with the retry that was under way."""
    life = world(check("k1"), check("k2"))
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1="Retry")
    assert steps(life.at(1011).answer("w", k2="Rejected")) == []
    target = life.copy("w")
    decided = steps(life.at(1020).give_back("w"))
    assert decided[0] == "Released w AdmissionCheck"
    assert target["status"]["admissionChecks"][1]["state"] == "Rejected"
    again = life.copy("w")
    again["status"]["admissionChecks"] = target["status"]["admissionChecks"]
    assert "Evicted w DeactivatedDueToAdmissionCheck" in steps(life.at(1030).change(again))


def test_the_message_names_the_checks_that_rejected() -> None:
    life = world(check("k1"), check("k2"))
    life.at(1000).job("w", 4)
    target = life.copy("w")
    target["status"]["admissionChecks"] = [
        {"name": "k1", "state": "Rejected", "message": "too dear", "lastTransitionTime": build.moment(1001)},
        {"name": "k2", "state": "Ready", "message": "", "lastTransitionTime": build.moment(1001)},
    ]
    [told] = life.change(target)
    assert told["reason"] == "DeactivatedDueToAdmissionCheck"
    assert told["message"] == 'The workload is deactivated due to AdmissionCheck in Rejected state: "k1" (too dear)'


def test_the_message_of_an_eviction_names_all_checks_that_asked_for_it() -> None:
    """Objects 2.4; a check that said nothing is named all the same."""
    life = world(check("k1"), check("k2"))
    life.at(1000).job("w", 4)
    target = life.copy("w")
    target["status"]["admissionChecks"] = [
        {"name": "k2", "state": "Retry", "message": "full", "lastTransitionTime": build.moment(1001)},
        {"name": "k1", "state": "Retry", "message": "", "lastTransitionTime": build.moment(1001)},
    ]
    [told] = life.change(target)
    assert told["message"] == 'Evicted due to AdmissionChecks in Retry state: "k1"; "k2" (full)'


# Which checks count.


def test_a_check_of_a_flavor_that_is_not_used_any_more_is_not_waited_for() -> None:
    """Kueue issue 5477: evicted from the flavor with a check, a workload got the other flavor and kept waiting."""
    life = world(check("k2", "f2"), rules="ledger")
    life.at(1000).job("first", 4)
    assert steps(life.at(1001).job("w", 4)) == ["Reserved w"]
    assert steps(life.at(1002).answer("w", k2="Ready")) == ["Admitted w"]
    life.at(1003).finish("first")
    life.at(1004).answer("w", k2="Retry")
    again = steps(life.at(1005).give_back("w"))
    assert again == ["Released w AdmissionCheck", "Requeued w BackoffFinished", "Reserved w", "Admitted w"]
    assert life.ledger.usage()["a"] == {f"f1/{GPU}": 4}


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_an_answer_of_a_check_that_does_not_apply_is_taken_off_the_list(state: str) -> None:
    """7.2.3: the list is made equal to what applies before anything follows from it."""
    life = world(check("k1"), check("k2", "f2"))
    life.at(1000).job("w", 4)
    assert steps(life.at(1001).answer("w", k1="Ready", k2=state)) == ["Admitted w"]
    assert steps(life.tick(2000)) == []


def test_a_check_that_is_added_later_is_waited_for_by_who_is_not_admitted_yet() -> None:
    life = world(check("k1"))
    life.at(1000).job("w", 4)
    life.check("k2")
    require(life, check("k1"), check("k2"))
    assert steps(life.answer("w", k1="Ready")) == []
    assert steps(life.answer("w", k2="Ready")) == ["Admitted w"]


def test_a_check_that_is_added_later_does_not_stop_who_runs() -> None:
    """7.2.7."""
    life = world(check("k1"))
    life.at(1000).job("w", 4)
    life.answer("w", k1="Ready")
    life.check("k2")
    assert steps(require(life, check("k1"), check("k2"))) == []
    assert steps(life.answer("w", k2="Pending")) == []
    assert life.held("a", f"f1/{GPU}") == 4
    assert steps(life.answer("w", k2="Retry")) == ["Evicted w AdmissionCheck"]


def test_a_queue_without_checks_admits_at_once_though_the_object_lists_old_ones() -> None:
    life = Life()
    life.queue()
    waiting = build.workload("w", "a", requests={GPU: 1})
    waiting["status"] = {"admissionChecks": [{"name": "k9", "state": "Pending", "message": ""}]}
    assert steps(life.add(waiting)) == ["Reserved w", "Admitted w"]


def test_flavors_decide_check_by_check() -> None:
    """Kueue issue 1432: one check for reserved machines, another for those that must be provisioned."""
    life = world(check("k1", "f1"), check("k2", "f2"))
    life.at(1000).job("w", 4)
    life.at(1001).job("v", 4)
    assert steps(life.answer("w", k1="Ready")) == ["Admitted w"]
    assert steps(life.answer("v", k1="Ready")) == []
    assert steps(life.answer("v", k2="Ready")) == ["Admitted v"]


def test_a_workload_on_two_flavors_waits_for_the_checks_of_both() -> None:
    life = Life()
    for name in ("k1", "k2"):
        life.check(name)
    life.add(build.flavor("f1", {"flavor": "f1"}), build.flavor("f2", {"flavor": "f2"}))
    queue = build.cluster_queue("a", build.group(f1=[build.quota(GPU, 4)], f2=[build.quota(GPU, 4)]))
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [check("k1", "f1"), check("k2", "f2")]}
    life.add(queue, build.local_queue("a"))
    sets = [build.pod_set(name, requests={GPU: 1}, flavor=flavor) for name, flavor in (("x", "f1"), ("y", "f2"))]
    assert steps(life.submit(build.workload("w", "a", *sets))) == ["Reserved w"]
    assert steps(life.answer("w", k1="Ready")) == []
    assert steps(life.answer("w", k2="Ready")) == ["Admitted w"]


# Checks and controllers that go away.


def test_a_queue_that_is_deleted_takes_back_who_waits_for_a_dead_check() -> None:
    """Kueue issue 1253: the queue could not be deleted while reservations waited for an inactive check."""
    life = world()
    life.at(1000).job("w", 4)
    turn(life, "k1", False)
    queue = life.cluster_queue("a")
    queue["metadata"]["deletionTimestamp"] = build.moment(1010)
    queue["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    assert steps(life.change(queue)) == ["Released w Misconfigured"]
    assert life.held("a", f"f1/{GPU}") == 0


def test_a_check_that_vanishes_stops_its_queue_until_it_is_back() -> None:
    """4.9.1."""
    life = world()
    life.at(1000).job("w", 4)
    gone = dict(life.objects["AdmissionCheck", "", "k1"])
    life.send("DELETED", gone)
    assert steps(life.job("v", 4)) == []
    assert life.ledger.state.forest.queues["a"].inactive_reason == "AdmissionCheckNotFound"
    life.check("k1")
    assert steps(life.decisions, "v") == ["Reserved v"]
    assert life.held("a", f"f1/{GPU}") == 4, "who had reserved before keeps its quota meanwhile"


def test_an_inactive_check_does_not_end_reservations_and_its_answer_still_counts() -> None:
    """4.9.3: the queue takes nobody in; 7.6 says what ends reservations, and that is not among it."""
    life = world()
    life.at(1000).job("w", 4)
    assert steps(turn(life, "k1", False)) == []
    assert steps(life.answer("w", k1="Ready")) == ["Admitted w"]


def test_the_reasons_of_an_inactive_queue_come_in_their_order() -> None:
    """4.9.2."""
    life = world(check("k1"), check("k2"))
    queue = life.ledger.state.forest.queues["a"]
    turn(life, "k2", False)
    assert queue.inactive_reason == "AdmissionCheckInactive"
    life.send("DELETED", dict(life.objects["AdmissionCheck", "", "k1"]))
    assert queue.inactive_reason == "AdmissionCheckNotFound"
    life.stop("ClusterQueue", "a", "Hold")
    assert queue.inactive_reason == "Stopped"
    assert all(name in queue.inactive_message for name in ("is stopped", "k1", "k2"))


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        ([("m1", MULTIKUEUE, ()), ("m2", MULTIKUEUE, ())], "MultipleMultiKueueAdmissionChecks"),
        ([("m1", MULTIKUEUE, ("f1",))], "MultiKueueAdmissionCheckAppliedPerFlavor"),
        ([("m1", MULTIKUEUE, ()), ("p1", PROVISIONING, ())], "MultiKueueWithProvisioningRequest"),
        ([("p1", PROVISIONING, ()), ("p2", PROVISIONING, ("f2",))], ""),
    ],
)
def test_some_checks_do_not_go_together(checks: list[tuple[str, str, tuple[str, ...]]], reason: str) -> None:
    """Kueue issues 2021 and 1635 (4.9.1)."""
    life = Life()
    for name, controller, _ in checks:
        life.check(name)
        target = dict(life.objects["AdmissionCheck", "", name])
        life.change({**target, "spec": {"controllerName": controller}})
    life.add(build.flavor("f1"), build.flavor("f2"))
    queue = build.cluster_queue("a", build.group(f1=[build.quota(GPU, 4)], f2=[build.quota(GPU, 4)]))
    named = [check(name, *flavors) for name, _, flavors in checks]
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": named}
    life.add(queue, build.local_queue("a"))
    assert life.ledger.state.forest.queues["a"].inactive_reason == reason


# Preemption of who is not admitted.


def test_a_reservation_that_waits_for_its_checks_can_be_preempted() -> None:
    life = Life()
    life.check("k1")
    life.queue(nominal=4, within="LowerPriority", checks=[check("k1")])
    life.at(1000).job("w", 4)
    assert steps(life.at(1001).job("in", 4, priority=5)) == ["Preempted w InClusterQueue"]
    assert steps(life.at(1002).give_back("w")) == ["Released w Preempted", "Requeued w Preempted", "Reserved in"]


def test_a_victim_whose_checks_turn_ready_is_admitted_and_still_leaves() -> None:
    """7.2.5 asks for the reservation and the checks only; 7.4.2 ends it all the same."""
    life = Life()
    life.check("k1")
    life.queue(nominal=4, within="LowerPriority", checks=[check("k1")])
    life.at(1000).job("w", 4)
    life.at(1001).job("in", 4, priority=5)
    assert steps(life.at(1002).answer("w", k1="Ready"), "w") == ["Admitted w"]
    assert steps(life.at(1003).give_back("w")) == ["Released w Preempted", "Requeued w Preempted", "Reserved in"]


def test_what_is_listed_counts_where_the_queue_is_gone() -> None:
    """7.2.3: no ClusterQueue says what applies; who was admitted runs on, and still obeys the answers on its list."""
    life = world(check("k1"), check("k2", "f2"))
    life.at(1000).job("w", 4)
    life.at(1001).answer("w", k1="Ready")
    assert steps(life.at(1002).answer("w", k2="Pending")) == []
    assert steps(life.at(1003).send("DELETED", life.objects["ClusterQueue", "", "a"])) == []
    assert steps(life.at(1004).answer("w", k2="Retry")) == ["Evicted w AdmissionCheck"]


def test_a_delay_that_nobody_asks_for_any_more_is_forgotten_with_the_reservation() -> None:
    life = world(check("k1"))
    life.at(1000).job("w", 4)
    life.at(1001).answer("w", k1=("Retry", 30))
    life.check("k2")
    require(life, check("k2"))
    assert steps(life.tick(1100)) == []
    assert steps(life.at(1101).stop("ClusterQueue", "a", "Hold")) == ["Released w Suspended"]
    assert life.ledger.state.workloads["team", "w"].requeue_at is None
    assert life.ledger.next_deadline() is None


def test_a_queue_that_starts_again_does_not_end_the_delay_of_a_check() -> None:
    """4.6.1, 11.1: not reserved again before requeueAt, whatever else keeps the workload meanwhile."""
    life = world()
    life.at(1000).job("w", 4)
    life.at(1010).answer("w", k1="Ready")
    life.at(1015).answer("w", k1=("Retry", 100))
    assert steps(life.at(1020).stop("ClusterQueue", "a", "HoldAndDrain")) == ["Evicted w ClusterQueueStopped"]
    life.at(1021).give_back("w")
    decided = life.at(1030).stop("ClusterQueue", "a", "None")
    [told] = [decision for decision in decided if decision["type"] == "Requeued"]
    assert told["reason"] == "ClusterQueueRestarted"
    assert told["notBefore"] == build.moment(1115)
    assert steps(life.tick(1114)) == []
    assert steps(life.tick(1115)) == ["Requeued w BackoffFinished", "Reserved w"]


def test_a_workload_with_a_failed_check_is_parked_and_told_with_its_shape() -> None:
    """7.3: the reason of the shape comes after misconfiguration, not after failed checks; nobody waits untold."""
    life = world()
    like = [build.workload(name, "a", requests={GPU: 7}, created=number) for number, name in enumerate(("w", "failed"))]
    answered = {"name": "k1", "state": "Retry", "message": "", "lastTransitionTime": build.moment(100)}
    like[1]["status"] = {"admissionChecks": [answered]}
    life.at(1001).submit(*like)
    assert life.parked() == {"a": ["failed", "w"]}
    assert life.reasons() == dict.fromkeys(("failed", "w"), "ExceedsMaxQuota")


def test_a_newcomer_of_a_parked_shape_that_is_misconfigured_is_told_that() -> None:
    """7.3: misconfiguration comes before what an equivalent workload was told."""
    life = Life()
    life.add(build.flavor("f1"), build.namespace("other"))
    queue = build.cluster_queue("a", build.group(f1=[build.quota(GPU, 4)]))
    queue["spec"]["namespaceSelector"] = {"matchLabels": {"team": "yes"}}
    life.add(queue, build.local_queue("a"), build.local_queue("a", namespace="other"), build.namespace(team="yes"))
    life.job("w", 9)
    life.add(build.workload("v", "a", requests={GPU: 9}, namespace="other"))
    assert life.ledger.pending_reasons() == {"other/v": "Misconfigured", "team/w": "ExceedsMaxQuota"}
