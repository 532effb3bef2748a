"""A generated cluster: cohorts of ten ClusterQueues, full, with workloads waiting, and life that goes on in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

CLUSTER = "bench"
QUEUES_PER_COHORT = 10
BATCH = 500
KUEUE = "kueue.x-k8s.io/v1beta2"
START = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Size:
    """How much of it: ClusterQueues, and workloads waiting in each."""

    queues: int
    waiting_per_queue: int

    def __str__(self) -> str:
        cohorts = max(1, self.queues // QUEUES_PER_COHORT)
        waiting = self.queues * self.waiting_per_queue
        return f"{self.queues:,} ClusterQueues in {cohorts:,} cohorts, {waiting:,} workloads waiting"


class GeneratedCluster:
    """Makes the events of a cluster of one size; the same seed makes the same events."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.size = size
        self._random = random.Random(seed)
        self._version = 0
        self._submitted = 0
        self._workloads: dict[str, dict[str, Any]] = {}

    def setup(self) -> Iterator[bytes]:
        """Flavor, queues, and so many workloads that each queue is full and has its number waiting."""
        objects = [self._object("Namespace", "v1", "team", {}), self._object("ResourceFlavor", KUEUE, "a100", {})]
        for number in range(self.size.queues):
            objects.append(self._cluster_queue(number))
            objects.append(self._local_queue(number))
        yield from self._batches([self._event("ADDED", each) for each in objects])
        # three fit into a queue's quota on average; those of the others wait
        for _ in range(self.size.waiting_per_queue + 3):
            workloads = [self._workload(number) for number in range(self.size.queues)]
            yield from self._batches([self._event("ADDED", each) for each in workloads])

    def submission(self) -> bytes:
        """A new workload for some queue."""
        return msgspec.json.encode(self._event("ADDED", self._workload(self._random.randrange(self.size.queues))))

    def finish(self, decision: dict[str, Any]) -> bytes:
        """The end of a workload, as its last status says it."""
        name = decision["workload"]["name"]
        workload = self._workloads.pop(name)
        conditions = [
            {"type": kind, "status": "True", "reason": "Measured", "message": "", "lastTransitionTime": START}
            for kind in ("QuotaReserved", "Admitted", "Finished")
        ]
        assignments = [
            {
                "name": pod_set["name"],
                "count": pod_set["count"],
                "flavors": pod_set["flavors"],
                "resourceUsage": pod_set["usage"],
            }
            for pod_set in decision["podSets"]
        ]
        admission = {"clusterQueue": decision["clusterQueue"], "podSetAssignments": assignments}
        ended = {**workload, "status": {"admission": admission, "conditions": conditions}}
        self._version += 1
        ended["metadata"] = {**workload["metadata"], "resourceVersion": str(self._version)}
        return msgspec.json.encode(self._event("MODIFIED", ended))

    def _event(self, type_: str, thing: dict[str, Any]) -> dict[str, Any]:
        return {"cluster": CLUSTER, "at": START, "type": type_, "object": thing}

    def _batches(self, events: list[dict[str, Any]]) -> Iterator[bytes]:
        for first in range(0, len(events), BATCH):
            members = events[first : first + BATCH]
            yield msgspec.json.encode({"cluster": CLUSTER, "at": START, "type": "BATCH", "events": members})

    def _object(
        self, kind: str, version: str, name: str, content: dict[str, Any], namespace: str = ""
    ) -> dict[str, Any]:
        self._version += 1
        metadata = {
            "name": name,
            "uid": f"{kind}-{name}".lower(),
            "resourceVersion": str(self._version),
            "generation": 1,
            "creationTimestamp": START,
        }
        if namespace:
            metadata["namespace"] = namespace
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}

    def _cluster_queue(self, number: int) -> dict[str, Any]:
        resources = [{"name": "cpu", "nominalQuota": "12"}, {"name": "nvidia.com/gpu", "nominalQuota": "6"}]
        group = {"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": "a100", "resources": resources}]}
        spec = {
            "cohortName": f"cohort-{number // QUEUES_PER_COHORT}",
            "namespaceSelector": {},
            "resourceGroups": [group],
        }
        return self._object("ClusterQueue", KUEUE, f"queue-{number}", {"spec": spec})

    def _local_queue(self, number: int) -> dict[str, Any]:
        return self._object(
            "LocalQueue", KUEUE, f"queue-{number}", {"spec": {"clusterQueue": f"queue-{number}"}}, "team"
        )

    def _workload(self, queue: int) -> dict[str, Any]:
        self._submitted += 1
        name = f"work-{self._submitted}"
        requests = {"cpu": str(self._random.randint(1, 6)), "nvidia.com/gpu": str(self._random.randint(1, 3))}
        container = {"name": "main", "image": "work", "resources": {"requests": requests}}
        template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
        spec = {
            "queueName": f"queue-{queue}",
            "priority": self._random.choice((0, 0, 0, 100)),
            "active": True,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        }
        workload = self._object("Workload", KUEUE, name, {"spec": spec}, "team")
        self._workloads[name] = workload
        return workload
