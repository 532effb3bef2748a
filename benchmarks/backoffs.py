"""What events cost while workloads wait for the end of their backoff: nothing more, however many wait.

python -m benchmarks.backoffs [NUMBER...]     by default 1,000, 10,000, 100,000 and 1,000,000 waiting workloads
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.fold import Fold
from topics.garbage import settle_garbage_collection

START = datetime(2026, 1, 1, tzinfo=UTC)
A_YEAR = 31_536_000
EVENTS = 2_000


def moment(second: float) -> str:
    return (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(kind: str, target: dict[str, Any] | None, second: float) -> bytes:
    record = {"cluster": "c", "type": kind, "at": moment(second)}
    return json.dumps(record if target is None else {**record, "object": target}).encode()


def kueue(kind: str, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": moment(0)}
    if kind in ("LocalQueue", "Workload"):
        metadata["namespace"] = "team"
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec, **more}


def workload(name: str, **more: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return kueue("Workload", name, {"queueName": "q", "podSets": [pod_set]}, **more)


def waiting(number: int) -> dict[str, Any]:
    condition = {"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout", "lastTransitionTime": moment(0)}
    status = {"conditions": [condition], "requeueState": {"count": 1, "requeueAt": moment(A_YEAR + number)}}
    return workload(f"w{number:07d}", status=status)


def cluster() -> list[dict[str, Any]]:
    quota = [{"name": "f", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": quota}]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "uid": "team"}},
        kueue("ResourceFlavor", "f", {}),
        kueue("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups}),
        kueue("LocalQueue", "q", {"clusterQueue": "q"}),
    ]


def microseconds(fold: Fold, records: Iterable[bytes], count: int) -> float:
    began = time.perf_counter()
    for offset, record in enumerate(records):
        fold.apply(record, offset=offset)
    return (time.perf_counter() - began) / count * 1e6


def main() -> None:
    settle_garbage_collection()
    print(f"{'waiting':>9} {'add':>8} {'tick':>8} {'job':>8}   microseconds per event")
    for count in [int(text) for text in sys.argv[1:]] or [1_000, 10_000, 100_000, 1_000_000]:
        fold = Fold()
        for target in cluster():
            fold.apply(event("ADDED", target, 0), offset=0)
        add = microseconds(fold, (event("ADDED", waiting(number), 1) for number in range(count)), count)
        settle_garbage_collection()
        ticks = [event("TICK", None, 10 + number * A_YEAR / EVENTS / 2) for number in range(EVENTS)]
        tick = microseconds(fold, ticks, EVENTS)
        jobs = [
            event(kind, workload(f"j{number}"), A_YEAR * 3 // 4)
            for number in range(EVENTS // 2)
            for kind in ("ADDED", "DELETED")
        ]
        print(f"{count:>9,} {add:>8.1f} {tick:>8.1f} {microseconds(fold, jobs, EVENTS):>8.1f}")


if __name__ == "__main__":
    main()
