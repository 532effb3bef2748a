"""What once kept the fold busy for ever, or made it fall over, is decided once."""

from __future__ import annotations

import json
from typing import Any

from ledger.fold import Fold
from tests import builders as build

GPU = "nvidia.com/gpu"
MAIN = [build.assignment("main", {GPU: "a100"}, {GPU: 1})]
CPU = {"flavors": {"cpu": "a100"}, "resourceUsage": {"cpu": "1"}}


def folded(*records: build.Event) -> Fold:
    fold = Fold()
    for offset, record in enumerate(records):
        assert fold.apply(build.encode(record), offset=offset).rejections == []
    return fold


def added(*targets: build.Object, at: float | None = None) -> list[build.Event]:
    return [build.event("ADDED", target, at=at) for target in targets]


def cluster(**queue: Any) -> list[build.Event]:
    quota = build.group(a100=[build.quota(GPU, 8)])
    return added(build.namespace(), build.flavor("a100"), build.cluster_queue("q", quota, **queue))


def test_a_run_out_workload_whose_check_asks_for_a_later_retry_waits_for_the_retry() -> None:
    runner = build.workload("w", "q", requests={GPU: 1}, maximumExecutionTimeSeconds=1)
    retry = {"name": "k", "state": "Retry", "lastTransitionTime": build.moment(0), "requeueAfterSeconds": 600}
    runner = build.holding({**runner, "status": {"admissionChecks": [retry]}}, "q", MAIN)
    queue = cluster()
    queue[-1]["object"]["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "k"}]}
    fold = folded(*queue, *added(build.local_queue("q"), runner, at=0), build.event("TICK", at=60))
    ledger = fold.clusters["test"]
    assert (ledger.usage(), ledger.next_deadline()) == ({"q": {f"a100/{GPU}": 1}}, ledger.now + 540 * 10**6)
    outcome = fold.apply(build.encode(build.event("TICK", at=600)), offset=99)
    assert [b'"Evicted"' in decision.value for decision in outcome.decisions] == [True]


def test_nothing_is_reserved_in_a_local_queue_that_is_being_deleted() -> None:
    check: build.Object = {
        "apiVersion": build.KUEUE,
        "kind": "AdmissionCheck",
        "metadata": build.metadata("k"),
        "spec": {"controllerName": "example.com/check"},
        "status": {"conditions": [build.condition("Active", True, "Active", 0)]},
    }
    queue = build.cluster_queue("q", build.group(a100=[build.quota(GPU, 8)]))
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "k"}]}
    local = build.local_queue("q")
    leaving = {**local, "metadata": {**local["metadata"], "deletionTimestamp": build.moment(1)}}
    waiting = build.workload("w", "q", requests={GPU: 1})
    before = [*added(build.namespace(), build.flavor("a100"), check, queue)]
    fold = folded(*before, *added(leaving, waiting))
    assert fold.clusters["test"].usage() == {"q": {}}
    fold = folded(*before, *added(local, waiting), build.event("MODIFIED", leaving))
    assert fold.clusters["test"].usage() == {"q": {}}


def test_a_search_for_victims_with_only_the_resource_pods_contested_takes_the_first() -> None:
    quota = build.group(a100=[build.quota("cpu", 6), build.quota("pods", 4)])
    queue = build.cluster_queue("q", quota, within="LowerPriority")
    two = build.workload("two", "q", build.pod_set(count=2), priority=-1)
    three = build.workload("three", "q", build.pod_set("a", count=2), build.pod_set("b"))
    fold = folded(*added(build.namespace(), build.flavor("a100"), queue, build.local_queue("q"), two))
    outcome = fold.apply(build.encode(build.event("ADDED", three)), offset=9)
    decided = [(d["type"], d["workload"]["name"]) for d in map(json.loads, (d.value for d in outcome.decisions))]
    assert decided == [("Preempted", "two"), ("Pending", "three")]


def test_workloads_without_a_uid_of_their_own_are_told_apart_by_their_names() -> None:
    def nameless(name: str, uid: str) -> build.Object:
        target = build.workload(name, "q", requests={GPU: 3})
        return {**target, "metadata": {**target["metadata"], "uid": uid}}

    targets = [nameless("a", ""), nameless("b", ""), nameless("c", "same"), nameless("d", "same")]
    fold = folded(*cluster(), *added(build.local_queue("q"), *targets))
    ledger = fold.clusters["test"]
    assert ledger.usage() == {"q": {f"a100/{GPU}": 6}}
    assert sorted(ledger.pending_reasons()) == ["team/c", "team/d"]
    for offset, target in enumerate(targets[:3], start=20):
        assert fold.apply(build.encode(build.event("DELETED", target)), offset=offset).rejections == []
    assert (ledger.usage(), ledger.pending_reasons()) == ({"q": {f"a100/{GPU}": 3}}, {})


def test_what_is_rewritten_behind_a_head_that_stays_does_not_pile_up() -> None:
    quota = build.group(a100=[build.quota("cpu", 1)])
    queue = build.cluster_queue("q", quota, strict=True)
    head = build.workload("head", "q", requests={"cpu": 1}, priority=9)
    holder = build.holding(build.workload("h", "q", requests={"cpu": 1}), "q", [MAIN[0] | CPU])
    fold = folded(*added(build.namespace(), build.flavor("a100"), queue, build.local_queue("q"), holder, head))
    for number in range(500):
        follower = build.workload("follower", "q", requests={"cpu": 1}, priority=number % 5)
        fold.apply(build.encode(build.event("MODIFIED", follower)), offset=number)
    pending = fold.clusters["test"].state.forest.queues["q"].pending
    assert [state.name for state in pending] == ["head", "follower"]
    assert len(pending._heads) < 100
