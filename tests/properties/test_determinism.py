"""The same log gives the same bytes: whatever the hash seed, the chunks, the restarts and the duplicates."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.fold import Fold
from tests.properties.random_worlds import RandomWorld, without_place

ROOT = Path(__file__).parents[2]
SEEDS = st.integers(0, 2**32)


def fold_all(records: list[bytes], fold: Fold | None = None, first: int = 0) -> list[bytes]:
    fold = fold or Fold()
    return [
        decision.value
        for offset, record in enumerate(records, start=first)
        for decision in fold.apply(record, offset=offset, key=b"test").decisions
    ]


@pytest.fixture(scope="module")
def log_of_many_clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty clusters in one log, their records interleaved as they would be in one partition."""
    logs = [RandomWorld(seed, cluster=f"cluster-{seed}").run(20).world.records for seed in range(40)]
    random = Random(0)
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    with path.open("wb") as file:
        while any(logs):
            log = random.choice([log for log in logs if log])
            file.write(log.pop(0) + b"\n")
    return path


def test_any_hash_seed_gives_the_same_bytes(log_of_many_clusters: Path) -> None:
    digests = {}
    for seed in ("0", "1", "7", "4242"):
        command = [sys.executable, "-m", "tests.properties.fold_file", str(log_of_many_clusters)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        digests[seed] = run.stdout.split()
    counted, digest = digests["0"]
    assert int(counted) > 1000
    assert set(map(tuple, digests.values())) == {(counted, digest)}


def test_a_cluster_does_not_depend_on_its_neighbours(log_of_many_clusters: Path) -> None:
    records = log_of_many_clusters.read_bytes().splitlines()
    together: dict[str, list[object]] = {}
    for value in fold_all(records):
        decision = json.loads(value)
        together.setdefault(decision["cluster"], []).append(without_place(decision))
    for cluster in list(together)[:10]:
        alone = [record for record in records if json.loads(record)["cluster"] == cluster]
        assert [without_place(json.loads(value)) for value in fold_all(alone)] == together[cluster]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_a_second_fold_of_the_log_and_a_restart_give_the_same_bytes(seed: int) -> None:
    """A restart folds the log from its start without emitting and goes on from there."""
    played = RandomWorld(seed).run(20)
    records = played.world.records
    whole = fold_all(records)
    assert [json.loads(value) for value in whole] == played.world.decisions
    cut = Random(seed).randrange(len(records))
    restarted = Fold()
    before = fold_all(records[:cut], restarted)
    assert before + fold_all(records[cut:], restarted, first=cut) == whole
    assert before == whole[: len(before)]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_draining_the_table_at_any_time_changes_nothing(seed: int) -> None:
    """Chunks of any length end in a drain; the rows laid over each other come to the same table."""
    records = RandomWorld(seed).run(20).world.records
    at_the_end, in_chunks = Fold(), Fold()
    whole = fold_all(records, at_the_end)
    random = Random(seed)
    table: dict[object, object] = {}
    values: list[bytes] = []
    position = 0
    while position < len(records):
        chunk = records[position : position + random.choice((1, 2, 5, 13, 1000))]
        values += fold_all(chunk, in_chunks, first=position)
        position += len(chunk)
        rows = in_chunks.drain_rows()
        assert list(rows) == sorted(rows)
        table.update(rows)
        assert in_chunks.drain_rows() == {}
    assert values == whole
    present = {key: row for key, row in table.items() if row is not None}
    assert present == {key: row for key, row in at_the_end.drain_rows().items() if row is not None}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS)
def test_records_delivered_again_change_nothing(seed: int) -> None:
    """Any record, again at once or much later: at least once is enough."""
    records = RandomWorld(seed).run(20).world.records
    random = Random(seed)
    fold = Fold()
    decided = []
    for position, record in enumerate(records):
        outcome = fold.apply(record, offset=position, key=b"test")
        assert outcome.rejections == []
        decided += [without_place(json.loads(decision.value)) for decision in outcome.decisions]
        again = [record] if random.random() < 0.5 else []
        again += random.sample(records[: position + 1], k=random.choice((0, 0, 0, 1)))
        for repeated in again:
            repetition = fold.apply(repeated, offset=position, key=b"test")
            assert repetition.rejections == []
            assert [decision.value for decision in repetition.decisions] == [], repeated
    assert decided == [without_place(json.loads(value)) for value in fold_all(records)]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_decisions_form_a_chain_without_gaps(seed: int) -> None:
    values = fold_all(RandomWorld(seed).run(20).world.records)
    assert values
    previous = "0" * 64
    for number, value in enumerate(values, start=1):
        decision = json.loads(value)
        assert decision["seq"] == number
        assert decision["prev"] == previous
        body, _, _ = value.rpartition(b',"hash":"')
        assert "hash" not in json.loads(body + b"}")
        assert decision["hash"] == hashlib.blake2b(body + b"}", digest_size=32).hexdigest()
        previous = decision["hash"]
