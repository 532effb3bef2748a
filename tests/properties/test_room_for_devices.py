"""Feasibility against a scheduler that is played: quota goes to exactly those who can have their devices."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest

from ledger.checkpoint import load, save
from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.devices.device_world import POD_CLAIM_NAME, DeviceWorld, copies, job, templates
from tests.devices.world import A100
from tests.recorded.played_scheduler import PlayedScheduler

ASKED = ("one-gpu", "mig-1g10gb", "mig-1g10gb-x3", "mig-2g20gb", "mig-3g40gb", "mig-7g80gb", "mig-any")
TEMPLATES = {each["metadata"]["name"]: each for each in templates()}
POOLS = ["100Ti", "200Gi"]


class Placing:
    """Jobs of one pod come and go; whoever gets quota asks the played scheduler for devices at once."""

    def __init__(self, seed: int, pool: str, *, settle: bool) -> None:
        self.random = Random(seed)
        self.world = DeviceWorld("counter-unified", A100, quota={"gpu.memory": pool}, feasibility=True, settle=settle)
        self.scheduler = PlayedScheduler()
        for each in copies(A100):
            self.scheduler.see({"type": "ADDED", "object": each})
        self.asked: dict[str, str] = {}
        self.running: list[str] = []

    def step(self, number: int) -> None:
        if self.running and self.random.random() < 0.4:
            name = self.running.pop(self.random.randrange(len(self.running)))
            self._take(self.world.finish(name))
            claim = self.world.objects["ResourceClaim", NAMESPACE, f"{name}-pod-c0"]
            self.scheduler.see({"type": "DELETED", "object": claim})
            self._take(self.world.send("DELETED", claim))
            return
        name = f"w{number:03}"
        self.asked[name] = self.random.choice(ASKED)
        self._take(self.world.submit(job(name, self.asked[name], priority=self.random.randrange(3))))

    def _take(self, decisions: list[Any]) -> None:
        """Each who got quota is placed, and whom that lets in. Then who is held for devices could not have any."""
        reserved = names_of(decisions)
        for name in reserved:
            reserved += names_of(self._place(name))  # grows while it is walked
        for name, reason in sorted(self.world.reasons().items()):
            if reason == "NoDevices":
                wanted = TEMPLATES[self.asked[name]]["spec"]["spec"]["devices"]
                assert self.scheduler.choose(wanted) is None, name

    def _place(self, name: str) -> list[Any]:
        metadata = build.metadata(f"{name}-pod-c0", NAMESPACE, annotations={POD_CLAIM_NAME: "c0"})
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": f"{name}-pod", "uid": name}]
        claim: Object = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": copy.deepcopy(TEMPLATES[self.asked[name]]["spec"]["spec"]),
        }
        self.scheduler.see({"type": "ADDED", "object": claim})
        placed = [shown for shown, _ in self.scheduler.place()]
        assert [shown["metadata"]["name"] for shown in placed] == [claim["metadata"]["name"]]
        self.running.append(name)
        return self.world.add(placed[0])


def names_of(decisions: list[Any]) -> list[str]:
    return [each["workload"]["name"] for each in decisions if each["type"] == "QuotaReserved"]


@pytest.mark.parametrize("settle", [False, True])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("seed", range(4))
def test_whoever_gets_quota_gets_devices_and_whoever_is_held_could_not(seed: int, pool: str, settle: bool) -> None:
    placing = Placing(seed, pool, settle=settle)
    for number in range(60):
        placing.step(number)
        limit = build_amount(pool)
        assert placing.world.usage().get("q", {}).get("f/gpu.memory", 0) <= limit
    told = {each.get("reason") for each in placing.world.decisions if each["type"] == "Pending"}
    assert "NoDevices" in told


def build_amount(text: str) -> int:
    return {"Ti": 2**40, "Gi": 2**30}[text[-2:]] * int(text[:-2])


@pytest.mark.parametrize("seed", range(3))
def test_a_ledger_that_was_saved_and_loaded_decides_the_same(seed: int) -> None:
    first, second = Placing(seed, POOLS[0], settle=True), Placing(seed, POOLS[0], settle=True)
    for number in range(40):
        for placing in (first, second):
            placing.step(number)
        second.world.fold.restore(load(save(second.world.ledger)))
        assert save(first.world.ledger) == save(second.world.ledger)
    assert first.world.decisions == second.world.decisions
