"""Values of a source that makes its reader wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from topics.arriving import MAX_HELD, arriving


def collected(values: Iterator[int]) -> list[int]:
    async def run() -> list[int]:
        return [value async for some in arriving(values) for value in some]

    return asyncio.run(run())


def test_all_values_arrive_in_their_order() -> None:
    assert collected(iter(range(3 * MAX_HELD))) == list(range(3 * MAX_HELD))
    assert collected(iter(())) == []


def test_what_is_there_does_not_wait_for_what_is_not() -> None:
    release = threading.Event()

    def values() -> Iterator[int]:
        yield 1
        assert release.wait(30)
        yield 2

    async def run() -> list[int]:
        found: list[int] = []
        async for some in arriving(values()):
            found.extend(some)
            await asyncio.sleep(0.01)  # the event loop runs while the source waits
            release.set()
        return found

    assert asyncio.run(run()) == [1, 2]


def test_a_source_that_fails_fails_its_reader_after_what_it_gave() -> None:
    def values() -> Iterator[int]:
        yield 1
        raise ValueError("the source is broken")

    found: list[int] = []

    async def run() -> None:
        async for some in arriving(values()):
            found.extend(some)

    with pytest.raises(ValueError, match="the source is broken"):
        asyncio.run(run())
    assert found == [1]
