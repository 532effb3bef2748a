"""An index kept up to date by differences answers like one made from what is there now."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ledger.devices.index import DeviceIndex
from ledger.devices.objects import without_devices
from ledger.devices.snapshot import load_index, save_index
from tests.devices.test_gaps import MEMORY, SETS, WHOLE, counting, device, exactly, slice_of, template, world
from tests.devices.world import (
    A100,
    EXAMPLE,
    H100,
    ODD,
    SHARED,
    configuration,
    decode,
    index,
    objects,
    outcome,
    pod_set,
    workload,
)

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
    assert (len(known.inventory._readables), len(known.inventory._costs), known.slice_names) == (0, 0, [])
    assert all(not driver.pools and not driver.pools_on for driver in known.drivers.values())


def test_a_saved_index_comes_back_as_it_was() -> None:
    """Answers, what wakes whom, and the bytes themselves, after any history."""
    chance = random.Random(5)
    known, live = world(*TEMPLATES), {}
    for number in range(60):
        each = random_slice(chance)
        live[each.metadata.name] = each
        known.apply(None, each)
        if number % 10:
            continue
        expected = answers(known, "ledger")
        saved = save_index(known)
        loaded = load_index(saved)
        assert save_index(loaded) == saved
        assert answers(loaded, "ledger") == expected
        assert loaded.remembered() == known.remembered()
        assert save_index(world_of(live, known)) == saved
        known = loaded


def world_of(live: dict[str, Any], like: DeviceIndex) -> DeviceIndex:
    made = world(*TEMPLATES, *(live[name] for name in sorted(live, reverse=True)))
    for key, inputs in like.remembered():
        made.remember(key, inputs)
    return made


def test_every_kind_is_saved() -> None:
    known = index(A100, SHARED, ODD, EXAMPLE, H100)
    for each in objects("resourceclaims-allocated.json"):
        known.apply(None, each)
    node = {"name": "n", "labels": {"a": "b"}}
    status = {"allocatable": {"x/y": "1"}}
    known.apply_node(None, decode({"apiVersion": "v1", "kind": "Node", "metadata": node, "status": status}))
    loaded = load_index(save_index(known))
    assert (loaded.classes, loaded.templates, loaded.claims) == (known.classes, known.templates, known.claims)
    assert (loaded.nodes, loaded.plugins, loaded.extended) == (known.nodes, known.plugins, known.extended)
    assert [loaded.slices[name][:6] for name in known.slice_names] == [
        known.slices[name][:6] for name in known.slice_names
    ]
    assert save_index(loaded) == save_index(known)


def test_a_caller_need_not_keep_devices() -> None:
    """`apply` looks at nothing of the old object but what it is called."""
    known = index(A100)
    for each in objects(A100):
        known.apply(without_devices(each), None)
    assert (known.slices, len(known.inventory._readables)) == ({}, 0)
