"""Whether devices can be had (dra 17, 20.8): FZ1 to FZ8, what others hold, allocated claims, restraint."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest

from ledger.devices.demand import Holder
from ledger.devices.feasibility import IMPOSSIBLE, IMPOSSIBLE_NOW, Feasible, NoDevices, feasible
from ledger.devices.index import DeviceIndex
from ledger.devices.mappings import Mappings
from ledger.objects.workload import Workload
from tests.devices.test_gaps import DRIVER, counting, device, exactly, slice_of, template, world
from tests.devices.world import A100, H100, SHARED, configuration, container, decode, index, objects, pod_set, workload

MAPPINGS = Mappings(configuration("counter-unified"))
PARENT = [{"requests": [], "matchAttribute": "gpu.nvidia.com/parentUUID"}]


def holder(subject: Workload) -> Holder:
    return Holder(subject, {each.name: each.count for each in subject.spec.pod_sets})


def verdict(known: DeviceIndex, subject: Workload, *held: Workload, mappings: Mappings = MAPPINGS) -> bool | str:
    """True where places were found, else why not."""
    found = feasible(known, mappings, holder(subject), [holder(each) for each in held])
    if isinstance(found, NoDevices):
        return found.verdict
    return found.certain


def profiles(*wanted: tuple[str, int], constraints: Iterable[Any] = PARENT) -> Any:
    """A template that asks for so many of each profile on one parent."""
    requests = [
        {
            "name": f"r{number}",
            "exactly": {
                "deviceClassName": "mig.nvidia.com",
                "count": count,
                "selectors": [{"cel": {"expression": f"device.attributes['gpu.nvidia.com'].profile == '{name}'"}}],
            },
        }
        for number, (name, count) in enumerate(wanted)
    ]
    return decode(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "asked", "namespace": "team-a"},
            "spec": {"spec": {"devices": {"requests": requests, "constraints": list(constraints)}}},
        }
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param([("1g.10gb", 7), ("3g.40gb", 1)], IMPOSSIBLE, id="FZ1"),
        pytest.param([("4g.40gb", 1), ("3g.40gb", 1)], True, id="FZ2"),
        pytest.param([("4g.40gb", 1), ("3g.40gb", 1), ("1g.10gb", 1)], IMPOSSIBLE, id="FZ3"),
        pytest.param([("1g.10gb", 7)], True, id="seven small ones"),
        pytest.param([("1g.10gb", 8)], IMPOSSIBLE, id="eight small ones"),
    ],
)
def test_partitions_of_one_parent(wanted: list[tuple[str, int]], expected: bool | str) -> None:
    known = index(A100)
    known.apply(None, profiles(*wanted))
    assert verdict(known, workload(pod_set("asked"))) == expected


def test_fz4_a_whole_gpu_and_a_partition_of_the_other() -> None:
    assert verdict(index(A100), workload(pod_set("one-gpu", "mig-1g10gb"))) is True


def test_fz5_two_whole_gpus_leave_no_partition() -> None:
    assert verdict(index(A100), workload(pod_set("one-gpu", "one-gpu", "mig-1g10gb"))) == IMPOSSIBLE


def test_fz6_two_gpus_on_one_numa_node() -> None:
    assert verdict(index(H100), workload(pod_set("same-numa-pair"))) is True


def test_fz7_a_broad_request_leaves_the_narrow_one_its_device() -> None:
    narrow = f"device.attributes['{DRIVER}'].?narrow.orValue(false)"
    known = world(
        slice_of("n", device("a", attributes={"narrow": {"bool": True}}), device("b")),
        template("t", exactly(), exactly(narrow)),
    )
    assert verdict(known, workload(pod_set("t"))) is True


@pytest.mark.parametrize(("constraint", "expected"), [(None, True), ("gpu.nvidia.com/uuid", IMPOSSIBLE)])
def test_fz8_two_large_shares_need_two_cards(constraint: str | None, expected: bool | str) -> None:
    share = {"deviceClassName": "shared-gpu.tenant.example", "capacity": {"requests": {"memory": "50Gi"}}}
    requests = [{"name": name, "exactly": share} for name in "ab"]
    constraints = [{"requests": [], "matchAttribute": constraint}] if constraint else []
    known = index(SHARED)
    spec = {"spec": {"devices": {"requests": requests, "constraints": constraints}}}
    known.apply(
        None,
        decode(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": "asked", "namespace": "team-a"},
                "spec": spec,
            }
        ),
    )
    assert verdict(known, workload(pod_set("asked"))) == expected


def test_distinct_attributes_keep_devices_apart() -> None:
    constraint = [{"requests": ["r0"], "distinctAttribute": f"{DRIVER}/parent"}]
    parents = [device(name, attributes={"parent": {"string": parent}}) for name, parent in ("ax", "bx", "cy")]
    known = world(
        slice_of("n", *parents),
        template("two", exactly(count=2), constraints=constraint),
        template("three", exactly(count=3), constraints=constraint),
    )
    assert verdict(known, workload(pod_set("two"))) is True
    assert verdict(known, workload(pod_set("three"))) == IMPOSSIBLE


# --- what others hold ------------------------------------------------------------------------------------------

SEVEN = workload(pod_set("mig-7g80gb"), name="x")


@pytest.mark.parametrize(
    ("subject", "held", "expected"),
    [
        (SEVEN, [pod_set("mig-7g80gb")], True),
        (SEVEN, [pod_set("mig-7g80gb"), pod_set("mig-7g80gb")], IMPOSSIBLE_NOW),
        (SEVEN, [pod_set("mig-1g10gb", count=7)], True),
        (SEVEN, [pod_set("mig-1g10gb", count=8)], IMPOSSIBLE_NOW),
        (SEVEN, [pod_set("mig-any", count=2)], True),
        (workload(pod_set("mig-1g10gb"), name="x"), [pod_set("mig-1g10gb", count=13)], True),
        (workload(pod_set("mig-1g10gb"), name="x"), [pod_set("mig-1g10gb", count=14)], IMPOSSIBLE_NOW),
        (workload(pod_set("one-gpu"), name="x"), [pod_set("mig-1g10gb"), pod_set("mig-1g10gb")], True),
    ],
)
def test_what_others_hold_is_in_the_way_only_if_no_arrangement_is_left(
    subject: Workload, held: list[Any], expected: bool | str
) -> None:
    others = [workload(each, name=f"h{number}") for number, each in enumerate(held)]
    assert verdict(index(A100), subject, *others) == expected


def test_who_is_in_the_way_is_named() -> None:
    held = [holder(workload(pod_set("mig-7g80gb"), name=name)) for name in ("h1", "h2")]
    found = feasible(index(A100), MAPPINGS, holder(SEVEN), held)
    assert isinstance(found, NoDevices)
    assert found.in_the_way == ("team-a/h1", "team-a/h2")
    assert found.message == "3 devices are needed for requests mig, 2 can be had; in use by team-a/h1, team-a/h2"


def test_allocated_claims_hold_their_devices_whoever_they_are_for() -> None:
    known = index(A100)
    for claim in objects("resourceclaims-allocated.json"):
        known.apply(None, claim)
    found = feasible(known, MAPPINGS, holder(workload(pod_set("mig-7g80gb", count=2))), [])
    assert isinstance(found, NoDevices)
    assert found.verdict == IMPOSSIBLE_NOW
    assert found.in_the_way
    assert all(name.startswith("claim team-a/") for name in found.in_the_way)


def test_mode_all_takes_a_node_without_users() -> None:
    known = world(
        slice_of("n", device("a"), device("b")), template("t", exactly(allocationMode="All")), template("u", exactly())
    )
    everything, one = workload(pod_set("t"), name="x"), workload(pod_set("u"), name="y")
    assert verdict(known, everything) is True
    assert verdict(known, everything, one) == IMPOSSIBLE_NOW
    assert verdict(known, one, everything) == IMPOSSIBLE_NOW


def test_alternatives_are_tried_in_turn() -> None:
    def option(name: str, kind: str) -> Any:
        return {"name": name, **exactly(f"device.attributes['{DRIVER}'].kind == '{kind}'")["exactly"]}

    devices = [device(kind, attributes={"kind": {"string": kind}}) for kind in ("big", "small")]
    known = world(
        slice_of("n", *devices),
        template("t", {"firstAvailable": [option("one", "big"), option("two", "small")]}),
    )
    first, second, third = (workload(pod_set("t"), name=name) for name in "abc")
    assert verdict(known, second, first) is True
    assert verdict(known, third, first, second) == IMPOSSIBLE_NOW


def test_an_extended_resource_needs_devices_unless_a_plugin_serves_it() -> None:
    known = index(H100)
    mappings = Mappings(configuration("whole"))
    nine = workload(pod_set(containers=[container({"nvidia.com/gpu": "9"})]))
    assert verdict(known, nine, mappings=mappings) == IMPOSSIBLE
    plugin = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old"}}
    known.apply_node(None, decode({**plugin, "status": {"allocatable": {"nvidia.com/gpu": "16"}}}))
    assert verdict(known, nine, mappings=mappings) is True


def test_what_is_not_known_counts_as_possible() -> None:
    assert verdict(index(), workload(pod_set("no-such-template"))) is False


def test_a_workload_without_devices_is_feasible() -> None:
    assert verdict(index(), workload(pod_set(containers=[container({"cpu": "1"})]))) is True


def test_pods_must_be_on_the_nodes_of_their_flavor() -> None:
    known = index(H100)
    subject = workload(pod_set("one-gpu"))
    elsewhere = Holder(subject, {"main": 1}, {"main": frozenset({"another"})})
    assert isinstance(feasible(known, MAPPINGS, elsewhere, []), NoDevices)


def test_a_search_that_runs_out_of_steps_counts_as_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.devices.search.STEPS", 3)
    monkeypatch.setattr("ledger.devices.feasibility.STEPS_PER_POD", 0)
    known = index(A100)
    known.apply(None, profiles(("4g.40gb", 1), ("3g.40gb", 1), ("1g.10gb", 1)))
    assert verdict(known, workload(pod_set("asked"))) is False
    assert verdict(known, SEVEN, workload(pod_set("mig-any", count=2), name="h")) is False


# --- against plain enumeration ---------------------------------------------------------------------------------


def enumerated(free: list[tuple[str, int]], pool: int, wanted: list[tuple[str, int]]) -> bool:
    """Whether devices can be dealt to the requests, by trying every deal; devices draw on one counter."""

    def deal(number: int, left: list[tuple[str, int]], drawn: int) -> bool:
        if number == len(wanted):
            return True
        kind, count = wanted[number]
        fitting = [position for position, (each, _) in enumerate(left) if each == kind]
        for chosen in itertools.combinations(fitting, count):
            total = drawn + sum(left[position][1] for position in chosen)
            if total <= pool and deal(number + 1, [d for p, d in enumerate(left) if p not in chosen], total):
                return True
        return False

    return deal(0, free, 0)


def test_small_worlds_are_judged_as_by_trying_everything() -> None:
    chance = random.Random(17)
    seen = {True: 0, False: 0}
    for _ in range(150):
        pool = chance.randrange(4, 12)
        devices = [(chance.choice("xyz"), chance.randrange(1, 6)) for _ in range(chance.randrange(2, 7))]
        wanted = [(chance.choice("xyz"), chance.randrange(1, 3)) for _ in range(chance.randrange(1, 4))]
        known = world(
            slice_of(
                "n",
                *(
                    device(f"d{n}", attributes={"kind": {"string": kind}}, consumesCounters=counting(str(cost)))
                    for n, (kind, cost) in enumerate(devices)
                ),
                sharedCounters=[{"name": "s", "counters": {"memory": {"value": str(pool)}}}],
            ),
            template("t", *(exactly(f"device.attributes['{DRIVER}'].kind == '{k}'", count=c) for k, c in wanted)),
        )
        expected = enumerated(devices, pool, wanted)
        found = feasible(known, MAPPINGS, holder(workload(pod_set("t"))), [])
        assert isinstance(found, Feasible) == expected, (pool, devices, wanted)
        seen[expected] += 1
    assert min(seen.values()) > 20


def test_the_answer_does_not_depend_on_the_order_of_events() -> None:
    slices = [*objects(A100), *objects(H100)]
    held = [holder(workload(pod_set("mig-any"), name=f"h{number}")) for number in range(3)]
    answers = set()
    for seed in range(4):
        mixed = list(slices)
        random.Random(seed).shuffle(mixed)
        known = index()
        for each in mixed:
            known.apply(None, each)
        answers.add(repr(feasible(known, MAPPINGS, holder(workload(pod_set("one-gpu", count=9))), held)))
    assert len(answers) == 1


def test_an_answer_leaves_nothing_behind() -> None:
    """The same question twice, in any order with others, has the same answer as in a fresh index."""
    questions = [
        (SEVEN, (workload(pod_set("mig-7g80gb"), name="h1"),)),
        (SEVEN, (workload(pod_set("mig-7g80gb"), name="h1"), workload(pod_set("mig-7g80gb"), name="h2"))),
        (workload(pod_set("mig-any"), name="x"), (workload(pod_set("mig-7g80gb"), name="h1"),)),
        (workload(pod_set("one-gpu", "mig-1g10gb"), name="x"), ()),
        (SEVEN, (workload(pod_set("mig-1g10gb", count=8), name="h1"),)),
    ]
    fresh = [verdict(index(A100), subject, *held) for subject, held in questions]
    known, chance = index(A100), random.Random(9)
    for _ in range(40):
        number = chance.randrange(len(questions))
        subject, held = questions[number]
        assert verdict(known, subject, *held) == fresh[number]


def test_a_change_is_seen_at_once() -> None:
    known = index(A100)
    held = workload(pod_set("mig-7g80gb"), name="h1")
    assert verdict(known, SEVEN, held) is True
    for each in objects(A100):
        if any("gpu-1" in found.name for found in each.spec.devices):
            known.apply(each, None)
    assert verdict(known, SEVEN, held) == IMPOSSIBLE
