"""The example that started the project: whole GPUs and partitions are charged to one pool of memory (P01 to P03)."""

from __future__ import annotations

import pytest

from tests.devices.device_world import DeviceWorld
from tests.devices.world import A100
from tests.world import amounts

RULES = ["kueue-0.19", "ledger"]
POOL = {"gpu.memory": "160Gi"}
MI = 2**20


@pytest.mark.parametrize("rules", RULES)
def test_a_whole_a100_charges_79gi_and_a_small_partition_9728mi(rules: str) -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL, rules=rules)
    assert amounts(world.ask("whole", "one-gpu")) == {"whole": {"main": {"gpu.memory": "79Gi"}}}
    assert amounts(world.ask("part", "mig-1g10gb")) == {"part": {"main": {"gpu.memory": "9728Mi"}}}
    assert world.usage() == {"q": {"f/gpu.memory": (80896 + 9728) * MI}}


@pytest.mark.parametrize("rules", RULES)
def test_a_team_with_160gi_gets_two_whole_gpus(rules: str) -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL, rules=rules)
    for number in range(3):
        world.ask(f"whole-{number}", "one-gpu")
    assert world.usage() == {"q": {"f/gpu.memory": 2 * 80896 * MI}}
    assert world.reasons() == {"whole-2": "WaitingForQuota"}
    assert world.ask("part", "mig-1g10gb")[-1]["type"] == "Pending"


@pytest.mark.parametrize("rules", RULES)
def test_or_sixteen_small_partitions(rules: str) -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL, rules=rules)
    for number in range(17):
        world.ask(f"part-{number:02}", "mig-1g10gb")
    assert world.usage() == {"q": {"f/gpu.memory": 16 * 9728 * MI}}
    assert world.reasons() == {"part-16": "WaitingForQuota"}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("wholes", range(3))
def test_never_a_mix_above_the_pool(rules: str, wholes: int) -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL, rules=rules)
    for number in range(wholes):
        world.ask(f"whole-{number}", "one-gpu")
    for number in range(17):
        world.ask(f"part-{number:02}", "mig-1g10gb")
    parts = (160 * 1024 - wholes * 80896) // 9728
    assert parts == [16, 8, 0][wholes]
    assert world.usage() == {"q": {"f/gpu.memory": (wholes * 80896 + parts * 9728) * MI}}
    assert len(world.reasons()) == 17 - parts


def test_the_row_of_the_pool_says_what_it_counts() -> None:
    world = DeviceWorld("counter-unified", A100, quota=POOL)
    world.ask("whole", "one-gpu")
    row = world.row("q", "gpu.memory")
    assert (row.nominal, row.reserved, row.drift) == ("160Gi", "79Gi", "0")
    assert row.counts.device_class == ("gpu.nvidia.com", "mig.nvidia.com")
    assert [(each.driver, each.name) for each in row.counts.counter] == [("gpu.nvidia.com", "memory")]
