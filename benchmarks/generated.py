"""Generated clusters: cohorts of ten ClusterQueues, full, with workloads waiting, and life that goes on in them.

A cohort's objects and workloads depend on its number alone. So one cohort can be had in a cluster of its own, or among
others, with the same events and the same decisions.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

CLUSTER = "bench"
QUEUES = 10
WAITING = 20
"""Workloads that wait in each ClusterQueue; three more fill its quota on average."""
FILLING = 3
KUEUE = "kueue.x-k8s.io/v1beta2"
START = "2026-01-01T00:00:00Z"

Object = dict[str, Any]


class GeneratedCohort:
    """Ten ClusterQueues in one cohort: its objects, its workloads, and what runs in it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._random = random.Random(number)
        self._workloads: dict[str, Object] = {}
        self._running: deque[Object] = deque()
        self._version = 0
        self._submitted = 0

    def objects(self) -> Iterator[Object]:
        for queue in range(QUEUES):
            name = self._queue(queue)
            resources = [{"name": "cpu", "nominalQuota": "12"}, {"name": "nvidia.com/gpu", "nominalQuota": "6"}]
            group = {
                "coveredResources": [resource["name"] for resource in resources],
                "flavors": [{"name": "a100", "resources": resources}],
            }
            spec = {"cohortName": f"cohort-{self.number}", "namespaceSelector": {}, "resourceGroups": [group]}
            yield made("ClusterQueue", name, spec=spec)
            yield made("LocalQueue", name, "team", spec={"clusterQueue": name})

    def workloads(self) -> Iterator[Object]:
        """As many as fill the queues and wait in them."""
        for _ in range(FILLING + WAITING):
            for queue in range(QUEUES):
                yield self._workload(queue)

    def observe(self, decision: Object) -> None:
        """What was reserved runs, until it finishes."""
        self._running.append(decision)

    def submission(self) -> bytes:
        """A new workload for some queue."""
        return event("ADDED", self._workload(self._random.randrange(QUEUES)))

    def finish(self) -> bytes:
        """The end of the workload that runs longest, as its last status says it."""
        decision = self._running.popleft()
        workload = self._workloads.pop(decision["workload"]["name"])
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
        metadata = {**workload["metadata"], "resourceVersion": "2"}
        status = {"admission": admission, "conditions": conditions}
        return event("MODIFIED", {**workload, "metadata": metadata, "status": status})

    def _queue(self, queue: int) -> str:
        return f"queue-{self.number}-{queue}"

    def _workload(self, queue: int) -> Object:
        self._submitted += 1
        name = f"work-{self.number}-{self._submitted}"
        requests = {"cpu": str(self._random.randint(1, 6)), "nvidia.com/gpu": str(self._random.randint(1, 3))}
        container = {"name": "main", "image": "work", "resources": {"requests": requests}}
        template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
        spec = {
            "queueName": self._queue(queue),
            "priority": self._random.choice((0, 0, 0, 100)),
            "active": True,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        }
        self._workloads[name] = made("Workload", name, "team", spec=spec)
        return self._workloads[name]


def made(kind: str, name: str, namespace: str = "", *, version: str = KUEUE, **content: Any) -> Object:
    """An object as an API server would send it for the first time."""
    metadata = {
        "name": name,
        "uid": f"{kind}-{name}".lower(),
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": START,
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def event(type_: str, thing: Object) -> bytes:
    return msgspec.json.encode({"cluster": CLUSTER, "at": START, "type": type_, "object": thing})


def setup(cohorts: Iterable[GeneratedCohort]) -> Iterator[bytes]:
    """Everything that is there before the measurement: one batch for all, and one a cohort."""
    yield batch([made("Namespace", "team", version="v1"), made("ResourceFlavor", "a100")])
    for cohort in cohorts:
        yield batch([*cohort.objects(), *cohort.workloads()])


def batch(objects: list[Object]) -> bytes:
    members = [{"type": "ADDED", "object": each} for each in objects]
    return msgspec.json.encode({"cluster": CLUSTER, "at": START, "type": "BATCH", "events": members})
