"""Checkpoints in the log: a partition opens from the newest one, in its own time, and never on a wrong one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from ledger.checkpoint import hash_of_state, save
from ledger.fold import Fold
from tests.properties.random_worlds import RandomWorld
from tests.streaming.log import write_events
from topics.admin import ensure_topics
from topics.checkpoints import MANIFEST_KEY, UnusableCheckpoint, newest_checkpoint
from topics.folding import ledger_fold
from topics.partition import Partition
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import Topics

pytestmark = pytest.mark.broker

CLUSTERS = ("eu-1", "us-2", "ap-3")


def worlds(first: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """The logs of three clusters, in turn."""
    logs = [RandomWorld(first + seed, cluster=name).run(25).world.records for seed, name in enumerate(CLUSTERS)]
    for number in range(max(map(len, logs))):
        for name, log in zip(CLUSTERS, logs, strict=True):
            if number < len(log):
                yield name.encode(), log[number]


def one_partition(settings: Settings, **more: Any) -> Settings:
    return settings.replaced(partitions=1, checkpoint_events=20, **more)


async def opened(settings: Settings, number: int = 0) -> Partition:
    partition = Partition(number, settings=settings, topics=Topics.of(settings), fold=ledger_fold)
    await partition.open()
    return partition


async def values(settings: Settings, topic: str) -> list[bytes]:
    return [record.value async for records in read_to_end(settings, topic, 0) for record in records]


async def events(settings: Settings) -> list[Any]:
    return [r async for records in read_to_end(settings, Topics.of(settings).events.name, 0) for r in records]


async def write(settings: Settings, topic: str, key: bytes, value: bytes | None, number: int = 0) -> None:
    producer = AIOKafkaProducer(**settings.client())
    await producer.start()
    try:
        await producer.send_and_wait(topic, value, key=key, partition=number)
    finally:
        await producer.stop()


async def prepared(settings: Settings, *, until: int | None = None, chunk: int = 7) -> list[Any]:
    """A log that was folded up to an event, with checkpoints every twenty."""
    await ensure_topics(settings)
    await write_events(settings, worlds())
    records = await events(settings)
    partition = await opened(settings)
    for start in range(0, len(records[:until]), chunk):
        await partition.apply(records[:until][start : start + chunk])
    await partition.close()
    return records


def states(fold: Any) -> dict[str, str]:
    return {cluster: hash_of_state(save(ledger)) for cluster, ledger in sorted(fold.clusters.items())}


def folded(records: list[Any], topic: str) -> tuple[dict[str, str], list[bytes]]:
    fold, decisions = Fold(topic, 0), list[bytes]()
    for record in records:
        outcome = fold.apply(record.value, offset=record.offset, key=record.key, timestamp=record.timestamp * 1000)
        decisions += [decision.value for decision in outcome.decisions]
    fold.drain_rows()
    return states(fold), decisions


def test_a_partition_opens_from_its_checkpoint_and_ends_as_one_that_never_stopped(settings: Settings) -> None:
    used = one_partition(settings)

    async def run() -> None:
        records = await prepared(used, until=60)
        partition = await opened(used)
        found = await newest_checkpoint(used, Topics.of(used), 0)
        assert found is not None
        assert 0 < found.manifest.next_offset <= 60
        assert partition.next_offset == 60
        assert partition.recovered_events == 60 - found.manifest.next_offset
        await partition.apply(records[50:])
        await partition.close()
        expected, decisions = folded(records, Topics.of(used).events.name)
        assert await values(used, Topics.of(used).decisions.name) == decisions
        assert states(partition.fold) == expected
        again = await opened(used)
        assert states(again.fold) == expected
        rebuilt = await opened(used.replaced(rebuild=True))
        assert rebuilt.recovered_events == len(records)
        assert states(rebuilt.fold) == expected
        assert dict(rebuilt.table.items()) == dict(again.table.items())
        await again.close()
        await rebuilt.close()

    asyncio.run(run())


def test_a_large_state_is_cut_into_parts_and_a_smaller_one_takes_the_rest_away(
    embedded_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = one_partition(embedded_settings)
    monkeypatch.setattr("topics.checkpoints.PART_BYTES", 700)

    async def run() -> None:
        records = await prepared(used)
        found = await newest_checkpoint(used, Topics.of(used), 0)
        assert found is not None
        assert max(entry.parts for entry in found.manifest.clusters.values()) > 3
        monkeypatch.setattr("topics.checkpoints.PART_BYTES", 512 * 1024)
        await write_events(used, worlds(first=40))
        partition = await opened(used)
        more = (await events(used))[len(records) :]
        await partition.apply(more)
        await partition.close()
        found = await newest_checkpoint(used, Topics.of(used), 0)
        assert found is not None
        assert {entry.parts for entry in found.manifest.clusters.values()} == {1}
        last: dict[bytes, bytes | None] = {}
        async for batch in read_to_end(used, Topics.of(used).checkpoints.name, 0):
            last |= {record.key: record.value for record in batch}
        assert len([value for value in last.values() if value is not None]) == len(CLUSTERS) + 1

    asyncio.run(run())


def test_a_wrong_place_in_the_decisions_costs_time_and_nothing_else(embedded_settings: Settings) -> None:
    used = one_partition(embedded_settings)

    async def run() -> None:
        await prepared(used, until=60)
        found = await newest_checkpoint(used, Topics.of(used), 0)
        assert found is not None
        wrong = msgspec.structs.replace(found.manifest, decisions_from=10**6)
        await write(used, Topics.of(used).checkpoints.name, MANIFEST_KEY, msgspec.json.encode(wrong))
        partition = await opened(used)
        assert (partition.stopped, partition.next_offset) == ({}, 60)
        assert 0 < partition.recovered_events < 60
        await partition.close()

    asyncio.run(run())


def test_a_damaged_checkpoint_is_told_and_the_log_is_folded_from_its_start(
    embedded_settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    used = one_partition(embedded_settings)

    async def run() -> None:
        records = await prepared(used)
        await write(used, Topics.of(used).checkpoints.name, msgspec.json.encode(("eu-1", 0)), bytes(8) + b"nonsense")
        with caplog.at_level(logging.ERROR):
            partition = await opened(used)
        assert "the checkpoint is damaged" in caplog.text
        assert partition.recovered_events == len(records)
        await partition.close()

    asyncio.run(run())


def test_a_checkpoint_of_another_version_is_refused_with_the_command_that_rebuilds(
    embedded_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = one_partition(embedded_settings)

    async def run() -> None:
        records = await prepared(used)
        with monkeypatch.context() as patch:
            patch.setattr("ledger.checkpoint.RULES_VERSION", 99)
            with pytest.raises(UnusableCheckpoint, match="worker --rebuild"):
                await opened(used)
        await write(used, Topics.of(used).checkpoints.name, MANIFEST_KEY, b'{"version":99}')
        with pytest.raises(UnusableCheckpoint, match="worker --rebuild"):
            await opened(used)
        partition = await opened(used.replaced(rebuild=True))
        assert partition.recovered_events == len(records)
        await partition.close()

    asyncio.run(run())


def test_only_the_cluster_whose_log_differs_stops_and_a_rebuild_brings_it_back(
    embedded_settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference is in the fold here, as after an upgrade that decides otherwise; it is repaired and rebuilt."""
    used = one_partition(embedded_settings)
    topics = Topics.of(used)

    def broken(topic: str, partition: int) -> Any:
        fold = Fold(topic, partition)
        apply = fold.apply

        def otherwise(value: bytes, **more: Any) -> Any:
            outcome = apply(value, **more)
            return msgspec.structs.replace(
                outcome,
                decisions=[
                    d._replace(value=d.value.replace(b'"eu-1"', b'"eu-x"')) if d.cluster == "eu-1" else d
                    for d in outcome.decisions
                ],
            )

        fold.apply = otherwise  # type: ignore[method-assign]
        return fold

    async def run() -> None:
        records = await prepared(used, until=60)
        partition = Partition(0, settings=used.replaced(rebuild=True), topics=topics, fold=broken)
        with caplog.at_level(logging.CRITICAL):
            await partition.open()
        assert partition.stopped == {"eu-1": 60}
        assert "cluster eu-1 stopped" in caplog.text
        assert "quota-ledger worker --rebuild" in caplog.text
        for start in range(60, len(records), 7):
            await partition.apply(records[start : start + 7])
        await partition.close()
        meanwhile = [msgspec.json.decode(value) for value in await values(used, topics.decisions.name)]
        assert all(d["cause"]["offset"] < 60 for d in meanwhile if d["cluster"] == "eu-1")
        assert any(d["cause"]["offset"] >= 60 for d in meanwhile if d["cluster"] == "us-2")
        still = await opened(used)
        assert still.stopped == {"eu-1": 60}
        await still.close()
        mended = await opened(used.replaced(rebuild=True))
        assert mended.stopped == {}
        await mended.close()
        _, decisions = folded(records, topics.events.name)
        found = await values(used, topics.decisions.name)
        assert len(found) == len(decisions)
        for cluster in CLUSTERS:
            seqs = [d["seq"] for d in map(msgspec.json.decode, found) if d["cluster"] == cluster]
            assert seqs == list(range(1, len(seqs) + 1))
        last = await opened(used)
        assert last.stopped == {}
        assert dict(last.table.items()) == dict(mended.table.items())
        await last.close()

    asyncio.run(run())
