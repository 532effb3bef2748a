"""Dominant resource shares (admission section 6, preemption 4.1)."""

from __future__ import annotations

from math import ceil, inf
from typing import Final, NamedTuple

from ledger.amounts import MAXIMUM, add, subtract
from ledger.tree import CohortNode, FlavorResources, Node, potential

ShareKey = tuple[int, float]
"""R4.8: shares in order; nodes of weight 0 that borrow stand above all others, by their unweighted ratio."""

NO_SHARE: Final[ShareKey] = (-1, 0.0)


class Share(NamedTuple):
    """The share of one node: `borrowed` are the flavor-resources above its line, `resource` decided it (R4.9)."""

    ratio: float
    weight: float
    resource: str
    borrowed: frozenset[int]

    @property
    def is_borrowing(self) -> bool:
        return bool(self.borrowed)

    @property
    def weighted(self) -> float:
        """6.2.1: 0 without borrowing, infinite at weight 0, else ratio / weight."""
        if self.ratio == 0.0:
            return 0.0
        return inf if self.weight == 0.0 else self.ratio / self.weight

    @property
    def key(self) -> ShareKey:
        if self.weight == 0.0 and self.ratio > 0.0:
            return (1, self.ratio)
        return (0, self.weighted)

    @property
    def reported(self) -> int:
        """6.2.3: the integer that a status shows; never used in decisions."""
        weighted = self.weighted
        return MAXIMUM if weighted == inf else ceil(weighted)


_NOTHING: Final = frozenset[int]()


def share_of(node: Node, numbers: FlavorResources) -> Share:
    """6.1, R4.1: IEEE doubles, multiplied first and divided then."""
    parent = node.parent
    if parent is None:
        return Share(0.0, node.weight, "", _NOTHING)
    over: dict[str, int] = {}
    borrowed: list[int] = []
    usage = node.usage
    for fr, quota in node.subtree.items():
        excess = subtract(usage.get(fr, 0), quota)
        if excess > 0:
            resource = numbers.names[fr][1]
            over[resource] = add(over.get(resource, 0), excess)
            borrowed.append(fr)
    if not borrowed:
        return Share(0.0, node.weight, "", _NOTHING)
    lendable = lendable_of(parent, numbers)
    ratio, dominant = 0.0, ""
    for resource in sorted(over):
        capacity = lendable.get(resource, 0)
        if capacity > 0:
            of_resource = float(over[resource]) * 1000.0 / float(capacity)
            if of_resource > ratio:
                ratio, dominant = of_resource, resource
    return Share(ratio, node.weight, dominant, frozenset(borrowed))


def lendable_of(cohort: CohortNode, numbers: FlavorResources) -> dict[str, int]:
    """6.1.4: what a child of `cohort` could borrow at most, per resource; follows from quotas and limits only."""
    if cohort.lendable is None:
        lendable: dict[str, int] = {}
        for fr in cohort.path[-1].subtree:
            resource = numbers.names[fr][1]
            lendable[resource] = add(lendable.get(resource, 0), potential(cohort, fr))
        cohort.lendable = lendable
    return cohort.lendable
