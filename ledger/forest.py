"""ClusterQueues and Cohorts as trees: who is whose parent, implicit cohorts, circles (admission 3.9)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from ledger.cluster_queue import ClusterQueueNode, fair_weight, take_flavor_quota
from ledger.loops import PreemptionHistory
from ledger.objects.cohort import Cohort
from ledger.tree import NO_TREE, CohortNode, FlavorResources, Node, Tree, ancestors


class Forest:
    """All nodes of one cluster by name. Every change rebuilds the trees it touches, and only those (3.2.5), but for a
    ClusterQueue that is new in a tree: the first list of a cluster brings them one by one."""

    def __init__(self) -> None:
        self.cohorts: dict[str, CohortNode] = {}
        self.queues: dict[str, ClusterQueueNode] = {}

    def put_queue(self, queue: ClusterQueueNode) -> None:
        """A ClusterQueue that is new, or whose quota or cohort changed."""
        name, before = queue.name, queue.parent
        self.queues[name] = queue
        parent = self._cohort(queue.cohort_name) if queue.cohort_name else None
        if before is not None and before is not parent:
            del before.child_queues[name]
        is_new = queue.tree is NO_TREE
        queue.parent = parent
        if parent is not None:
            parent.child_queues[name] = queue
        if is_new and parent is not None and parent.tree is not NO_TREE and not parent.tree.cyclic:
            _grow(parent, queue)
        else:
            self._rebuild((queue, before))

    def remove_queue(self, name: str) -> None:
        queue = self.queues.pop(name)
        parent = queue.parent
        if parent is not None:
            del parent.child_queues[name]
            self._rebuild((parent,))

    def declare_cohort(self, source: Cohort, numbers: FlavorResources) -> CohortNode:
        """3.9.1: the object takes over the children that its name already has."""
        cohort = self._cohort(source.metadata.name)
        cohort.forget_declaration()
        cohort.declared = True
        cohort.weight = fair_weight(source.spec.fair_sharing)
        for group in source.spec.resource_groups:
            for flavor in group.flavors:
                take_flavor_quota(cohort, flavor, numbers)
        before = cohort.parent
        self._hang(cohort, source.spec.parent_name)
        self._rebuild((cohort, before))
        return cohort

    def remove_cohort(self, name: str) -> None:
        """3.9.2: its children stay below an implicit cohort, which goes with the last of them."""
        cohort = self.cohorts[name]
        cohort.forget_declaration()
        before = cohort.parent
        self._hang(cohort, "")
        self._rebuild((cohort, before))

    def _cohort(self, name: str) -> CohortNode:
        cohort = self.cohorts.get(name)
        if cohort is None:
            cohort = self.cohorts[name] = CohortNode(name)
        return cohort

    def _hang(self, cohort: CohortNode, parent_name: str) -> None:
        parent = self._cohort(parent_name) if parent_name else None
        if cohort.parent is not None and cohort.parent is not parent:
            del cohort.parent.child_cohorts[cohort.name]
        cohort.parent = parent
        if parent is not None:
            parent.child_cohorts[cohort.name] = cohort

    def _rebuild(self, nodes: Iterable[Node | None]) -> None:
        """Lay out and recompute the trees of these nodes; implicit cohorts without children disappear."""
        seen: set[Node] = set()
        for node in nodes:
            if node is None or node in seen:
                continue
            if isinstance(node, CohortNode) and self._is_forgotten(node):
                continue
            top, circle = _top_of(node)
            tree = _layout(top, circle)
            seen.update(tree.cohorts)
            seen.update(tree.queues)
            if not tree.cyclic:
                tree.recompute()

    def _is_forgotten(self, cohort: CohortNode) -> bool:
        if cohort.declared or cohort.child_cohorts or cohort.child_queues:
            return False
        self.cohorts.pop(cohort.name, None)
        return True


def _top_of(node: Node) -> tuple[Node, list[CohortNode]]:
    """The root above a node, or the cohorts of the circle that its parents run into (3.9.3)."""
    walked: list[Node] = [node]
    at = node.parent
    while at is not None:
        if at in walked:
            circle = [n for n in walked[walked.index(at) :] if isinstance(n, CohortNode)]
            return min(circle, key=lambda cohort: cohort.name), circle
        walked.append(at)
        at = at.parent
    return walked[-1], []


def _grow(parent: CohortNode, queue: ClusterQueueNode) -> None:
    """What a rebuild would give where one new ClusterQueue came below a cohort."""
    tree = parent.tree
    queue.tree, queue.path = tree, (queue, *parent.path)
    queue.take_quota_as_subtree()
    insort(tree.queues, queue, key=lambda other: other.name)
    parent.add_child(queue)
    for cohort in ancestors(parent):
        cohort.sum_children()
    tree.forget_answers()


def _layout(top: Node, circle: list[CohortNode]) -> Tree:
    """A tree over everything below `top` (and the circle), parents before children, names ascending."""
    tree = Tree(top.name, None if circle else top, cyclic=bool(circle))
    before: dict[int, Tree] = {}
    _place(top, (), tree, before)
    waiting = [*circle] if circle else ([top] if isinstance(top, CohortNode) else [])
    placed: set[CohortNode] = set()
    while waiting:
        cohort = waiting.pop(0)
        if cohort in placed:
            continue
        placed.add(cohort)
        tree.cohorts.append(cohort)
        above = () if circle else (cohort.parent.path if cohort.parent is not None else ())
        _place(cohort, above, tree, before)
        for name in sorted(cohort.child_queues):
            queue = cohort.child_queues[name]
            _place(queue, () if circle else cohort.path, tree, before)
            tree.queues.append(queue)
        waiting.extend(cohort.child_cohorts[name] for name in sorted(cohort.child_cohorts))
    if isinstance(top, ClusterQueueNode):
        tree.queues.append(top)
    tree.queues.sort(key=lambda queue: queue.name)
    tree.cycle = max(earlier.cycle for earlier in before.values())
    tree.history = _stopped_in(before.values())
    return tree


def _stopped_in(trees: Iterable[Tree]) -> PreemptionHistory | None:
    """Whoever was stopped in these trees waits for a change from outside, and another tree is one."""
    stopped = [state for tree in trees if tree.history is not None for state in tree.history.parked]
    if not stopped:
        return None
    history = PreemptionHistory()
    history.parked = stopped
    return history


def _place(node: Node, above: tuple[Node, ...], tree: Tree, before: dict[int, Tree]) -> None:
    """Into the tree; `before` gathers the trees that its nodes were in."""
    if node.tree is not tree:
        before[id(node.tree)] = node.tree
    node.tree = tree
    node.path = (node, *above)
    node.potential_known = {}
    if isinstance(node, CohortNode):
        node.lendable = None
