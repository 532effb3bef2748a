"""Worked scenarios S65 to S69 and T58 to T61, T75 to T79: in which order the entries of one cycle are processed."""

from __future__ import annotations

from tests.world import BOTH, World, admitted


def order(tree: str, *holders: str, pending: tuple[str, ...], fair: bool = False, **options: dict[str, bool]) -> list:
    """Who got quota, in order, when all pending workloads arrive in one record."""
    world = World(tree, *holders, strategies=BOTH if fair else None, **options)
    return admitted(world.submit(*pending))


def test_s65_the_lower_share_with_the_workload_goes_first() -> None:
    assert order("k(12){a(0), b(0)}", "a0@a:2", pending=("pa@a:4", "pb@b:5"), fair=True) == ["pb", "pa"]


S66 = ("k{a(f1:4 f2:0), b(f1:2 f2:4)}", "a0@a:f2=4")


def test_s66_who_does_not_borrow_on_the_requested_flavor_goes_first() -> None:
    pending = ("pa@a:f1=4", "pb@b:f1=3")
    assert order(*S66, pending=pending, fair=True) == ["pa"]
    assert order(*S66, pending=pending, fair=True, gates={"FairSharingPrioritizeNonBorrowing": False}) == ["pb"]


def test_s67_borrowing_is_judged_for_the_child_of_the_common_cohort() -> None:
    tree = "r{ca(4){a(0)}, cb{b(2), c(2)}}"
    assert order(tree, "c0@c:4", pending=("pa@a:3", "pb@b:2"), fair=True) == ["pa"]


def test_s68_priority_then_time_separate_equal_shares() -> None:
    pending = ("wx@x:3 p5 c9", "wy@y:3 p5 c3", "wz@z:3 p1 c0")
    assert order("k(9){x(0), y(0), z(0)}", pending=pending, fair=True) == ["wy", "wx", "wz"]


def test_s69_the_lower_borrowing_level_comes_before_priority() -> None:
    pending = ("e1@x:2 p9", "e2@y:1 p1 c5", "e3@z:1 p1 c4")
    assert order("k{x(1), y(3), z(3)}", pending=pending) == ["e3", "e2", "e1"]


def test_t58_several_borrowers_are_admitted_in_the_order_of_their_levels() -> None:
    pending = ("wa@a:4 p9 c1", "wb@b:3 p1 c3", "wc@c:3 p1 c2")
    assert order("root{a(2), b(4), c(4)}", pending=pending) == ["wc", "wb", "wa"]


def test_t59_the_younger_of_two_borrowers_finds_no_room() -> None:
    world = World("root{a(2), b(2), c(4)}")
    assert admitted(world.submit("wa@a:5 c2", "wb@b:5 c1")) == ["wb"]
    assert world.reasons() == {"wa": "WaitingForQuota"}
    assert world.usage() == {"b": {"f1/nvidia.com/gpu": 5}}


def test_t60_two_borrowers_that_fit_are_admitted_in_one_cycle() -> None:
    world = World("root{a(2), b(2), c(4)}")
    decisions = [d for d in world.submit("wa@a:4 c2", "wb@b:4 c1") if d["type"] == "QuotaReserved"]
    assert [d["workload"]["name"] for d in decisions] == ["wb", "wa"]
    assert decisions[0]["cycle"] == decisions[1]["cycle"]


def test_t61_levels_of_a_deep_tree_order_the_entries() -> None:
    world = World("r{l{a(2), a2(2)}, b(6)}")
    assert admitted(world.submit("wa@a:5 p9", "wa2@a2:4 p0", "wb@b:5 p0")) == ["wb", "wa2"]
    assert world.reasons() == {"wa": "WaitingForQuota"}


def test_t75_a_weight_lets_the_larger_borrower_go_first() -> None:
    pending = ("wa@a:3 p0 c2", "wb@b:3 p0 c1")
    assert order("root{a(4 w=2), b(4), c(12)}", "xa@a:6", "xb@b:5", pending=pending, fair=True) == ["wa", "wb"]


def test_t76_borrowing_on_a_flavor_that_is_not_requested_does_not_count() -> None:
    tree = "root{a(f1:2 f2:6), b(f1:2 f2:2), c(f1:16 f2:0)}"
    pending = ("wa@a:f2=4 c2", "wb@b:f2=3 c1")
    assert order(tree, "xa@a:f1=12", pending=pending, fair=True) == ["wa", "wb"]


def test_t77_infinite_shares_come_last_by_their_ratios() -> None:
    pending = ("wa@a:2 p9", "wb@b:1", "wd@d:6")
    assert order("root{a(0 w=0), b(0 w=0), d(0 w=0.5), c(10)}", pending=pending, fair=True) == ["wd", "wb", "wa"]


def test_t78_the_tournament_runs_through_the_tree() -> None:
    pending = ("wa@a:1 p9 c1", "wb@b:2 p0 c5", "wc@c:2 p5 c4")
    tree = "r{l{a(2), b(2)}, m{c(4)}, z(8)}"
    assert order(tree, "xa@a:5", "xc@c:5", pending=pending, fair=True) == ["wc", "wb", "wa"]
