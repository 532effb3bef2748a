"""Writes time into the log when a timer is due and no event carries it (design 5).

The fold has no clock: a backoff ends, a timeout strikes when an event's time passes it. Whoever owns a partition looks
once a moment at the earliest deadline of each of its clusters, and writes a TICK where the clock is past it. One owner,
one tick; a second one, from an owner that was just replaced, changes nothing. Replay needs none of this.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec
from aiokafka import AIOKafkaProducer

from ledger.timestamps import Timestamp, format_timestamp
from topics.settings import Settings
from topics.topic import Topics

logger = logging.getLogger("topics.ticks")

SECOND = 1_000_000
LOOK_SECONDS = 0.25
GRACE = SECOND // 4
"""How long after a deadline an event of the cluster itself may still carry the time."""
REPEAT = 10 * SECOND
"""After that a tick that was not folded is written again."""
LIVE = 300 * SECOND
"""A cluster whose records tell times further from when they were written is a recording: its timers are history, and
belong to its own events."""
DOWNTIME = 3600 * SECOND
"""Of clusters that no record was folded of since the partition was opened: deadlines older than this are history."""


class Clocked(Protocol):
    """What of a ledger is looked at."""

    @property
    def now(self) -> int: ...
    def next_deadline(self) -> int | None: ...


class Tick(NamedTuple):
    partition: int
    cluster: str
    at: int

    @property
    def value(self) -> bytes:
        return msgspec.json.encode(
            {"cluster": self.cluster, "at": format_timestamp(Timestamp(self.at)), "type": "TICK"}
        )


class Owned(Protocol):
    """A partition that is folded here and knows all that was applied before."""

    @property
    def number(self) -> int: ...
    @property
    def live(self) -> Mapping[str, bool]: ...
    @property
    def opened_at(self) -> int: ...
    @property
    def clusters(self) -> Mapping[str, Clocked]: ...


class DueTicks:
    """Which clusters need a tick now; remembers what it has asked for."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, str], tuple[int, int]] = {}

    def of(self, partition: Owned, clock: int) -> list[Tick]:
        ticks = []
        for cluster, ledger in sorted(partition.clusters.items()):
            deadline = ledger.next_deadline()
            live = partition.live.get(cluster, deadline is not None and deadline > partition.opened_at - DOWNTIME)
            if deadline is None or deadline + GRACE > clock or not live:
                self._asked.pop((partition.number, cluster), None)
                continue
            asked = self._asked.get((partition.number, cluster))
            if asked is not None and asked[0] == deadline and clock < asked[1] + REPEAT:
                continue
            self._asked[(partition.number, cluster)] = (deadline, clock)
            ticks.append(Tick(partition.number, cluster, clock))
        return ticks


class TickProducer:
    """Runs beside the agent for as long as the worker does."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        owned: Callable[[], Iterable[Owned]],
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._owned = owned
        self._clock = clock
        self._due = DueTicks()
        self._producer: AIOKafkaProducer | None = None
        self.written = 0

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self.look()
        finally:
            if self._producer is not None:
                await self._producer.stop()

    async def look(self) -> None:
        """Write the ticks that are due. A broker that does not answer is asked again: the tick is still due then."""
        for partition in list(self._owned()):
            for tick in self._due.of(partition, self._clock()):
                try:
                    await self._write(tick)
                except Exception as problem:
                    logger.warning("no tick for %s: %s: %s", tick.cluster, type(problem).__name__, problem)

    async def _write(self, tick: Tick) -> None:
        if self._producer is None:
            producer = AIOKafkaProducer(**self._settings.client(), enable_idempotence=True, acks="all")
            await producer.start()
            self._producer = producer
        await self._producer.send_and_wait(
            self._topics.events.name, tick.value, key=tick.cluster.encode(), partition=tick.partition
        )
        self.written += 1
        logger.debug("tick for %s at %s", tick.cluster, tick.at)
