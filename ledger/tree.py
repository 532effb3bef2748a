"""Quota on the cohort tree: nodes, their tables, and what follows from them (admission section 3).

A node is a ClusterQueue (a leaf) or a Cohort. Every table is keyed by flavor-resource, a small integer that the
ledger hands out (`FlavorResources`), because tables are read many times for each decision. `available` and its
neighbours only read; `add_usage` and `remove_usage` write, and note what they overwrote in a journal when given one,
so that a simulation is undone exactly (a saturated total would not come back by arithmetic, admission 0.4.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ledger.amounts import MAXIMUM, MINIMUM, UNLIMITED, add, subtract

if TYPE_CHECKING:
    from ledger.cluster_queue import ClusterQueueNode
    from ledger.loops import PreemptionHistory

Journal = list[tuple[dict[int, int], int, int | None]]
"""What a simulation overwrote: table, flavor-resource, the value before (None: there was none)."""


class FlavorResources:
    """Numbers for (flavor, resource) pairs. They show nowhere outside: whatever is written is ordered by name."""

    __slots__ = ("_numbers", "names")

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self.names: list[tuple[str, str]] = []

    def number(self, flavor: str, resource: str) -> int:
        pair = (flavor, resource)
        number = self._numbers.get(pair)
        if number is None:
            number = self._numbers[pair] = len(self.names)
            self.names.append(pair)
        return number

    def by_name(self, numbers: Iterable[int]) -> list[int]:
        return sorted(numbers, key=self.names.__getitem__)


class Node:
    """What ClusterQueues and Cohorts share. A missing key reads as 0, of a limit as "no limit" (admission 0.4.8)."""

    __slots__ = (
        "borrowing_limit",
        "height",
        "lending_limit",
        "lendable",
        "local",
        "name",
        "nominal",
        "parent",
        "path",
        "potential_known",
        "subtree",
        "tree",
        "usage",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: CohortNode | None = None
        self.tree: Tree = NO_TREE
        self.path: tuple[Node, ...] = (self,)
        self.nominal: dict[int, int] = {}
        self.borrowing_limit: dict[int, int] = {}
        self.lending_limit: dict[int, int] = {}
        self.subtree: dict[int, int] = {}
        self.local: dict[int, int] = {}
        self.usage: dict[int, int] = {}
        self.weight: float = 1.0
        self.height = 0
        self.potential_known: dict[int, int] = {}
        self.lendable: dict[str, int] | None = None

    def take_quota_as_subtree(self) -> None:
        """3.2.2 for a ClusterQueue: S is the nominal quota."""
        self.subtree = dict(self.nominal)
        self.know_local()

    def know_local(self) -> None:
        """3.2.1: the part that is never visible above this node; kept only where it is not 0."""
        self.local = {}
        for fr, limit in self.lending_limit.items():
            hidden = subtract(self.subtree.get(fr, 0), limit)
            if hidden > 0:
                self.local[fr] = hidden
        self.potential_known = {}
        self.lendable = None


class CohortNode(Node):
    """An inner node. `declared` tells an object from an implicit cohort that is only named by others (3.9.1)."""

    __slots__ = ("child_cohorts", "child_queues", "declared")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.child_cohorts: dict[str, CohortNode] = {}
        self.child_queues: dict[str, ClusterQueueNode] = {}
        self.declared = False
        self.weight = 0.0

    def forget_declaration(self) -> None:
        """3.9.2: without its object a cohort has no quota, no limits and no parent."""
        self.declared = False
        self.nominal, self.borrowing_limit, self.lending_limit = {}, {}, {}
        self.weight = 0.0

    def sum_children(self) -> None:
        """3.2.2 and 3.3.1 from the children, which must be up to date."""
        self.subtree, self.usage = dict(self.nominal), {}
        for child in (*self.child_cohorts.values(), *self.child_queues.values()):
            self._count_in(child)
        self.know_local()

    def add_child(self, child: Node) -> None:
        """The same sums after a child came that is up to date: they do not depend on the order."""
        self._count_in(child)
        self.know_local()

    def _count_in(self, child: Node) -> None:
        subtree, usage, local = self.subtree, self.usage, child.local
        for fr, quota in child.subtree.items():
            subtree[fr] = add(subtree.get(fr, 0), subtract(quota, local.get(fr, 0)))
        for fr, used in child.usage.items():
            usage[fr] = add(usage.get(fr, 0), max(0, subtract(used, local.get(fr, 0))))


class Tree:
    """All nodes below one root: a root cohort, or a ClusterQueue without cohort. Trees do not influence each other.

    A tree whose cohorts run in a circle is `cyclic`: its tables stay as they were and nobody in it is scheduled
    (3.9.4 to 3.9.6). `cycle` numbers the scheduling cycles of this tree, `history` is what it preempted since something
    outside changed it.
    """

    __slots__ = ("cohorts", "cycle", "cyclic", "heights_known", "history", "name", "queues", "root")

    def __init__(self, name: str, root: Node | None, *, cyclic: bool = False, cycle: int = 0) -> None:
        self.name = name
        self.root = root
        self.cyclic = cyclic
        self.cohorts: list[CohortNode] = []
        self.queues: list[ClusterQueueNode] = []
        self.cycle = cycle
        self.heights_known = False
        self.history: PreemptionHistory | None = None

    def recompute(self) -> None:
        """3.2.5: S and U of every cohort bottom-up from scratch."""
        for queue in self.queues:
            queue.take_quota_as_subtree()
        for cohort in reversed(self.cohorts):
            cohort.sum_children()
        self.forget_answers()

    def forget_answers(self) -> None:
        """Quota has changed somewhere: every ClusterQueue's generation grows (5.5.3)."""
        for queue in self.queues:
            queue.generation += 1
            queue.potential_known = {}
        for cohort in self.cohorts:
            cohort.potential_known = {}
            cohort.lendable = None
        self.heights_known = False

    def know_heights(self) -> None:
        """3.7.1: children that are not in the snapshot (inactive ClusterQueues) do not count."""
        for cohort in reversed(self.cohorts):
            below = [child.height + 1 for child in cohort.child_cohorts.values()]
            if any(queue.active for queue in cohort.child_queues.values()):
                below.append(1)
            cohort.height = max(1, *below) if below else 0
        self.heights_known = True


NO_TREE = Tree("", None)

_FAR: Final = 2**61
"""Amounts below this stay bounded through a sum or a difference."""


def add_usage(node: Node, fr: int, value: int, journal: Journal | None = None) -> None:
    """3.3.2: what does not fit into the unused local quota of a node counts in its parent as well."""
    at: Node | None = node
    while at is not None:
        usage = at.usage
        before = usage.get(fr)
        if journal is not None:
            journal.append((usage, fr, before))
        used = before or 0
        # Far from the bounds plain arithmetic is exact; this runs for every simulated victim.
        usage[fr] = used + value if used < _FAR and value < _FAR else add(used, value)
        if at.tree.cyclic:
            return
        local = at.local.get(fr, 0)
        if local > used:
            value = subtract(value, subtract(local, used))
        if value <= 0:
            return
        at = at.parent


def remove_usage(node: Node, fr: int, value: int, journal: Journal | None = None) -> None:
    """3.3.3: the parent gets back at most what the node held above its local quota."""
    at: Node | None = node
    while at is not None:
        usage = at.usage
        before = usage.get(fr)
        if journal is not None:
            journal.append((usage, fr, before))
        used = before or 0
        usage[fr] = used - value if used < _FAR and value < _FAR else subtract(used, value)
        if at.tree.cyclic:
            return
        local = at.local.get(fr)
        above = used if local is None else subtract(used, local)
        if above <= 0:
            return
        if above < value:
            value = above
        at = at.parent


def roll_back(journal: Journal, mark: int = 0) -> None:
    """Undo what was written since the journal had `mark` entries."""
    for table, fr, before in reversed(journal[mark:]):
        if before is None:
            table.pop(fr, None)
        else:
            table[fr] = before
    del journal[mark:]


def local_available(node: Node, fr: int) -> int:
    """3.4.1: the unused part of the local quota."""
    local = node.local.get(fr)
    if local is None:
        return 0
    return max(0, subtract(local, node.usage.get(fr, 0)))


def available_signed(node: Node, fr: int) -> int:
    """3.4.2 and 3.4.3: room for one more unit; negative when the tree above is overdrawn."""
    path = node.path
    top = path[-1]
    quota, used = top.subtree.get(fr, 0), top.usage.get(fr, 0)
    room = quota - used if quota < _FAR and used < _FAR else subtract(quota, used)
    for at in path[-2::-1]:
        used = at.usage.get(fr, 0)
        local = at.local.get(fr, 0)
        limit = at.borrowing_limit.get(fr)
        if limit is not None:
            lent = subtract(at.subtree.get(fr, 0), local)
            room = min(room, add(subtract(lent, used - local if used > local else 0), limit))
        if local > used:
            room = add(subtract(local, used), room)
    return room


def available(queue: Node, fr: int) -> int:
    """3.4.4."""
    return max(0, available_signed(queue, fr))


def potential(node: Node, fr: int) -> int:
    """3.5.1: the largest capacity ever available; depends on quotas and limits only, so it is remembered."""
    known = node.potential_known.get(fr)
    if known is not None:
        return known
    if node.parent is None:
        value = node.subtree.get(fr, 0)
    else:
        value = add(node.local.get(fr, 0), potential(node.parent, fr))
        limit = node.borrowing_limit.get(fr)
        if limit is not None:
            value = min(add(node.subtree.get(fr, 0), limit), value)
    node.potential_known[fr] = value
    return value


def exceeds_quota_with(node: Node, fr: int, value: int) -> bool:
    """3.6.1 / R0.7: the node would hold more than its own line with `value` more."""
    return node.subtree.get(fr, 0) < add(node.usage.get(fr, 0), value)


def is_within_quota(node: Node, frs: Iterable[int]) -> bool:
    """3.6.2 / R0.8: no flavor-resource of the set is exceeded."""
    subtree, usage = node.subtree, node.usage
    for fr in frs:  # noqa: SIM110 - a generator costs more than the loop, and this runs for every candidate
        if subtree.get(fr, 0) < usage.get(fr, 0):
            return False
    return True


def borrow_level(queue: Node, fr: int, value: int) -> tuple[int, bool]:
    """3.7.2 / R1.5: height of the lowest subtree in which `value` fits, and whether there is room to look above it."""
    if queue.parent is None or not exceeds_quota_with(queue, fr, value):
        return 0, queue.parent is not None
    if not queue.tree.heights_known:
        queue.tree.know_heights()
    rest, below = value, queue
    for ancestor in queue.path[1:]:
        if fr in below.local:
            rest = subtract(rest, local_available(below, fr))
        if not exceeds_quota_with(ancestor, fr, rest):
            return ancestor.height, ancestor.parent is not None
        below = ancestor
    return queue.path[-1].height, False


def room_in_quota(node: Node, requests: dict[int, int]) -> tuple[bool, dict[int, int]]:
    """R2.6 `roomy`: whether all of `requests` fits into the node's unused quota, and what the level above must bear."""
    fits = True
    rest = {}
    for fr, value in requests.items():
        if fits and exceeds_quota_with(node, fr, value):
            fits = False
        local = local_available(node, fr)
        rest[fr] = value if local == 0 else max(0, subtract(value, local))
    return fits, rest


def ancestors(node: Node) -> Iterator[CohortNode]:
    """Parent first, root last; walks the structure itself, so it also ends on a circle."""
    seen: set[str] = set()
    at = node.parent
    while at is not None and at.name not in seen:
        seen.add(at.name)
        yield at
        at = at.parent


__all__ = [
    "MAXIMUM",
    "MINIMUM",
    "NO_TREE",
    "UNLIMITED",
    "CohortNode",
    "FlavorResources",
    "Journal",
    "Node",
    "Tree",
    "add_usage",
    "ancestors",
    "available",
    "available_signed",
    "borrow_level",
    "exceeds_quota_with",
    "is_within_quota",
    "local_available",
    "potential",
    "remove_usage",
    "roll_back",
    "room_in_quota",
]
