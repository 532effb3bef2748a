"""A tree that grows ClusterQueue by ClusterQueue has the tables of one that is rebuilt (admission 3.2.5)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ledger.cluster_queue import ClusterQueueNode
from ledger.forest import Forest
from ledger.objects.decoding import decode_object
from ledger.tree import FlavorResources, Node, available, potential
from tests import builders as build

FLAVORS = ("f1", "f2")


def queue(name: str, cohort: str, random: Random, numbers: FlavorResources) -> ClusterQueueNode:
    quotas = {
        flavor: [
            build.quota("cpu", nominal, lending=random.choice((None, 0, nominal)), borrowing=random.choice((None, 3)))
        ]
        for flavor in FLAVORS
        for nominal in (random.choice((0, 4, 9, 2**62)),)
    }
    source: Any = decode_object(build.encode(build.cluster_queue(name, build.group(**quotas), cohort=cohort)))
    return ClusterQueueNode(source, numbers)


def grown(random: Random, numbers: FlavorResources) -> Forest:
    forest = Forest()
    for name, parent in (("root", None), ("a", "root"), ("b", "root")):
        group = build.group(f1=[build.quota("cpu", random.choice((0, 5)))])
        cohort: Any = decode_object(build.encode(build.cohort(name, group, parent=parent)))
        forest.declare_cohort(cohort, numbers)
    for number in range(12):
        forest.put_queue(queue(f"q{number}", random.choice(("root", "a", "b")), random, numbers))
        for node in nodes(forest):  # answers that are remembered must not outlive the next one that comes
            potential(node, 0)
    return forest


def nodes(forest: Forest) -> list[Node]:
    return [*forest.cohorts.values(), *forest.queues.values()]


def tables(forest: Forest) -> list[object]:
    return [
        (node.name, node.subtree, node.usage, node.local, node.path, available(node, fr), potential(node, fr))
        for node in nodes(forest)
        for fr in range(len(FLAVORS))
    ]


@pytest.mark.parametrize("seed", range(30))
def test_a_tree_that_grew_is_the_tree_that_is_rebuilt(seed: int) -> None:
    forest = grown(Random(seed), FlavorResources())
    before, tree = tables(forest), forest.queues["q0"].tree
    assert [node.name for node in tree.queues] == sorted(forest.queues)
    tree.recompute()
    assert tables(forest) == before
