"""The waiting workloads of a ClusterQueue under admission fair sharing (preemption 7.3).

The heap order begins with the usage of the LocalQueue, read when a head is asked for (N6), so there is one heap for
each LocalQueue, and the head is the best of their heads.
"""

from __future__ import annotations

from heapq import heappop, heappush

from ledger.consumption import Consumption, LocalQueueKey
from ledger.pending import SLACK, PendingQueue, ShapeClass, order_key
from ledger.sorted_keys import Key, SortedKeys
from ledger.workloads import WorkloadState


class FairPendingQueue(PendingQueue):
    """R7.17: smaller usage first, then the sticky preemptor, then the usual order."""

    __slots__ = ("_consumption", "_heads_of", "_order_of")

    def __init__(self, consumption: Consumption) -> None:
        super().__init__()
        self._consumption = consumption
        self._heads_of: dict[LocalQueueKey, list[Key]] = {}
        self._order_of: dict[LocalQueueKey, SortedKeys] = {}

    @property
    def is_idle(self) -> bool:
        return not self._heads_of

    def position(self, state: WorkloadState) -> int:
        own = self._consumption.usage(state.local_queue)
        key = state.heap_key or order_key(state)
        before = 0
        for local_queue, order in self._order_of.items():
            usage = self._consumption.usage(local_queue)
            if usage < own:
                before += len(order)
            elif usage == own:
                before += order.rank(key)
        return before

    def activate(self, state: WorkloadState) -> None:
        super().activate(state)
        self._offer(state)

    def peek(self) -> WorkloadState | None:
        return self._first_active()

    def _wake(self, shape: object, group: ShapeClass, unmatched: set[str]) -> int:
        before = group.parked
        moved = super()._wake(shape, group, unmatched)
        staying = set(group.parked)
        for key in before:
            if key not in staying:
                self._offer(self._by_uid[key[2]])
        return moved

    def _offer(self, state: WorkloadState) -> None:
        """What piles up behind a head that stays is thrown away once it is most of the heap."""
        assert state.heap_key is not None
        local_queue = state.local_queue
        heads = self._heads_of.setdefault(local_queue, [])
        heappush(heads, state.heap_key)
        if len(heads) > 2 * len(self._order_of[local_queue]) + SLACK:
            self._heads_of[local_queue] = [
                key for key in self._order_of[local_queue] if self.is_active(self._by_uid[key[2]])
            ]

    def _first_active(self) -> WorkloadState | None:
        sticky = self._sticky()
        best: tuple[float, bool, Key] | None = None
        for local_queue in list(self._heads_of):
            first = self._first_of(local_queue)
            if first is None:
                continue
            if sticky is not None and sticky.local_queue == local_queue and sticky.heap_key is not None:
                first = sticky.heap_key
            usage = self._consumption.usage(local_queue)
            candidate = (usage, sticky is None or sticky.heap_key != first, first)
            if best is None or candidate < best:
                best = candidate
        return None if best is None else self._by_uid[best[2][2]]

    def _first_of(self, local_queue: LocalQueueKey) -> Key | None:
        heads = self._heads_of[local_queue]
        while heads:
            state = self._by_uid.get(heads[0][2])
            if (
                state is not None
                and state.heap_key == heads[0]
                and state.local_queue == local_queue
                and self.is_active(state)
            ):
                return heads[0]
            heappop(heads)
        del self._heads_of[local_queue]
        return None

    def _key_of(self, state: WorkloadState) -> Key:
        is_new = state.heap_key is None
        key = super()._key_of(state)
        if is_new:
            self._order_of.setdefault(state.local_queue, SortedKeys()).add(key)
        return key

    def _forget_order(self, state: WorkloadState) -> None:
        key = state.heap_key
        if key is not None:
            order = self._order_of[state.local_queue]
            order.remove(key)
            if not order:
                del self._order_of[state.local_queue]
        super()._forget_order(state)
