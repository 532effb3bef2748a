"""Builders and recorded samples for the tests of decoding."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from ledger.objects import Configuration, Workload, decode_object

DATA = Path(__file__).parent / "data"

Object = dict[str, Any]


def recorded(name: str) -> Any:
    """A fixture file, as plain JSON."""
    return json.loads(gzip.decompress((DATA / f"{name}.gz").read_bytes()))


def recorded_lines(name: str) -> list[bytes]:
    return gzip.decompress((DATA / f"{name}.gz").read_bytes()).splitlines()


def decode(target: Object) -> Any:
    return decode_object(json.dumps(target).encode())


def resources(requests: Object | None = None, limits: Object | None = None) -> Object:
    return {name: values for name, values in (("requests", requests), ("limits", limits)) if values is not None}


def container(requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    return {"name": "c", "resources": resources(requests, limits), **more}


def sidecar(requests: Object) -> Object:
    return container(requests, restartPolicy="Always")


def pod_set(*containers: Object, name: str = "main", count: int = 1, minimum: int | None = None, **spec: Any) -> Object:
    result: Object = {"name": name, "count": count, "template": {"spec": {"containers": list(containers), **spec}}}
    if minimum is not None:
        result["minCount"] = minimum
    return result


def workload(*pod_sets: Object, status: Object | None = None, version: str = "v1beta2", **spec: Any) -> Object:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "team", "uid": "w"},
        "spec": {"podSets": list(pod_sets) or [pod_set(container({"cpu": "1"}))], "queueName": "main", **spec},
        **({"status": status} if status is not None else {}),
    }


def cluster_queue(*groups: Object, version: str = "v1beta2", **spec: Any) -> Object:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": {"name": "a"},
        "spec": {"resourceGroups": list(groups) or [group("f1", cpu="4")], **spec},
    }


def group(*flavors: str, **quotas: str) -> Object:
    """One resource group in which every flavor has the same quotas."""
    covered = [name.replace("_", "-") for name in quotas]
    return {
        "coveredResources": covered,
        "flavors": [
            {
                "name": flavor,
                "resources": [{"name": n, "nominalQuota": q} for n, q in zip(covered, quotas.values(), strict=True)],
            }
            for flavor in flavors
        ],
    }


def limit_range(*items: Object, name: str = "limits") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"limits": list(items)},
    }


def configuration(**blocks: Any) -> Configuration:
    decoded = decode({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **blocks})
    assert isinstance(decoded, Configuration)
    return decoded


def decoded_workload(*pod_sets: Object, **more: Any) -> Workload:
    found = decode(workload(*pod_sets, **more))
    assert isinstance(found, Workload)
    return found
