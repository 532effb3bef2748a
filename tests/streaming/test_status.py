"""The status of a queue from the decisions in the log."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import cluster_queue, encode, event, flavor, group, local_queue, namespace, quota, workload
from tests.streaming.log import wait_until_folded, write_events
from tests.streaming.workers import ROOT, WorkerProcess
from topics.admin import ensure_topics
from topics.settings import Settings

pytestmark = pytest.mark.broker

GPU = "nvidia.com/gpu"


def status(settings: Settings, target: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from projections.cli import main; main()", "status", target, "-o", "json"]
    environment = os.environ | settings.environment()
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False)


def test_the_status_of_a_queue_is_read_from_the_log(embedded_settings: Settings, tmp_path: Path) -> None:
    settings = embedded_settings
    objects = [
        namespace(),
        flavor("f1"),
        cluster_queue("cq", group(f1=[quota(GPU, 4)])),
        local_queue("cq"),
        workload("w1", "cq", requests={GPU: 3}),
        workload("w2", "cq", requests={GPU: 3}),
    ]

    async def write() -> None:
        await ensure_topics(settings)
        await write_events(settings, [(b"test", encode(event("ADDED", each, at=1))) for each in objects])
        await wait_until_folded(settings, len(objects))

    with WorkerProcess(settings, tmp_path / "worker.log", fold="ledger") as worker:
        asyncio.run(write())
        assert worker.terminate() == 0
    done = status(settings, "ClusterQueue/cq")
    assert done.returncode == 0, done.stderr
    rows = [{"name": "f1", "resources": [{"name": GPU, "total": "3", "borrowed": "0"}]}]
    found = json.loads(done.stdout)["status"]
    (active,) = found.pop("conditions")
    assert (active["type"], active["status"], active["reason"]) == ("Active", "True", "Ready")
    assert found == {
        "pendingWorkloads": 1,
        "reservingWorkloads": 1,
        "admittedWorkloads": 1,
        "flavorsReservation": rows,
        "flavorsUsage": rows,
    }
    assert status(settings, "Workload/team/none").returncode == 1
