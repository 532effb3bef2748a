"""Scenarios of the reference and recordings of real clusters, cut anywhere: the rest is decided as if in one piece."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ledger.checkpoint import load, save
from ledger.fold import Fold
from topics.sources import read_events

TESTS = Path(__file__).parents[1]
RECORDINGS = sorted((TESTS / "recorded").glob("*.jsonl.gz"))
CORPORA = sorted((TESTS / "conformance").glob("*.jsonl.gz"))


def decided(fold: Fold, records: list[bytes], first: int = 0) -> list[bytes]:
    return [
        decision.value
        for offset, record in enumerate(records, start=first)
        for decision in fold.apply(record, offset=offset).decisions
    ]


def states(fold: Fold) -> dict[str, bytes]:
    return {cluster: save(ledger) for cluster, ledger in fold.clusters.items()}


def go_on_as_one(records: list[bytes], cut: int) -> None:
    whole, before, after = Fold(), Fold(), Fold()
    decisions = decided(whole, records)
    assert decided(before, records[:cut]) == decisions[: len(decided(Fold(), records[:cut]))]
    for state in states(before).values():
        after.restore(load(state))
    rest = decided(after, records[cut:], cut)
    assert rest == decisions[len(decisions) - len(rest) :]
    assert states(after) == states(whole)


def scenarios(path: Path) -> Iterator[tuple[str, list[bytes]]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            scenario = json.loads(line)
            yield scenario["name"], [json.dumps(event).encode() for event in scenario["events"]]


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.name.partition(".")[0])
def test_scenarios_of_the_reference_go_on_from_any_cut(path: Path) -> None:
    for name, records in scenarios(path):
        go_on_as_one(records, Random(name).randrange(1, len(records)))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_recordings_of_real_clusters_go_on_from_any_cut(path: Path) -> None:
    records = list(read_events(path))
    go_on_as_one(records, Random(path.name).randrange(1, len(records)))
