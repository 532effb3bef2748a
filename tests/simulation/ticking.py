"""The worker's tick producer beside a simulated cluster: it writes time into the log when something is due."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ledger.fold import Fold
from tests.builders import START
from tests.simulation.cluster import Cluster
from topics.ticks import Clocked, DueTicks

MICROSECONDS = 1_000_000
BEGAN = int(START.timestamp()) * MICROSECONDS


class Clock:
    """One cluster as the producer sees the partition that folds it. Now and then the producer sleeps."""

    number = 0
    opened_at = 0

    def __init__(self, cluster: Cluster, fold: Fold, random: Random) -> None:
        self._cluster = cluster
        self._fold = fold
        self._random = random
        self._due = DueTicks()
        self._asleep_until = 0.0

    @property
    def live(self) -> Mapping[str, bool]:
        return {self._cluster.name: True}

    @property
    def clusters(self) -> Mapping[str, Clocked]:
        name = self._cluster.name
        return {name: self._fold.clusters[name]} if name in self._fold.clusters else {}

    def ticks(self) -> list[bytes]:
        """What it writes now."""
        now = self._cluster.now
        if now < self._asleep_until:
            return []
        if self._random.random() < 0.05:
            self._asleep_until = now + self._random.choice((5, 100))
        clock = BEGAN + int(now * MICROSECONDS)
        return [tick.value for tick in self._due.of(self, clock)]
