"""Worked scenarios S70 to S76 and S96, T62 to T74, T80 to T82: preemption inside a cycle, and what becomes of it."""

from __future__ import annotations

import pytest

from tests import builders as build
from tests.builders import FINAL_SHARE, INITIAL_SHARE
from tests.world import BOTH, World, admitted, preemptors, victims

WAITING = "WaitingForPreemptedWorkloads"
NO_RECOMPUTE = {"RecomputeAssignmentUponPreemptionTargetsOverlap": False}


# Section 9.7: overlapping victims and reserved room.

S70 = "k{a(3 R=Any), b(3 R=Any), c(3 R=Any)}"


def test_s70_a_second_preemptor_that_fits_after_the_first_waits_without_evicting() -> None:
    world = World(S70, "b1@b:9")
    decisions = world.submit("pa@a:3 c0", "pc@c:3 c1")
    assert victims(decisions) == {"b1": "REC"}
    assert preemptors(decisions) == {"b1": "pa"}
    assert world.reasons() == {"pa": WAITING, "pc": WAITING}
    assert world.parked() == {}
    assert sorted(admitted(world.release("b1"))) == ["pa", "pc"]


def test_s71_a_second_preemptor_finds_other_victims() -> None:
    world = World("k{a(3 R=Any), b(3 R=Any), c(3 R=Any), d(3 R=Any)}", "b1@b:8 t1", "d1@d:4 t2")
    decisions = world.submit("pa@a:3 c0", "pc@c:3 c1")
    assert victims(decisions) == {"d1": "REC", "b1": "REC"}
    assert preemptors(decisions) == {"d1": "pa", "b1": "pc"}


def test_s72_without_recomputing_the_overlapping_entry_is_skipped() -> None:
    world = World(S70, "b1@b:9", gates=NO_RECOMPUTE)
    assert preemptors(world.submit("pa@a:3 c0", "pc@c:3 c1")) == {"b1": "pa"}
    assert world.reasons() == {"pa": WAITING, "pc": "WaitingForQuota"}
    assert world.parked() == {}


def test_s73_the_second_of_two_borrowers_has_no_room() -> None:
    world = World("k{a(2), b(2), s(2)}")
    assert admitted(world.submit("pa@a:4 c0", "pb@b:4 c1")) == ["pa"]
    assert world.reasons() == {"pb": "WaitingForQuota"}


def test_s74_a_preemptor_without_victims_reserves_capacity() -> None:
    world = World("k{a(4 R=LP strict), b(4), c(0)}", "b1@b:6 p9")
    assert admitted(world.submit("pa@a:3 p5", "pc@c:2 p1")) == []
    assert world.reasons() == {"pa": "WaitingForQuota", "pc": "WaitingForQuota"}


def test_s74_a_preemptor_that_is_parked_reserves_for_one_cycle_only() -> None:
    world = World("k{a(4 R=LP), b(4), c(0)}", "b1@b:6 p9")
    decisions = world.submit("pa@a:3 p5", "pc@c:2 p1")
    assert [(d["workload"]["name"], d["cycle"]) for d in decisions if d["type"] == "QuotaReserved"] == [("pc", 2)]
    assert world.parked() == {"a": ["pa"]}


def test_s74_a_queue_that_can_always_reclaim_takes_the_victim_instead() -> None:
    world = World("k{a(4 R=Any strict), b(4), c(0)}", "b1@b:6 p9")
    assert victims(world.submit("pa@a:3 p5", "pc@c:2 p1")) == {"b1": "REC"}


def test_s75_the_same_victim_is_not_evicted_again_while_it_still_holds() -> None:
    world = World("a(10 W=LP)", "a1@a:4 p0 t1", "a2@a:3 p1 t2", "a3@a:3 p0 t3")
    assert victims(world.submit("in@a:3 p5")) == {"a3": "ICQ"}
    echo = world.change(world.workload("a3"))
    later = world.submit("other@a:1 p0 c9")
    assert victims(echo + later + world.tick(world.now + 60)) == {}
    assert world.reasons()["in"] == WAITING
    assert admitted(world.release("a3")) == ["in"]


def test_s76_a_preemptor_stays_at_the_head_in_best_effort_only() -> None:
    for strategy, first in (("", "h"), ("strict", "m")):
        world = World(f"a(10 W=LP {strategy})", "a1@a:10 p0")
        assert victims(world.submit("h@a:5 p1")) == {"a1": "ICQ"}
        assert victims(world.submit("m@a:8 p9")) == {}
        assert admitted(world.release("a1"))[0] == first


def test_s96_a_preemption_names_its_parties_and_the_rule() -> None:
    world = World("r{c(2){q(0 R=Any)}, x(0)}", "v@x:2")
    decisions = world.submit("p@q:2 uid=u-1")
    preempted = next(d for d in decisions if d["type"] == "Preempted")
    assert preempted["workload"] == {"namespace": "team", "name": "v", "uid": "v"}
    assert preempted["clusterQueue"] == "x"
    assert preempted["reason"] == "InCohortReclamation"
    assert preempted["preemptor"] == {"namespace": "team", "name": "p", "uid": "u-1", "clusterQueue": "q"}


# Admission semantics, section 10.6.


@pytest.mark.parametrize(("policy", "in_first_cycle"), [("", False), ("R=LP", False), ("R=Any", True)])
def test_t62_room_is_reserved_unless_the_queue_can_always_reclaim(policy: str, in_first_cycle: bool) -> None:
    world = World(f"root{{a(6 {policy} strict), b(0)}}", "x@a:4 p9")
    assert admitted(world.submit("wa@a:5 p0 c1", "wb@b:1 c2")) == (["wb"] if in_first_cycle else [])
    assert world.reasons()["wa"] == "WaitingForQuota"


@pytest.mark.parametrize(("request_of_e", "expected"), [(1, ["we"]), (2, [])])
def test_t63_a_borrowing_limit_bounds_what_is_reserved(request_of_e: int, expected: list[str]) -> None:
    """Beside the text's queues d lends 4 and e borrows of them: 3 are reserved for a, 1 is left."""
    world = World("root{a(4 bl=3 R=LP B strict), b(6), d(4), e(0)}", "x@a:4 p9", "y@b:6 p9")
    assert admitted(world.submit("wa@a:5 p3 c1", f"we@e:{request_of_e} p0 c2")) == expected


def test_t64_a_preemptor_within_nominal_reserves_what_it_asked() -> None:
    world = World("root{a(6 R=LP strict), b(2), d(2)}", "y@b:6 p9")
    assert admitted(world.submit("wa@a:5 p3 c1", "wd@d:2 p0 c2")) == []
    assert world.reasons() == {"wa": "WaitingForQuota", "wd": "WaitingForQuota"}


def test_t65_an_overlapping_entry_that_then_fits_is_deferred() -> None:
    world = World("root{a(4 R=Any), b(4 R=Any), c(0)}", "big@c:8")
    decisions = world.submit("wa@a:3 c1", "wb@b:4 c2")
    assert preemptors(decisions) == {"big": "wa"}
    assert world.reasons() == {"wa": WAITING, "wb": WAITING}


def test_t66_an_overlapping_entry_takes_the_next_victim() -> None:
    world = World("root{a(4 R=Any), b(4 R=Any), c(0)}", "c1@c:4 p0 t1", "c2@c:4 p1 t2")
    assert preemptors(world.submit("wa@a:4 c1", "wb@b:4 c2")) == {"c1": "wa", "c2": "wb"}


def test_t67_without_recomputing_the_second_preemptor_waits_for_quota() -> None:
    world = World("root{a(4 R=Any), b(4 R=Any), c(0)}", "big@c:8", gates=NO_RECOMPUTE)
    assert preemptors(world.submit("wa@a:3 c1", "wb@b:4 c2")) == {"big": "wa"}
    assert world.reasons() == {"wa": WAITING, "wb": "WaitingForQuota"}


def test_t68_entries_may_start_in_capacity_that_victims_will_free() -> None:
    world = World("root{a(4 R=Any), b(2), d(2), c(0)}", "c1@c:6")
    decisions = world.submit("wa@a:3 c1", "wb@b:2 c2", "wd@d:2 c3")
    assert victims(decisions) == {"c1": "REC"}
    assert admitted(decisions) == ["wb", "wd"]
    assert world.usage() == {queue: {"f1/nvidia.com/gpu": held} for queue, held in (("b", 2), ("c", 6), ("d", 2))}


@pytest.mark.parametrize(("request_of_w", "expected"), [(6, ["v1", "v3"]), (8, ["v2", "v3"])])
def test_t69_the_smallest_needed_set_depends_on_the_request(request_of_w: int, expected: list[str]) -> None:
    world = World("a(10 W=LP)", "v1@a:2 p0", "v2@a:3 p1", "v3@a:5 p2")
    assert sorted(victims(world.submit(f"w@a:{request_of_w} p7"))) == expected


def test_t70_the_lowest_priority_of_the_hierarchy_goes_before_the_own_queue() -> None:
    world = World("root{a(6 W=LP R=Any), b(2)}", "a1@a:3 p-5", "b1@b:3 p9", "b2@b:2 p1")
    assert victims(world.submit("w@a:2 p0")) == {"b2": "REC"}


T71 = ("root{{a(4 R=LP {borrow}), b(4)}}", "v@b:6 p2")


def test_t71_above_nominal_nothing_is_reclaimed() -> None:
    world = World(T71[0].format(borrow=""), T71[1])
    assert victims(world.submit("w@a:5 p8")) == {}
    assert world.reasons() == {"w": "WaitingForQuota"}


@pytest.mark.parametrize(("borrow", "expected"), [("B", {"v": "RWB"}), ("B<=3", {"v": "RWB"}), ("B<=1", {})])
def test_t72_borrowing_preemption_respects_its_threshold(borrow: str, expected: dict[str, str]) -> None:
    world = World(T71[0].format(borrow=borrow), T71[1])
    assert victims(world.submit("w@a:5 p8")) == expected


def test_t73_a_fitting_cohort_makes_its_neighbours_hierarchy_candidates() -> None:
    world = World("r{l{a(2 R=LP), a2(4)}, b(2)}", "b1@b:3 p0", "b2@b:3 p5")
    assert victims(world.submit("w@a:5 p3")) == {"b1": "REC"}


def test_t74_a_victim_evicted_by_somebody_else_is_waited_for() -> None:
    world = World("a(10 W=LP)", "a1@a:6 p0", "a2@a:4 p0")
    world.evict("a1", "PodsReadyTimeout")
    assert victims(world.submit("w@a:6 p5")) == {}
    assert world.reasons() == {"w": WAITING}
    assert world.parked() == {}
    world.submit("m@a:6 p9")
    assert admitted(world.finish("a1")) == ["w"]


# Admission semantics, section 10.7.


@pytest.mark.parametrize(
    ("strategies", "expected"), [(BOTH, {"b1": "FS"}), ((FINAL_SHARE,), {}), ((INITIAL_SHARE,), {"b1": "FS"})]
)
def test_t80_each_strategy_allows_its_own_victims(strategies: tuple[str, ...], expected: dict[str, str]) -> None:
    world = World("root{a(3 R=Any), b(3), c(3)}", "b1@b:5", "c1@c:1 t1", "c2@c:3 t2", strategies=strategies)
    assert victims(world.submit("w@a:4")) == expected


def test_t81_within_nominal_shares_are_not_consulted() -> None:
    world = World("root{a(4 w=0.1 R=Any), b(4 w=10)}", "b1@b:3 p9 t1", "b2@b:5 p9 t2", strategies=BOTH)
    assert victims(world.submit("w@a:4 p0")) == {"b2": "REC"}


def test_t82_weight_zero_never_takes_from_a_finite_share() -> None:
    world = World("root{a(0 w=0 R=Any), b(2), c(4)}", "b1@b:6", strategies=BOTH)
    assert victims(world.submit("w@a:1 p9")) == {}
    assert world.reasons() == {"w": "WaitingForQuota"}
    assert world.parked() == {"a": ["w"]}


# Release: T94.


def test_t94_a_victim_frees_its_quota_at_release_and_waits_with_its_creation_time() -> None:
    world = World("a(4 W=LP)", "v@a:4 p0 c1")
    world.submit("n@a:4 p0 c5")
    assert victims(world.submit("w@a:4 p5")) == {"v": "ICQ"}
    echo = world.change(world.workload("v"))
    assert admitted(echo + world.tick(world.now + 15)) == []
    assert world.held("a") == 4
    assert admitted(world.release("v")) == ["w"]
    assert admitted(world.finish("w")) == ["v"]


CONTENDED = ("k{a(6 W=LP R=LP), b(6), c(0)}", "x@a:2 p0", "y@b:9 p0")


def test_a_preemptor_is_served_before_those_that_its_victims_wake() -> None:
    """Victims whose objects show them on their way out: the tree is retried once the last of them is gone."""
    world = World(*CONTENDED)
    world.submit("n@c:3 p0")
    assert victims(world.submit("in@a:5 p5")) == {"y": "REC", "x": "ICQ"}
    world.change(world.workload("x"), world.workload("y"))
    assert admitted(world.release("x")) == []
    assert admitted(world.release("y")) == ["in", "x", "n"]


def test_without_a_sign_of_their_leaving_each_victim_wakes_the_tree() -> None:
    world = World(*CONTENDED)
    world.submit("n@c:3 p0")
    world.submit("in@a:5 p5")
    assert admitted(world.release("x")) == ["n"]
    assert admitted(world.release("y")) == ["in", "x"]


def test_an_older_write_does_not_undo_an_eviction() -> None:
    """The echo of a reservation clears the last eviction in the object; the next eviction was decided meanwhile."""
    world = World("a(4 W=LP)")
    world.submit("x@a:4 p9")
    world.submit("v@a:4 p0")
    waiting = world.workload("v")
    world.change(build.released(build.evicted(waiting, at=150, preempted="InClusterQueue"), at=151))
    assert admitted(world.finish("x")) == ["v"]
    echo = dict(world.workload("v"))
    assert victims(world.submit("w@a:4 p5")) == {"v": "ICQ"}
    assert victims(world.change(echo)) == {}
    assert world.reasons() == {"w": WAITING}
