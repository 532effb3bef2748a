"""The real fold through the log: what a file gives, byte for byte, whatever broker, chunks and hash seed."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.fold import Fold
from tests.streaming.log import assert_written_once, wait_until_committed, written
from tests.streaming.workers import ROOT, WorkerProcess
from topics import commands
from topics.broker import is_free
from topics.codec import encode_row, encode_row_key
from topics.folding import ledger_fold
from topics.settings import Settings
from topics.topic import Topics, partition_of

pytestmark = pytest.mark.broker

RECORDING = ROOT / "tests" / "recorded" / "preempt2.jsonl.gz"
COMMAND = [sys.executable, "-c", "from projections.cli import main; main()"]
PROCESS_SECONDS = 60


def recorded_cluster() -> str:
    with gzip.open(RECORDING) as file:
        return str(json.loads(file.readline())["cluster"])


def folded_from_the_file(settings: Settings, partition: int) -> tuple[list[bytes], dict[bytes, bytes], int]:
    """Decisions, rows and number of lines of the recording, without Kafka."""
    fold = Fold(Topics.of(settings).events.name, partition)
    decisions: list[bytes] = []
    lines = 0
    with gzip.open(RECORDING) as file:
        for offset, line in enumerate(file):
            decisions += [decision.value for decision in fold.apply(line.strip(), offset=offset).decisions]
            lines += 1
    rows = {encode_row_key(key): encode_row(row) for key, row in fold.drain_rows().items() if row is not None}
    return decisions, rows, lines


def decisions_of_the_demo() -> int:
    fold = Fold()
    lines = commands.DEMO.read_bytes().splitlines()
    return sum(len(fold.apply(line, offset=offset).decisions) for offset, line in enumerate(lines))


@pytest.mark.parametrize(("chunk", "hash_seed"), [(1, "1"), (37, "2"), (1_000, "3")])
def test_a_recording_gives_the_same_bytes_through_the_log_as_from_the_file(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, hash_seed: str
) -> None:
    settings = settings.replaced(chunk_size=chunk)
    partition = partition_of(recorded_cluster(), settings.partitions)
    decisions, rows, lines = folded_from_the_file(settings, partition)
    assert commands.ingest(str(RECORDING), settings) == 0
    monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
    with WorkerProcess(settings, tmp_path / "worker.log", fold="ledger") as worker:
        asyncio.run(wait_until_committed(settings, lines))
        assert worker.terminate() == 0
    found = asyncio.run(written(settings, partition))
    assert found.decisions == decisions
    assert found.rows == rows
    assert found.dead_letters == []


def test_a_killed_worker_takes_the_ledger_up_where_the_log_says(settings: Settings, tmp_path: Path) -> None:
    settings = settings.replaced(chunk_size=5)
    _, _, lines = folded_from_the_file(settings, 0)
    assert commands.ingest(str(RECORDING), settings) == 0
    for done in (1, lines // 3):
        with WorkerProcess(settings, tmp_path / "worker.log", fold="ledger", sleep=0.02) as worker:
            asyncio.run(wait_until_committed(settings, done))
            worker.kill()
    with WorkerProcess(settings, tmp_path / "worker.log", fold="ledger") as worker:
        asyncio.run(wait_until_committed(settings, lines))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(settings, ledger_fold))


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    """As of a user who has set nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "QUOTA_LEDGER_"))}
    return kept | {"XDG_DATA_HOME": str(tmp_path), "QUOTA_LEDGER_METRICS_PORT": "0"}


def test_the_demo_of_up_shows_decisions_and_the_table_and_ends(clean_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*COMMAND, "up", "--demo"],
        cwd=ROOT,
        env=clean_environment,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"Preempted +research/train-7 .* InCohortReclamation by product/serve-2 of product", done.stdout)
    assert re.search(r"^product +a100 +nvidia.com/gpu +8 +- +- +8 +8 +0$", done.stdout, re.MULTILINE)
    records = len(commands.DEMO.read_bytes().splitlines())
    assert f"{records} records of 1 cluster folded into {decisions_of_the_demo()} decisions" in done.stdout


def test_the_demo_is_the_first_session_of_the_examples() -> None:
    assert commands.DEMO.read_bytes() == (ROOT / "examples" / "first-session.jsonl").read_bytes()


@pytest.fixture
def running_up(clean_environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """`up` that stays, with the environment of another terminal."""
    process = subprocess.Popen(
        [*COMMAND, "up"],
        cwd=ROOT,
        env=clean_environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        servers = ""
        for line in process.stderr:
            if found := re.search(r"127\.0\.0\.1:\d+", line):
                servers = servers or found.group()
            if "Ctrl-C stops everything" in line:
                break
        yield process, clean_environment | {"KAFKA_BOOTSTRAP_SERVERS": servers}
    finally:
        process.kill()
        process.wait()


def test_up_stays_and_shows_decisions_until_it_is_interrupted(
    running_up: tuple[subprocess.Popen[str], dict[str, str]],
) -> None:
    process, elsewhere = running_up
    ingest = [*COMMAND, "ingest", str(commands.DEMO)]
    subprocess.run(ingest, cwd=ROOT, env=elsewhere, check=True, timeout=PROCESS_SECONDS, capture_output=True)
    assert process.stdout is not None
    shown = [process.stdout.readline() for _ in range(decisions_of_the_demo())]
    assert "QuotaChanged" in shown[0]
    assert any(re.search(r"Admitted +research/train-7", line) for line in shown)
    quota = subprocess.run(
        [*COMMAND, "quota", "--cluster-queue", "product"],
        cwd=ROOT,
        env=elsewhere,
        check=True,
        timeout=PROCESS_SECONDS,
        capture_output=True,
    )
    assert [json.loads(line)["used"] for line in quota.stdout.splitlines()] == ["64", "8"]
    process.send_signal(signal.SIGINT)
    assert process.wait(PROCESS_SECONDS) == 0
    assert is_free(int(elsewhere["KAFKA_BOOTSTRAP_SERVERS"].rpartition(":")[2])), "the broker is still there"
