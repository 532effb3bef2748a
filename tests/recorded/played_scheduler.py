"""Allocations for a recording in which no pod was ever placed: a first fit over devices and counters.

It reads the recorded objects as they are and shares nothing with the ledger: whole numbers out of the slices, profiles
out of the selectors' texts. Every pod of these recordings has one claim.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

Object = dict[str, Any]
Device = tuple[str, str, str]
"""Driver, pool, name."""

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@cache
def amount(text: Any) -> int:
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()  # type: ignore[union-attr]
    return int(Fraction(number) * _UNITS[unit])


class PlayedScheduler:
    """Knows what a watcher of the cluster has seen so far; `place` gives devices to the claims that can have some."""

    def __init__(self) -> None:
        self.devices: dict[Device, Object] = {}
        self.counters: dict[tuple[str, str, str, str], int] = {}
        self.waiting: dict[str, Object] = {}
        self.allocated: dict[str, tuple[Device, ...]] = {}
        self.version = 0

    def see(self, event: Object) -> None:
        target = event.get("object", {})
        metadata = target.get("metadata", {})
        self.version = max(self.version, int(metadata.get("resourceVersion", 0)))
        if target.get("kind") == "ResourceSlice":
            self._see_slice(target["spec"])
        elif target.get("kind") == "ResourceClaim":
            name = metadata["name"]
            self.waiting.pop(name, None)
            if event["type"] == "DELETED":
                self.allocated.pop(name, None)
            elif name not in self.allocated:
                self.waiting[name] = target

    def _see_slice(self, spec: Object) -> None:
        driver, pool = spec["driver"], spec["pool"]["name"]
        for device in spec.get("devices", ()):
            self.devices[driver, pool, device["name"]] = device
        for counter_set in spec.get("sharedCounters", ()):
            for name, counter in counter_set["counters"].items():
                self.counters[driver, pool, counter_set["name"], name] = amount(counter["value"])

    def place(self) -> Iterator[tuple[Object, tuple[Device, ...]]]:
        """Claims as the API server shows them after their allocation, and what they were given."""
        for name, claim in list(self.waiting.items()):
            chosen = self.choose(claim["spec"]["devices"])
            if chosen is None:
                continue
            del self.waiting[name]
            self.allocated[name] = tuple(device for _, device in chosen)
            self.version += 1
            shown = copy.deepcopy(claim)
            shown["metadata"]["resourceVersion"] = str(self.version)
            (owner,) = shown["metadata"]["ownerReferences"]
            shown["status"] = {
                "allocation": {
                    "devices": {
                        "results": [
                            {"request": request, "driver": driver, "pool": pool, "device": device}
                            for request, (driver, pool, device) in chosen
                        ]
                    }
                },
                "reservedFor": [{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}],
            }
            yield shown, self.allocated[name]

    def choose(self, asked: Object) -> list[tuple[str, Device]] | None:
        """Requests one after the other, each with the first devices that leave enough for the rest."""
        wanted = [(request["name"], request["exactly"]) for request in asked["requests"]]
        attributes = [each["matchAttribute"] for each in asked.get("constraints", ())]

        def fill(number: int, taken: list[tuple[str, Device]]) -> list[tuple[str, Device]] | None:
            if number == len(wanted):
                return taken
            name, exactly = wanted[number]
            free = [device for device in sorted(self.devices) if self._suits(device, exactly)]
            for devices in combinations(free, exactly["count"]):
                more = [*taken, *((name, device) for device in devices)]
                if self._fits([device for _, device in more], attributes):
                    found = fill(number + 1, more)
                    if found is not None:
                        return found
            return None

        return fill(0, [])

    def _suits(self, device: Device, exactly: Object) -> bool:
        """By the driver and type that the class stands for, and the profiles that the request names."""
        driver, kind = _CLASSES[exactly["deviceClassName"]]
        attributes = self.devices[device].get("attributes", {})
        if device[0] != driver or (kind and attributes.get("type", {}).get("string") != kind):
            return False
        texts = [selector["cel"]["expression"] for selector in exactly.get("selectors", ())]
        profiles = [name for text in texts for name in re.findall(r"'(\d+g\.\d+gb)'", text)]
        return not profiles or attributes.get("profile", {}).get("string") in profiles

    def _fits(self, more: list[Device], attributes: list[str]) -> bool:
        taken = [device for devices in self.allocated.values() for device in devices]
        if len(set(more)) < len(more) or not set(more).isdisjoint(taken):
            return False
        used: dict[tuple[str, str, str, str], int] = {}
        for device in (*taken, *more):
            for consumed in self.devices[device].get("consumesCounters", ()):
                for name, counter in consumed["counters"].items():
                    key = (device[0], device[1], consumed["counterSet"], name)
                    used[key] = used.get(key, 0) + amount(counter["value"])
        if any(value > self.counters[key] for key, value in used.items()):
            return False
        if len({device[1] for device in more}) > 1:
            return False
        return all(len({self._attribute(device, name) for device in more}) == 1 for name in attributes)

    def _attribute(self, device: Device, name: str) -> str:
        attributes = self.devices[device].get("attributes", {})
        return str(attributes.get(name, attributes.get(name.rpartition("/")[2])))

    def memory(self, device: Device) -> int:
        """What the device takes of the counter `memory`."""
        return max(
            amount(consumed["counters"]["memory"]["value"])
            for consumed in self.devices[device]["consumesCounters"]
            if "memory" in consumed["counters"]
        )


_CLASSES = {
    "gpu.nvidia.com": ("gpu.nvidia.com", "gpu"),
    "mig.nvidia.com": ("gpu.nvidia.com", "mig"),
    "gpu.example.com": ("gpu.example.com", ""),
}
