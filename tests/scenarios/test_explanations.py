"""What decisions tell besides the verdict: rule, priorities, shares, what is missing and who holds it."""

from __future__ import annotations

from typing import Any

from tests.world import BOTH, Decision, World

GPU = "nvidia.com/gpu"
SAID_ELSEWHERE = ("seq", "cluster", "at", "cause", "rules", "prev", "hash", "cycle")


def told(decisions: list[Decision], kind: str) -> list[dict[str, Any]]:
    """The decisions of one type without what places them in the log."""
    return [{k: v for k, v in d.items() if k not in SAID_ELSEWHERE} for d in decisions if d["type"] == kind]


def named(name: str) -> dict[str, str]:
    return {"namespace": "team", "name": name, "uid": name}


def test_a_preemption_names_rule_priorities_and_what_would_be_missing_without_it() -> None:
    world = World("a(10 W=LP)", "a1@a:4 p0 t1", "a2@a:3 p1 t2", "a3@a:3 p0 t3")
    assert told(world.submit("in@a:3 p5"), "Preempted") == [
        {
            "type": "Preempted",
            "workload": named("a3"),
            "clusterQueue": "a",
            "reason": "InClusterQueue",
            "rule": "R2.5",
            "preemptor": {**named("in"), "clusterQueue": "a"},
            "preemptorPath": "/a",
            "victimPath": "/a",
            "priority": 0,
            "preemptorPriority": 5,
            "usage": {"f1": {GPU: "3"}},
            "needed": {"f1": {GPU: "3"}},
        }
    ]


def test_a_preemption_names_the_paths_from_the_root_cohort_to_both_queues() -> None:
    world = World("r{ c(2){q(0 R=Any)}, x(0) }", "x1@x:2 p100")
    (preempted,) = told(world.submit("in@q:2 p0"), "Preempted")
    assert (preempted["preemptorPath"], preempted["victimPath"]) == ("/r/c/q", "/r/x")


def test_only_what_the_policy_lets_be_taken_is_called_reclaimable() -> None:
    for priority, reclaimable in ((0, True), (9, False)):
        world = World("k{a(4 R=LP), b(2 R=Never), s(0)}", f"b1@b:6 p{priority}")
        (pending,) = told(world.submit("in@a:6 p5"), "Pending")
        assert [(h["clusterQueue"], h["reclaimable"]) for h in pending["heldBy"]] == [("b", reclaimable)]


def test_a_preemption_of_several_tells_what_each_makes_room_for() -> None:
    world = World("k{a(C4 M4 R=Any), b(C2 M2), c(C2 M2)}", "b1@b:C5 t1", "c1@c:M6 t2")
    preempted = told(world.submit("in@a:C4,M4"), "Preempted")
    assert {d["workload"]["name"]: d["needed"] for d in preempted} == {
        "b1": {"f1": {"cpu": "1"}},
        "c1": {"f1": {"memory": "2"}},
    }


def test_a_preemption_by_fair_sharing_tells_the_shares_that_decided() -> None:
    world = World("k{a(3 W=LP R=Any), b(3), s(3)}", "a1@a:3", "b1@b:4 t2", "b2@b:2 t1", strategies=BOTH)
    (preempted,) = told(world.submit("in@a:1"), "Preempted")
    assert preempted["rule"] == "R4.11 LessThanOrEqualToFinalShare"
    assert preempted["shares"] == {
        "preemptor": {"share": 1000 / 9, "weightedShare": 112},
        "victimBefore": {"share": 3000 / 9, "weightedShare": 334},
        "victimAfter": {"share": 1000 / 9, "weightedShare": 112},
    }


def test_a_refusal_tells_what_is_missing_and_who_holds_it() -> None:
    world = World("root{a(4 R=LP), b(4)}", "v@b:6 p2")
    assert told(world.submit("w@a:5 p8"), "Pending") == [
        {
            "type": "Pending",
            "workload": named("w"),
            "clusterQueue": "a",
            "localQueue": {"namespace": "team", "name": "a"},
            "reason": "WaitingForQuota",
            "missing": [
                {
                    "podSet": "main",
                    "flavor": "f1",
                    "resource": GPU,
                    "requested": "5",
                    "available": "2",
                    "maximum": "8",
                    "missing": "3",
                }
            ],
            "heldBy": [
                {
                    "clusterQueue": "b",
                    "flavor": "f1",
                    "resource": GPU,
                    "held": "6",
                    "nominal": "4",
                    "borrowed": "2",
                    "reclaimable": True,
                }
            ],
        }
    ]


def test_what_the_waiting_queue_may_not_reclaim_is_told_apart() -> None:
    world = World("root{a(4), b(4)}", "v@b:6 p2")
    (pending,) = told(world.submit("w@a:5 p8"), "Pending")
    assert [(h["clusterQueue"], h["borrowed"], h["reclaimable"]) for h in pending["heldBy"]] == [("b", "2", False)]


def test_a_verdict_is_told_once_and_again_only_when_it_changes() -> None:
    world = World("a(4)")
    world.submit("x@a:4")
    assert [d["reason"] for d in told(world.submit("w@a:3"), "Pending")] == ["WaitingForQuota"]
    world.submit("y@a:1 p-1")
    assert [d["workload"]["name"] for d in told(world.tick(world.now + 1), "Pending")] == []
    assert told(world.finish("x"), "QuotaReserved")[0]["workload"] == named("w")


def test_a_reservation_tells_what_is_borrowed_and_which_flavors_were_passed_over() -> None:
    world = World("root{a(f1:4 f2:4 borrow=next), b(f1:4)}")
    assert told(world.submit("w@a:6"), "QuotaReserved") == [
        {
            "type": "QuotaReserved",
            "workload": named("w"),
            "clusterQueue": "a",
            "localQueue": {"namespace": "team", "name": "a"},
            "podSets": [{"name": "main", "count": 1, "flavors": {GPU: "f1"}, "usage": {GPU: "6"}}],
            "borrowed": {"f1": {GPU: "2"}},
            "position": 0,
            "considered": [
                {"podSet": "main", "flavor": "f2", "resource": GPU, "reason": "ExceedsMaxQuota", "missing": "2"}
            ],
        }
    ]


def test_a_release_tells_what_went_back_and_the_victim_waits_again() -> None:
    world = World("a(4 W=LP)", "v@a:4 p0")
    world.submit("w@a:2 p5")
    decisions = world.release("v")
    (released,), (requeued,) = told(decisions, "Released"), told(decisions, "Requeued")
    assert (released["workload"], released["usage"]) == (named("v"), {"f1": {GPU: "4"}})
    assert (requeued["workload"], requeued["reason"]) == (named("v"), "Preempted")
    assert [d["type"] for d in decisions if d.get("workload", {}).get("name") == "v"][:2] == ["Released", "Requeued"]


def test_shares_are_told_for_every_node_whose_share_changed() -> None:
    world = World("r(6){l(2){a(0)}, m(2 w=2){d(0), e(0)}}", strategies=BOTH)
    first = told(world.submit("d1@d:5"), "ShareChanged")
    assert {d.get("cohort") or d["clusterQueue"]: d["share"] for d in first} == {"d": 500.0, "m": 150.0}
    second = told(world.submit("e1@e:3"), "ShareChanged")
    assert {d.get("cohort") or d["clusterQueue"]: d["share"] for d in second} == {"e": 300.0, "m": 300.0}
    gone = told(world.finish("d1"), "ShareChanged")
    assert {d.get("cohort") or d["clusterQueue"]: d["share"] for d in gone} == {"d": 0.0, "m": 50.0}


def test_changed_quota_is_told_before_and_after() -> None:
    world = World("k{a(4 bl=1), b(2)}")
    changed = world.cluster_queue("a")
    changed["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] = {"name": GPU, "nominalQuota": "6"}
    assert told(world.change(changed), "QuotaChanged") == [
        {
            "type": "QuotaChanged",
            "clusterQueue": "a",
            "flavor": "f1",
            "resource": GPU,
            "before": {"nominal": "4", "borrowingLimit": "1"},
            "after": {"nominal": "6"},
        }
    ]
