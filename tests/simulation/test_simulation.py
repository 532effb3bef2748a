"""Seeds of the simulation, some in every run; SIMULATED_SECONDS asks for more."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.simulation.broken import Broken
from tests.simulation.shrinking import saved, shrink
from tests.simulation.simulation import Tally, generate, observe, simulate

SECONDS = float(os.environ.get("SIMULATED_SECONDS", "20"))
FIRST_SEED = int(os.environ.get("SIMULATED_FIRST_SEED", "0"))
PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_everything_holds_after_every_event_and_every_death(part: int, tmp_path: Path) -> None:
    tally = Tally()
    end = time.monotonic() + SECONDS
    seed = FIRST_SEED + part * 1_000_000
    while time.monotonic() < end or tally.events == 0:
        try:
            simulate(seed, tally)
        except Broken as problem:
            path = saved(problem.records, problem, seed, tmp_path)
            pytest.fail(f"seed {seed}: {problem}\nminimal log {path}:\n{path.read_text()[:4000]}")
        seed += 1
    print(f"{tally.events} events, {tally.kills} kills from seed {FIRST_SEED + part * 1_000_000} on")


def test_a_seed_repeats_its_history_byte_for_byte() -> None:
    assert generate(7, Tally()) == generate(7, Tally())


DECIDED = ("QuotaReserved", "Admitted", "Preempted", "Evicted", "Released", "Requeued", "Pending", "Inadmissible")
REASONS = (
    "Evicted AdmissionCheck",
    "Evicted ClusterQueueStopped",
    "Evicted Deactivated",
    "Evicted DeactivatedDueToAdmissionCheck",
    "Evicted DeactivatedDueToMaximumExecutionTimeExceeded",
    "Evicted DeactivatedDueToRequeuingLimitExceeded",
    "Evicted LocalQueueStopped",
    "Evicted NodeFailures",
    "Evicted PodsReadyTimeout",
    "Released Deactivated",
    "Released Deleted",
    "Released Finished",
    "Released Misconfigured",
    "Released ReclaimablePods",
    "Released ScaledDown",
    "Released Suspended",
    "Released WorkloadSliceReplaced",
    "Requeued BackoffFinished",
    "Requeued ClusterQueueRestarted",
    "Requeued LocalQueueRestarted",
    "Requeued Reactivated",
)


def test_worlds_are_worth_simulating() -> None:
    """They admit, preempt, evict, release, refuse for every reason there is, and time passes in them."""
    tally = Tally()
    for seed in range(2_000_000, 2_000_220):
        generate(seed, tally)
    assert [kind for kind in DECIDED if not tally.types.get(kind)] == []
    assert [reason for reason in REASONS if not tally.reasons.get(reason)] == []
    assert tally.ticks > 50


def test_workers_die_in_simulated_worlds_and_zombies_are_fenced() -> None:
    tally = Tally()
    for seed in range(2_000_000, 2_000_020):
        simulate(seed, tally)
    assert tally.kills > 50
    assert tally.fenced > 5
    assert tally.checkpoints > 50


def generate_all(seeds: range) -> None:
    for seed in seeds:
        generate(seed, Tally())


def test_a_defect_is_found_and_its_log_made_minimal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ledger that forgets to give quota back: found, and shrunk to a handful of records."""
    from ledger.cluster_queue import ClusterQueueNode

    discharge = ClusterQueueNode.discharge

    def forgetful(self: ClusterQueueNode, state: object) -> None:
        usage = dict(self.usage)
        discharge(self, state)  # type: ignore[arg-type]
        self.usage.update(usage)

    monkeypatch.setattr(ClusterQueueNode, "discharge", forgetful)
    with pytest.raises(Broken) as caught:
        generate_all(range(20))
    path = saved(caught.value.records, caught.value, 0, tmp_path)
    minimal = path.read_bytes().splitlines()
    assert 1 <= len(minimal) <= 12
    with pytest.raises(Broken):
        observe(minimal)


@pytest.mark.parametrize(
    ("forgotten", "told"),
    [
        ("a deadline", "everybody has the timer that the rules say"),
        ("a timeout", "its pods did not run out unnoticed"),
        ("the end of a backoff", "a backoff that is over has ended"),
    ],
)
def test_a_timer_that_is_forgotten_is_found(forgotten: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger.life import Life
    from ledger.timers import WORKLOAD, Timers

    if forgotten == "a deadline":
        monkeypatch.setattr(Life, "_deadline", lambda self, state: None if state.reservation else state.requeue_at)
    elif forgotten == "a timeout":
        monkeypatch.setattr(Life, "_time_out", lambda self, state: None)
    else:
        pop_due = Timers.pop_due

        def deaf(self: Timers, now: int) -> object:
            while (key := pop_due(self, now)) is not None and key.kind == WORKLOAD:  # type: ignore[arg-type]
                continue
            return key

        monkeypatch.setattr(Timers, "pop_due", deaf)
    found = set[str]()
    for seed in range(120):
        try:
            generate(seed, Tally())
        except Broken as problem:
            found.add(problem.name)
    assert told in found


def test_shrinking_keeps_what_fails_only() -> None:
    records = [b"%d" % number for number in range(100)]
    assert shrink(records, lambda some: b"17" in some and b"63" in some) == [b"17", b"63"]


def test_a_broken_invariant_has_a_name() -> None:
    assert Broken("usage is the sum of charges", 1).name == "usage is the sum of charges"
