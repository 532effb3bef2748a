"""The page about the life of a workload says what the code does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest

from ledger.fold import Fold
from ledger.lifecycle import EDGES, STATES, is_walk, state_of
from projections.lifecycle import PAGE, page
from tests.properties.random_worlds import RandomWorld
from tests.properties.test_random_lives import play
from tests.recorded.test_life import LIVES
from tests.recorded.test_recordings import RECORDINGS, lines

IGNORED = ("Pending", "Inadmissible")
PARTIAL = ("Released ReclaimablePods", "Released ScaledDown")

Step = tuple[str, str, tuple[str, ...]]


def steps_of(records: Iterable[bytes]) -> Iterator[tuple[str, Step]]:
    """Every move of a workload between two events: where from, where to, by which decisions."""
    fold = Fold()
    before: dict[str, str] = {}
    for offset, record in enumerate(records):
        outcome = fold.apply(record, offset=offset)
        decided: dict[str, list[str]] = {}
        for each in outcome.decisions:
            decision = json.loads(each.value)
            text = f"{decision['type']} {decision.get('reason', '')}".strip()
            if "workload" in decision and decision["type"] not in IGNORED and text not in PARTIAL:
                decided.setdefault(decision["workload"]["uid"], []).append(text)
        now = {
            workload.uid: state_of(workload)
            for ledger in fold.clusters.values()
            for workload in ledger.state.workloads.values()
        }
        for uid in sorted(before.keys() | now.keys() | decided.keys()):
            step = (before.get(uid, "unknown"), now.get(uid, "unknown"), tuple(decided.get(uid, ())))
            if step[0] != step[1] or step[2]:
                yield uid, step
        before = now


def undocumented(records: Iterable[bytes]) -> list[tuple[str, Step]]:
    return [(uid, step) for uid, step in steps_of(records) if not is_walk(*step)]


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_edge_is_between_states() -> None:
    assert {name for edge in EDGES for name in (*edge.sources, *edge.targets)} == STATES.keys()


@pytest.mark.parametrize("name", [*LIVES, *RECORDINGS])
def test_every_step_of_a_recording_is_on_the_page(name: str) -> None:
    assert undocumented(line.rstrip(b"\n") for line in lines(name)) == []


@pytest.mark.parametrize("seed", range(15))
def test_every_step_of_a_random_world_is_on_the_page(seed: int) -> None:
    assert undocumented(RandomWorld(seed).run(60).world.records) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_step_of_a_random_life_is_on_the_page(seed: int) -> None:
    assert undocumented(play(seed, block=seed % 4 == 0, fair=seed % 3 == 0).records) == []


def test_a_step_that_no_edge_allows_is_noticed() -> None:
    assert is_walk("queued", "admitted", ["QuotaReserved", "Admitted"])
    assert not is_walk("queued", "parked", ["Admitted"])
    assert not is_walk("finished", "queued", [])
    assert not is_walk("admitted", "parked", [])
    assert not is_walk("parked", "parked", ["Preempted"])


def test_recordings_take_every_decided_edge_that_a_cluster_without_deletions_can_show() -> None:
    taken = {
        decision for name in LIVES for _, step in steps_of(l.rstrip(b"\n") for l in lines(name)) for decision in step[2]
    }
    named = {decision for edge in EDGES for decision in edge.decisions}
    missing = {name for name in named if not any(decision.startswith(name) for decision in taken)}
    assert missing == {
        "Dequeued Deactivated",
        "Dequeued Deleted",
        "Dequeued Finished",
        "Evicted NodeFailures",
        "Released Deleted",
        "Released Suspended",
        "Released Misconfigured",
    }
