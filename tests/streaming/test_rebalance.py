"""The group rebalances while a checkpoint is half written: it is whole afterwards, or it was never there."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ledger.checkpoint import hash_of_state, save
from tests.streaming.log import aborted_records, assert_written_once, nothing_hangs, wait_until_committed, write_events
from tests.streaming.test_checkpoints import worlds
from tests.streaming.workers import WorkerProcess
from topics.admin import ensure_topics
from topics.checkpoints import newest_checkpoint
from topics.folding import ledger_fold
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import Topics

pytestmark = [pytest.mark.broker, pytest.mark.slow]

#: What the client of a member says whose group waits for it to join again.
REBALANCES = "because it is rebalancing"


@pytest.fixture
def used(settings: Settings) -> Settings:
    """Two partitions, a checkpoint every twenty events, members that come and go under no name."""
    return settings.replaced(
        partitions=2, checkpoint_events=20, chunk_size=7, instance_id=None, session_timeout_seconds=6
    )


def half_way(settings: Settings, folder: Path, log: str) -> WorkerProcess:
    return WorkerProcess(settings, folder / log, module=["tests.streaming.checkpoint_process", str(folder)])


def write(settings: Settings) -> int:
    records = list(worlds())

    async def run() -> None:
        await ensure_topics(settings)
        # Times far from those in the events: a recording, into whose log no worker writes ticks.
        await write_events(settings, records, timestamp=1)

    asyncio.run(run())
    return len(records)


def wait_for(path: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} does not come"
        time.sleep(0.02)


def pid_in(path: Path) -> int:
    return int(path.read_text())


async def verify(settings: Settings) -> None:
    """Everything once, no transaction open, and each newest checkpoint is the state of the fold at its place."""
    await assert_written_once(settings, ledger_fold)
    await nothing_hangs(settings)
    topics = Topics.of(settings)
    parts = 0
    for partition in range(settings.partitions):
        checkpoint = await newest_checkpoint(settings, topics, partition)
        assert checkpoint is not None
        fold = ledger_fold(topics.events.name, partition)
        async for records in read_to_end(settings, topics.events.name, partition, stop=checkpoint.manifest.next_offset):
            for record in records:
                fold.apply(record.value, offset=record.offset, key=record.key, timestamp=record.timestamp * 1000)
        fold.drain_rows()
        expected = {name: hash_of_state(save(ledger)) for name, ledger in fold.clusters.items()}
        assert {name: entry.state_hash for name, entry in checkpoint.manifest.clusters.items()} == expected
        parts += sum(entry.parts for entry in checkpoint.manifest.clusters.values())
    assert parts > 2 * settings.partitions, "the checkpoints are of one part: the test proves little"


def test_a_second_worker_joins_between_two_parts_of_a_checkpoint(used: Settings, tmp_path: Path) -> None:
    count = write(used)
    with half_way(used, tmp_path, "first.log") as first:
        wait_for(tmp_path / "half-way")
        with half_way(used, tmp_path, "second.log") as second:
            first.wait_for_text(REBALANCES)
            (tmp_path / "go-on").touch()
            second.wait_for_text("folded")
            asyncio.run(wait_until_committed(used, count))
            assert (first.terminate(), second.terminate()) == (0, 0)
    assert asyncio.run(aborted_records(used)) == 0
    asyncio.run(verify(used))


@pytest.mark.parametrize("who", ["the one that writes it", "the other one"])
def test_a_worker_leaves_between_two_parts_of_a_checkpoint(used: Settings, tmp_path: Path, who: str) -> None:
    asyncio.run(ensure_topics(used))
    with half_way(used, tmp_path, "first.log") as first, half_way(used, tmp_path, "second.log") as second:
        first.wait_for_text("folded")
        second.wait_for_text("folded")
        count = write(used)
        wait_for(tmp_path / "half-way")
        writes, other = (first, second) if pid_in(tmp_path / "half-way") == first.pid else (second, first)
        leaves, stays = (writes, other) if who == "the one that writes it" else (other, writes)
        told = stays.text().count(REBALANCES)
        leaves.ask_to_stop()
        if leaves is writes:
            leaves.wait_for_text("stopping")
        else:
            while stays.text().count(REBALANCES) == told:
                assert stays.alive
                time.sleep(0.02)
        (tmp_path / "go-on").touch()
        assert leaves.wait() == 0
        asyncio.run(wait_until_committed(used, count))
        assert stays.terminate() == 0
    assert asyncio.run(aborted_records(used)) == 0
    asyncio.run(verify(used))


def test_a_worker_that_freezes_between_two_parts_of_a_checkpoint_is_fenced(used: Settings, tmp_path: Path) -> None:
    """Its session ends, the other one has the partition, and what was half written was never there."""
    count = write(used)
    with half_way(used, tmp_path, "first.log") as first:
        wait_for(tmp_path / "half-way")
        first.freeze()
        (tmp_path / "go-on").touch()
        with half_way(used, tmp_path, "second.log") as second:
            asyncio.run(wait_until_committed(used, count))
            first.thaw()
            assert first.wait() == 3
            (line,) = [line for line in first.text().splitlines() if "CRITICAL" in line]
            assert "another worker has this partition by now" in line
            assert "Traceback" not in first.text()
            assert second.terminate() == 0
    assert asyncio.run(aborted_records(used)) > 0
    asyncio.run(verify(used))
