"""An index kept up to date by differences answers like one made from what is there now."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ledger.devices.index import DeviceIndex
from tests.devices.test_gaps import MEMORY, SETS, WHOLE, counting, device, exactly, slice_of, template, world
from tests.devices.world import configuration, outcome, pod_set, workload

TEMPLATES = (
    template("any", exactly()),
    template("two", exactly("device.attributes['d.example.com'].?kind.orValue('') == 'x'", count=2)),
    template("err", exactly("device.attributes['d.example.com'].kind == 'y'")),
    template("all", exactly(allocationMode="All")),
)


def random_slice(chance: random.Random) -> Any:
    node = f"n{chance.randrange(4)}"
    devices = []
    for number in range(chance.randrange(4)):
        fields: dict[str, Any] = {"consumesCounters": counting(f"{chance.randrange(1, 9)}Gi")}
        if chance.random() < 0.8:
            fields["attributes"] = {"kind": {"string": chance.choice("xyz")}}
        if chance.random() < 0.2:
            fields["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        devices.append(device(f"d{number}-{chance.randrange(3)}", **fields))
    return slice_of(
        node,
        *devices,
        generation=chance.randrange(1, 3),
        count=chance.randrange(1, 3),
        name=f"{node}-{chance.randrange(2)}",
        sharedCounters=SETS if chance.random() < 0.8 else [],
    )


def answers(known: DeviceIndex, rules: str) -> list[Any]:
    found = []
    for mapping in (WHOLE, MEMORY):
        for name in ("any", "two", "err", "all"):
            subject = workload(pod_set(name), name=name)
            answer = known.charges(subject, configuration(mapping, rules=rules))
            found.append((outcome(answer, subject), getattr(answer, "requests", getattr(answer, "problems", None))))
    return found


@pytest.mark.parametrize("rules", ["kueue-0.19", "ledger"])
def test_differences_add_up_to_the_whole(rules: str) -> None:
    chance = random.Random(3)
    known, live = world(*TEMPLATES), {}
    for _ in range(120):
        if live and chance.random() < 0.25:
            name = chance.choice(sorted(live))
            known.apply(live.pop(name), None)
        else:
            each = random_slice(chance)
            known.apply(live.get(each.metadata.name), each)
            live[each.metadata.name] = each
        order = sorted(live)
        chance.shuffle(order)
        anew = world(*TEMPLATES, *(live[name] for name in order))
        assert answers(known, rules) == answers(anew, rules)


def test_contents_that_no_device_has_are_forgotten() -> None:
    known, chance = world(*TEMPLATES), random.Random(4)
    slices = {each.metadata.name: each for each in (random_slice(chance) for _ in range(50))}
    for each in slices.values():
        known.apply(None, each)
    for each in slices.values():
        known.apply(each, None)
    assert (len(known._inventory._readables), len(known._inventory._costs), known.slice_names) == (0, 0, [])
    assert all(not driver.pools and not driver.pools_on for driver in known.drivers.values())
