"""The partition object without Faust: chunks are invisible in what is written, and what is written is the fold's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.streaming.counting_fold import CountingFold
from tests.streaming.log import (
    Written,
    aborted_records,
    assert_written_once,
    event_of,
    events_of,
    folded,
    write_events,
    written,
)
from topics.admin import ensure_topics
from topics.partition import Partition, PlainTable
from topics.reader import read_to_end
from topics.recovery import LogMismatch
from topics.settings import Settings
from topics.topic import Topics, partition_of

pytestmark = pytest.mark.broker

CLUSTER = "eu-1"


def new_partition(settings: Settings, **more: Any) -> Partition:
    number = partition_of(CLUSTER, settings.partitions)
    return Partition(number, settings=settings, topics=Topics.of(settings), fold=CountingFold, **more)


async def records_of(settings: Settings) -> list[Any]:
    number = partition_of(CLUSTER, settings.partitions)
    return [
        record async for records in read_to_end(settings, Topics.of(settings).events.name, number) for record in records
    ]


async def applied(settings: Settings, records: list[Any], chunk: int) -> Written:
    """What a partition writes when it gets the records in chunks of a size."""
    partition = new_partition(settings)
    await partition.open()
    for start in range(0, len(records), chunk):
        await partition.apply(records[start : start + chunk])
    await partition.close()
    return await written(settings, partition.number)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1_000])
def test_chunks_of_any_size_write_the_same_bytes_as_the_fold_of_a_file(settings: Settings, chunk: int) -> None:
    async def run() -> None:
        await ensure_topics(settings)
        await write_events(
            settings,
            [
                (CLUSTER.encode(), event_of(CLUSTER, number, "DELETED" if number % 9 == 8 else "ADDED"))
                for number in range(130)
            ],
        )
        found = await applied(settings, await records_of(settings), chunk)
        assert found == await folded(settings, partition_of(CLUSTER, settings.partitions), CountingFold)
        assert len(found.decisions) == 130

    asyncio.run(run())


def test_records_that_come_twice_are_applied_once(embedded_settings: Settings) -> None:
    settings = embedded_settings

    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(60, [CLUSTER]))
        records = await records_of(settings)
        partition = new_partition(settings)
        await partition.open()
        for chunk in (records[:20], records[:20], records[10:45], records[40:], records):
            await partition.apply(chunk)
        await partition.close()
        await assert_written_once(settings, CountingFold)

    asyncio.run(run())


def test_a_partition_that_was_never_opened_or_was_given_up_applies_nothing(embedded_settings: Settings) -> None:
    """Its state is not the log's: a decision from it would be a second history."""
    settings = embedded_settings

    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(5, [CLUSTER]))
        records = await records_of(settings)
        unopened = new_partition(settings)
        await unopened.apply(records)
        await unopened.close()
        opening = new_partition(settings)
        task = asyncio.create_task(opening.open())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await opening.apply(records)
        await opening.abandon()
        closed = new_partition(settings)
        await closed.open()
        await closed.close()
        await closed.apply(records)
        assert await written(settings, closed.number) == Written()

    asyncio.run(run())


def test_a_chunk_that_skips_records_of_the_log_is_refused(embedded_settings: Settings) -> None:
    settings = embedded_settings

    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(20, [CLUSTER]))
        records = await records_of(settings)
        partition = new_partition(settings)
        await partition.open()
        await partition.apply(records[:5])
        with pytest.raises(LogMismatch, match="offset 7 arrived, but 5 was not applied"):
            await partition.apply(records[7:])
        await partition.close()

    asyncio.run(run())


def test_a_transaction_that_fails_leaves_nothing_and_is_reported(embedded_settings: Settings) -> None:
    settings = embedded_settings
    problems: list[BaseException] = []

    async def break_off() -> None:
        raise RuntimeError("power cut")

    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, [*events_of(10, [CLUSTER]), (CLUSTER.encode(), b"poison")])
        records = await records_of(settings)
        partition = new_partition(settings, inside_transaction=break_off, on_failure=problems.append)
        await partition.open()
        await partition.apply(records)
        with pytest.raises(RuntimeError, match="power cut"):
            await partition.settle()
        assert [str(problem) for problem in problems] == ["power cut"]
        await partition.abandon()
        next_owner = new_partition(settings)
        await next_owner.open()
        assert await written(settings, next_owner.number) == Written()
        assert await aborted_records(settings) == 10
        await next_owner.apply(records)
        await next_owner.close()
        await assert_written_once(settings, CountingFold)

    asyncio.run(run())


def test_decisions_larger_than_a_request_are_split_over_batches(embedded_settings: Settings) -> None:
    settings = embedded_settings

    @dataclass
    class Talkative(CountingFold):
        """Decisions of 40 kB."""

        def apply(self, value: bytes, *, offset: int, key: bytes | None = None, timestamp: Any | None = None) -> Any:
            outcome = super().apply(value, offset=offset, key=key, timestamp=timestamp)
            return outcome._replace(
                decisions=[
                    each._replace(value=each.value[:-1] + b',"text":"' + b"t" * 40_000 + b'"}')
                    for each in outcome.decisions
                ]
            )

    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(200, [CLUSTER]))
        number = partition_of(CLUSTER, settings.partitions)
        partition = Partition(number, settings=settings, topics=Topics.of(settings), fold=Talkative)
        await partition.open()
        await partition.apply(await records_of(settings))
        await partition.close()
        await assert_written_once(settings, Talkative)

    asyncio.run(run())


def test_opening_a_partition_brings_back_its_table_without_writing_it_again(embedded_settings: Settings) -> None:
    settings = embedded_settings

    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(50, [CLUSTER]))
        first = PlainTable()
        partition = new_partition(settings, table=first)
        await partition.open()
        await partition.apply(await records_of(settings))
        await partition.close()
        second = PlainTable()
        again = new_partition(settings, table=second)
        await again.open()
        assert dict(second) == dict(first)
        assert second.take_changes() == []
        assert again.next_offset == 50
        await again.close()

    asyncio.run(run())
