"""What time alone will do: one deadline for each workload and LocalQueue that has one (design 5, admission 7).

A heap with lazy removal. Setting, moving and dropping a deadline cost a logarithm, waiting costs nothing.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from ledger.timestamps import Timestamp

WORKLOAD: Final = "Workload"
LOCAL_QUEUE: Final = "LocalQueue"
RETRY: Final = "Retry"

_SLACK: Final = 64


class TimerKey(NamedTuple):
    """Whose deadline it is. Deadlines of one instant come in this order: by uid first."""

    uid: str
    kind: str
    namespace: str
    name: str


class Timers:
    """Deadlines in order of (deadline, uid)."""

    __slots__ = ("_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: TimerKey, deadline: int | None) -> None:
        """The deadline from now on, None for no deadline."""
        if deadline is None:
            if self._deadlines.pop(key, None) is not None:
                self._drop_stale()
        elif self._deadlines.get(key) != deadline:
            self._deadlines[key] = deadline
            heappush(self._heap, (deadline, key))
            if len(self._heap) > 2 * len(self._deadlines) + _SLACK:
                self._heap = [(at, of) for of, at in self._deadlines.items()]
                heapify(self._heap)
            self._drop_stale()

    def set_once(self, key: TimerKey, deadline: int) -> None:
        """The deadline, unless there is one already."""
        if key not in self._deadlines:
            self.set(key, deadline)

    def next_deadline(self) -> Timestamp | None:
        """The earliest deadline there is. Asking changes nothing."""
        return Timestamp(self._heap[0][0]) if self._heap else None

    def pop_due(self, now: Timestamp) -> TimerKey | None:
        """The first whose deadline has come; its deadline is gone with it."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        _, key = heappop(self._heap)
        del self._deadlines[key]
        self._drop_stale()
        return key

    def _drop_stale(self) -> None:
        """The first of the heap is always one that counts."""
        heap = self._heap
        while heap and self._deadlines.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
