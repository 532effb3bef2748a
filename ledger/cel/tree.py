"""The syntax tree of a checked expression. Macros are expanded: `exists` and `cel.bind` are comprehensions."""

from __future__ import annotations

from typing import Any, NamedTuple


class Constant(NamedTuple):
    id: int
    value: Any


class Ident(NamedTuple):
    id: int
    name: str


class Select(NamedTuple):
    id: int
    operand: Node
    field: str
    test_only: bool


class Call(NamedTuple):
    id: int
    target: Node | None
    function: str
    arguments: tuple[Node, ...]


class ListOf(NamedTuple):
    id: int
    elements: tuple[Node, ...]
    optional: frozenset[int]


class MapOf(NamedTuple):
    id: int
    entries: tuple[tuple[Node, Node, bool], ...]


class Comprehension(NamedTuple):
    id: int
    variable: str
    second_variable: str
    range: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


Node = Constant | Ident | Select | Call | ListOf | MapOf | Comprehension


class Checked(NamedTuple):
    """The root, and for every node that names a declared variable or type that name (by the node's id)."""

    root: Node
    references: dict[int, str]


def children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, Call):
        return node.arguments if node.target is None else (node.target, *node.arguments)
    if isinstance(node, ListOf):
        return node.elements
    if isinstance(node, MapOf):
        return tuple(part for entry in node.entries for part in entry[:2])
    if isinstance(node, Comprehension):
        return (node.range, node.initial, node.condition, node.step, node.result)
    return ()
