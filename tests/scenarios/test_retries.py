"""What raises a retry of the inadmissible workloads, and what does not (admission 4.7, 7.9).

A queue with nobody in its heap runs no cycle. So whether a parked workload that can never fit was looked at again shows
in the number of the cycle of its tree.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import builders as build
from tests.builders import Object
from tests.life import GPU, Life, steps

Happens = Callable[[Life], object]


def world() -> Life:
    """Cohort k with a, b and a stopped c. `parked` waits in a and can never fit; r is reserved in b, w is admitted."""
    life = Life(rules="ledger", waitForPodsReady={"timeout": "10000h"})
    life.check("k1")
    life.add(build.flavor("f1"), build.cohort("k"))
    for name in "abc":
        queue = build.cluster_queue(name, build.group(f1=[build.quota(GPU, 4)]), cohort="k")
        if name == "b":
            queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "k1"}]}
        life.add(queue, build.local_queue(name))
    life.stop("ClusterQueue", "c", "Hold")
    life.add(priority_class(1))
    life.at(1000).job("r", 1, queue="b", priority=1, priorityClassRef=OF_CLASS)
    life.submit(build.workload("w", "a", build.pod_set("main", requests={GPU: 1}, count=2)))
    life.job("parked", 99)
    life.job("idle", 98, queue="c")
    life.add(build.workload("loose", "nowhere", requests={GPU: 1}))
    assert life.parked() == {"a": ["parked"]}
    return life


OF_CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "one"}


def priority_class(value: int) -> Object:
    named = build.metadata("one", uid="wpc-one")
    return {"apiVersion": build.KUEUE, "kind": "WorkloadPriorityClass", "metadata": named, "value": value}


def reclaim(life: Life) -> object:
    target = life.copy("w")
    target["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    return life.change(target)


def shrink(life: Life) -> object:
    target = life.copy("w")
    target["spec"]["podSets"][0]["count"] = 1
    return life.change(target)


def lose(life: Life) -> object:
    life.say("w", "Evicted", True, "Preempted")
    before = cycle(life)
    life.give_back("w")
    return before


def respecify(name: str) -> Happens:
    def happens(life: Life) -> object:
        queue = life.cluster_queue(name)
        queue["spec"]["fairSharing"] = {"weight": "3"}
        return life.change(queue)

    return happens


def show_status(life: Life) -> object:
    queue = life.cluster_queue("b")
    queue["status"] = {"pendingWorkloads": 7}
    return life.change(queue)


def taint(life: Life) -> object:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    return life.change(build.flavor("f1", taints=taints))


def cycle(life: Life) -> int:
    number: int = life.ledger.state.forest.queues["a"].tree.cycle
    return number


RETRIED: dict[str, Happens] = {
    "a workload that holds quota is deleted": lambda life: life.delete("w"),
    "a workload that waits is deleted": lambda life: life.delete("idle"),
    "a workload finishes": lambda life: life.finish("w"),
    "a workload is deactivated": lambda life: life.activate("w", False),
    "a workload loses its reservation": lose,
    "pods of an admitted workload are reclaimable": reclaim,
    "an elastic workload shrinks": shrink,
    "the class of a reserved workload changes": lambda life: life.change(priority_class(7)),
    "a queue of the cohort is created": lambda life: life.add(build.cluster_queue("d", cohort="k")),
    "the specification of a queue changes": respecify("b"),
    "a stopped queue starts": lambda life: life.stop("ClusterQueue", "c", "None"),
    "the cohort changes": lambda life: life.change(build.cohort("k", weight="2")),
    "a flavor changes": taint,
}
NOT_RETRIED: dict[str, Happens] = {
    "an eviction alone": lambda life: life.say("w", "Evicted", True, "ClusterQueueStopped"),
    "only the status of a queue changes (4.7.4)": show_status,
    "a workload that nobody queues is deleted": lambda life: life.delete("loose"),
    "a condition of a parked workload changes": lambda life: life.say("parked", "PodsReady", False, "WaitForStart"),
    "a check that was active is told again": lambda life: life.check("k1"),
    "a tick": lambda life: life.tick(5000),
}


@pytest.mark.parametrize("what", RETRIED)
def test_a_parked_workload_is_looked_at_again_when(what: str) -> None:
    """4.7.2, 7.9."""
    life = world()
    before = cycle(life)
    RETRIED[what](life)
    assert cycle(life) > before
    assert life.parked()["a"] == ["parked"]


@pytest.mark.parametrize("what", NOT_RETRIED)
def test_a_parked_workload_stays_where_it_is_after(what: str) -> None:
    life = world()
    before = cycle(life)
    NOT_RETRIED[what](life)
    assert cycle(life) == before


def test_an_admission_raises_no_retry() -> None:
    """4.7.7: cycles run for the newcomer, and the parked one is in none of them."""
    life = world()
    parked, before = life.ledger.state.workloads["team", "parked"], cycle(life)
    looked_at = parked.memory.cycle
    assert "Reserved small" in steps(life.job("small", 1))
    assert cycle(life) > before
    assert parked.memory.cycle == looked_at
    life.finish("small")
    assert parked.memory.cycle > looked_at


def test_a_retry_reaches_the_whole_tree_and_no_other() -> None:
    """4.7.1."""
    life = world()
    life.add(build.cluster_queue("far", build.group(f1=[build.quota(GPU, 1)])), build.local_queue("far"))
    life.job("elsewhere", 9, queue="far")
    far = life.ledger.state.forest.queues["far"].tree
    before, here = far.cycle, cycle(life)
    life.finish("w")
    assert (far.cycle, cycle(life) > here) == (before, True)


def test_retries_of_a_tree_within_a_second_are_one_where_the_second_counts() -> None:
    """4.7.5: with `retryDelay` they are merged; the first one sets the time."""
    life = world()
    life.add({**build.configuration("ledger"), "ledger": {"rules": "ledger", "retryDelay": "1s"}})
    life.tick(2000)
    before = cycle(life)
    life.at(2000.2).finish("w")
    life.at(2000.7).delete("r")
    assert cycle(life) == before
    life.tick(2001.1)
    assert cycle(life) == before
    life.tick(2001.2)
    assert cycle(life) > before
    after = cycle(life)
    life.tick(2005)
    assert cycle(life) == after
