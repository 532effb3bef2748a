"""Charges and verdicts against scenarios that the reference scheduler decided, without any queue.

A quarter of the `dra` corpus: whatever was reserved must have been reserved with exactly our charges, and a workload
is judged inadmissible exactly where we reject it. Events between decisions re-charge what the index says is touched.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ledger.devices.charges import DeviceCharges
from ledger.devices.index import DeviceIndex, WorkloadKey
from ledger.devices.rejection import DeviceRejection
from ledger.objects.workload import Workload
from ledger.quantity import NANO, parse_quantity
from tests.devices.world import DATA, decode

Answer = DeviceCharges | DeviceRejection | None


def scenarios() -> Iterator[Any]:
    with gzip.open(DATA / "conformance.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


class Cluster:
    """The devices of one scenario, its pending workloads, and their last charges."""

    def __init__(self) -> None:
        self.index = DeviceIndex()
        self.configuration: Any = None
        self.workloads: dict[WorkloadKey, Workload] = {}
        self.answers: dict[WorkloadKey, Answer] = {}
        self.holding: set[WorkloadKey] = set()

    def apply(self, kind: str, raw: Any) -> list[WorkloadKey]:
        """The workloads that are charged again after the event."""
        found = decode(raw)
        if raw["kind"] == "Configuration":
            self.configuration = found
            return []
        if raw["kind"] in ("DeviceClass", "ResourceSlice", "ResourceClaimTemplate"):
            gone = kind == "DELETED"
            return list(self.index.apply(found if gone else None, None if gone else found))
        return self.apply_workload(kind, found, raw) if raw["kind"] == "Workload" else []

    def apply_workload(self, kind: str, found: Workload, raw: Any) -> list[WorkloadKey]:
        key = (found.metadata.namespace, found.metadata.name)
        true = {each["type"] for each in raw.get("status", {}).get("conditions", ()) if each["status"] == "True"}
        if kind == "DELETED" or "Finished" in true:
            self.workloads.pop(key, None)
            self.index.forget(key)
            return []
        self.workloads[key] = found
        if "QuotaReserved" in true:
            return []
        self.holding.discard(key)
        return [key]

    def charge(self, keys: list[WorkloadKey]) -> set[WorkloadKey]:
        """Charge again those that wait; the rejected ones."""
        rejected = set()
        for key in keys:
            if key in self.workloads and key not in self.holding:
                self.answers[key] = self.index.charges(self.workloads[key], self.configuration)
                if isinstance(self.answers[key], DeviceRejection):
                    rejected.add(key)
        return rejected


def key_of(decision: Any) -> WorkloadKey:
    namespace, name = decision["workload"].split("/")
    return namespace, name


def device_usage(subject: Workload, answer: Answer, name: str, count: int) -> dict[str, int]:
    """What a pod set uses besides cpu: our charges, and extended resources that no class answers."""
    charges = answer.pod_set(name) if isinstance(answer, DeviceCharges) else None
    usage = {key: amount * count for key, amount in charges.added.items()} if charges is not None else {}
    for pod_set in subject.spec.pod_sets:
        for container in pod_set.template.spec.containers if pod_set.name == name else ():
            for resource, quantity in container.resources.requests.items():
                if resource != "cpu" and (charges is None or resource not in charges.replaced):
                    usage[resource] = usage.get(resource, 0) + quantity // NANO * count
    return {key: amount for key, amount in usage.items() if amount}


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["name"]) for s in scenarios()])
def test_charges_and_verdicts_are_those_of_the_reference(scenario: Any) -> None:
    cluster, judged = Cluster(), set()
    for event, decisions in zip(scenario["events"], scenario["decisions"], strict=True):
        rejected = cluster.charge(cluster.apply(event["type"], event["object"]))
        said = {key_of(each) for each in decisions if each["type"] == "Inadmissible"}
        judged |= said
        assert said <= {key for key, answer in cluster.answers.items() if isinstance(answer, DeviceRejection)}
        assert rejected <= judged
        for each in decisions:
            if each["type"] != "QuotaReserved":
                continue
            key = key_of(each)
            cluster.holding.add(key)
            answer = cluster.answers[key]
            assert not isinstance(answer, DeviceRejection)
            for pods in each["podSets"]:
                usage = {name: -(-parse_quantity(text) // NANO) for name, text in pods["usage"].items()}
                expected = {name: amount for name, amount in usage.items() if name != "cpu" and amount}
                found = device_usage(cluster.workloads[key], answer, pods["name"], pods["count"])
                assert found == expected
