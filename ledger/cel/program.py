"""A compiled expression, and the bounded cache of compiled expressions."""

from __future__ import annotations

from collections import OrderedDict

from ledger.cel.closures import Closures
from ledger.cel.cost import LIMIT
from ledger.cel.errors import NOT_BOOL, UNSUPPORTED, CompileError, EvaluationError
from ledger.cel.frontend import check
from ledger.cel.reads import Reads, analyse
from ledger.cel.values import Device, type_name

LARGEST_CACHE = 16 * 1024 * 1024
_OVERHEAD = 8 * 1024


class Program:
    """Answers whether a device matches; evaluation changes neither the device nor the program."""

    __slots__ = ("expression", "reads", "_root", "_slots")

    def __init__(self, expression: str) -> None:
        checked = check(expression)
        try:
            closures = Closures(checked)
            self.reads: Reads = analyse(checked)
        except RecursionError:
            raise CompileError(UNSUPPORTED, "the expression is nested too deeply") from None
        self.expression = expression
        self._root = closures.root
        self._slots = closures.slots

    def matches(self, device: Device, limit: int = LIMIT) -> bool:
        """True or false; `EvaluationError` when the expression has no answer for this device."""
        value = self._root(device, [None] * self._slots, [limit])
        if type(value) is not bool:
            raise EvaluationError(NOT_BOOL, f"CEL result of type {type_name(value)} could not be converted to bool")
        return value


_cache: OrderedDict[str, Program | CompileError] = OrderedDict()
_cached_bytes = 0


def compile_expression(expression: str) -> Program:
    """The program of an expression; refusals are remembered too. The cache is bounded by bytes (dra G33)."""
    global _cached_bytes
    found = _cache.get(expression)
    if found is not None:
        _cache.move_to_end(expression)
    else:
        try:
            found = Program(expression)
        except CompileError as error:
            found = error.with_traceback(None)
        _cache[expression] = found
        _cached_bytes += _weight(expression)
        while _cached_bytes > LARGEST_CACHE:
            oldest, _ = _cache.popitem(last=False)
            _cached_bytes -= _weight(oldest)
    if isinstance(found, CompileError):
        raise CompileError(found.code, found.text, found.line, found.column)
    return found


def _weight(expression: str) -> int:
    return _OVERHEAD + 40 * len(expression)
