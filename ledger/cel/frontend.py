"""The parser and type checker: `cel-expr-python`, used for nothing else (its evaluator is never called).

Four qualified variables make any other field of `device` a compile error with a position. Where an expression
needs `device` as one value, a second environment with a dynamic `device` takes it, and the fields are checked here.
The library is imported on the first compilation, because it is large.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from ledger.cel.errors import (
    RESULT_TYPE,
    SYNTAX,
    TOO_DEEP,
    TOO_LONG,
    TYPE_CHECK,
    UNSUPPORTED,
    CompileError,
    MalformedTree,
)
from ledger.cel.tree import Checked, Ident, Node, Select, children
from ledger.cel.values import DEVICE_FIELDS
from ledger.cel.wire import decode

LONGEST_EXPRESSION = 10 * 1024
_POSITION = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_PRESENCE = re.compile(
    r"(?P<skip>[rRbB]{0,2}(?:\"\"\".*?\"\"\"|\'\'\'.*?\'\'\'|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|//[^\n]*)"
    r"|(?<![\w.])has\s*\(\s*device\s*\.\s*(?:driver|attributes|capacity|allowMultipleAllocations)\s*\)",
    re.DOTALL,
)


class _Environments(NamedTuple):
    qualified: Any
    dynamic: Any


@functools.cache
def environments() -> _Environments:
    from cel_expr_python import cel  # type: ignore[import-untyped]
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # type: ignore[import-untyped]

    kinds = cel.Type
    quantity = kinds.AbstractType("kubernetes.Quantity")
    semver = kinds.AbstractType("kubernetes.Semver")
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{i}", result, parameters, member)
                for i, (result, parameters, member) in enumerate(overloads)
            ],
        )
        for name, overloads in _declarations(kinds, quantity, semver).items()
    ]
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_bindings.ExtBindings()]
    qualified = {
        "device.driver": kinds.STRING,
        "device.allowMultipleAllocations": kinds.BOOL,
        "device.attributes": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN)),
        "device.capacity": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, quantity)),
    }
    return _Environments(
        cel.NewEnv(variables=qualified, extensions=extensions, functions=functions),
        cel.NewEnv(variables={"device": kinds.DYN}, extensions=extensions, functions=functions),
    )


def _declarations(kinds: Any, quantity: Any, semver: Any) -> dict[str, list[tuple[Any, list[Any], bool]]]:
    text, truth, number = kinds.STRING, kinds.BOOL, kinds.INT
    ordered = [[quantity, quantity], [semver, semver]]
    return {
        "quantity": [(quantity, [text], False)],
        "isQuantity": [(truth, [text], False)],
        "semver": [(semver, [text], False), (semver, [text, truth], False)],
        "isSemver": [(truth, [text], False), (truth, [text, truth], False)],
        "compareTo": [(number, pair, True) for pair in ordered],
        "isGreaterThan": [(truth, pair, True) for pair in ordered],
        "isLessThan": [(truth, pair, True) for pair in ordered],
        "asInteger": [(number, [quantity], True)],
        "isInteger": [(truth, [quantity], True)],
        "asApproximateFloat": [(kinds.DOUBLE, [quantity], True)],
        "sign": [(number, [quantity], True)],
        "add": [(quantity, [quantity, quantity], True), (quantity, [quantity, number], True)],
        "sub": [(quantity, [quantity, quantity], True), (quantity, [quantity, number], True)],
        "major": [(number, [semver], True)],
        "minor": [(number, [semver], True)],
        "patch": [(number, [semver], True)],
        "includes": [(truth, [kinds.DYN, kinds.DYN], True)],
    }


def check(expression: str) -> Checked:
    """The checked tree of an expression that yields a truth value, or `CompileError`."""
    try:
        length = len(expression.encode())
    except UnicodeEncodeError:
        raise CompileError(SYNTAX, "the expression is not valid Unicode") from None
    if length > LONGEST_EXPRESSION:
        raise CompileError(TOO_LONG, f"expression is longer than {LONGEST_EXPRESSION} bytes")
    envs = environments()
    plain = _PRESENCE.sub(_always_present, expression)
    try:
        return _compile(envs.qualified, plain)
    except CompileError as error:
        if error.code not in (TYPE_CHECK, RESULT_TYPE):
            raise
        failure = error
    try:
        whole = _compile(envs.dynamic, plain)
    except CompileError:
        raise failure from None
    unknown, used_whole = _uses_of_device(whole.root)
    if not used_whole:
        raise failure from None
    if unknown is not None:
        raise _undefined(unknown, failure.report) from None
    return whole


def _always_present(match: re.Match[str]) -> str:
    """`has(device.driver)` is true for each of the four fields, whatever their value (dra S10).

    With qualified variables the checker would take the test for the variable itself, so the text of the test gives
    way to `true`, padded to keep every position.
    """
    if match["skip"] is not None:
        return match["skip"]
    return "true" + "".join(character if character == "\n" else " " for character in match[0][4:])


def _compile(environment: Any, expression: str) -> Checked:
    try:
        compiled = environment.compile(expression)
    except RuntimeError as error:
        raise _refusal(str(error)) from None
    kind = compiled.return_type().name()
    if kind.lower() not in ("bool", "dyn"):
        raise CompileError(RESULT_TYPE, f"must evaluate to bool or the unknown type, not {kind.lower()}", 1, 1)
    try:
        return decode(compiled.serialize())
    except MalformedTree as error:
        raise CompileError(UNSUPPORTED, f"the checked expression cannot be read: {error}") from None


def _refusal(text: str) -> CompileError:
    position = _POSITION.search(text)
    stripped = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    lowered = stripped.lower()
    if "recursion" in lowered or "nesting" in lowered or "depth" in lowered:
        code = TOO_DEEP
    else:
        code = SYNTAX if "syntax error" in lowered else TYPE_CHECK
    if position is None:
        return CompileError(code, stripped)
    return CompileError(code, position[3], int(position[1]), int(position[2]), stripped)


def _undefined(field: str, report: str) -> CompileError:
    """A field that `device` does not have, at the place where the first environment missed it."""
    for line, column, text in _POSITION.findall(report):
        if f"'device.{field}'" in text:
            return CompileError(TYPE_CHECK, f"undefined field '{field}'", int(line), int(column))
    return CompileError(TYPE_CHECK, f"undefined field '{field}'")


def _uses_of_device(root: Node) -> tuple[str | None, bool]:
    """A field read from `device` that is not one of the four, and whether `device` is used as one value."""
    unknown, whole = None, False
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "device":
            if node.field not in DEVICE_FIELDS:
                unknown = node.field
            continue
        if isinstance(node, Ident) and node.name == "device":
            whole = True
        waiting.extend(children(node))
    return unknown, whole
