"""What can go wrong with an expression: when it is compiled, and when it is evaluated."""

from __future__ import annotations

SYNTAX = "Syntax"
TYPE_CHECK = "TypeCheck"
RESULT_TYPE = "ResultType"
TOO_LONG = "TooLong"
TOO_DEEP = "ExpressionTooDeep"
UNSUPPORTED = "Unsupported"

NO_SUCH_KEY = "NO_SUCH_KEY"
NO_OVERLOAD = "NO_OVERLOAD"
OVERFLOW = "OVERFLOW"
BAD_ARGUMENT = "BAD_ARGUMENT"
COST = "COST"
NOT_BOOL = "NOT_BOOL"


class CompileError(ValueError):
    """The expression is refused before it ever sees a device; `line` and `column` count from one, zero is unknown."""

    def __init__(self, code: str, text: str, line: int = 0, column: int = 0, report: str = "") -> None:
        super().__init__(text)
        self.report = report
        """Everything the compiler said, where it said more than one thing."""
        self.code = code
        self.text = text
        self.line = line
        self.column = column


class EvaluationError(Exception):
    """The expression has no answer for this device, which is not the same as "no match" (dra S6).

    `name` is the missing key where a key was missing; whoever reports the error adds device and driver.
    """

    def __init__(self, code: str, text: str, name: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.name = name


class MalformedTree(ValueError):
    """The bytes are not a checked expression of a form this package knows."""


def no_overload(function: str, *operands: object) -> EvaluationError:
    from ledger.cel.values import type_name

    kinds = ", ".join(type_name(operand) for operand in operands)
    return EvaluationError(NO_OVERLOAD, f"no such overload: {function}({kinds})")


def bad_argument(text: str) -> EvaluationError:
    return EvaluationError(BAD_ARGUMENT, text)


def no_such_key(name: object) -> EvaluationError:
    return EvaluationError(NO_SUCH_KEY, f"no such key: {name}", str(name))


def overflow(what: str) -> EvaluationError:
    return EvaluationError(OVERFLOW, f"{what} overflow")
