"""Preemptions that would go round for ever, and where they are stopped (rule set `ledger` only).

The reference can evict A for B and B for A without end. Here a tree remembers the preemptions it issued since the last
event from outside. Before the same preemption (preemptor, victims) is issued again from the same state, everything in
between was a round that leads back to where it began: it would repeat exactly, so it is not issued. Times that the
round itself wrote do not count, as long as they order victims and queues alike.

A state is compared queue by queue. A queue's picture is taken anew only when the queue changed, so a preemption costs
what changed since the one before, not the size of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from ledger.cluster_queue import ClusterQueueNode, VictimKey
from ledger.pending import HELD
from ledger.tree import FlavorResources, Tree
from ledger.workloads import WorkloadState


class QueuePicture(NamedTuple):
    """One ClusterQueue without its times: who holds what, who waits where. `holders` keeps the order of victims."""

    version: tuple[int, int]
    digest: str
    holders: tuple[VictimKey, ...]


class IssuedPreemption(NamedTuple):
    """A preemption as it was issued: the tree's picture just before, and the seq of its first `Preempted`."""

    preemptor: str
    victims: frozenset[str]
    scans: object
    pictures: dict[str, QueuePicture]
    members: tuple[str, ...]
    seq: int


class Round(NamedTuple):
    """A round that was closed: the workloads in it, and the seq of each preemption."""

    members: tuple[str, ...]
    seqs: tuple[int, ...]


class PreemptionHistory:
    """What one tree preempted since something outside changed it; `parked` are the preemptors stopped since then."""

    __slots__ = ("_pictures", "issued", "parked")

    def __init__(self) -> None:
        self.issued: list[IssuedPreemption] = []
        self.parked: list[WorkloadState] = []
        self._pictures: dict[str, QueuePicture] = {}

    def find_round(
        self,
        tree: Tree,
        numbers: FlavorResources,
        preemptor: WorkloadState,
        victims: Sequence[WorkloadState],
        scans: object,
        next_seq: int,
    ) -> Round | None:
        """The round that issuing this preemption now would close; without one the preemption is remembered."""
        uids = frozenset(victim.uid for victim in victims)
        pictures = self._take_pictures(tree, numbers)
        for index, earlier in enumerate(self.issued):
            if earlier.preemptor == preemptor.uid and earlier.victims == uids and earlier.scans == scans:
                if _is_same_state(earlier.pictures, pictures):
                    round_ = self.issued[index:]
                    members = sorted({member for issued in round_ for member in issued.members})
                    return Round(tuple(members), tuple(issued.seq for issued in round_))
        names = tuple("/".join(state.key) for state in (preemptor, *victims))
        self.issued.append(IssuedPreemption(preemptor.uid, uids, scans, pictures, names, next_seq))
        return None

    def _take_pictures(self, tree: Tree, numbers: FlavorResources) -> dict[str, QueuePicture]:
        for queue in tree.queues:
            version = (queue.holders_version, queue.pending.version)
            known = self._pictures.get(queue.name)
            if known is None or known.version != version:
                self._pictures[queue.name] = _picture(queue, numbers, version)
        return dict(self._pictures)


def _picture(queue: ClusterQueueNode, numbers: FlavorResources, version: tuple[int, int]) -> QueuePicture:
    holders = sorted(state.victim_key for state in queue.holders.values() if state.victim_key is not None)
    held = []
    for _, _, uid in holders:
        state = queue.holders[uid]
        assert state.reservation is not None
        usage = state.reservation.usage
        held.append((uid, state.is_evicted, [(numbers.names[fr], usage[fr]) for fr in numbers.by_name(usage)]))
    pending = queue.pending
    waiting = [(state.uid, "held" if state.place == HELD else pending.is_inadmissible(state)) for state in pending]
    mark = pending.preemptor
    content = msgspec.json.encode((held, waiting, None if mark is None else (mark.uid, mark.sticky)))
    return QueuePicture(version, blake2b(content, digest_size=16).hexdigest(), tuple(holders))


def _is_same_state(earlier: dict[str, QueuePicture], now: dict[str, QueuePicture]) -> bool:
    """Equal content in every queue, and victims in the same order across queues."""
    if earlier.keys() != now.keys():
        return False
    if any(earlier[name].digest != now[name].digest for name in now):
        return False
    return _order(earlier.values()) == _order(now.values())


def _order(pictures: Iterable[QueuePicture]) -> list[str]:
    return [key[2] for key in sorted(key for picture in pictures for key in picture.holders)]
