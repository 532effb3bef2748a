"""Amounts of quota and usage: signed 64-bit integers that saturate (admission 0.4, preemption R0.1 to R0.4).

cpu is counted in thousandths of a core, every other resource in whole units. `UNLIMITED` is what a quota becomes
that does not fit into 64 bits; a bounded sum that reaches it *is* unlimited from then on.
"""

from __future__ import annotations

from typing import Final

MAXIMUM: Final = 2**63 - 1
MINIMUM: Final = -(2**63)


class Unlimited(int):
    """The one amount that is no number: it equals itself and exceeds every bounded amount (admission 0.4.6)."""

    __slots__ = ()

    def __new__(cls) -> Unlimited:
        return super().__new__(cls, MAXIMUM)

    def __repr__(self) -> str:
        return "UNLIMITED"


UNLIMITED: Final = Unlimited()


def saturated(value: int) -> int:
    """`value` inside the 64-bit range; what reaches the upper bound is `UNLIMITED`."""
    if value >= MAXIMUM:
        return UNLIMITED
    return value if value > MINIMUM else MINIMUM


def add(a: int, b: int) -> int:
    """a + b (admission 0.4.4)."""
    total = a + b
    if a >= MAXIMUM or b >= MAXIMUM or total >= MAXIMUM:
        return UNLIMITED
    return total if total > MINIMUM else MINIMUM


def subtract(a: int, b: int) -> int:
    """a - b (admission 0.4.5). Unlimited minus a bounded amount stays unlimited."""
    if a >= MAXIMUM:
        return 0 if b >= MAXIMUM else UNLIMITED
    if b >= MAXIMUM:
        return MINIMUM
    difference = a - b
    if difference >= MAXIMUM:
        return UNLIMITED
    return difference if difference > MINIMUM else MINIMUM


def multiply(amount: int, count: int) -> int:
    """amount x count, saturating at both bounds (admission 0.4.7)."""
    return saturated(amount * count)


def divide(amount: int, count: int) -> int:
    """Integer division truncating toward zero; 0 / 0 is 0 (admission 0.4.7)."""
    if count == 0:
        return 0
    quotient = abs(amount) // abs(count)
    return quotient if (amount < 0) == (count < 0) else -quotient
