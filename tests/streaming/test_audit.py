"""`quota-ledger audit` of Kafka: whole, from a checkpoint, exported and audited offline; what was forged is found."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests.streaming.commands import quota_ledger
from tests.streaming.log import write_events
from tests.streaming.test_checkpoints import opened, worlds, write
from topics.admin import ensure_topics
from topics.checkpoints import MANIFEST_KEY, newest_checkpoint
from topics.codec import APPLIED_KEY, encode_applied, encode_row_key
from topics.reader import read_to_end
from topics.recovery import read_changelog
from topics.settings import Settings
from topics.topic import Topics

pytestmark = pytest.mark.broker


def audit(settings: Settings, *arguments: object) -> subprocess.CompletedProcess[str]:
    return quota_ledger(settings, "audit", *arguments)


async def folded(settings: Settings, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """A log in two partitions, with checkpoints on the way."""
    await ensure_topics(settings)
    await write_events(settings, [*worlds(), *more])
    for number in range(settings.partitions):
        partition = await opened(settings, number)
        async for records in read_to_end(settings, Topics.of(settings).events.name, number):
            for start in range(0, len(records), 7):
                await partition.apply(records[start : start + 7])
        await partition.close()


@pytest.fixture
def log(settings: Settings) -> Settings:
    used = settings.replaced(partitions=2, checkpoint_events=20)
    asyncio.run(folded(used))
    return used


@pytest.fixture
def embedded_log(embedded_settings: Settings) -> Settings:
    used = embedded_settings.replaced(partitions=2, checkpoint_events=20)
    asyncio.run(folded(used))
    return used


def test_a_log_passes_whole_and_from_its_checkpoints_and_so_does_its_archive(log: Settings, tmp_path: Path) -> None:
    whole = audit(log, "--export", tmp_path / "whole.qla")
    assert (whole.returncode, whole.stderr) == (0, ""), whole.stdout
    assert "3 states of checkpoints met" in whole.stdout
    tail = audit(log, "--from-checkpoint", "--export", tmp_path / "tail.qla", "--processes", "1")
    assert (tail.returncode, tail.stderr) == (0, "")
    offline = log.replaced(bootstrap_servers="127.0.0.1:1")
    for name in ("whole.qla", "tail.qla"):
        again = audit(offline, tmp_path / name, "-o", "json")
        assert again.returncode == 0, again.stdout + again.stderr
        found = msgspec.json.decode(again.stdout)
        assert found["problems"] == []
        assert [partition["partition"] for partition in found["partitions"]] == [0, 1]
        first = [partition["firstOffset"] for partition in found["partitions"]]
        assert max(first) > 0 if name == "tail.qla" else first == [0, 0]


def test_a_forged_decision_a_forged_state_and_a_forged_row_are_found(embedded_log: Settings) -> None:
    log, topics = embedded_log, Topics.of(embedded_log)
    manifests = {}
    for number in range(log.partitions):
        manifests[number] = asyncio.run(newest_checkpoint(log, topics, number))
    number, checkpoint = next((n, c) for n, c in manifests.items() if c is not None and "eu-1" in c.manifest.clusters)
    manifest = checkpoint.manifest
    entry = msgspec.structs.replace(manifest.clusters["eu-1"], state_hash="0" * 64)
    row = encode_row_key(("eu-1", "no-such-queue", "f1", "cpu"))
    asyncio.run(write(log, topics.quota.name, row, b"{}", number))
    found = audit(log)
    assert found.returncode == 1
    assert "no-such-queue" in found.stdout
    asyncio.run(write(log, topics.quota.name, row, None, number))
    assert audit(log).returncode == 0
    foreign = b'{"type":"Admitted","seq":9999,"cluster":"eu-1","cause":{"offset":1}}'
    asyncio.run(write(log, topics.decisions.name, b"eu-1", foreign, number))
    found = audit(log)
    assert found.returncode == 1
    assert "9999" in found.stdout
    only_another = audit(log, "--cluster", "us-2")
    assert only_another.returncode == 0, only_another.stdout
    forged = msgspec.structs.replace(manifest, clusters=manifest.clusters | {"eu-1": entry})
    asyncio.run(write(log, topics.checkpoints.name, MANIFEST_KEY, msgspec.json.encode(forged), number))
    found = audit(log)
    assert found.returncode == 1
    assert "eu-1" in found.stderr + found.stdout


@pytest.mark.parametrize(
    ("moved", "words"),
    [(+1, "events are gone"), (-1, "decisions of events up to offset")],
    ids=["events-cut", "table-cut"],
)
def test_a_topic_that_ends_before_the_others_is_told(embedded_log: Settings, moved: int, words: str) -> None:
    log, topics = embedded_log, Topics.of(embedded_log)
    number = 0
    applied = asyncio.run(read_changelog(log, topics, number)).next_offset
    asyncio.run(write(log, topics.quota.name, APPLIED_KEY, encode_applied(applied + moved), number))
    found = audit(log)
    assert (found.returncode, found.stdout) == (1, "")
    assert words in found.stderr
    assert f"applied up to {applied + moved}" in found.stderr
    assert len(found.stderr.splitlines()) == 1
