"""Worked scenarios S40 to S64, S88 and S91 of "Preemption and fair sharing", sections 9.5 and 9.9: victims by share."""

from __future__ import annotations

import pytest

from tests.builders import FINAL_SHARE, INITIAL_SHARE
from tests.world import BOTH, World, admitted, victims

FINAL_ONLY = (FINAL_SHARE,)
INITIAL_ONLY = (INITIAL_SHARE,)


def outcome(
    tree: str,
    *holders: str,
    incoming: str,
    strategies: tuple[str, ...] = BOTH,
    gates: dict[str, bool] | None = None,
) -> dict[str, str]:
    """Who is preempted for the incoming workload under fair sharing."""
    decisions = World(tree, *holders, strategies=strategies, gates=gates).submit(incoming)
    assert admitted(decisions) == []
    return victims(decisions)


def test_s40_within_nominal_the_queue_with_the_greatest_share_gives() -> None:
    holders = ("b1@b:4 t1", "b2@b:3 t2", "c1@c:3 t1", "c2@c:2 t3")
    assert outcome("k{a(4 R=Any), b(4), c(4)}", *holders, incoming="in@a:3") == {"b2": "REC"}


S41 = ("k{a(3 W=LP R=Any), b(3), s(3)}", "a1@a:3", "b1@b:4 t2", "b2@b:2 t1")


def test_s41_a_victim_must_leave_its_queue_with_no_lower_share() -> None:
    assert outcome(*S41, incoming="in@a:1") == {"b2": "FS"}


def test_s42_the_second_strategy_compares_with_the_share_before() -> None:
    world = (S41[0], "a1@a:3", "b1@b:6")
    assert outcome(*world, incoming="in@a:1") == {"b1": "FS"}
    assert outcome(*world, incoming="in@a:1", strategies=FINAL_ONLY) == {}


def test_s43_the_initial_share_alone_takes_the_first_in_order() -> None:
    assert outcome(*S41, incoming="in@a:1", strategies=INITIAL_ONLY) == {"b1": "FS"}


@pytest.mark.parametrize(
    ("weight", "strategies", "expected"),
    [("2", FINAL_ONLY, {"b3": "FS"}), ("1", FINAL_ONLY, {}), ("1", BOTH, {"b3": "FS"})],
)
def test_s44_a_weight_divides_the_share(weight: str, strategies: tuple[str, ...], expected: dict[str, str]) -> None:
    tree = f"k{{a(3 w={weight} W=LP R=Any), b(3), s(3)}}"
    holders = ("a1@a:3", "b1@b:2 t1", "b2@b:2 t2", "b3@b:2 t3")
    assert outcome(tree, *holders, incoming="in@a:2", strategies=strategies) == expected


@pytest.mark.parametrize(("incoming", "expected"), [("in@a:3", {"b6": "FS", "b5": "FS", "b4": "FS"}), ("in@a:4", {})])
def test_s45_weight_zero_makes_every_borrower_infinite(incoming: str, expected: dict[str, str]) -> None:
    holders = [f"b{number}@b:1 t{number}" for number in range(1, 7)]
    assert outcome("k{a(3 W=LP R=Any), b(3 w=0), s(3)}", "a1@a:3", *holders, incoming=incoming) == expected


def test_s46_an_infinite_preemptor_takes_nothing_unless_within_nominal() -> None:
    tree = "k{a(3 w=0 W=LP R=Any), b(3), s(3)}"
    assert outcome(tree, "a1@a:3", "b1@b:6", incoming="in@a:1") == {}
    assert outcome(tree, "a1@a:2", "b1@b:7", incoming="in@a:1") == {"b1": "REC"}


def test_s47_infinite_shares_compare_by_their_unweighted_ratios() -> None:
    tree = "k{a(3 w=0 W=LP R=Any), b(3 w=0), s(3)}"
    assert outcome(tree, "a1@a:3", "b1@b:4 t2", "b2@b:2 t1", incoming="in@a:1") == {"b2": "FS"}


def test_s48_within_nominal_on_the_contested_flavor_ignores_the_share() -> None:
    world = ("k{a(f1:4 f2:0 R=Any), b(f1:0 f2:6)}", "a1@a:f1=2", "a2@a:f2=5", "b1@b:f1=2")
    assert outcome(*world, incoming="in@a:f1=1") == {"b1": "REC"}
    assert outcome(*world, incoming="in@a:f1=1", gates={"FairSharingPreemptWithinNominal": False}) == {}


def test_s49_the_own_queue_gives_first_when_its_share_is_the_greatest() -> None:
    holders = ("a1@a:3 p-1", "a2@a:1 p0", "b1@b:2 t1", "b2@b:2 t2")
    assert outcome("k{a(2 W=LP R=Any), b(2), s(4)}", *holders, incoming="in@a:2 p0") == {"a1": "ICQ"}


def test_s50_at_a_tie_the_other_queue_is_tried_before_the_own_one() -> None:
    holders = ("a1@a:1 p-1", "a2@a:2 p0", "b1@b:3 t1", "b2@b:1 t2", "b3@b:2 t3")
    tree = "k{a(3 W=LP R=Any), b(3), c(3)}"
    assert outcome(tree, *holders, incoming="in@a:2 p0") == {"b2": "FS", "a1": "ICQ"}


def test_s51_a_borrower_in_a_cohort_that_does_not_borrow_is_out_of_reach() -> None:
    tree = "r{ other(3 w=0.1){b(0 w=0.1)}, a(5 w=10 W=LP R=Any) }"
    assert outcome(tree, "a1@a:3 p-1", "b1@b:3 p-1", incoming="in@a:5 p0") == {"a1": "ICQ"}


S52_TREE = "r(6){ left(2){a(0 R=Any), b(0)}, right(2){d(0), e(0)} }"


def test_s52_shares_are_compared_below_the_lowest_common_cohort() -> None:
    assert outcome(S52_TREE, "b1@b:2", "d1@d:5", "e1@e:3", incoming="in@a:2") == {"e1": "FS"}


def test_s53_queues_of_equal_share_are_ordered_by_their_first_candidates() -> None:
    holders = ("b1@b:2", "d1@d:2 t1", "d2@d:2 t2", "e1@e:2 t1", "e2@e:2 t2")
    assert outcome(S52_TREE, *holders, incoming="in@a:2") == {"d2": "FS"}


def test_s54_borrowing_on_another_resource_keeps_a_queue_eligible() -> None:
    tree = "k{a(C4 M4 R=Any), b(C4 M4), s(C0 M4)}"
    holders = ("a1@a:C2 p5", "b1@b:C2,M6 t1", "b2@b:C1 t3", "b3@b:C2 t2")
    assert outcome(tree, *holders, incoming="in@a:C3 p0") == {"b3": "FS"}


def test_s55_a_queue_without_cohort_takes_from_itself() -> None:
    assert outcome("a(4 W=LP)", "a1@a:2 p-1", "a2@a:2 p-2", incoming="in@a:2 p0") == {"a2": "ICQ"}


def test_s56_borrow_within_cohort_has_no_say() -> None:
    tree = "k{a(3 R=Any B<=0), b(2), x(0)}"
    assert outcome(tree, "a1@a:3", "b1@b:1", "x1@x:1 p-9", incoming="in@a:2 p0") == {}


def test_s57_the_second_pass_takes_one_victim_of_a_queue_only() -> None:
    assert outcome("k{a(3 R=Any), b(3), s(6)}", "a1@a:3", "b1@b:4 t2", "b2@b:5 t1", incoming="in@a:5") == {}


def test_s58_a_tie_of_shares_goes_to_the_queue_whose_head_is_newer() -> None:
    holders = ("b1@b:4 p0 t1", "b2@b:2 p1 t2", "c1@c:4 p0 t1", "c2@c:2 p0 t2")
    assert outcome("k{a(4 R=Any), b(4), c(4)}", *holders, incoming="in@a:2") == {"c2": "REC"}


def test_s59_an_infinite_cohort_leaves_its_neighbours_to_the_second_pass() -> None:
    tree = "r(1){ inner(4 w=0){p(1 w=2 R=Any), y(1)}, x(2) }"
    holders = ("p1@p:1", "y1@y:2 t2", "y2@y:2 t1", "x1@x:2 t2", "x2@x:2 t1")
    assert outcome(tree, *holders, incoming="in@p:3") == {"y1": "FS", "x1": "FS"}


def test_s60_give_back_returns_the_first_victim_when_the_second_suffices() -> None:
    assert outcome("k{a(6 R=Any), b(3), c(3)}", "b1@b:5 t1", "b2@b:1 t2", "c1@c:6 t1", incoming="in@a:5") == {
        "c1": "REC"
    }


def test_s61_holders_within_nominal_are_protected() -> None:
    holders = ("b1@b:3 t1", "b2@b:2 t2", "c1@c:3 t1", "c2@c:1 t2")
    assert outcome("k{a(6 R=Any), b(3), c(3)}", *holders, incoming="in@a:6") == {"b2": "REC", "c2": "REC"}


def test_s62_usage_without_configured_quota_has_no_share() -> None:
    world = ("k(4){a(2 R=Any), z()}", "z1@z:6")
    assert outcome(*world, incoming="in@a:2") == {}
    assert victims(World(*world).submit("in@a:2")) == {"z1": "REC"}


def test_s63_the_reclaim_policy_limits_victims_by_priority() -> None:
    holders = ("a1@a:3 p0", "b1@b:4 p7 t2", "b2@b:2 p-1 t1")
    assert outcome("k{a(3 W=LP R=LP), b(3), s(3)}", *holders, incoming="in@a:1 p5") == {"b2": "FS"}


def test_s64_an_evicted_holder_is_counted_without_a_second_eviction() -> None:
    world = World("k{a(3 W=LP R=Any), b(3), s(3)}", "a1@a:3", "b1@b:2 t3 EV", "b2@b:4 t9", strategies=BOTH)
    assert victims(world.submit("in@a:1")) == {}
    assert world.reasons() == {"in": "WaitingForPreemptedWorkloads"}
    assert "in" in admitted(world.release("b1"))


def test_s88_a_queue_can_borrow_with_a_share_of_zero() -> None:
    assert outcome("k{a(4 ll=0 R=Any), b(2 ll=0)}", "b1@b:3", incoming="in@a:4") == {"b1": "REC"}


def test_s91_equal_shares_satisfy_neither_strategy() -> None:
    holders = ("a1@a:4", "b1@b:3 t1", "b2@b:3 t2")
    assert outcome("k{a(4 R=Any), b(2), s(4)}", *holders, incoming="in@a:4") == {}
