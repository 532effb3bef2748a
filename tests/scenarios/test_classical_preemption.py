"""Worked scenarios S01 to S39 of "Preemption and fair sharing", sections 9.1 to 9.4, and S87 and S92 to S95.

Holders are facts, the incoming workload arrives alone, and what its arrival decides is compared with the text.
"""

from __future__ import annotations

from tests import builders as build
from tests.world import World, admitted, counts, victims


def outcome(world: World, incoming: str) -> dict[str, str]:
    """Who is preempted for the incoming workload, after checking that it itself got nothing yet."""
    decisions = world.submit(incoming)
    assert admitted(decisions) == []
    return victims(decisions)


def waits_for_victims(world: World, name: str = "in") -> bool:
    return world.reasons()[name] == "WaitingForPreemptedWorkloads" and world.parked() == {}


def is_parked_without_candidates(world: World, queue: str = "a", name: str = "in") -> bool:
    return world.reasons()[name] == "WaitingForQuota" and world.parked() == {queue: [name]}


# 9.1 One queue without cohort.

S01 = ("a(10 W=LP)", "a1@a:4 p0 t1", "a2@a:3 p1 t2", "a3@a:3 p0 t3")


def test_s01_the_latest_reservation_of_the_lowest_priority_goes_first() -> None:
    world = World(*S01)
    assert outcome(world, "in@a:3 p5") == {"a3": "ICQ"}
    assert waits_for_victims(world)


def test_s02_a_victim_made_needless_by_a_later_one_is_given_back() -> None:
    assert outcome(World(*S01), "in@a:4 p5") == {"a1": "ICQ"}


def test_s03_equal_and_higher_priorities_are_no_candidates() -> None:
    world = World(*S01)
    assert outcome(world, "in@a:3 p0") == {}
    assert is_parked_without_candidates(world)


def test_s04_only_newer_workloads_of_equal_priority_may_go() -> None:
    holders = ("a(10 W=LN)", "a1@a:4 p0 t1 c3", "a2@a:3 p1 t2 c4", "a3@a:3 p0 t3 c9")
    assert outcome(World(*holders), "in@a:3 p0 c5") == {"a3": "ICQ"}
    assert outcome(World(*holders), "in@a:3 p0 c9") == {}


def test_s05_never_within_the_queue_protects_lower_priorities() -> None:
    world = World("a(10)", *S01[1:])
    assert outcome(world, "in@a:3 p5") == {}
    assert is_parked_without_candidates(world)


def test_s06_an_evicted_holder_is_chosen_first_and_not_evicted_again() -> None:
    world = World("a(10 W=LP)", "a1@a:4 p0 t1", "a2@a:3 p1 t2 EV", "a3@a:3 p0 t3")
    assert outcome(world, "in@a:3 p5") == {}
    assert waits_for_victims(world)
    assert admitted(world.release("a2")) == ["in"]


def test_s07_the_smaller_uid_decides_between_equal_candidates() -> None:
    world = World("a(10 W=LP)", "a1@a:5 p0 t1 uid=u2", "a2@a:5 p0 t1 uid=u1")
    assert outcome(world, "in@a:5 p5") == {"a2": "ICQ"}


def test_s08_give_back_keeps_only_the_victim_that_is_needed() -> None:
    world = World("a(10 W=LP)", "a1@a:1 t4", "a2@a:2 t3", "a3@a:6 t2", "a4@a:1 t1")
    assert outcome(world, "in@a:6 p5") == {"a3": "ICQ"}


# 9.2 Flat cohort.


def test_s09_nominal_quota_is_reclaimed_whatever_the_priority() -> None:
    world = World("k{a(6 R=Any), b(6)}", "b1@b:5 p9 t1", "b2@b:4 p9 t2")
    assert outcome(world, "in@a:4 p0") == {"b2": "REC"}


def test_s10_lower_priority_reclaim_spares_equals_even_for_own_nominal_quota() -> None:
    world = World("k{a(6 R=LP), b(6)}", "b1@b:5 p9 t1", "b2@b:4 p9 t2")
    assert outcome(world, "in@a:4 p9") == {}


def test_s11_a_queue_that_fell_back_to_nominal_is_spared() -> None:
    world = World("k{a(4 R=LP), b(4), c(4)}", "b1@b:3 t1", "b2@b:3 t2", "c1@c:3 t3", "c2@c:3 t4")
    assert outcome(world, "in@a:4 p5") == {"c2": "REC", "b2": "REC"}


def test_s12_a_queue_within_nominal_offers_no_candidates() -> None:
    world = World("k{a(4 W=LP R=Any), b(4)}", "a1@a:4 p3", "b1@b:4 p0")
    assert outcome(world, "in@a:2 p3") == {}


def test_s13_the_attempt_without_borrowing_ends_with_the_own_victim_alone() -> None:
    world = World("k{a(4 W=LP R=Any), b(4)}", "a1@a:3 p0 t1", "b1@b:5 p0 t2")
    assert outcome(world, "in@a:2 p5") == {"a1": "ICQ"}


def test_s14_a_queue_at_nominal_takes_from_itself_only() -> None:
    holders = ("a1@a:2 p0", "a2@a:2 p3", "b1@b:6 p0")
    assert outcome(World("k{a(4 W=LP R=Any), b(4), s(2)}", *holders), "in@a:2 p5") == {"a1": "ICQ"}
    assert outcome(World("k{a(4 R=Any), b(4), s(2)}", *holders), "in@a:2 p5") == {}


def test_s15_a_request_above_nominal_is_not_even_searched_for() -> None:
    world = World("k{a(4 W=LP R=Any), s(4)}", "a1@a:6 p0")
    assert outcome(world, "in@a:5 p9") == {}
    assert world.reasons() == {"in": "WaitingForQuota"}


def test_s16_a_request_within_nominal_is_searched_for() -> None:
    assert outcome(World("k{a(4 W=LP R=Any), s(4)}", "a1@a:6 p0"), "in@a:4 p9") == {"a1": "ICQ"}


def test_s17_borrowing_preemption_takes_lower_priorities_up_to_the_threshold() -> None:
    world = World("k{a(1 R=LP B<=0), b(1), s(8)}", "b1@b:6 p0 t1", "b2@b:3 p-1 t2")
    assert outcome(world, "in@a:5 p2") == {"b1": "RWB"}


def test_s18_above_the_threshold_nothing_is_taken_while_borrowing() -> None:
    world = World("k{a(1 R=LP B<=0), b(1), s(8)}", "b1@b:6 p1 t1", "b2@b:3 p-1 t2")
    assert outcome(world, "in@a:5 p2") == {}


def test_s19_without_borrowing_also_workloads_above_the_threshold_go() -> None:
    world = World("k{a(2 W=LP R=LP B<=-5), b(1), s(3)}", "a1@a:2 p0", "b1@b:5 p1")
    assert outcome(world, "in@a:2 p3") == {"b1": "REC", "a1": "ICQ"}


def test_s20_with_enough_room_the_own_victim_suffices() -> None:
    world = World("k{a(2 W=LP R=LP B<=-5), b(1), s(4)}", "a1@a:2 p0", "b1@b:5 p1")
    assert outcome(world, "in@a:2 p3") == {"a1": "ICQ"}


def test_s21_equal_priority_is_never_taken_while_borrowing() -> None:
    tree = "k{a(1 R=Any B), b(1), s(8)}"
    assert outcome(World(tree, "b1@b:5 p4 t1", "b2@b:5 p3 t2"), "in@a:3 p4") == {"b2": "RWB"}
    assert outcome(World(tree, "b1@b:5 p4 t1", "b2@b:5 p4 t2"), "in@a:3 p4") == {}


def test_s22_a_removal_that_a_borrowing_limit_makes_useless_is_undone() -> None:
    world = World("k{a(2 bl=1 W=LP R=LP B), b(2), s(2)}", "a1@a:3", "b1@b:3")
    assert outcome(world, "in@a:2 p5") == {"a1": "ICQ"}


def test_s23_quota_that_is_not_lent_still_counts_for_its_owner() -> None:
    world = World("k{a(4 ll=1 R=Any), b(4)}", "b1@b:5 p9")
    assert outcome(world, "in@a:4 p0") == {"b1": "REC"}
    assert admitted(World("k{a(4 ll=1 R=Any), b(4)}", "b1@b:5 p9").submit("in@a:3 p0")) == ["in"]


def test_s24_what_a_lending_limit_hides_can_never_be_taken() -> None:
    world = World("k{a(4 R=Any), b(6 ll=2)}", "b1@b:6")
    assert outcome(world, "in@a:7 p5") == {}
    assert world.reasons() == {"in": "ExceedsMaxQuota"}
    world = World("k{a(4 R=Any B), b(6 ll=2)}", "b1@b:5 p0 t1", "b2@b:3 p0 t2")
    assert outcome(world, "in@a:5 p5") == {"b2": "RWB"}


# 9.3 Several resources and flavors.

S25 = "k{a(C4 M4 R=Any), b(C2 M2), c(C2 M2)}"


def test_s25_one_search_frees_all_resources_together() -> None:
    world = World(S25, "b1@b:C5 t1", "c1@c:M6 t2")
    assert outcome(world, "in@a:C4,M4") == {"b1": "REC", "c1": "REC"}


def test_s26_only_contested_resources_make_candidates() -> None:
    world = World(S25, "b1@b:C5 t1", "c1@c:M3 t2")
    assert outcome(world, "in@a:C4,M4") == {"b1": "REC"}


def test_s27_a_queue_over_on_one_contested_resource_offers_all_its_holders() -> None:
    world = World(S25, "c1@c:M5 t1", "c2@c:C1 t2", "b1@b:C5 t3")
    assert outcome(world, "in@a:C4,M4") == {"b1": "REC", "c1": "REC"}


S28 = "k{a(f1:4 f2:4 W=LP R=Any), b(f1:2 f2:2)}"


def test_s28_a_holder_of_another_flavor_is_no_candidate() -> None:
    world = World(S28, "b1@b:f2=5 t3", "b2@b:f1=2 t2", "b3@b:f1=2 t1")
    assert outcome(world, "in@a:f1=4 p5") == {"b2": "REC"}


def test_s29_two_contested_flavors_need_a_victim_on_each() -> None:
    world = World(S28, "a1@a:f1=4 t1", "a2@a:f2=4 t2", "b1@b:f2=2", "b2@b:f1=2")
    assert outcome(world, "in@a:f1=1,f2=1 p5") == {"a1": "ICQ", "a2": "ICQ"}


# 9.4 Hierarchy.


def test_s30_unused_quota_of_the_own_cohort_gives_the_hierarchical_advantage() -> None:
    world = World("r{ c(2){q(0 W=LP R=Any)}, x(0) }", "x1@x:2 p100")
    assert outcome(world, "in@q:2 p0") == {"x1": "REC"}
    world = World("r{ c(2){q(0 W=LP R=LP)}, x(0) }", "x1@x:2 p100")
    assert outcome(world, "in@q:2 p0") == {}


def test_s31_without_unused_quota_below_the_root_only_borrowing_preemption_helps() -> None:
    world = World("r{ c(2){q(0 W=LP R=Any), y(0)} }", "y1@y:2 p-1")
    assert outcome(world, "in@q:2 p0") == {}
    assert world.reasons() == {"in": "WaitingForQuota"}
    world = World("r{ c(2){q(0 W=LP R=Any B), y(0)} }", "y1@y:2 p-1")
    assert outcome(world, "in@q:2 p0") == {"y1": "RWB"}


def test_s32_a_cohort_within_its_quota_protects_its_queues() -> None:
    world = World("r(2){ c(2){q(0 R=Any W=LP)}, d(3){x(0)}, z(0) }", "x1@x:3 p-9", "z1@z:2 p9 t1", "z2@z:1 p8 t2")
    assert outcome(world, "in@q:2 p0") == {"z2": "REC"}


def test_s33_a_cohort_that_fell_back_to_its_quota_spares_everything_below() -> None:
    world = World("r{ c(4){q(0 W=LP R=Any)}, d(2){x(0), y(0)}, z(0) }", "x1@x:2 t3", "y1@y:2 t2", "z1@z:2 t1")
    assert outcome(world, "in@q:4 p5") == {"x1": "REC", "z1": "REC"}


S34_TREE = "r(1){ c(4){q(0 W=LP R=LP B<=0), y(0)}, x(0) }"


def test_s34_candidates_of_the_hierarchy_come_before_lower_priorities() -> None:
    world = World(S34_TREE, "q1@q:1 p-5 t9", "y1@y:1 p-9 t9", "x1@x:3 p-1 t1")
    assert outcome(world, "in@q:1 p0") == {"x1": "REC"}


def test_s35_an_evicted_workload_of_the_own_queue_comes_before_all_others() -> None:
    world = World(S34_TREE, "q1@q:1 p-5 t9 EV", "y1@y:1 p-9 t9", "x1@x:3 p-1 t1")
    assert outcome(world, "in@q:1 p0") == {}
    assert waits_for_victims(world)
    assert "in" in admitted(world.release("q1"))


def test_s36_own_victims_join_those_taken_while_borrowing() -> None:
    world = World(S34_TREE, "q1@q:1 p-5 t9", "y1@y:1 p-9 t9", "x1@x:3 p1 t1")
    assert outcome(world, "in@q:2 p0") == {"y1": "RWB", "q1": "ICQ"}


def test_s37_the_advantage_is_judged_before_anything_is_removed() -> None:
    world = World(S34_TREE, "y1@y:2 p-9 t9", "x1@x:3 p-1 t1")
    assert outcome(world, "in@q:4 p0") == {"y1": "RWB", "x1": "RWB"}


def test_s38_what_a_queue_keeps_for_itself_shortens_the_request_above_it() -> None:
    world = World("r{ c(2){q(3 ll=2 W=LP R=Any)}, x(0) }", "x1@x:4 p0")
    assert outcome(world, "in@q:5 p-2") == {"x1": "REC"}


def test_s39_a_request_within_the_own_quota_has_the_advantage_at_once() -> None:
    world = World("r{ c(2){q(3 ll=2 W=LP R=Any)}, x(0) }", "x1@x:2 p0 t1", "x2@x:2 p0 t2")
    assert outcome(world, "in@q:3 p-2") == {"x2": "REC"}


# 9.9 Edge cases of the classical search.


def test_s87_a_victim_keeps_the_reason_under_which_it_was_collected() -> None:
    world = World("k{a(2 W=LP R=LP B<=-5), b(1), d(1), s(3)}", "a1@a:2 p0", "b1@b:6 p1", "d1@d:6 p-9")
    assert outcome(world, "in@a:2 p3") == {"d1": "RWB", "b1": "REC", "a1": "ICQ"}


def test_s92_partial_admission_preempts_for_the_largest_size_that_can_fit() -> None:
    world = World("a(4 W=LP)", "a1@a:3 p0")
    assert outcome(world, "in@a:6x1>=2 p5") == {"a1": "ICQ"}
    assert counts(world.release("a1")) == {"in": {"main": 4}}


def test_s93_a_boost_counts_only_with_its_gate() -> None:
    holders = ("a(10 W=LP)", "a1@a:5 p0 t1 uid=u2 boost=7", "a2@a:5 p0 t1 uid=u1 boost=7")
    assert outcome(World(*holders, gates={"PriorityBoost": True}), "in@a:5 p5") == {}
    assert outcome(World(*holders), "in@a:5 p5") == {"a2": "ICQ"}


def timed_out_preemptor() -> build.Object:
    """Created at second 1, evicted because its pods were not ready at second 50, and waiting again."""
    waiting = build.workload("in", "a", requests={"nvidia.com/gpu": 3}, created=1)
    return build.with_conditions(
        waiting,
        build.condition("QuotaReserved", False, "Pending", 51),
        build.condition("Evicted", True, "PodsReadyTimeout", 50),
        build.condition("Requeued", True, "BackoffFinished", 52),
    )


def test_s94_an_eviction_for_pods_not_ready_makes_a_preemptor_younger() -> None:
    world = World("a(10 W=LN)", "a1@a:10 p0 c20")
    assert victims(world.submit(timed_out_preemptor())) == {}
    by_creation = {"timeout": "30m", "requeuingStrategy": {"timestamp": "Creation"}}
    world = World("a(10 W=LN)", "a1@a:10 p0 c20", waitForPodsReady=by_creation)
    assert victims(world.submit(timed_out_preemptor())) == {"a1": "ICQ"}


def test_s95_a_stopped_queue_counts_but_its_holders_cannot_be_chosen() -> None:
    world = World("k{a(4 R=Any), b(4 stopped)}", "b1@b:6")
    assert outcome(world, "in@a:3") == {}
    assert is_parked_without_candidates(world)
    assert world.held("b") == 6
