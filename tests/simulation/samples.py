"""Objects of simulated clusters that the usual builders do not make."""

from __future__ import annotations

from tests import builders as build
from tests.builders import NAMESPACE, Object

GPU, CPU, MIG = "nvidia.com/gpu", "cpu", "gpu-memory"
DRIVER = "gpu.example.com"


def local_queue(name: str, queue: str, weight: str | None) -> Object:
    target = build.local_queue(name, queue)
    if weight is not None:
        target["spec"]["fairSharing"] = {"weight": weight}
    return target


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": build.KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": build.metadata(name, uid=f"class-{name}"),
        "value": value,
    }


def check(name: str, *, active: bool = True) -> Object:
    return {
        "apiVersion": build.KUEUE,
        "kind": "AdmissionCheck",
        "metadata": build.metadata(name, uid=f"check-{name}"),
        "spec": {"controllerName": f"example.com/{name}"},
        "status": {"conditions": [build.condition("Active", active, "Active", 1)]},
    }


def device_class() -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": build.metadata("gpu.example.com", uid="class-gpu"),
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }


def template() -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": build.metadata("one-gpu", NAMESPACE, uid="template-one-gpu"),
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def resource_slice(number: int, devices: int) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": build.metadata(f"slice-{number}", uid=f"slice-{number}"),
        "spec": {
            "driver": DRIVER,
            "nodeName": f"node-{number}",
            "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}", "attributes": {"index": {"int": n}}} for n in range(devices)],
        },
    }
