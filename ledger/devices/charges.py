"""What the devices of a workload cost: the result of charging, with the reasoning behind every amount.

Amounts are whole units per pod: devices are counted, counters and capacities are rounded up to whole units
(dra A2, A3). The request computation removes the replaced names and adds the amounts (dra 12 M2), so pod counts,
reclaimable pods and partial admission scale them like any other resource (dra M7).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

WHOLE = "whole"
COUNTER = "counter"
CAPACITY = "capacity"
EXTENDED = "extended"


class RequestCharge(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How one request of one claim came to its amount under one quota key (issue: "a row knows what was counted").

    `claim` is the name of the pod's claim entry, or the extended resource's name. Of the device that decided,
    `per_device_before` is the exact quantity it publishes (a counter) or is asked for (a capacity), `per_device` the
    whole units after its policy and rounding. Both are absent where devices are merely counted.
    """

    pod_set: str
    claim: str
    request: str
    path: str
    device_class: str
    key: str
    count: int
    amount: int
    driver: str | None = None
    source: str | None = None
    template: str | None = None
    devices_matched: int | None = None
    deciding_device: str | None = None
    per_device_before: str | None = None
    per_device: int | None = None
    alternative: str | None = None


class PodSetCharges(msgspec.Struct, frozen=True):
    """Per pod: `replaced` names leave the ordinary requests, `added` whole amounts join them."""

    name: str
    replaced: frozenset[str] = frozenset()
    added: Mapping[str, int] = {}


class DeviceCharges(msgspec.Struct, frozen=True):
    """The device charges of a workload; `pod_sets` has one entry for each pod set, in the workload's order."""

    pod_sets: tuple[PodSetCharges, ...]
    requests: tuple[RequestCharge, ...] = ()
    diagnostics: tuple[str, ...] = ()

    def pod_set(self, name: str) -> PodSetCharges:
        for charges in self.pod_sets:
            if charges.name == name:
                return charges
        return PodSetCharges(name)


class Counted(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a quota key counts, for the rows of the quota table (design 7)."""

    device_classes: tuple[str, ...] = ()
    counters: tuple[tuple[str, str], ...] = ()
    capacities: tuple[tuple[str, str], ...] = ()
    extended_resources: tuple[str, ...] = ()
