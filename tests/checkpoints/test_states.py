"""A ledger as bytes and back: whatever the log and wherever the cut, the fold goes on as if it had never stopped."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.checkpoint import Damaged, NotCarried, OtherSchema, hash_of_state, load, save, shape_of_objects, slots_of
from ledger.fold import Fold
from ledger.ledger import Ledger
from tests.properties.random_worlds import RandomWorld
from tests.world import World
from topics.garbage import keep_what_lives, look_at_everything, without_garbage_collection

ROOT = Path(__file__).parents[2]
SEEDS = st.integers(0, 2**32)


def folded(records: list[bytes], ledger: Ledger | None = None, first: int = 0) -> tuple[Fold, list[bytes]]:
    fold = Fold()
    if ledger is not None:
        fold.clusters[ledger.cluster] = ledger
    decisions = [
        decision.value
        for offset, record in enumerate(records, start=first)
        for decision in fold.apply(record, offset=offset, key=b"test").decisions
    ]
    return fold, decisions


def saved(fold: Fold) -> bytes:
    return save(fold.clusters["test"])


def table(value: bytes) -> dict[str, list[str]]:
    """Every class in a checkpoint with its slots."""
    body = msgspec.msgpack.decode(value.partition(b"\n")[2])
    return {name.partition(":")[2]: slots for name, slots in body[3]}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS)
def test_any_log_cut_anywhere_goes_on_byte_for_byte(seed: int) -> None:
    records = RandomWorld(seed, rules=Random(seed).choice((None, "kueue-0.19"))).run(25).world.records
    cut = Random(seed).randrange(1, len(records))
    whole, decisions = folded(records)
    before, first_decisions = folded(records[:cut])
    rest, rest_decisions = folded(records[cut:], load(saved(before)), first=cut)
    assert first_decisions + rest_decisions == decisions
    assert saved(rest) == saved(whole)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(SEEDS)
def test_a_worker_that_stops_after_every_event_ends_in_the_same_state(seed: int) -> None:
    records = RandomWorld(seed).run(15).world.records
    whole, decisions = folded(records)
    ledger, found = Ledger("test"), list[bytes]()
    for offset, record in enumerate(records):
        fold, made = folded([record], load(save(ledger)), first=offset)
        ledger, found = fold.clusters["test"], found + made
    assert found == decisions
    assert hash_of_state(save(ledger)) == hash_of_state(saved(whole))


def test_a_cut_inside_a_list_of_objects_keeps_what_was_seen_and_what_is_to_be_told() -> None:
    world = World("q(4)")
    world.apply({"cluster": "test", "type": "SYNC_BEGIN"})
    world.submit("w1@q:3", "w2@q:3")
    whole = world.fold
    again = load(saved(whole))
    end = b'{"cluster":"test","type":"SYNC_END"}'
    expected = [d.value for d in whole.apply(end, offset=99).decisions]
    fold, decisions = folded([end], again, first=99)
    assert decisions == expected
    assert saved(fold) == saved(whole)


def test_questions_do_not_change_the_bytes() -> None:
    world = RandomWorld(3).run(20).world
    before = saved(world.fold)
    world.ledger.usage(), world.ledger.shares(), world.ledger.parked(), world.fold.drain_rows()
    assert saved(world.fold) == before


def test_every_slot_is_carried() -> None:
    """Slots are found, not listed: one that is added is in the next checkpoint."""
    carried: dict[str, list[str]] = {}
    for seed in range(12):
        world = RandomWorld(seed).run(20).world
        carried |= table(saved(world.fold))
        state = world.ledger.state
        for thing in (state, state.forest, *state.forest.queues.values(), *state.workloads.values()):
            assert carried[type(thing).__qualname__] == slots_of(type(thing), thing)
        for queue in state.forest.queues.values():
            assert carried["PendingQueue"] == slots_of(type(queue.pending), queue.pending)
    assert {"Ledger", "State", "Recorder", "Forest", "WorkloadState", "Reservation", "Tree"} <= carried.keys()


@pytest.mark.parametrize("value", [lambda: 1, object(), Path("x"), sys])
def test_what_cannot_be_carried_is_refused_when_it_is_saved(value: Any) -> None:
    world = World("q(4)", "w1@q:1")
    next(iter(world.ledger.state.workloads.values())).verdict = value
    with pytest.raises(NotCarried):
        saved(world.fold)


def test_bytes_of_a_class_with_other_slots_are_refused() -> None:
    value = saved(World("q(4)", "w1@q:1").fold)
    assert b"order_time" in value
    with pytest.raises(OtherSchema, match=r"WorkloadState has other slots.*order_time"):
        load(value.replace(b"order_time", b"older_time"))


def test_bytes_of_another_version_of_the_format_the_rules_or_the_objects_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = saved(World("q(4)").fold)
    with pytest.raises(OtherSchema, match="version 99"):
        load(value.replace(b"checkpoint 2\n", b"checkpoint 99\n"))
    monkeypatch.setattr("ledger.checkpoint.RULES_VERSION", 99)
    with pytest.raises(OtherSchema, match="rules"):
        load(value)
    monkeypatch.undo()
    monkeypatch.setattr("ledger.checkpoint.shape_of_objects", lambda: "other")
    with pytest.raises(OtherSchema, match="fields"):
        load(value)


def test_the_shape_of_objects_does_not_depend_on_what_was_decoded() -> None:
    program = "from ledger.checkpoint import shape_of_objects; print(shape_of_objects())"
    fresh = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert fresh.stdout.strip() == shape_of_objects()


def test_a_class_from_elsewhere_is_not_even_looked_for() -> None:
    value = saved(World("q(4)", "w1@q:1").fold)
    for name in (b"os.nowhere1:WorkloadState", b"ledger.ledge2:WorkloadState"):
        with pytest.raises(OtherSchema, match="does not know"):
            load(value.replace(b"ledger.workloads:WorkloadState", name.ljust(30, b"x")))


@pytest.mark.parametrize("seed", range(5))
def test_damaged_bytes_are_refused_or_have_another_hash(seed: int) -> None:
    """A reader compares the hash first; even without, damage ends in a refusal or another state, never in a crash."""
    value = saved(RandomWorld(seed).run(10).world.fold)
    random = Random(seed)
    for _ in range(100):
        place = random.randrange(len(value))
        damaged = value[:place] + bytes([value[place] ^ 1 << random.randrange(8)]) + value[place + 1 :]
        assert hash_of_state(damaged) != hash_of_state(value)
        try:
            load(damaged)
        except (Damaged, OtherSchema):
            continue
    for place in (0, 1, 20, len(value) // 2, len(value) - 1):
        with pytest.raises((Damaged, OtherSchema)):
            load(value[:place])


def test_any_hash_seed_and_any_restarts_give_the_same_state(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    worlds = [RandomWorld(seed, cluster=f"c{seed}").run(20).world.records for seed in range(20)]
    path.write_bytes(b"".join(record + b"\n" for records in worlds for record in records))
    digests = set()
    for seed, restarts in (("0", []), ("1", []), ("4242", ["50"])):
        command = [sys.executable, "-m", "tests.checkpoints.hash_file", str(path), *restarts]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        digests.add(run.stdout)
    assert len(digests) == 1
    assert len(digests.pop().split()) == 20


def test_a_loaded_state_is_left_alone_by_the_collector_and_is_gone_once_its_partition_is_given_up() -> None:
    value = saved(World("q(4)", "w1@q:1").fold)
    with without_garbage_collection():
        assert not gc.isenabled()
        ledger = load(value)
        keep_what_lives()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    there = weakref.ref(ledger.state.forest)
    del ledger
    gc.collect()
    assert there() is not None
    look_at_everything()
    gc.collect()
    assert there() is None
