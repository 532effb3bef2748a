"""The status from decisions alone is the one that Kubernetes showed (objects 2 and 4)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ledger.decisions import decode_decision
from ledger.fold import Fold
from projections.status import Board, InvalidTarget
from tests import builders as build
from tests.cli.running import quota_ledger
from tests.life import Life
from tests.recorded.test_recordings import HERE, lines
from tests.world import World

SHOWN = ("QuotaReserved", "Admitted", "Evicted", "Preempted", "Requeued", "Finished")
RECORDINGS = (
    "afs",
    "checks",
    "elastic",
    "fair2",
    "flavors",
    "maxexec",
    "partial",
    "podsready",
    "podsready-block",
    "preempt2",
    "prioclass",
    "shapes",
    "slowstop",
    "stops",
    "tree",
)

UNTIMED = (
    "conditions",
    "flavorsReservation",
    "flavorsUsage",
    "pendingWorkloads",
    "reservingWorkloads",
    "admittedWorkloads",
    "fairSharing",
)

Document = dict[str, Any]


def board_of(name: str) -> Board:
    fold, board = Fold(), Board()
    for offset, line in enumerate(lines(name)):
        for record in fold.apply(line.rstrip(b"\n"), offset=offset).decisions:
            board.apply(decode_decision(record.value))
    return board


def last_objects(name: str, kind: str) -> list[Document]:
    """What the API server had at the end."""
    found: dict[tuple[str, str], Document] = {}
    for line in lines(name):
        event = json.loads(line)
        target = event["object"]
        if target["kind"] == kind:
            key = (target["metadata"].get("namespace", ""), target["metadata"]["name"])
            found[key] = target
            if event["type"] == "DELETED":
                del found[key]
    return list(found.values())


def shown(target: Document) -> dict[str, str]:
    """Status by type, and the reason of an eviction; a condition that never was True is the same as none."""
    conditions = {c["type"]: c for c in target["status"]["conditions"] if c["type"] in SHOWN}
    result = {kind: c["status"] for kind, c in conditions.items() if c["status"] == "True"}
    result.update({f"{kind} for": conditions[kind]["reason"] for kind in ("Evicted", "Preempted") if kind in result})
    return result


def untimed(status: Document) -> Document:
    """A queue's status as far as decisions can tell it: the time of its condition is the writer's, and the share of a
    LocalQueue is nobody's."""
    active = [c for c in status["conditions"] if c["type"] == "Active"]
    shown = {"pendingWorkloads": 0, "reservingWorkloads": 0, "admittedWorkloads": 0} | status
    shown["conditions"] = [{key: c[key] for key in ("type", "status", "reason", "message")} for c in active]
    return {key: value for key, value in shown.items() if key in UNTIMED}


@pytest.mark.parametrize("name", RECORDINGS)
def test_workloads_show_what_kubernetes_showed(name: str) -> None:
    board = board_of(name)
    for target in last_objects(name, "Workload"):
        metadata = target["metadata"]
        status = board.workload(metadata["namespace"], metadata["name"])
        assert status is not None
        assert shown(status) == shown(target), metadata["name"]


def told(target: Document, kind: str) -> tuple[str, ...]:
    [found] = [c for c in target["status"]["conditions"] if c["type"] == kind]
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("name", ["checks", "maxexec"])
def test_deactivated_workloads_say_so_in_kueues_words(name: str) -> None:
    """7.3: the reason why a deactivated workload holds no quota; 7.4.5: which checks rejected it."""
    board = board_of(name)
    inactive = [w for w in last_objects(name, "Workload") if not w["spec"].get("active", True)]
    assert inactive
    for target in inactive:
        status = board.workload(target["metadata"]["namespace"], target["metadata"]["name"])
        assert status is not None
        for kind in ("QuotaReserved", "Admitted", "Evicted", "Requeued"):
            assert told(status, kind) == told(target, kind)


def test_a_workload_that_waits_for_its_checks_is_told_that_they_are_not_ready() -> None:
    """7.2.6: after a victim has come back too, whose last condition was that it had no reservation."""
    life = Life()
    life.check("k1")
    life.queue(nominal=4, within="LowerPriority", checks=[{"name": "k1"}])
    life.at(1000).job("w", 4)
    waits = ("False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
    assert told(status_of(life, "w"), "Admitted") == waits
    life.at(1001).answer("w", k1="Ready")
    assert told(status_of(life, "w"), "Admitted")[0] == "True"
    life.at(1002).job("in", 4, priority=5)
    life.at(1003).give_back("w")
    assert told(status_of(life, "w"), "Admitted")[:2] == ("False", "NoReservation")
    life.at(1004).finish("in")
    assert told(status_of(life, "w"), "Admitted") == waits


def test_the_end_of_a_backoff_is_written_in_whole_seconds() -> None:
    life = Life(waitForPodsReady={"timeout": "100s", "requeuingStrategy": {"backoffBaseSeconds": 500}})
    life.queue()
    life.at(1000).job("w")
    life.at(1100).tick(1100)
    life.at(1110).give_back("w")
    assert status_of(life, "w")["status"]["requeueState"] == {"requeueAt": "2026-01-01T00:26:40Z"}


def status_of(world: World, name: str) -> Document:
    board = Board()
    for record in world.decisions:
        board.apply(decode_decision(json.dumps(record).encode()))
    status = board.workload(build.NAMESPACE, name)
    assert status is not None
    return status


@pytest.mark.parametrize("name", RECORDINGS)
def test_cluster_queues_show_what_kubernetes_showed(name: str) -> None:
    board = board_of(name)
    for target in last_objects(name, "ClusterQueue"):
        status, expected = board.cluster_queue(target["metadata"]["name"]), target["status"]
        assert status is not None
        assert untimed(status["status"]) == untimed(expected)


@pytest.mark.parametrize("name", RECORDINGS)
def test_local_queues_show_what_kubernetes_showed(name: str) -> None:
    board = board_of(name)
    for target in last_objects(name, "LocalQueue"):
        metadata = target["metadata"]
        status = board.local_queue(metadata["namespace"], metadata["name"])
        assert status is not None
        assert untimed(status["status"]) == untimed(target["status"])


def test_the_admission_is_written_as_kueue_writes_it() -> None:
    board = board_of("partial")
    checked = 0
    for target in last_objects("partial", "Workload"):
        metadata, admission = target["metadata"], target["status"].get("admission")
        status = board.workload(metadata["namespace"], metadata["name"])
        assert status is not None
        if admission is not None:
            assert status["status"]["admission"] == admission
            checked += 1
    assert checked


def test_local_queues_count_their_own_workloads() -> None:
    world = World("a(4)")
    world.submit("w1@a:3 p0", "w2@a:3 p0")
    board = Board()
    for record in world.decisions:
        board.apply(decode_decision(json.dumps(record).encode()))
    status = board.status("LocalQueue/team/a")
    assert status is not None
    assert untimed(status["status"]) == {
        "conditions": [
            {
                "type": "Active",
                "status": "True",
                "reason": "Ready",
                "message": "Can submit new workloads to localQueue",
            }
        ],
        "pendingWorkloads": 1,
        "reservingWorkloads": 1,
        "admittedWorkloads": 1,
        "flavorsReservation": [{"name": "f1", "resources": [{"name": "nvidia.com/gpu", "total": "3"}]}],
        "flavorsUsage": [{"name": "f1", "resources": [{"name": "nvidia.com/gpu", "total": "3"}]}],
    }


@pytest.mark.parametrize("target", ["", "ClusterQueue", "ClusterQueue/", "Workload/name", "Node/n", "LocalQueue/q"])
def test_what_names_no_object_is_refused(target: str) -> None:
    with pytest.raises(InvalidTarget):
        Board().status(target)


def test_the_command_reads_a_file_of_decisions(tmp_path: Path) -> None:
    decisions = tmp_path / "decisions.jsonl.gz"
    assert quota_ledger("replay", HERE / "tree.jsonl.gz", "-o", decisions, "--quiet").returncode == 0
    name = last_objects("tree", "ClusterQueue")[0]["metadata"]["name"]
    done = quota_ledger("status", f"ClusterQueue/{name}", "--decisions", decisions, "-o", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == board_of("tree").cluster_queue(name)
    assert quota_ledger("status", "ClusterQueue/none", "--decisions", decisions).returncode == 1
    assert quota_ledger("status", "Queue/none", "--decisions", decisions).returncode == 2
    assert quota_ledger("status", f"ClusterQueue/{name}", "--decisions", tmp_path / "none").returncode == 2
    with gzip.open(decisions) as file:
        assert file.readline().startswith(b"{")
