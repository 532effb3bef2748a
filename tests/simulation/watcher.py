"""A flaky watcher: it repeats, reorders across objects, disconnects, lists again, and packs what waits.

Of one object the versions come in their order, as every watch guarantees; nothing else is guaranteed.
"""

from __future__ import annotations

from random import Random

from tests import builders as build
from tests.builders import Event
from tests.simulation.cluster import Cluster


class Watcher:
    """Turns the writes of a cluster into records of `quota.events`."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._sent: list[Event] = []

    def records(self) -> list[bytes]:
        """What arrives next; sometimes nothing, sometimes a whole list."""
        what = self._random.random()
        if what < 0.02:
            return self._list_again()
        if what < 0.06:
            return [self._tick()]
        if what < 0.10 and self._sent:
            return [build.encode(self._random.choice(self._sent))]
        if what < 0.11:
            return [self._random.choice((b"{", b"\xff", b'{"cluster":7}', b'{"type":"ADDED","object":{"kind":"X"}}'))]
        events = [self._next() for _ in range(self._random.choice((1, 1, 1, 2, 5)))]
        found = [event for event in events if event is not None]
        if len(found) > 1 and self._random.random() < 0.4:
            return [build.encode(build.batch(*found, at=self._cluster.now, cluster=self._cluster.name))]
        return [build.encode(event) for event in found]

    def _tick(self) -> bytes:
        return build.encode(build.event("TICK", at=self._cluster.now, cluster=self._cluster.name))

    def _next(self) -> Event | None:
        waiting = sorted(key for key, events in self._cluster.watch.items() if events)
        if not waiting:
            return None
        event = self._cluster.watch[self._random.choice(waiting)].popleft()
        self._sent.append(event)
        return event

    def _list_again(self) -> list[bytes]:
        """Disconnected: what was not watched is lost, and the list says what is there now."""
        cluster = self._cluster
        cluster.watch.clear()
        there = [target for _, target in sorted(cluster.objects.items())]
        self._random.shuffle(there)
        listed = [build.event("ADDED", target, at=cluster.now, cluster=cluster.name) for target in there]
        begin = build.event("SYNC_BEGIN", at=cluster.now, cluster=cluster.name)
        end = build.event("SYNC_END", at=cluster.now, cluster=cluster.name)
        if self._random.random() < 0.5:
            return [build.encode(begin), *map(build.encode, listed), build.encode(end)]
        return [build.encode(build.batch(begin, *listed, end, at=cluster.now, cluster=cluster.name))]

    def everything(self) -> list[bytes]:
        """All that waits, at the end."""
        found = []
        while (event := self._next()) is not None:
            found.append(build.encode(event))
        return found
