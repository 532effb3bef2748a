"""Recordings with the real controllers of jobs and claims: settlements match the allocations, and feasibility holds
back nothing that is placed.

In these two recordings the nodes were never ready, so no claim has an allocation. A scheduler is played for them: it
gives devices to the recorded claims, and the API server's answer is put into the stream where it would have come.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.fold import Fold
from tests.recorded.played_scheduler import Object, PlayedScheduler, amount

HERE = Path(__file__).parent
RECORDINGS = ("settled-mig", "settled-whole")


def recorded(name: str, **switches: bool) -> Iterator[Object]:
    """The events, under a Configuration with these switches."""
    with gzip.open(HERE / f"{name}.jsonl.gz", "rb") as file:
        for number, line in enumerate(file):
            event = json.loads(line)
            if number == 0:
                event["object"]["ledger"] |= switches
            yield event


class Played:
    """A recording with allocations: each with what the ledger decided then, and of the claims that got devices as soon
    as they were there, what their workload had been told last."""

    def __init__(self, name: str, **switches: bool) -> None:
        self.scheduler = PlayedScheduler()
        self.fold = Fold()
        self.workloads: dict[str, Object] = {}
        self.claims: dict[str, Object] = {}
        self.told: dict[str, str] = {}
        self.placed_at_once: dict[str, str] = {}
        self.allocations: list[tuple[Object, list[Object]]] = []
        self.decided: list[Object] = []
        self.offset = 0
        for event in recorded(name, **switches):
            self._take(event)

    def _take(self, event: Object) -> None:
        self._apply(event)
        target = event.get("object", {})
        if target.get("kind") == "Workload":
            self.workloads[target["metadata"]["uid"]] = target
        self.scheduler.see(event)
        if target.get("kind") not in ("ResourceClaim", "ResourceSlice"):
            return
        for claim, _ in self.scheduler.place():
            self.claims[claim["metadata"]["name"]] = claim
            if claim["metadata"]["name"] == target["metadata"]["name"]:
                self.placed_at_once[claim["metadata"]["name"]] = self.told.get(owner_of(claim), "")
            shown = {**event, "type": "MODIFIED", "object": claim}
            self.allocations.append((claim, self._apply(shown)))
        if event["type"] == "DELETED":
            self.claims.pop(target["metadata"]["name"], None)

    def _apply(self, event: Object) -> list[Object]:
        outcome = self.fold.apply(json.dumps(event).encode(), offset=self.offset)
        assert outcome.rejections == []
        self.offset += 1
        decisions = [json.loads(record.value) for record in outcome.decisions]
        self.decided += decisions
        for decision in decisions:
            if decision["type"] in ("QuotaReserved", "Pending"):
                job = decision["workload"]["name"].removeprefix("job-").rpartition("-")[0]
                self.told[job] = decision.get("reason", "QuotaReserved")
            if decision["type"] == "Settled":
                decision["expected"] = self._expected(decision["workload"]["uid"])
        return decisions

    def _expected(self, uid: str) -> Any:
        """Charged, allocated, difference and devices of a workload, from Kueue's admission and the claims."""
        workload = self.workloads[uid]
        (job,) = workload["metadata"]["ownerReferences"]
        claims = [
            claim
            for name, claim in sorted(self.claims.items())
            if claim["metadata"]["namespace"] == workload["metadata"]["namespace"]
            and name.startswith(f"{job['name']}-")
        ]
        (pods,) = workload["status"]["admission"]["podSetAssignments"]
        charged = {key: amount(text) for key, text in pods["resourceUsage"].items() if key in _KEYS}
        ((key, total),) = charged.items()
        allocated = total
        devices = []
        for claim in claims:
            given = self.scheduler.allocated[claim["metadata"]["name"]]
            devices += ["/".join(device) for device in given]
            actual = sum(self.scheduler.memory(device) if key == "gpu.memory" else 1 for device in given)
            allocated += actual - total // pods["count"]
        return {key: total}, {key: allocated}, {key: allocated - total} if allocated != total else {}, sorted(devices)


_KEYS = ("gpu.memory", "gpus", "example-gpus")


def owner_of(claim: Object) -> str:
    """The job of a claim's pod, as the job controller names pods."""
    (pod,) = claim["metadata"]["ownerReferences"]
    return str(pod["name"]).rpartition("-")[0]


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_allocation_is_settled_with_its_own_figures(name: str) -> None:
    played = Played(name)
    assert len(played.allocations) >= 8
    for claim, decisions in played.allocations:
        (settled,) = [each for each in decisions if each["type"] == "Settled"]
        assert settled["workload"]["name"].startswith(f"job-{owner_of(claim)}-")
        figures = [{key: amount_of(text) for key, text in settled[part].items()} for part in ("charged", "allocated")]
        difference = {key: amount_of(text) for key, text in settled.get("difference", {}).items()}
        assert (*figures, difference, settled["devices"]) == settled["expected"]


def amount_of(text: str) -> int:
    return -amount(text[1:]) if text.startswith("-") else amount(text)


@pytest.mark.parametrize("name", RECORDINGS)
def test_with_feasibility_nothing_that_is_placed_is_held_back(name: str) -> None:
    """Whoever gets devices as soon as its pods are there had not been told that there are none."""
    played = Played(name, feasibility=True)
    assert [each for each in played.decided if each.get("reason") == "NoDevices"]
    assert len(played.placed_at_once) >= 8
    assert {claim: told for claim, told in played.placed_at_once.items() if told == "NoDevices"} == {}


def test_in_the_recordings_themselves_no_claim_has_devices() -> None:
    """The day they do, the test above need not play a scheduler."""
    claims = [
        event["object"]
        for name in RECORDINGS
        for event in recorded(name)
        if event.get("object", {}).get("kind") == "ResourceClaim"
    ]
    assert claims
    assert [claim for claim in claims if "allocation" in claim.get("status", {})] == []
