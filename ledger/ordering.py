"""In which order the entries of a cycle are processed (admission 5.6, preemption R5.2 and 4.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ledger.assignment import Assignment
from ledger.cluster_queue import ClusterQueueNode
from ledger.shares import Share, ShareKey, share_of
from ledger.slices import ReplacedSlice
from ledger.tree import FlavorResources, Journal, Node, Tree, add_usage, roll_back
from ledger.victims import Target
from ledger.workloads import FlavorMemory, Verdict, WorkloadState


class Entry:
    """A head after nomination, and what became of it. `replaced` is the slice of its job that it grows from."""

    __slots__ = (
        "assignment",
        "before",
        "queue",
        "reason",
        "replaced",
        "state",
        "targets",
        "verdict",
    )

    def __init__(self, queue: ClusterQueueNode, state: WorkloadState) -> None:
        self.queue = queue
        self.state = state
        self.before: FlavorMemory | None = state.memory
        self.assignment: Assignment | None = None
        self.targets: list[Target] = []
        self.replaced: ReplacedSlice | None = None
        self.reason = ""
        self.verdict: Verdict | None = None

    @property
    def usage(self) -> dict[int, int]:
        assert self.assignment is not None
        return self.assignment.usage

    @property
    def is_recorded_preemptor(self) -> bool:
        """R5.24: the queue's preemptor, not changed since it was evaluated."""
        mark = self.queue.pending.preemptor
        return mark is not None and mark.uid == self.state.uid and mark.generation == self.state.generation


class OrderRules(NamedTuple):
    """Gates that the order depends on (admission section 9)."""

    by_priority: bool
    preemptors_first: bool
    non_borrowing_first: bool


def classical_order(entries: Iterable[Entry], rules: OrderRules) -> Iterator[Entry]:
    """5.6.1: lower borrowing level, higher priority, earlier ordering time, then the name of the queue (D3)."""

    def key(entry: Entry) -> tuple[bool, int, int, int, str]:
        assert entry.assignment is not None
        return (
            not (rules.preemptors_first and entry.is_recorded_preemptor),
            entry.assignment.level,
            -entry.state.priority if rules.by_priority else 0,
            entry.state.order_time,
            entry.queue.name,
        )

    return iter(sorted(entries, key=key))


def order_of(entries: Sequence[Entry], rules: OrderRules, numbers: FlavorResources, *, fair: bool) -> Iterator[Entry]:
    """5.6 over all trees: levels are compared as numbers (5.6.2), tournaments are those of the tree of whatever
    ClusterQueue is left with the smallest name (5.6.3)."""
    if not fair:
        yield from classical_order(entries, rules)
        return
    by_tree: dict[int, list[Entry]] = {}
    for entry in entries:
        by_tree.setdefault(id(entry.queue.tree), []).append(entry)
    orders = {key: fair_order(of_tree[0].queue.tree, of_tree, rules, numbers) for key, of_tree in by_tree.items()}
    remaining = {entry.queue.name: id(entry.queue.tree) for entry in entries}
    while remaining:
        entry = next(orders[remaining[min(remaining)]])
        del remaining[entry.queue.name]
        yield entry


class _Record(NamedTuple):
    """R4.32: what an entry is compared with at the parent of `node`."""

    share: ShareKey
    borrows_on_request: bool


def fair_order(tree: Tree, entries: Iterable[Entry], rules: OrderRules, numbers: FlavorResources) -> Iterator[Entry]:
    """5.6.3: a tournament for every entry to come, on tables that the entries before it have changed."""
    remaining = {entry.queue.name: entry for entry in entries}
    records: dict[str, dict[Node, _Record]] = {}
    while remaining:
        for name in sorted(remaining):
            if name not in records:
                records[name] = _records(remaining[name], numbers)
        winner = _tournament(tree, remaining, records, rules)
        del remaining[winner.queue.name]
        yield winner
        # Only shares below a common ancestor other than the root, or of the queue itself, can have changed.
        changed = set(winner.queue.path[:-1])
        for name, entry in remaining.items():
            if not changed.isdisjoint(entry.queue.path[:-1]):
                records.pop(name, None)


def _records(entry: Entry, numbers: FlavorResources) -> dict[Node, _Record]:
    """Shares on the way up with the entry's usage added; the tables are as before afterwards."""
    journal: Journal = []
    queue, usage = entry.queue, entry.usage
    for fr, value in usage.items():
        add_usage(queue, fr, value, journal)
    records = {
        parent: _record(share_of(node, numbers), usage)
        for node, parent in zip(queue.path, queue.path[1:], strict=False)
    }
    roll_back(journal)
    return records


def _record(share: Share, usage: dict[int, int]) -> _Record:
    return _Record(share.key, any(usage.get(fr, 0) > 0 for fr in share.borrowed))


def _tournament(
    tree: Tree, remaining: dict[str, Entry], records: dict[str, dict[Node, _Record]], rules: OrderRules
) -> Entry:
    """R4.33: every cohort picks the best among its child cohorts' winners and its child queues' entries."""
    if not tree.cohorts:
        return remaining[min(remaining)]
    contenders: dict[Node, list[Entry]] = {}
    for name in sorted(remaining):
        entry = remaining[name]
        contenders.setdefault(entry.queue.path[1], []).append(entry)
    for cohort in reversed(tree.cohorts):
        if cohort not in contenders:
            continue
        winner = _best(cohort, contenders[cohort], records, rules)
        if cohort.parent is None:
            return winner
        contenders.setdefault(cohort.parent, []).append(winner)
    raise AssertionError("a tree with cohorts has a root cohort")


def _best(cohort: Node, entries: list[Entry], records: dict[str, dict[Node, _Record]], rules: OrderRules) -> Entry:
    """5.6.4: the first rule that separates; full ties go to the smaller name of the queue (D3)."""

    def key(entry: Entry) -> tuple[bool, bool, ShareKey, int, int, str]:
        record = records[entry.queue.name][cohort]
        return (
            not (rules.preemptors_first and entry.is_recorded_preemptor),
            rules.non_borrowing_first and record.borrows_on_request,
            record.share,
            -entry.state.priority if rules.by_priority else 0,
            entry.state.order_time,
            entry.queue.name,
        )

    return min(entries, key=key)
