"""The decoder of checked expressions refuses what it does not know, cleanly."""

from __future__ import annotations

import random

import pytest

from ledger.cel.errors import MalformedTree
from ledger.cel.frontend import environments
from ledger.cel.tree import Call
from ledger.cel.wire import decode


def serialized(expression: str) -> bytes:
    return bytes(environments().qualified.compile(expression).serialize())


def test_a_tree_comes_back_as_it_was_checked() -> None:
    checked = decode(serialized("device.driver == 'x' && has(device.attributes['d'].y)"))
    assert isinstance(checked.root, Call)
    assert checked.root.function == "_&&_"
    assert "device.driver" in checked.references.values()


@pytest.mark.parametrize("data", [b"", b"\x12", b"\x12\x00", b"\x00\x00", b"\x12\x03\x22\x01\x08", b"\xff" * 20])
def test_what_is_not_a_checked_expression_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedTree):
        decode(data)


def test_truncated_and_spoiled_bytes_never_raise_anything_else() -> None:
    whole = serialized(
        "[1, 2u, 3.5, -4].exists(x, x > 1) ? {'a': b'x'}.size() == 1 : cel.bind(d, device.driver, d == 'x')"
    )
    chance = random.Random(5)
    for _ in range(3000):
        spoiled = bytearray(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            if spoiled:
                spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
        try:
            decode(bytes(spoiled))
        except MalformedTree:
            continue
