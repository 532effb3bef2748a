"""What an expression can depend on, found in its tree.

`drivers` are the only drivers whose devices can make it anything but false; `names` the attributes and capacities
it reads by constant name; `keys` the kinds whose published names it goes through; `whole` says that it may read
something else too. Equal values of what is read give equal answers, so identical devices need one evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.cel.tree import Call, Checked, Comprehension, Constant, Ident, ListOf, Node, Select, children
from ledger.cel.values import DEVICE_FIELDS

ATTRIBUTES = "attributes"
CAPACITY = "capacity"

Name = tuple[str, str, str]
"""(attributes or capacity, domain, id)."""


class Reads(NamedTuple):
    drivers: frozenset[str] | None
    names: frozenset[Name]
    keys: frozenset[str]
    sharing: bool
    whole: bool


class _Place(NamedTuple):
    """A value on the way to an attribute: the device, a map of domains, or one domain."""

    kind: str
    domain: str | None = None


_DEVICE = _Place("device")


def analyse(checked: Checked) -> Reads:
    visitor = _Visitor(checked.references)
    visitor.consume(checked.root, {})
    drivers = _drivers(checked.root, checked.references)
    return Reads(drivers, frozenset(visitor.names), frozenset(visitor.keys), visitor.sharing, visitor.whole)


class _Visitor:
    def __init__(self, references: dict[int, str]) -> None:
        self.references = references
        self.names: set[Name] = set()
        self.keys: set[str] = set()
        self.sharing = False
        self.whole = False

    def consume(self, node: Node, aliases: dict[str, _Place | None]) -> None:
        """Visit a node whose value is used as it is; a whole map used so may show anything in it."""
        if self.visit(node, aliases) is not None:
            self.whole = True

    def enumerate(self, node: Node, aliases: dict[str, _Place | None]) -> None:
        """Visit a node of which only the names inside matter: the range of a comprehension, or its size."""
        place = self.visit(node, aliases)
        if place is not None:
            self.go_through(place)

    def go_through(self, place: _Place) -> None:
        if place is _DEVICE:
            self.whole = True
        else:
            self.keys.add(place.kind)

    def visit(self, node: Node, aliases: dict[str, _Place | None]) -> _Place | None:
        if isinstance(node, Ident):
            if node.name in aliases:
                return aliases[node.name]
            if node.name.startswith("device."):
                return self._device_field(node.name.removeprefix("device."))
            return _DEVICE if node.name == "device" else None
        if isinstance(node, Select):
            return self._select(node, aliases)
        if isinstance(node, Call):
            return self._call(node, aliases)
        if isinstance(node, Comprehension):
            return self._comprehension(node, aliases)
        for child in children(node):
            self.consume(child, aliases)
        return None

    def _select(self, node: Select, aliases: dict[str, _Place | None]) -> _Place | None:
        reference = self.references.get(node.id)
        if reference is not None and reference.startswith("device.") and not node.test_only:
            return self._device_field(reference.removeprefix("device."))
        holder = self.visit(node.operand, aliases)
        if holder is None:
            return None
        if holder is _DEVICE:
            return None if node.test_only else self._device_field(node.field)
        if holder.domain is None and node.test_only:
            self.keys.add(holder.kind)
            return None
        return self._inside(holder, node.field)

    def _device_field(self, name: str) -> _Place | None:
        if name == "allowMultipleAllocations":
            self.sharing = True
        if name not in DEVICE_FIELDS:
            self.whole = True
        return _Place(name) if name in (ATTRIBUTES, CAPACITY) else None

    def _inside(self, holder: _Place, key: str) -> _Place | None:
        if holder.domain is None:
            return _Place(holder.kind, key)
        self.names.add((holder.kind, holder.domain, key))
        return None

    def _call(self, node: Call, aliases: dict[str, _Place | None]) -> _Place | None:
        arguments = node.arguments
        if node.function in ("_[_]", "_[?_]", "_?._") and len(arguments) == 2:
            holder, key = self.visit(arguments[0], aliases), _text(arguments[1])
            if holder is not None and key is not None:
                return self._device_field(key) if holder is _DEVICE else self._inside(holder, key)
            self.whole = self.whole or holder is not None
            self.consume(arguments[1], aliases)
            return None
        if node.function in ("@in", "in", "_in_") and len(arguments) == 2 and _text(arguments[0]) is not None:
            holder = self.visit(arguments[1], aliases)
            if holder is not None and holder.domain is not None:
                self._inside(holder, _text(arguments[0]) or "")
            elif holder is not None:
                self.go_through(holder)
            return None
        if node.function == "size" and len(children(node)) == 1:
            self.enumerate(children(node)[0], aliases)
            return None
        for child in children(node):
            self.consume(child, aliases)
        return None

    def _comprehension(self, node: Comprehension, aliases: dict[str, _Place | None]) -> _Place | None:
        if isinstance(node.range, ListOf) and not node.range.elements:
            bound = self.visit(node.initial, aliases)
            return self.visit(node.result, {**aliases, node.accumulator: bound})
        self.enumerate(node.range, aliases)
        self.consume(node.initial, aliases)
        inner: dict[str, _Place | None] = {**aliases, node.accumulator: None, node.variable: None}
        for part in (node.condition, node.step, node.result):
            self.consume(part, inner)
        return None


def _text(node: Node) -> str | None:
    return node.value if isinstance(node, Constant) and type(node.value) is str else None


def _drivers(node: Node, references: dict[int, str]) -> frozenset[str] | None:
    if not isinstance(node, Call) or len(node.arguments) != 2:
        return None
    left, right = node.arguments
    if node.function == "_&&_":
        one, other = _drivers(left, references), _drivers(right, references)
        return other if one is None else one if other is None else one & other
    if node.function == "_||_":
        one, other = _drivers(left, references), _drivers(right, references)
        return None if one is None or other is None else one | other
    if node.function == "_==_":
        for side, constant in ((left, right), (right, left)):
            if references.get(side.id) == "device.driver" and _text(constant) is not None:
                return frozenset({_text(constant) or ""})
    if node.function == "@in" and references.get(left.id) == "device.driver" and isinstance(right, ListOf):
        texts = [_text(element) for element in right.elements]
        if None not in texts and not right.optional:
            return frozenset(text for text in texts if text is not None)
    return None
