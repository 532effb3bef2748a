"""The streaming commands, through the functions that the command line calls; results as a pipe would see them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streaming.counting_fold import CountingFold
from tests.streaming.log import assert_written_once, committed, event_of, events_of, wait_until_folded
from tests.streaming.workers import ROOT, WorkerProcess
from topics import commands
from topics.settings import Settings

pytestmark = pytest.mark.broker

Output = pytest.CaptureFixture[bytes]


@pytest.fixture
def environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings as a user gives them: by the environment."""
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.fixture
def worker(environment: Settings, tmp_path: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(environment, tmp_path / "worker.log") as process:
        yield process


def written_file(tmp_path: Path, count: int, clusters: list[str]) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(value for _, value in events_of(count, clusters)) + b"\n")
    return path


def lines(captured: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in captured.splitlines()]


def test_events_of_a_file_come_out_as_decisions_and_rows(
    environment: Settings, worker: WorkerProcess, tmp_path: Path, capfdbinary: Output
) -> None:
    clusters = ["eu-1", "us-2", "ap-3"]
    assert commands.ingest(str(written_file(tmp_path, 300, clusters))) == 0
    assert b"300 records into quota.events" in capfdbinary.readouterr().err
    asyncio.run(wait_until_folded(environment, 300))

    assert commands.decisions() == 0
    found = lines(capfdbinary.readouterr().out)
    assert {name: [line["seq"] for line in found if line["cluster"] == name] for name in clusters} == {
        name: list(range(1, 101)) for name in clusters
    }
    assert commands.decisions(cluster="us-2") == 0
    assert [line["seq"] for line in lines(capfdbinary.readouterr().out)] == list(range(1, 101))

    assert commands.quota() == 0
    assert [(row["cluster"], row["events"]) for row in lines(capfdbinary.readouterr().out)] == [
        ("ap-3", 100),
        ("eu-1", 100),
        ("us-2", 100),
    ]
    assert commands.quota(cluster="eu-1", cluster_queue="queue", output="text") == 0
    assert b"queue" in capfdbinary.readouterr().out
    assert commands.quota(cluster_queue="no such queue") == 0
    assert capfdbinary.readouterr().out == b""
    asyncio.run(assert_written_once(environment, CountingFold))


def test_packed_events_are_fewer_records(environment: Settings, tmp_path: Path, capfdbinary: Output) -> None:
    assert commands.ingest(str(written_file(tmp_path, 2_500, ["eu-1"])), pack=True) == 0
    assert b"3 records into quota.events" in capfdbinary.readouterr().err


def test_events_of_standard_input_go_out_as_they_come(environment: Settings, worker: WorkerProcess) -> None:
    command = [sys.executable, "-c", "from projections.cli import main; main()", "ingest", "-"]
    source = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | environment.environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert source.stdin is not None
        assert source.stderr is not None
        for count in (1, 2, 3):
            source.stdin.write(event_of("eu-1", count) + b"\n")
            source.stdin.flush()
            asyncio.run(wait_until_folded(environment, count, seconds=20))
        source.stdin.close()
        assert source.wait(10) == 0
        assert b"3 records into quota.events" in source.stderr.read()
    finally:
        source.kill()
        source.wait()


def test_what_the_ledger_does_not_know_is_counted_and_named(
    environment: Settings, tmp_path: Path, capfdbinary: Output
) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n---\n"
        + "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\n" * 2
    )
    assert commands.ingest(str(manifest)) == 0
    assert b"of kinds that the ledger does not know: v1/Service 2" in capfdbinary.readouterr().err


def test_followed_decisions_appear_as_they_are_made(
    environment: Settings, worker: WorkerProcess, tmp_path: Path
) -> None:
    assert commands.ingest(str(written_file(tmp_path, 10, ["eu-1"]))) == 0
    follower = subprocess.Popen(
        [sys.executable, "-c", "from projections.cli import main; main()", "decisions", "--follow"],
        cwd=ROOT,
        env=os.environ | environment.environment(),
        stdout=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert [json.loads(follower.stdout.readline())["seq"] for _ in range(10)] == list(range(1, 11))
        assert commands.ingest(str(written_file(tmp_path, 5, ["eu-1"]))) == 0
        began = time.monotonic()
        assert [json.loads(follower.stdout.readline())["seq"] for _ in range(5)] == list(range(11, 16))
        assert time.monotonic() - began < 10
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 0
    finally:
        follower.kill()
        follower.wait()


def test_a_job_is_submitted_as_its_workload(environment: Settings, tmp_path: Path, capfdbinary: Output) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: train\n  namespace: team-a\n  labels:\n"
        "    kueue.x-k8s.io/queue-name: queue-a\n    kueue.x-k8s.io/priority-class: high\n"
        "spec:\n  template:\n    spec:\n      containers: [{name: main}]\n"
    )
    priorities = tmp_path / "classes.yaml"
    priorities.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata:\n  name: high\nvalue: 1000\n"
    )
    assert commands.submit(str(manifest)) == 1
    assert b"there is no WorkloadPriorityClass 'high' in the log of its cluster" in capfdbinary.readouterr().err
    assert commands.ingest(str(priorities)) == 0
    assert commands.submit(str(manifest)) == 0
    assert capfdbinary.readouterr().out.startswith(b"team-a/job-train-")
    assert asyncio.run(committed(environment)) == 0


def test_wrong_use_is_told_in_a_sentence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: Output
) -> None:
    assert commands.ingest(str(tmp_path / "missing.jsonl"), settings) == 2
    assert commands.quota(settings) == 1
    monkeypatch.setenv("QUOTA_LEDGER_CHUNK_SIZE", "many")
    assert commands.worker() == 2
    assert capfdbinary.readouterr().err.decode().count("quota-ledger: ") == 3


def test_a_bad_line_is_ingested_and_left_to_the_fold(
    environment: Settings, worker: WorkerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join([event_of("eu-1", 1), b'{"cluster":"eu-1","type":', event_of("eu-1", 2)]))
    assert commands.ingest(str(path), cluster="eu-1") == 0
    asyncio.run(wait_until_folded(environment, 3))
    asyncio.run(assert_written_once(environment, CountingFold))
