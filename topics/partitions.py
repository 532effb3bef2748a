"""The partitions that this process has now: opened and closed by rebalances, driven by the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from topics.partition import Partition
from topics.reader import Record

logger = logging.getLogger("topics.partitions")


class Partitions:
    """Owned partitions by number.

    Opening a partition folds its log and may take longer than a session: it runs as a task, so that the group's
    heartbeats go on, and records wait for it. A rebalance that takes a partition away while it opens cancels that.
    """

    def __init__(self, new_partition: Callable[[int], Partition], on_failure: Callable[[BaseException], None]) -> None:
        self._new_partition = new_partition
        self._on_failure = on_failure
        self._owned: dict[int, Partition] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._applying: set[asyncio.Task[None]] = set()
        self.chunk_done = asyncio.Event()

    def opened(self) -> list[Partition]:
        """Those that know all that was applied before."""
        return [partition for partition in self._owned.values() if partition.is_open]

    async def reassign(self, numbers: set[int]) -> None:
        """Own these partitions and no others. A partition that stays keeps its state: its producer guards it."""
        for number in sorted(self._owned.keys() - numbers):
            await self._close(number)
        for number in sorted(numbers - self._owned.keys()):
            partition = self._owned[number] = self._new_partition(number)
            self._opening[number] = asyncio.create_task(self._open(partition))
        logger.info("partitions here: %s", ", ".join(map(str, sorted(numbers))) or "none")

    async def apply(self, number: int, records: Sequence[Record]) -> None:
        """Fold and commit a chunk. The work outlives a cancelled caller: half a chunk would be a broken state."""
        task = asyncio.create_task(self._apply(number, records))
        self._applying.add(task)
        task.add_done_callback(self._applying.discard)
        await asyncio.shield(task)

    async def settle(self, numbers: set[int]) -> None:
        """Commit what is under way in these partitions, before others may have them."""
        for number in sorted(numbers & self._owned.keys()):
            opening = self._opening.get(number)
            if opening is None or opening.done():
                await self._owned[number].settle()

    async def close(self) -> None:
        await self.reassign(set())

    async def _open(self, partition: Partition) -> None:
        try:
            await partition.open()
        except asyncio.CancelledError:
            raise
        except BaseException as problem:
            self._on_failure(problem)
            raise

    async def _apply(self, number: int, records: Sequence[Record]) -> None:
        partition = self._owned.get(number)
        try:
            if partition is not None:
                opening = self._opening.get(number)
                if opening is not None:
                    with suppress(asyncio.CancelledError):
                        await asyncio.shield(opening)
                await partition.apply(records)
        except BaseException as problem:
            self._on_failure(problem)
            raise
        finally:
            self.chunk_done.set()

    async def _close(self, number: int) -> None:
        partition = self._owned.pop(number)
        opening = self._opening.pop(number)
        if opening.done():
            await partition.close()
            return
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        await partition.abandon()
