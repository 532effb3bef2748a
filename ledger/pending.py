"""The workloads that wait in one ClusterQueue (admission section 4).

A waiting workload is in exactly one place: *active* (offered in heap order), *parked* (inadmissible until something
raises a retry), *held* (parked, and no retry moves it: an unexpired backoff, a namespace that does not match), or *in
flight* (the head of the running cycle). Workloads of one scheduling shape (4.5.5) share a `ShapeClass`, so that parking
a shape, and waking it, costs the same for one workload as for ten thousand.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ledger.sorted_keys import Key, SortedKeys
from ledger.workloads import Verdict, WorkloadState

GROUPED: Final = "grouped"
HELD: Final = "held"
IN_FLIGHT: Final = "in flight"


class Preemptor(NamedTuple):
    """4.3.5 / R5.23: the workload that last waited for its victims in this ClusterQueue."""

    uid: str
    generation: int
    sticky: bool


class ShapeClass:
    """Waiting workloads of one scheduling shape, in heap order. `bulk` is set while the shape is parked as a whole.

    `told` is the reason that every member was last told, but for those in `fresh`: a verdict that only repeats itself
    is then not told member by member.
    """

    __slots__ = ("active", "bulk", "fresh", "parked", "told")

    def __init__(self) -> None:
        self.active: list[Key] = []
        self.parked: list[Key] = []
        self.bulk: Verdict | None = None
        self.told: str | None = None
        self.fresh: dict[str, None] = {}


def order_key(state: WorkloadState) -> Key:
    """4.3.3 and 4.3.4: higher priority, earlier ordering time, smaller uid."""
    return (-state.priority, state.order_time, state.uid)


class PendingQueue:
    """The waiting workloads of one ClusterQueue, by place and in order."""

    __slots__ = (
        "_by_uid",
        "_bulk",
        "_classes",
        "_heads",
        "_held",
        "_namespaces",
        "_order",
        "_parked",
        "preemptor",
        "version",
    )

    def __init__(self) -> None:
        self._by_uid: dict[str, WorkloadState] = {}
        self._classes: dict[object, ShapeClass] = {}
        self._parked: dict[object, ShapeClass] = {}
        self._bulk: dict[object, ShapeClass] = {}
        self._held: dict[str, WorkloadState] = {}
        self._heads: list[Key] = []
        self._order = SortedKeys()
        self._namespaces: dict[str, int] = {}
        self.preemptor: Preemptor | None = None
        self.version = 0

    def __len__(self) -> int:
        return len(self._by_uid)

    def __contains__(self, state: WorkloadState) -> bool:
        return self._by_uid.get(state.uid) is state

    def __iter__(self) -> Iterator[WorkloadState]:
        """All waiting workloads in heap order, wherever they are."""
        return (self._by_uid[key[2]] for key in self._order)

    @property
    def namespaces(self) -> list[str]:
        return sorted(self._namespaces)

    def position(self, state: WorkloadState) -> int:
        """How many waiting workloads stand before this one, parked ones included (objects 7.1)."""
        return self._order.rank(state.heap_key or order_key(state))

    def bulk_verdict(self, shape: object) -> Verdict | None:
        """4.5.5: why every workload of this shape is parked, if it is."""
        parked = self._bulk.get(shape)
        return parked.bulk if parked is not None else None

    def activate(self, state: WorkloadState) -> None:
        """Into the heap. A head that comes back leaves the queue as it was."""
        self.version += state.place != IN_FLIGHT
        self._take_in(state)
        self._leave_place(state)
        group = self._class_of(state)
        key = self._key_of(state)
        insort(group.active, key)
        state.place = GROUPED
        if group.active[0] == key:
            self._offer_first(key)

    def park(self, state: WorkloadState) -> None:
        """Into the inadmissible list, to be moved by a retry."""
        self.version += 1
        self._take_in(state)
        self._leave_place(state)
        group = self._class_of(state)
        insort(group.parked, self._key_of(state))
        self._parked[state.shape] = group
        state.place = GROUPED

    def hold(self, state: WorkloadState) -> None:
        """Into the inadmissible list, and no retry moves it: whatever holds it must let it go."""
        self.version += 1
        self._take_in(state)
        self._leave_place(state)
        self._key_of(state)
        self._held[state.uid] = state
        state.place = HELD

    def park_shape(self, shape: object, verdict: Verdict) -> list[WorkloadState]:
        """4.5.5: every active workload of the shape goes to the inadmissible list, and later arrivals with it.

        Returns the members to whom the verdict's reason is news, in order.
        """
        group = self._classes.get(shape)
        if group is None:
            group = self._classes[shape] = ShapeClass()
        group.bulk = verdict
        self._bulk[shape] = group
        if group.active:
            self.version += 1
            group.parked = sorted(group.parked + group.active) if group.parked else group.active
            group.active = []
            self._parked[shape] = group
        if group.told != verdict.reason:
            group.told = verdict.reason
            group.fresh.clear()
            return [self._by_uid[key[2]] for key in group.parked]
        news = sorted(self._by_uid[uid].heap_key or _NO_KEY for uid in group.fresh)
        group.fresh.clear()
        return [self._by_uid[key[2]] for key in news]

    def set_apart(self, state: WorkloadState) -> None:
        """It was told something else than the others of its shape: what they are told next is news to it."""
        if state.place == GROUPED:
            self._classes[state.shape].fresh[state.uid] = None

    def is_active(self, state: WorkloadState) -> bool:
        """Whether the workload is in the heap."""
        if state.place != GROUPED or state.heap_key is None:
            return False
        active = self._classes[state.shape].active
        index = bisect_left(active, state.heap_key)
        return index < len(active) and active[index] == state.heap_key

    def is_inadmissible(self, state: WorkloadState) -> bool:
        """Whether the workload is in the inadmissible list."""
        return state.place == HELD or (state.place == GROUPED and not self.is_active(state))

    def remove(self, state: WorkloadState) -> None:
        """Out of the queue altogether; the preemptor mark goes with its workload (4.3.5)."""
        if self._by_uid.get(state.uid) is not state:
            return
        self.version += 1
        self._leave_place(state)
        self._forget_order(state)
        del self._by_uid[state.uid]
        state.place = None
        left = self._namespaces[state.namespace] - 1
        if left:
            self._namespaces[state.namespace] = left
        else:
            del self._namespaces[state.namespace]
        if self.preemptor is not None and self.preemptor.uid == state.uid:
            self.preemptor = None

    def lift(self, state: WorkloadState) -> None:
        """Out of its place and order, still in the queue: its key or shape is about to change, then it is put again."""
        self._leave_place(state)
        self._forget_order(state)

    @property
    def is_idle(self) -> bool:
        """Whether it is plain that nobody is offered. Cohorts have many queues, and few of them have heads."""
        return not self._heads

    @property
    def has_active(self) -> bool:
        return self._first_active() is not None

    def peek(self) -> WorkloadState | None:
        return self._sticky() or self._first_active()

    def pop(self) -> WorkloadState | None:
        """4.4.1: the head goes in flight. The sticky preemptor comes before everything else (4.3.2)."""
        state = self.peek()
        if state is not None:
            self._leave_place(state)
            state.place = IN_FLIGHT
        return state

    def take(self, state: WorkloadState) -> bool:
        """This one goes in flight, if it is offered at all."""
        if self._by_uid.get(state.uid) is not state or not self.is_active(state):
            return False
        self._leave_place(state)
        state.place = IN_FLIGHT
        return True

    def retry(self, matches: Callable[[str], bool]) -> int:
        """4.7.1: move what is parked, its namespace matching, to the heap; returns how many. What is held stays: the
        end of its backoff moves it, so a million that wait cost nothing here (4.6.2)."""
        if not self._bulk and not self._parked:
            return 0
        for shape, group in self._bulk.items():
            group.bulk = None
            if not group.active and not group.parked:
                self._classes.pop(shape, None)
        self._bulk.clear()
        unmatched = {namespace for namespace in self._namespaces if not matches(namespace)}
        moved = 0
        for shape, group in list(self._parked.items()):
            moved += self._wake(shape, group, unmatched)
        self.version += moved > 0
        return moved

    def inadmissible(self) -> list[WorkloadState]:
        """The inadmissible list in heap order."""
        return [state for state in self if self.is_inadmissible(state)]

    def held(self) -> list[WorkloadState]:
        """Those that no retry moved, in heap order."""
        return sorted(self._held.values(), key=lambda state: state.heap_key or _NO_KEY)

    def _wake(self, shape: object, group: ShapeClass, unmatched: set[str]) -> int:
        waking, staying = group.parked, list[Key]()
        if unmatched:
            waking = [key for key in group.parked if self._by_uid[key[2]].namespace not in unmatched]
            staying = [key for key in group.parked if self._by_uid[key[2]].namespace in unmatched]
        group.parked = staying
        if not staying:
            del self._parked[shape]
        if waking:
            group.active = sorted(group.active + waking) if group.active else waking
            self._offer_first(group.active[0])
        return len(waking)

    def _offer_first(self, key: Key) -> None:
        """The first of a class. Those that are so no longer are found out when they come up; what piles up behind a
        head that stays is thrown away once it is most of the heap."""
        heappush(self._heads, key)
        if len(self._heads) > 2 * len(self._by_uid) + SLACK:
            self._heads = sorted(group.active[0] for group in self._classes.values() if group.active)

    def _sticky(self) -> WorkloadState | None:
        mark = self.preemptor
        if mark is None or not mark.sticky:
            return None
        state = self._by_uid.get(mark.uid)
        return state if state is not None and self.is_active(state) else None

    def _first_active(self) -> WorkloadState | None:
        heads = self._heads
        while heads:
            key = heads[0]
            state = self._by_uid.get(key[2])
            if state is not None and state.place == GROUPED and state.heap_key == key:
                active = self._classes[state.shape].active
                if active and active[0] == key:
                    return state
            heappop(heads)
        return None

    def _class_of(self, state: WorkloadState) -> ShapeClass:
        group = self._classes.get(state.shape)
        if group is None:
            group = self._classes[state.shape] = ShapeClass()
        if state.told is None or state.told[0] != group.told:
            group.fresh[state.uid] = None
        return group

    def _take_in(self, state: WorkloadState) -> None:
        if self._by_uid.get(state.uid) is not state:
            self._by_uid[state.uid] = state
            state.place = None
            state.heap_key = None
            self._namespaces[state.namespace] = self._namespaces.get(state.namespace, 0) + 1

    def _key_of(self, state: WorkloadState) -> Key:
        key = state.heap_key
        if key is None:
            key = state.heap_key = order_key(state)
            self._order.add(key)
        return key

    def _forget_order(self, state: WorkloadState) -> None:
        if state.heap_key is not None:
            self._order.remove(state.heap_key)
            state.heap_key = None

    def _leave_place(self, state: WorkloadState) -> None:
        if state.place == HELD:
            del self._held[state.uid]
        elif state.place == GROUPED:
            self._leave_class(state)
        state.place = None

    def _leave_class(self, state: WorkloadState) -> None:
        group = self._classes[state.shape]
        key = state.heap_key
        assert key is not None
        index = bisect_left(group.active, key)
        if index < len(group.active) and group.active[index] == key:
            del group.active[index]
            if index == 0 and group.active:
                self._offer_first(group.active[0])
        else:
            del group.parked[bisect_left(group.parked, key)]
            if not group.parked:
                del self._parked[state.shape]
        group.fresh.pop(state.uid, None)
        if not group.active and not group.parked and group.bulk is None:
            del self._classes[state.shape]


SLACK: Final = 64

_NO_KEY: Final[Key] = (0, 0, "")
