"""What was reported about admission fair sharing, decided by the rules (preemption section 7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.consumption import Account, alpha, times
from ledger.quantity import canonical_quantity
from ledger.timestamps import SECOND
from tests import builders as build
from tests.builders import Object
from tests.life import GPU, Life, steps

NANO = 10**9
HOUR = 3600


def local_queue(name: str, weight: str = "1", consumed: dict[str, str] | None = None, at: float = 0) -> Object:
    target = build.local_queue(name, "a")
    target["spec"]["fairSharing"] = {"weight": weight}
    if consumed is not None:
        sample = {"consumedResources": consumed, "lastUpdate": build.moment(at)}
        target["status"] = {"fairSharing": {"admissionFairSharingStatus": sample}}
    return target


def world(
    nominal: int = 4,
    *,
    half_life: str = "600s",
    checks: bool = False,
    fair: bool = True,
    within: str | None = None,
    **sharing: Any,
) -> Life:
    """ClusterQueue a with the LocalQueues x and y, a half-life of 600 s and samples every 300 s."""
    block = {"usageHalfLifeTime": half_life, "usageSamplingInterval": "300s", **sharing}
    waiting = {"timeout": "10000h"}
    life = Life(rules="ledger", admissionFairSharing=block, waitForPodsReady=waiting)
    if checks:
        life.check("k1")
    life.queue("a", nominal, fair=fair, within=within, checks=[{"name": "k1"}] if checks else None)
    life.add(local_queue("x"), local_queue("y"))
    return life


def running(name: str, queue: str) -> Object:
    """A workload that has been holding 2 since 990 when the ledger begins."""
    target = build.workload(name, queue, requests={GPU: 2})
    return build.holding(target, "a", [build.assignment("main", {GPU: "f1"}, {GPU: 2})], at=990)


def account(life: Life, queue: str) -> Account:
    found: Account = life.ledger.state.consumption.accounts["team", queue]
    return found


def consumed(life: Life, queue: str) -> dict[str, float]:
    return {name: value / NANO for name, value in account(life, queue).consumed.items()}


def decayed(amount: int, running: int, seconds: float) -> int:
    """R7.5 with the half-life of 600 s: what is left of an amount, and what so many running make of it."""
    rate = alpha(int(seconds * SECOND), 600 * SECOND)
    return times(amount, 1.0 - rate) + times(running * NANO, rate)


# Entry penalties.


def test_the_penalty_of_a_workload_with_checks_is_settled_when_they_are_ready() -> None:
    """Kueue pull request 12786: admitted through checks, a workload kept its penalty for ever."""
    life = world(checks=True)
    life.at(1000).job("w", 2, queue="x")
    assert list(account(life, "x").penalties) == ["w"]
    since = account(life, "x").last / SECOND - 1_767_225_600
    life.at(1010).answer("w", k1="Ready")
    assert account(life, "x").penalties == {}
    penalty = times(2 * NANO, alpha(300 * SECOND, 600 * SECOND))
    assert account(life, "x").consumed[GPU] == decayed(0, 2, 1010 - since) + penalty


def test_a_queue_without_fair_admission_charges_no_penalty() -> None:
    """Kueue issue 13495: nobody settled it there, and it made every sample due."""
    life = world(fair=False)
    life.at(1000).job("w", 2, queue="x")
    assert account(life, "x").penalties == {}
    target = local_queue("x")
    target["metadata"]["labels"] = {"written": "again"}
    assert life.at(1010).change(target) == [], "no sample is due"


def test_a_penalty_of_nothing_makes_no_sample_due() -> None:
    """Kueue issue 10271: penalties of zero counted as waiting. R7.8: a non-zero one does."""
    life = world(checks=True)
    life.at(1000).job("w", 0, queue="x")
    assert not account(life, "x").has_penalty
    assert life.ledger.next_deadline() is None


def test_a_penalty_replaces_that_of_the_same_workload() -> None:
    """Kueue pull request 15000: repeated reservations are not charged repeatedly (R7.12)."""
    life = world(checks=True)
    life.at(1000).job("w", 2, queue="x")
    once = account(life, "x").penalties
    for _ in range(3):
        life.stop("ClusterQueue", "a", "Hold")
        life.stop("ClusterQueue", "a", "None")
    assert account(life, "x").penalties == once


@pytest.mark.parametrize("how", ["delete", "finish", "move", "deactivate"])
def test_a_penalty_goes_with_who_will_not_be_admitted_here(how: str) -> None:
    """R7.15."""
    life = world(checks=True)
    life.at(1000).job("w", 2, queue="x")
    life.stop("ClusterQueue", "a", "Hold")
    assert account(life, "x").has_penalty
    if how == "delete":
        life.delete("w")
    elif how == "finish":
        life.finish("w")
    elif how == "move":
        target = life.copy("w")
        target["spec"]["queueName"] = "y"
        target["status"] = {}
        life.change(target)
    else:
        target = life.copy("w")
        target["spec"]["active"] = False
        target["status"] = {}
        life.change(target)
    assert account(life, "x").penalties == {}


def test_workloads_that_come_at_once_are_taken_from_every_local_queue() -> None:
    """Kueue issues 5339 and 7688: before the penalty, one LocalQueue could fill the quota between two samples."""
    life = world(2)
    wanted = [
        build.workload(f"{queue}{number}", queue, requests={GPU: 1}, created=500 + number)
        for queue in "xy"
        for number in range(3)
    ]
    assert steps(life.at(1000).submit(*wanted)) == ["Reserved x0", "Admitted x0", "Reserved y0", "Admitted y0"]


# Samples.


def test_an_event_between_two_samples_takes_none() -> None:
    """Kueue pull request 12671: every write of a LocalQueue decayed it a little, and cut its cores off to nothing."""
    life = world()
    life.at(1000).job("w", 2, queue="x")
    before = consumed(life, "x")
    for second in range(1001, 1020):
        target = local_queue("x")
        target["metadata"]["labels"] = {"written": str(second)}
        assert life.at(second).change(target) == []
    assert consumed(life, "x") == before
    [told] = life.tick(1300)
    assert told["type"] == "ShareChanged"


def test_what_runs_in_a_stopped_local_queue_is_charged_when_it_starts_again() -> None:
    """Kueue issue 15383: R7.8 takes no samples of a stopped LocalQueue; R7.10: afterwards the whole time is charged
    with what runs then."""
    life = world()
    life.at(1000).job("w", 4, queue="x")
    before = account(life, "x").consumed[GPU]
    life.at(1010).stop("LocalQueue", "x", "Hold")
    assert life.tick(1000 + 6 * 300) == []
    life.at(1000 + 6 * 300 + 10).stop("LocalQueue", "x", "None")
    assert account(life, "x").consumed[GPU] == decayed(before, 4, 6 * 300 + 10)


def test_a_local_queue_of_an_inactive_cluster_queue_is_not_sampled() -> None:
    """R7.8."""
    life = world()
    life.at(1000).job("w", 4, queue="x")
    life.at(1010).stop("ClusterQueue", "a", "Hold")
    assert life.tick(5000) == []
    assert life.ledger.next_deadline() is None or life.ledger.next_deadline() > (1_767_225_600 + 5000) * SECOND


def test_a_sample_is_taken_of_every_local_queue_at_its_own_time() -> None:
    life = world(8)
    life.at(1000).job("w", 2, queue="x")
    life.at(1100).job("v", 2, queue="y")
    told = [(d["at"], d["localQueue"]["name"]) for t in (1300, 1400, 1600, 1700) for d in life.tick(t)]
    assert told == [(build.moment(t), q) for t, q in ((1300, "x"), (1400, "y"), (1600, "x"), (1700, "y"))]


def test_consumption_fades_to_nothing_and_then_costs_no_timer() -> None:
    life = world()
    life.at(1000).job("w", 4, queue="x")
    life.at(1001).finish("w")
    for number in range(1, 200):
        life.tick(1001 + number * 300)
    assert consumed(life, "x").get(GPU, 0) == 0
    assert life.ledger.next_deadline() is None


def test_without_a_half_life_every_sample_forgets() -> None:
    """R7.11."""
    life = world(half_life="0s")
    life.add(local_queue("z", consumed={GPU: "5"}))
    assert consumed(life, "z") == {GPU: 5.0}
    life.tick(5000)
    assert consumed(life, "z") == {}


def test_a_running_workload_is_charged_though_it_is_being_evicted() -> None:
    """R7.6: until its reservation goes."""
    life = world(within="LowerPriority")
    life.at(1000).job("w", 4, queue="x")
    before = account(life, "x").consumed[GPU]
    life.at(1010).job("in", 4, queue="y", priority=5)
    life.tick(1300)
    assert account(life, "x").consumed[GPU] == decayed(before, 4, 300)


# What was consumed before.


@pytest.mark.parametrize("first", ["workload", "queue"])
def test_history_survives_a_restart_whatever_comes_first(first: str) -> None:
    """Kueue issue 12911: an admission that was settled before the LocalQueue was read lost its persisted history."""
    life = world(checks=True)
    reserved = build.with_conditions(running("w", "z"), build.condition("Admitted", False, "NoReservation", 990))
    queue = local_queue("z", consumed={GPU: "100"}, at=900)
    life.at(1000).add(*((reserved, queue) if first == "workload" else (queue, reserved)))
    life.at(1010).answer("w", k1="Ready")
    assert 98 < consumed(life, "z")[GPU] <= 101


def test_history_of_a_local_queue_that_is_read_after_its_running_workloads_counts() -> None:
    """R7.13: a tick on an account that a workload opened adds the persisted consumption once."""
    life = world()
    life.at(1000).add(running("w", "z"))
    life.at(1001).add(local_queue("z", consumed={GPU: "100"}, at=900))
    assert consumed(life, "z") == {GPU: 100.0}
    life.at(1002).change(local_queue("z", weight="2", consumed={GPU: "100"}, at=900))
    assert consumed(life, "z") == {GPU: 100.0}
    assert life.ledger.state.consumption.usage(("team", "z")) == 50.0


def test_what_runs_when_the_ledger_begins_is_no_seed() -> None:
    """Kueue issue 12783: live usage was taken for history, and inverted the order of victims."""
    life = world()
    life.at(1000).add(local_queue("z"))
    life.add(running("w", "z"))
    assert (consumed(life, "z"), list(account(life, "z").running)) == ({}, ["w"])


def test_a_local_queue_that_is_made_anew_still_runs_what_it_ran() -> None:
    """R7.15: the account goes with the LocalQueue; R7.6: what runs is that of the admitted workloads, old or new."""
    life = world()
    life.at(1000).job("w", 4, queue="x")
    life.at(1010).send("DELETED", life.objects["LocalQueue", "team", "x"])
    anew = local_queue("x")
    life.at(1020).add({**anew, "metadata": {**anew["metadata"], "uid": "another"}})
    assert consumed(life, "x") == {}
    [told] = life.tick(1320)
    assert told["consumed"] == {GPU: canonical_quantity(decayed(0, 4, 300))}


def test_a_replaced_local_queue_begins_anew_with_what_runs() -> None:
    life = world()
    life.at(1000).job("w", 4, queue="x")
    anew = local_queue("x")
    life.at(1020).change({**anew, "metadata": {**anew["metadata"], "uid": "another"}})
    assert consumed(life, "x") == {}
    [told] = life.tick(1320)
    assert told["consumed"] == {GPU: canonical_quantity(decayed(0, 4, 300))}


def test_a_holder_that_changes_its_local_queue_runs_in_one_of_them_only() -> None:
    life = world()
    life.at(1000).job("w", 4, queue="x")
    target = life.copy("w")
    target["spec"]["queueName"] = "y"
    life.at(1010).change(target)
    assert (account(life, "x").running, list(account(life, "y").running)) == ({}, ["w"])
    life.at(1020).finish("w")
    assert account(life, "y").running == {}


# Order and weights.


def test_a_changed_weight_reorders_at_once() -> None:
    """R7.18."""
    life = world()
    life.add(local_queue("z"))
    life.at(1000).job("x0", 2, queue="x")
    life.at(1001).job("y0", 2, queue="y")
    life.at(1002).finish("x0")
    life.at(1003).finish("y0")
    life.at(1004).job("z0", 4, queue="z")
    life.at(1005).job("x1", 4, queue="x")
    life.at(1006).job("y1", 4, queue="y")
    life.at(1007).change(local_queue("y", weight="5"))
    assert "Reserved y1" in steps(life.at(1008).finish("z0"))


def test_weights_of_resources_choose_what_is_compared() -> None:
    """R7.16: cores and bytes are added as they are; without weights memory swamps everything."""

    def first(weights: dict[str, float]) -> str:
        life = Life(
            rules="ledger",
            admissionFairSharing={
                "usageHalfLifeTime": "1h",
                "usageSamplingInterval": "300s",
                "resourceWeights": weights,
            },
        )
        life.add(build.flavor("f1"))
        quotas = [build.quota("cpu", 10), build.quota("memory", "10Gi")]
        queue = build.cluster_queue("a", build.group(f1=quotas))
        queue["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        life.add(queue, local_queue("x"), local_queue("y"), local_queue("z"))
        life.submit(build.workload("x0", "x", requests={"cpu": 8, "memory": "1Gi"}))
        life.finish("x0")
        life.submit(build.workload("y0", "y", requests={"cpu": 1, "memory": "8Gi"}))
        life.finish("y0")
        life.submit(build.workload("z0", "z", requests={"cpu": 10}))
        life.submit(
            build.workload("x1", "x", requests={"cpu": 10}, created=1),
            build.workload("y1", "y", requests={"cpu": 10}, created=2),
        )
        life.finish("z0")
        return life.admitted_last()

    assert first({}) == "x1"
    assert first({"memory": 0.0}) == "y1"


def test_a_queue_that_joins_later_orders_by_usage_only_when_it_is_made_anew() -> None:
    """R7.4: charges follow the scope at once, the order of what waits does not."""
    life = world(fair=False)
    life.at(1000).job("x0", 4, queue="x")
    queue = life.cluster_queue("a")
    queue["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    life.at(1001).change(queue)
    life.at(1002).job("x1", 4, queue="x", created=1)
    life.at(1003).job("y1", 4, queue="y", created=2)
    assert "Reserved x1" in steps(life.at(1300).finish("x0"))
    assert account(life, "x").has_penalty is False
    assert consumed(life, "x")[GPU] > 0


def test_the_order_holds_though_usage_moves_while_workloads_wait() -> None:
    """N6: the usage is read when a head is asked for."""
    life = world()
    life.add(local_queue("z"))
    life.at(1000).job("x0", 4, queue="x")
    life.at(1001).job("x1", 4, queue="x")
    life.at(1002).job("y1", 4, queue="y")
    life.at(1003).finish("x0")
    assert life.admitted_last() == "y1"
    life.at(1004).job("z1", 4, queue="z")
    for hour in range(1, 3):
        life.tick(1004 + hour * HOUR)
    assert "Reserved z1" in steps(life.finish("y1"))


def test_a_log_of_samples_replays_byte_for_byte() -> None:
    def played() -> list[str]:
        life = world(checks=True)
        for number in range(6):
            life.at(1000 + 50 * number).job(f"w{number}", 1, queue="xy"[number % 2])
            life.answer(f"w{number}", k1="Ready")
        for number in range(20):
            life.tick(1400 + 100 * number)
        return [json.dumps(decision) for decision in life.decisions]

    assert played() == played()


@pytest.mark.parametrize("gone", ["ClusterQueue", "LocalQueue"])
def test_no_sample_is_taken_of_what_is_gone(gone: str) -> None:
    """R7.8."""
    life = world()
    life.at(1000).job("w", 4, queue="x")
    key = ("ClusterQueue", "", "a") if gone == "ClusterQueue" else ("LocalQueue", "team", "x")
    life.at(1010).send("DELETED", life.objects[key])
    timed_out = (1_767_225_600 + 1000 + 10_000 * HOUR) * SECOND
    assert life.ledger.next_deadline() == timed_out
    assert life.tick(5000) == []


def test_only_what_the_queue_covers_is_charged_where_the_rest_is_ignored() -> None:
    """R7.12: with undeclared resources ignored, the penalty is of the covered ones."""
    block = {"usageHalfLifeTime": "600s", "usageSamplingInterval": "300s"}
    life = Life(rules="ledger", admissionFairSharing=block, resources={"quotaCheckStrategy": "IgnoreUndeclared"})
    life.check("k1")
    life.queue("a", 4, fair=True, checks=[{"name": "k1"}])
    assert steps(life.submit(build.workload("w", "a", requests={GPU: 2, "cpu": 64}))) == ["Reserved w"]
    assert list(account(life, "a").penalties["w"]) == [GPU]


def test_the_order_of_victims_follows_the_scope_as_it_is_now() -> None:
    """R7.22: usage counts for victims only while the ClusterQueue is usage-based."""
    for leaves, expected in ((False, "u3"), (True, "u2")):
        life = world(6, within="LowerPriority")
        life.at(1000).job("u1", 2, queue="x", priority=3)
        life.at(1001).job("u2", 2, queue="y", priority=1)
        life.at(1002).job("u3", 2, queue="x", priority=2)
        if leaves:
            queue = life.cluster_queue("a")
            del queue["spec"]["admissionScope"]
            life.at(1003).change(queue)
        assert steps(life.at(1004).job("in", 2, queue="a", priority=9)) == [f"Preempted {expected} InClusterQueue"]


def test_s81_a_local_queue_without_weight_comes_last_and_several_fall_back_to_the_usual_order() -> None:
    life = world(2)
    life.add(local_queue("none", weight="0"), local_queue("nil", weight="0"))
    life.at(1000).job("x0", 2, queue="x")
    life.at(1001).job("old", 2, queue="none", created=1)
    life.at(1002).job("high", 2, queue="nil", priority=1, created=2)
    life.at(1003).job("x1", 2, queue="x", created=3)
    order = []
    for name in ("x0", "x1", "high"):
        life.finish(name)
        order.append(life.admitted_last())
    assert order == ["x1", "high", "old"]


def test_usage_picks_the_heads_and_shares_order_them() -> None:
    """R7.20: with fair sharing too, each queue offers its least used LocalQueue, then the tournament decides."""
    block = {"usageHalfLifeTime": "600s", "usageSamplingInterval": "300s"}
    life = Life(rules="ledger", strategies=["LessThanOrEqualToFinalShare"], admissionFairSharing=block)
    life.add(build.flavor("f1"), build.cohort("k", build.group(f1=[build.quota(GPU, 4)])))
    for name in "ab":
        queue = build.cluster_queue(name, build.group(f1=[build.quota(GPU, 0)]), cohort="k")
        queue["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        life.add(queue, build.local_queue(name), build.local_queue(f"{name}-too", name))
    life.at(1000).job("a0", 2, queue="a")
    life.at(1001).job("b0", 2, queue="b")
    life.at(1002).job("a1", 2, queue="a", priority=9)
    life.at(1003).job("a2", 2, queue="a-too")
    life.at(1004).job("b1", 2, queue="b-too")
    life.at(1005).finish("b0")
    assert life.admitted_last() == "b1", "b holds nothing and comes first"
    life.at(1006).finish("a0")
    assert life.admitted_last() == "a2", "in a the LocalQueue that used nothing, whatever the priority"
