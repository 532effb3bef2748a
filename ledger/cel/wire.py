"""Reading a checked expression from its public protobuf form, `cel.expr.CheckedExpr` inside an `Any`.

Forty lines of wire format instead of a dependency; the numbers of fields are those of the published schema.
Whatever is truncated, unknown or too deep is `MalformedTree`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ledger.cel.errors import MalformedTree
from ledger.cel.tree import Call, Checked, Comprehension, Constant, Ident, ListOf, MapOf, Node, Select
from ledger.cel.values import Uint

_DEEPEST = 400
_TWO_63 = 2**63
_TWO_64 = 2**64

Field = tuple[int, int | bytes]


def fields(data: bytes) -> Iterator[Field]:
    """Number and value of each field: an int for varints and fixed words, bytes for what has a length."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise MalformedTree("field number zero")
        if kind == 0:
            value, position = _varint(data, position)
            yield number, value
        elif kind == 2:
            length, position = _varint(data, position)
            if position + length > end:
                raise MalformedTree("truncated field")
            yield number, data[position : position + length]
            position += length
        elif kind == 1 or kind == 5:
            width = 8 if kind == 1 else 4
            if position + width > end:
                raise MalformedTree("truncated word")
            yield number, data[position : position + width]
            position += width
        else:
            raise MalformedTree(f"unknown wire type {kind}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if position >= len(data) or shift > 63:
            raise MalformedTree("truncated number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value & (_TWO_64 - 1), position
        shift += 7


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedTree("a number where a message was expected")
    return value


def _int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise MalformedTree("a message where a number was expected")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedTree("a text that is not UTF-8") from error


def decode(data: bytes) -> Checked:
    checked = next((_bytes(value) for number, value in fields(data) if number == 2), None)
    if checked is None:
        raise MalformedTree("no checked expression inside")
    references: dict[int, str] = {}
    root: Node | None = None
    for number, value in fields(checked):
        if number == 2:
            key, name = _reference(_bytes(value))
            if name:
                references[key] = name
        elif number == 4:
            root = _node(_bytes(value), 0)
    if root is None:
        raise MalformedTree("no expression inside")
    return Checked(root, references)


def _reference(data: bytes) -> tuple[int, str]:
    key, name = 0, ""
    for number, value in fields(data):
        if number == 1:
            key = _int(value)
        elif number == 2:
            name = next((_text(inner) for index, inner in fields(_bytes(value)) if index == 1), "")
    return key, name


def _node(data: bytes, depth: int) -> Node:
    if depth > _DEEPEST:
        raise MalformedTree("nested too deeply")
    identity = 0
    body: tuple[int, bytes] | None = None
    for number, value in fields(data):
        if number == 2:
            identity = _int(value)
        elif 3 <= number <= 9:
            body = (number, _bytes(value))
    if body is None:
        raise MalformedTree("an expression without content")
    number, content = body
    if number == 3:
        return _constant(identity, content)
    if number == 4:
        return Ident(identity, next((_text(v) for n, v in fields(content) if n == 1), ""))
    if number == 5:
        return _select(identity, content, depth)
    if number == 6:
        return _call(identity, content, depth)
    if number == 7:
        return _list(identity, content, depth)
    if number == 8:
        return _map(identity, content, depth)
    return _comprehension(identity, content, depth)


def _constant(identity: int, data: bytes) -> Constant:
    for number, value in fields(data):
        if number == 1:
            return Constant(identity, None)
        if number == 2:
            return Constant(identity, bool(_int(value)))
        if number == 3:
            signed = _int(value)
            return Constant(identity, signed - _TWO_64 if signed >= _TWO_63 else signed)
        if number == 4:
            return Constant(identity, Uint(_int(value)))
        if number == 5:
            word = _bytes(value)
            if len(word) != 8:
                raise MalformedTree("a double that is not eight bytes")
            return Constant(identity, float(struct.unpack("<d", word)[0]))
        if number == 6:
            return Constant(identity, _text(value))
        if number == 7:
            return Constant(identity, _bytes(value))
        raise MalformedTree(f"unknown kind of constant {number}")
    raise MalformedTree("a constant without a kind")


def _select(identity: int, data: bytes, depth: int) -> Select:
    operand, name, test_only = None, "", False
    for number, value in fields(data):
        if number == 1:
            operand = _node(_bytes(value), depth + 1)
        elif number == 2:
            name = _text(value)
        elif number == 3:
            test_only = bool(_int(value))
    if operand is None:
        raise MalformedTree("a selection from nothing")
    return Select(identity, operand, name, test_only)


def _call(identity: int, data: bytes, depth: int) -> Call:
    target, function = None, ""
    arguments: list[Node] = []
    for number, value in fields(data):
        if number == 1:
            target = _node(_bytes(value), depth + 1)
        elif number == 2:
            function = _text(value)
        elif number == 3:
            arguments.append(_node(_bytes(value), depth + 1))
    return Call(identity, target, function, tuple(arguments))


def _list(identity: int, data: bytes, depth: int) -> ListOf:
    elements: list[Node] = []
    optional: set[int] = set()
    for number, value in fields(data):
        if number == 1:
            elements.append(_node(_bytes(value), depth + 1))
        elif number == 2 and isinstance(value, bytes):
            position = 0
            while position < len(value):
                index, position = _varint(value, position)
                optional.add(index)
        elif number == 2:
            optional.add(_int(value))
    return ListOf(identity, tuple(elements), frozenset(optional))


def _map(identity: int, data: bytes, depth: int) -> MapOf:
    entries: list[tuple[Node, Node, bool]] = []
    for number, value in fields(data):
        if number == 1 and _text(value):
            raise MalformedTree("messages are not part of this environment")
        if number != 2:
            continue
        key: Node | None = None
        content: Node | None = None
        optional = False
        for inner, part in fields(_bytes(value)):
            if inner == 3:
                key = _node(_bytes(part), depth + 1)
            elif inner == 4:
                content = _node(_bytes(part), depth + 1)
            elif inner == 5:
                optional = bool(_int(part))
        if key is None or content is None:
            raise MalformedTree("a map entry without key or value")
        entries.append((key, content, optional))
    return MapOf(identity, tuple(entries))


def _comprehension(identity: int, data: bytes, depth: int) -> Comprehension:
    names = {1: "", 3: "", 8: ""}
    parts: dict[int, Node] = {}
    for number, value in fields(data):
        if number in names:
            names[number] = _text(value)
        elif number in (2, 4, 5, 6, 7):
            parts[number] = _node(_bytes(value), depth + 1)
    if len(parts) != 5:
        raise MalformedTree("a comprehension with parts missing")
    return Comprehension(identity, names[1], names[8], parts[2], names[3], parts[4], parts[5], parts[6], parts[7])
