"""A cluster with devices, played through the whole fold: one queue, the fixtures' classes, templates and slices."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.devices.world import GATES, fixture
from tests.world import Decision, World

DRIVER = "gpu.nvidia.com"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
PLENTY = "100Ti"


class DeviceWorld(World):
    """`quota` is what the queue `q` has, by quota key; further queues are added by `queue`."""

    def __init__(
        self,
        mapping: str,
        *slices: str,
        quota: Mapping[str, str],
        rules: str = "ledger",
        feasibility: bool = False,
        settle: bool = False,
        elastic: bool = False,
        **blocks: Any,
    ) -> None:
        self.switches = {"rules": rules, "feasibility": feasibility, "settle": settle}
        self.mappings = fixture("kueue-configurations.json")["configurations"][mapping]
        resources = {"deviceClassMappings": self.mappings}
        gates = GATES | ({"ElasticJobsViaWorkloadSlices": True} if elastic else {})
        super().__init__(rules=None, gates=gates, ledger=self.switches, resources=resources, **blocks)
        self.add(build.flavor("f"))
        self.publish("deviceclasses.json", *slices)
        self.send("ADDED", *templates())
        self.queue("q", quota)

    def queue(self, name: str, quota: Mapping[str, str], flavors: Sequence[str] = ("f",), **more: Any) -> None:
        amounts = [build.quota(resource, amount) for resource, amount in quota.items()]
        self.add(
            build.cluster_queue(name, build.group(**dict.fromkeys(flavors, amounts)), **more),
            build.local_queue(name),
        )

    def switch(self, **switches: bool) -> list[Decision]:
        """Another Configuration, with these switches thrown."""
        self.switches = {**self.switches, **switches}
        resources = {"deviceClassMappings": self.mappings}
        return self.change(build.configuration(None, gates=GATES, ledger=self.switches, resources=resources))

    def publish(self, *names: str) -> list[Decision]:
        return [decision for name in names for decision in self.send("ADDED", *copies(name))]

    def ask(self, name: str, *templates: str, queue: str = "q", count: int = 1, **more: Any) -> list[Decision]:
        """A job whose pods each need the claims of these templates, entries c0, c1, ..."""
        return self.submit(job(name, *templates, queue=queue, count=count, **more))

    def allocate(self, pod: str, *devices: str, entry: str = "c0", **more: Any) -> list[Decision]:
        """The scheduler gives a pod's claim these devices."""
        target = claim(pod, entry, devices, **more)
        known = ("ResourceClaim", NAMESPACE, target["metadata"]["name"]) in self.objects
        return self.send("MODIFIED" if known else "ADDED", target)

    def free(self, pod: str, entry: str = "c0") -> list[Decision]:
        """The pod's claim is gone."""
        return self.send("DELETED", self.objects["ResourceClaim", NAMESPACE, f"{pod}-{entry}"])

    def row(self, queue: str, resource: str, flavor: str = "f") -> Any:
        """The last row of the table."""
        self.rows = {**getattr(self, "rows", {}), **self.fold.drain_rows()}
        return self.rows[self.cluster, queue, flavor, resource]


def copies(name: str) -> list[Object]:
    return [copy.deepcopy(item) for item in fixture(name)["items"]]


def templates() -> list[Object]:
    """Those of the fixtures, in the namespace of the tests."""
    found = []
    for item in copies("resourceclaimtemplates.json"):
        if item["metadata"]["namespace"] == "team-a":
            item["metadata"]["namespace"] = NAMESPACE
            found.append(item)
    return found


def job(name: str, *templates: str, queue: str = "q", count: int = 1, **more: Any) -> Object:
    entries = [{"name": f"c{i}", "resourceClaimTemplateName": each} for i, each in enumerate(templates)]
    pods = build.pod_set("main", count=count, resourceClaims=entries)
    return owned(build.workload(name, queue, pods, **more), name)


def owned(target: Object, owner: str) -> Object:
    target["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"job-{owner}", "controller": True}
    ]
    return target


def claim(
    pod: str,
    entry: str,
    devices: Iterable[str],
    *,
    device_class: str = "mig.nvidia.com",
    pool: str = "gpu-a100-01",
    request: str = "r",
    driver: str = DRIVER,
    consumed: Mapping[str, str] | None = None,
    owner: str | None = None,
) -> Object:
    """The claim made for one entry of a pod, as the resource claim controller and the scheduler write it."""
    results: list[Object] = [
        {"request": request, "driver": driver, "pool": pool, "device": device} for device in devices
    ]
    for result in results:
        if consumed:
            result["consumedCapacity"] = dict(consumed)
    metadata = build.metadata(f"{pod}-{entry}", NAMESPACE, annotations={POD_CLAIM_NAME: entry})
    metadata["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": owner or pod, "uid": f"pod-{pod}", "controller": True}
    ]
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": max(1, len(results))}
    target: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": request.partition("/")[0], "exactly": exactly}]}},
    }
    if results:
        target["status"] = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"pod-{pod}"}],
        }
    return target


def told(decisions: Iterable[Decision], kind: str) -> list[Decision]:
    return [decision for decision in decisions if decision["type"] == kind]
