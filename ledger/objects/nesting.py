"""How deep JSON text nests.

Decoders give up somewhere, but where depends on the interpreter and on who calls. One fixed number, checked before
any decoder sees the text, makes every machine draw the same line. The check works on whole texts in C and costs a
typical record one pass.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

GREATEST_DEPTH = 256
"""Levels of nesting that text may have."""

_ROUNDS = 24
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_OPENING = bytes(set(range(256)) - set(b"{["))
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'{}[]"'))
_QUOTED = re.compile(rb'"[^"]*(?:"|\Z)')
_RUN_OF_OPENINGS = b"[" * (GREATEST_DEPTH + 1)
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")


def is_too_deep(text: bytes) -> bool:
    """Whether JSON text nests deeper than allowed. What is no JSON is left for the decoder to refuse."""
    if len(text.translate(None, _NO_OPENING)) <= GREATEST_DEPTH:
        return False
    brackets = _brackets(text)
    removed = 0
    while removed < _ROUNDS and brackets.count(b"[") + removed > GREATEST_DEPTH:
        if _RUN_OF_OPENINGS in brackets:
            return True
        # This takes away what is innermost everywhere, so the depth falls by one.
        brackets = brackets.replace(b"[]", b"")
        removed += 1
    return brackets.count(b"[") + removed > GREATEST_DEPTH and _depth(brackets) + removed > GREATEST_DEPTH


def _brackets(text: bytes) -> bytes:
    """The brackets of the text that are not inside strings, all written as square ones."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"") if b"\\\\" in text else text
        text = text.replace(b'\\"', b"")
    text = text.translate(_ALIKE, _NEITHER_BRACKET_NOR_QUOTE)
    # Two quotes in a row change nothing about what is inside a string.
    text = text.replace(b'""', b"")
    return _QUOTED.sub(b"", text) if b'"' in text else text


def _depth(brackets: bytes) -> int:
    return max(accumulate(array("b", brackets.translate(_STEPS))), default=0)
