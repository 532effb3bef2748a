"""The second model: quota arithmetic written from the reference text alone, plain and slow.

It keeps the objects as they came and one charge per workload, has no index and no running total, and computes every
answer from all objects each time it is asked. It shares no code with `ledger`; where the two disagree, one is wrong.
Rules: admission sections 0.4, 3 and 6; preemption sections 0 and 4.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

Object = dict[str, Any]
Pair = tuple[str, str]  # (flavor, resource)
Node = tuple[str, str]  # ("ClusterQueue" or "Cohort", name)

UNLIMITED = 2**63 - 1
LOWEST = -(2**63)

SCALE = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{letter + "i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


def quantity(text: object) -> Fraction:
    """The exact value of a quantity text."""
    match = re.fullmatch(r"([+-]?[\d.]+)([a-zA-Z]*|[eE][+-]?\d+)", str(text))
    assert match is not None, text
    number, suffix = match.groups()
    if suffix in SCALE:
        return Fraction(number) * SCALE[suffix]
    return Fraction(number + suffix)


def amount(text: object, resource: str) -> int:
    """0.4.2: thousandths for cpu, whole units otherwise, rounded away from zero; out of range is unlimited."""
    value = quantity(text) * (1000 if resource == "cpu" else 1)
    whole = math.ceil(value) if value >= 0 else math.floor(value)
    return min(UNLIMITED, max(LOWEST, whole))


def plus(a: int, b: int) -> int:
    """0.4.4."""
    if UNLIMITED in (a, b):
        return UNLIMITED
    return min(UNLIMITED, max(LOWEST, a + b))


def minus(a: int, b: int) -> int:
    """0.4.5."""
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    if b == UNLIMITED:
        return LOWEST
    return min(UNLIMITED, max(LOWEST, a - b))


class QuotaModel:
    """All objects of one cluster, and what each workload is charged."""

    def __init__(self) -> None:
        self.queues: dict[str, Object] = {}
        self.cohorts: dict[str, Object] = {}
        self.charges: dict[tuple[str, str], tuple[str, dict[Pair, int]]] = {}

    # What happened.

    def observe(self, event: Object) -> None:
        """One event: a change of a queue, a cohort or a workload; anything else does not concern quota."""
        for member in event.get("events", ()):
            self.observe(member)
        target = event.get("object")
        if target is None:
            return
        gone = event["type"] == "DELETED"
        name = target.get("metadata", {}).get("name", "")
        if target["kind"] == "ClusterQueue":
            _put(self.queues, name, None if gone else target)
        elif target["kind"] == "Cohort":
            _put(self.cohorts, name, None if gone else target)
        elif target["kind"] == "Workload":
            self._observe_workload((target["metadata"]["namespace"], name), None if gone else target)

    def _observe_workload(self, key: tuple[str, str], target: Object | None) -> None:
        """7.9: what makes a workload hold quota, and what ends it."""
        status = (target or {}).get("status", {})
        conditions = {c["type"]: c["status"] == "True" for c in status.get("conditions", ())}
        reserved = conditions.get("QuotaReserved")
        inactive = target is not None and target["spec"].get("active") is False
        if target is None or inactive or conditions.get("Finished") or reserved is False:
            self.charges.pop(key, None)
        elif reserved and status.get("admission"):
            self.charges[key] = _charge_of_admission(target)

    def decide(self, decision: Object) -> None:
        """A reservation by the ledger itself."""
        if decision["type"] != "QuotaReserved":
            return
        charge: dict[Pair, int] = {}
        for pods in decision["podSets"]:
            for resource, text in pods["usage"].items():
                pair = (pods["flavors"][resource], resource)
                charge[pair] = plus(charge.get(pair, 0), amount(text, resource))
        workload = decision["workload"]
        self.charges[workload["namespace"], workload["name"]] = (decision["clusterQueue"], charge)

    # The tree.

    def parent(self, node: Node) -> Node | None:
        kind, name = node
        if kind == "ClusterQueue":
            parent = self.queues[name]["spec"].get("cohortName")
        else:
            parent = self.cohorts.get(name, {}).get("spec", {}).get("parentName")
        return ("Cohort", parent) if parent else None

    def all_nodes(self) -> list[Node]:
        named = {("Cohort", name) for name in self.cohorts}
        queues = {("ClusterQueue", name) for name in self.queues}
        implied = {parent for node in named | queues if (parent := self.parent(node)) is not None}
        return sorted(named | queues | implied)

    def children(self, node: Node) -> list[Node]:
        return [child for child in self.all_nodes() if self.parent(child) == node]

    def ancestors(self, node: Node) -> Iterator[Node]:
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def leads_into_a_circle(self, node: Node) -> bool:
        """3.9.3."""
        seen = {node}
        for ancestor in self.ancestors(node):
            if ancestor in seen:
                return True
            seen.add(ancestor)
        return False

    def root(self, node: Node) -> Node:
        return [node, *self.ancestors(node)][-1]

    # What is declared.

    def declared(self, node: Node) -> dict[Pair, Object]:
        """The quota entries of a node by flavor and resource."""
        kind, name = node
        target = self.queues[name] if kind == "ClusterQueue" else self.cohorts.get(name, {})
        return {
            (flavor["name"], entry["name"]): entry
            for group in target.get("spec", {}).get("resourceGroups", ())
            for flavor in group["flavors"]
            for entry in flavor["resources"]
        }

    def nominal(self, node: Node, pair: Pair) -> int:
        entry = self.declared(node).get(pair)
        return amount(entry["nominalQuota"], pair[1]) if entry else 0

    def limit(self, node: Node, pair: Pair, field: str) -> int | None:
        entry = self.declared(node).get(pair, {})
        return amount(entry[field], pair[1]) if field in entry else None

    def weight(self, node: Node) -> float:
        kind, name = node
        target = self.queues[name] if kind == "ClusterQueue" else self.cohorts.get(name)
        if target is None:
            return 0.0
        return float(quantity(target["spec"].get("fairSharing", {}).get("weight", "1")))

    # Section 3.

    def pairs(self, node: Node) -> set[Pair]:
        """3.1.2: the keys of the subtree quota."""
        result = set(self.declared(node))
        if node[0] == "Cohort":
            for child in self.children(node):
                result |= self.pairs(child)
        return result

    def subtree(self, node: Node, pair: Pair) -> int:
        """3.2.2."""
        total = self.nominal(node, pair)
        if node[0] == "Cohort":
            for child in self.children(node):
                total = plus(total, minus(self.subtree(child, pair), self.local(child, pair)))
        return total

    def local(self, node: Node, pair: Pair) -> int:
        """3.2.1."""
        lending = self.limit(node, pair, "lendingLimit")
        return 0 if lending is None else max(0, minus(self.subtree(node, pair), lending))

    def used(self, node: Node, pair: Pair) -> int:
        """3.3.1 and 3.3.5."""
        total = 0
        if node[0] == "ClusterQueue":
            for queue, charge in self.charges.values():
                if queue == node[1]:
                    total = plus(total, charge.get(pair, 0))
        else:
            for child in self.children(node):
                total = plus(total, max(0, minus(self.used(child, pair), self.local(child, pair))))
        return total

    def room(self, node: Node, pair: Pair) -> int:
        """3.4.2 and 3.4.3; may be negative."""
        parent = self.parent(node)
        subtree, used, local = self.subtree(node, pair), self.used(node, pair), self.local(node, pair)
        if parent is None:
            return minus(subtree, used)
        above = self.room(parent, pair)
        borrowing = self.limit(node, pair, "borrowingLimit")
        if borrowing is not None:
            above = min(above, plus(minus(minus(subtree, local), max(0, minus(used, local))), borrowing))
        return plus(max(0, minus(local, used)), above)

    def available(self, queue: str, pair: Pair) -> int:
        """3.4.4."""
        return max(0, self.room(("ClusterQueue", queue), pair))

    def potential(self, node: Node, pair: Pair) -> int:
        """3.5.1."""
        parent = self.parent(node)
        subtree = self.subtree(node, pair)
        if parent is None:
            return subtree
        reach = plus(self.local(node, pair), self.potential(parent, pair))
        borrowing = self.limit(node, pair, "borrowingLimit")
        return reach if borrowing is None else min(plus(subtree, borrowing), reach)

    def borrowed(self, queue: str, pair: Pair) -> int:
        """1.1.5."""
        node = ("ClusterQueue", queue)
        if self.parent(node) is None:
            return 0
        return max(0, minus(self.used(node, pair), self.nominal(node, pair)))

    # Section 6.

    def ratio(self, node: Node) -> float:
        """6.1.5."""
        parent = self.parent(node)
        if parent is None:
            return 0.0
        over: dict[str, int] = {}
        for pair in self.pairs(node):
            excess = minus(self.used(node, pair), self.subtree(node, pair))
            if excess > 0:
                over[pair[1]] = plus(over.get(pair[1], 0), excess)
        root = self.root(node)
        ratios = [0.0]
        for resource, excess in over.items():
            lendable = 0
            for pair in self.pairs(root):
                if pair[1] == resource:
                    lendable = plus(lendable, self.potential(parent, pair))
            if lendable > 0:
                ratios.append(float(excess) * 1000.0 / float(lendable))
        return max(ratios)

    def share(self, node: Node) -> float:
        """6.2.1."""
        ratio, weight = self.ratio(node), self.weight(node)
        if ratio == 0:
            return 0.0
        return math.inf if weight == 0 else ratio / weight

    # Whole states.

    def usage(self) -> dict[str, dict[str, int]]:
        """What every ClusterQueue holds, zero amounts and empty queues left out."""
        result: dict[str, dict[str, int]] = {}
        for queue, charge in self.charges.values():
            if queue in self.queues:
                held = result.setdefault(queue, {})
                for (flavor, resource), used in charge.items():
                    item = f"{flavor}/{resource}"
                    held[item] = plus(held.get(item, 0), used)
        used_only = {queue: {item: used for item, used in held.items() if used} for queue, held in result.items()}
        return {queue: held for queue, held in used_only.items() if held}

    def shares(self) -> dict[str, float]:
        """The share of every ClusterQueue outside circles."""
        return {
            name: self.share(("ClusterQueue", name))
            for name in sorted(self.queues)
            if not self.leads_into_a_circle(("ClusterQueue", name))
        }


def _put(table: dict[str, Object], name: str, target: Object | None) -> None:
    if target is None:
        table.pop(name, None)
    else:
        table[name] = target


def _charge_of_admission(target: Object) -> tuple[str, dict[Pair, int]]:
    """2.7.2: the recorded usage, scaled down when so many pods are done that fewer than admitted are left."""
    specified = {pods["name"]: pods.get("count", 1) for pods in target["spec"]["podSets"]}
    done = {pods["name"]: pods["count"] for pods in target["status"].get("reclaimablePods", ())}
    admission = target["status"]["admission"]
    charge: dict[Pair, int] = {}
    for pods in admission["podSetAssignments"]:
        total = specified[pods["name"]]
        counted = pods.get("count", total)
        left = total - min(done.get(pods["name"], 0), total)
        for resource, text in pods.get("resourceUsage", {}).items():
            used = amount(text, resource)
            if left < counted:
                used = used // counted * left
            pair = (pods["flavors"][resource], resource)
            charge[pair] = plus(charge.get(pair, 0), used)
    return admission["clusterQueue"], charge
