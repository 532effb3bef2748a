"""The price of an evaluation: a runaway expression stops, a reasonable one never notices (dra S9).

One unit for a selection, an index, a call or a name; strings and lists in tenths of their length; a pattern times
the text it searches. Equality with other implementations' figures is not a goal.
"""

from __future__ import annotations

from ledger.cel.errors import COST, EvaluationError

LIMIT = 1_000_000
CONTAINER = 10

Budget = list[int]


def spend(budget: Budget, units: int) -> None:
    budget[0] -= units
    if budget[0] < 0:
        raise exhausted()


def exhausted() -> EvaluationError:
    return EvaluationError(COST, "actual cost limit exceeded")


def of_length(length: int) -> int:
    return length // 10 + 1
