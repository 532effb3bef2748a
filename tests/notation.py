"""The shorthand in which the reference texts write their worked scenarios, parsed.

Trees: `k{a(4 R=Any), b(4 ll=2)}`: cohort k, ClusterQueues a and b; braces nest, a cohort may have its own quota
`r(2){...}`. A quota is `[flavor:][resource]amount[/bl=n][/ll=n]`; `|` starts a new resource group. Attributes:
W= withinClusterQueue, R= reclaimWithinCohort, B or B<=n borrowWithinCohort with its threshold, bl= and ll= the limits
of every quota of the node, w= fair sharing weight, `strict` StrictFIFO, `stopped` stop policy Hold,
`borrow=next`, `preempt=stop` and `pref=POB` the flavor fungibility.

Workloads: `b1@b:5 p9 t1 c5 EV uid=u2`: b1 holds or asks 5 in ClusterQueue b, priority 9, reserved at second 1, created
at second 5, evicted but still holding. Amounts: `5`, `C2,M6` (several resources), `f2=5` (on that flavor: a pod set of
its own), `6x1>=2` (six pods of 1, minCount 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

RESOURCES = {"": "nvidia.com/gpu", "C": "cpu", "M": "memory", "g": "example.com/g", "h": "example.com/h"}
UNLIMITED_TEXT = "9223372036854775807"
POLICIES = {"LP": "LowerPriority", "LN": "LowerOrNewerEqualPriority", "Any": "Any", "Never": "Never"}


def resource_name(letter: str) -> str:
    return RESOURCES.get(letter, letter)


@dataclass(frozen=True)
class Quota:
    """One amount of a node: on a flavor (None: the default one), for a resource, with its limits."""

    flavor: str
    resource: str
    nominal: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None


@dataclass
class Node:
    """A ClusterQueue (no children list) or a cohort."""

    name: str
    groups: list[list[Quota]] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] | None = None


@dataclass(frozen=True)
class PodSet:
    """The pods of one pod set: per pod amounts by resource, and the flavor it holds or insists on."""

    name: str
    count: int
    requests: dict[str, str]
    flavor: str | None = None
    min_count: int | None = None


@dataclass
class Asked:
    """A workload as the shorthand describes it."""

    name: str
    queue: str
    pod_sets: list[PodSet]
    priority: int = 0
    created: int = 0
    reserved: int = 0
    evicted: bool = False
    uid: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


_TOKEN = re.compile(r"\s*([{}(),]|[^\s{}(),]+)")
_QUOTA = re.compile(r"^(?:([a-z][a-z0-9-]*):)?([A-Za-z./-]*?)(U|\d[\w.]*)((?:/(?:bl|ll)=\w+)*)$")


def parse_tree(text: str) -> list[Node]:
    """The nodes at the top of a tree text: cohorts and ClusterQueues without one."""
    tokens = _TOKEN.findall(text)
    position = 0

    def nodes(end: str | None) -> Iterator[Node]:
        nonlocal position
        while position < len(tokens) and tokens[position] != end:
            if tokens[position] == ",":
                position += 1
                continue
            yield node()

    def node() -> Node:
        nonlocal position
        result = Node(tokens[position])
        position += 1
        if position < len(tokens) and tokens[position] == "(":
            close = tokens.index(")", position)
            _describe(result, tokens[position + 1 : close])
            position = close + 1
        if position < len(tokens) and tokens[position] == "{":
            position += 1
            result.children = list(nodes("}"))
            if position >= len(tokens):
                raise ValueError(f"unclosed brace in {text!r}")
            position += 1
        return result

    result = list(nodes(None))
    if position != len(tokens):
        raise ValueError(f"unexpected {tokens[position]!r} in {text!r}")
    return result


def _describe(node: Node, words: list[str]) -> None:
    group: list[Quota] = []
    for word in words:
        quota = _QUOTA.match(word)
        if word == "|":
            node.groups.append(group)
            group = []
        elif word == ",":
            continue
        elif quota and "=" not in word.split("/")[0]:
            limits = dict(part.split("=") for part in quota[4].split("/") if part)
            nominal = UNLIMITED_TEXT if quota[3] == "U" else quota[3]
            group.append(Quota(quota[1] or "f1", resource_name(quota[2]), nominal, limits.get("bl"), limits.get("ll")))
        else:
            name, _, value = word.partition("<=") if word.startswith("B<=") else word.partition("=")
            node.attributes[name] = value
    if group:
        node.groups.append(group)
    for name in ("bl", "ll"):
        limit = node.attributes.pop(name, None)
        if limit is not None:
            node.groups = [
                [Quota(q.flavor, q.resource, q.nominal, *_limits(q, name, limit)) for q in g] for g in node.groups
            ]


def _limits(quota: Quota, name: str, limit: str) -> tuple[str | None, str | None]:
    if name == "bl":
        return limit, quota.lending_limit
    return quota.borrowing_limit, limit


_AMOUNT = re.compile(r"^(?:(\d+)x)?(?:([a-z][a-z0-9-]*)=)?([A-Za-z]*?)(\d\w*)(?:>=(\d+))?$")


def parse_workload(text: str) -> Asked:
    """A workload from `name@queue:amounts [pN] [tN] [cN] [EV] [key=value]`."""
    head, *words = text.split()
    place, _, amounts = head.partition(":")
    name, _, queue = place.partition("@")
    result = Asked(name, queue, list(_pod_sets(amounts)), uid=name)
    for word in words:
        if word == "EV":
            result.evicted = True
        elif re.fullmatch(r"p-?\d+", word):
            result.priority = int(word[1:])
        elif re.fullmatch(r"t\d+", word):
            result.reserved = int(word[1:])
        elif re.fullmatch(r"c\d+", word):
            result.created = int(word[1:])
        elif word.startswith("uid="):
            result.uid = word[4:]
        else:
            key, _, value = word.partition("=")
            result.attributes[key] = value
    return result


def _pod_sets(amounts: str) -> Iterator[PodSet]:
    """One pod set of all amounts without a flavor, or one a flavor; `;` starts another pod set explicitly."""
    parts = amounts.split(";")
    for number, part in enumerate(parts):
        by_flavor: dict[str | None, dict[str, str]] = {}
        count, min_count = 1, None
        for amount in filter(None, part.split(",")):
            match = _AMOUNT.match(amount)
            if match is None:
                raise ValueError(f"cannot read the amount {amount!r}")
            count = int(match[1] or count)
            min_count = int(match[5]) if match[5] else min_count
            by_flavor.setdefault(match[2], {})[resource_name(match[3])] = match[4]
        for flavor, requests in (by_flavor or {None: {}}).items():
            name = "main" if len(parts) == 1 and len(by_flavor) <= 1 else f"set-{number}-{flavor or 'any'}"
            yield PodSet(name, count, requests, flavor, min_count)
