"""A closed loop in virtual time over the bare fold, after the scheduler benchmark of Kueue.

Workloads are created on a schedule, run for a while once they are admitted, and finish; a victim gives its quota
back 50 ms after the decision. No broker, no files. What happens at one instant is packed as a producer packs what
waits: into a BATCH of at most 1,000 events, for which cycles run once (design 4). With `--singly` every event is a
record of its own. What is measured is the processor time spent in `Fold.apply`, decoding and encoding included.

    python benchmarks/kueue_scale.py [baseline] [large] [--rounds N] [--singly]

A decision is a QuotaReserved or a Preempted; Admitted, Released, Requeued and Pending records are not counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Any

from ledger.fold import Fold
from topics.garbage import settle_garbage_collection

START = datetime(2026, 1, 1, tzinfo=UTC)
GIVE_BACK_SECONDS = 0.05


@dataclass(frozen=True)
class Shape:
    """Workloads of one size: how many a queue, how often, how long they run."""

    name: str
    count: int
    cpu: int
    priority: int
    every_seconds: float
    runs_seconds: float


@dataclass(frozen=True)
class Scale:
    cohorts: int
    queues: int
    shapes: tuple[Shape, ...]


def shapes(small: int, medium: int, large: int) -> tuple[Shape, ...]:
    return (
        Shape("small", small, 1, 50, 0.1, 0.2),
        Shape("medium", medium, 5, 100, 0.5, 0.5),
        Shape("large", large, 20, 200, 1.2, 1.0),
    )


SCALES = {
    "baseline": Scale(5, 6, shapes(350, 100, 50)),
    "large": Scale(10, 100, shapes(35, 10, 5)),
}


class Loop:
    """The world around the fold: creations, finishes and returned quota in the order of virtual time."""

    def __init__(self, scale: Scale, *, most: int = 1000) -> None:
        self.scale = scale
        self.most = most
        self.events = 0
        self.fold = Fold()
        self.offset = 0
        self.due: list[tuple[float, int, str, str]] = []
        self.order = 0
        self.workloads: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, float] = {}
        self.attempt: dict[str, int] = {}
        self.decided = 0
        self.preempted = 0
        self.finished = 0
        self.seconds = 0.0

    def run(self) -> None:
        self._set_up()
        while self.due:
            at = self.due[0][0]
            events = list[dict[str, Any]]()
            while self.due and self.due[0][0] == at and len(events) < self.most:
                _, _, action, key = heappop(self.due)
                event = self._event(at, action, key)
                if event is not None:
                    events.append(event)
            if events:
                self._apply(at, events)

    def _event(self, at: float, action: str, key: str) -> dict[str, Any] | None:
        if action == "create":
            return {"type": "ADDED", "object": self.workloads[key]}
        if action == "give back":
            return self._given_back(at, key)
        name, _, attempt = key.partition("#")
        return self._finish(at, name) if self.attempt.get(name) == int(attempt) else None

    def _set_up(self) -> None:
        for target in set_up(self.scale):
            self._apply(0.0, [{"type": "ADDED", "object": target}])
        for cohort in range(self.scale.cohorts):
            for queue in range(self.scale.queues):
                for shape in self.scale.shapes:
                    for index in range(shape.count):
                        at = 1.0 + index * shape.every_seconds
                        target = workload(f"{cohort}-{queue}", shape, index, at)
                        name = target["metadata"]["name"]
                        self.workloads[name] = target
                        self.runs[name] = shape.runs_seconds
                        self._schedule(at, "create", name)

    def _schedule(self, at: float, action: str, key: str) -> None:
        self.order += 1
        heappush(self.due, (round(at, 6), self.order, action, key))

    def _apply(self, at: float, events: list[dict[str, Any]]) -> None:
        record: dict[str, Any] = {"cluster": "c", "at": moment(at)}
        record |= events[0] if len(events) == 1 else {"type": "BATCH", "events": events}
        self.events += len(events)
        value = json.dumps(record, separators=(",", ":")).encode()
        begun = time.process_time()
        outcome = self.fold.apply(value, offset=self.offset)
        self.seconds += time.process_time() - begun
        self.offset += 1
        assert not outcome.rejections, outcome.rejections
        for record_ in outcome.decisions:
            if record_.value.startswith(b'{"type":"QuotaReserved"'):
                self._reserved(at, json.loads(record_.value))
            elif record_.value.startswith(b'{"type":"Preempted"'):
                self._preempted(at, json.loads(record_.value))

    def _reserved(self, at: float, decision: dict[str, Any]) -> None:
        self.decided += 1
        name = decision["workload"]["name"]
        attempt = self.attempt[name] = self.attempt.get(name, 0) + 1
        self.workloads[name]["status"] = {
            "conditions": [
                condition("QuotaReserved", True, "QuotaReserved", at),
                condition("Admitted", True, "Admitted", at),
            ],
            "admission": {
                "clusterQueue": decision["clusterQueue"],
                "podSetAssignments": [
                    {"name": p["name"], "count": p["count"], "flavors": p["flavors"], "resourceUsage": p["usage"]}
                    for p in decision["podSets"]
                ],
            },
        }
        self._schedule(at + self.runs[name], "finish", f"{name}#{attempt}")

    def _preempted(self, at: float, decision: dict[str, Any]) -> None:
        self.decided += 1
        self.preempted += 1
        name = decision["workload"]["name"]
        self.attempt[name] += 1
        self._schedule(at + GIVE_BACK_SECONDS, "give back", name)

    def _given_back(self, at: float, name: str) -> dict[str, Any]:
        self.workloads[name]["status"] = {
            "conditions": [
                condition("QuotaReserved", False, "PendingEvaluation", at),
                condition("Evicted", True, "Preempted", at),
                condition("Requeued", True, "Preempted", at),
            ]
        }
        return {"type": "MODIFIED", "object": self.workloads[name]}

    def _finish(self, at: float, name: str) -> dict[str, Any]:
        self.finished += 1
        status = self.workloads[name]["status"]
        status["conditions"] = [*status["conditions"], condition("Finished", True, "Succeeded", at)]
        return {"type": "MODIFIED", "object": self.workloads.pop(name)}


def set_up(scale: Scale) -> list[dict[str, Any]]:
    kueue = "kueue.x-k8s.io/v1beta2"
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "namespace"}},
        {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "default", "uid": "flavor"}, "spec": {}},
    ]
    for cohort in range(scale.cohorts):
        for queue in range(scale.queues):
            name = f"{cohort}-{queue}"
            quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
            spec = {
                "cohortName": f"cohort-{cohort}",
                "namespaceSelector": {},
                "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
                ],
            }
            objects.append(
                {
                    "apiVersion": kueue,
                    "kind": "ClusterQueue",
                    "metadata": {"name": name, "uid": f"cq-{name}"},
                    "spec": spec,
                }
            )
            metadata = {"name": name, "namespace": "default", "uid": f"lq-{name}"}
            objects.append(
                {"apiVersion": kueue, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}
            )
    return objects


def workload(queue: str, shape: Shape, index: int, at: float) -> dict[str, Any]:
    name = f"{queue}-{shape.name}-{index}"
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(shape.cpu)}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": moment(at)},
        "spec": {
            "queueName": queue,
            "priority": shape.priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }


def condition(kind: str, holds: bool, reason: str, at: float) -> dict[str, str]:
    return {"type": kind, "status": str(holds), "reason": reason, "message": "", "lastTransitionTime": moment(at)}


def moment(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scales", nargs="*", default=list(SCALES), metavar="SCALE", help=" or ".join(SCALES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singly", action="store_true", help="one event a record")
    options = parser.parse_args()
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}"
    )
    for name in options.scales:
        rates = []
        for _ in range(options.rounds):
            gc.unfreeze()
            settle_garbage_collection()
            loop = Loop(SCALES[name], most=1 if options.singly else 1000)
            loop.run()
            rates.append(loop.decided / loop.seconds)
        wanted = sum(shape.count for shape in loop.scale.shapes) * loop.scale.cohorts * loop.scale.queues
        print(
            f"{name}: {statistics.median(rates):,.0f} decisions/s (min {min(rates):,.0f}, max {max(rates):,.0f}, "
            f"{options.rounds} rounds); {loop.decided} decisions, {loop.preempted} of them preemptions, "
            f"{loop.events} events in {loop.offset} records, {loop.finished} of {wanted} workloads finished, "
            f"{loop.seconds:.1f} s in the fold"
        )


if __name__ == "__main__":
    main()
