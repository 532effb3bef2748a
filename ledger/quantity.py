"""Kubernetes quantities: exact values, the amounts made from them, their canonical text (admission 0.4, objects 0.2).

A quantity is kept as a whole number of nano-units, the finest step Kubernetes knows. Finer text rounds away from
zero to the next nano-unit, and nothing is larger than 2^63-1 whole units, however long or hostile the text is.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import lru_cache

from ledger.amounts import MAXIMUM, MINIMUM, UNLIMITED

NANO = 10**9
"""Nano-units in one whole unit."""

MILLI = 10**6
"""Nano-units in a thousandth, the unit of cpu."""

LARGEST_QUANTITY = MAXIMUM * NANO

UNLIMITED_CPU_CORES = 9223372036854775
"""A cpu quota of this many cores or more does not fit in 64 bits of thousandths (admission 0.4.2)."""

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<fraction>[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_FACTORS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}

_CACHED_LENGTH = 40
_KEPT_DIGITS = 100
"""Digits kept after the point. A step of 2^60 nano-units has 69 at most, so cutting here cannot move a rounding."""
_BEYOND_ANY_LENGTH = 10**12
"""Stands for every larger exponent: no text has so many digits that it could be made up for."""


class Quantity(int):
    """An exact quantity, in nano-units."""

    __slots__ = ()


class NonNegativeQuantity(Quantity):
    """A quantity that the API server accepts only when it is zero or more."""

    __slots__ = ()


def parse_quantity(text: str | int | float) -> Quantity:
    """Read a quantity as Kubernetes writes it; a bare JSON number is legal too.

    Raises ValueError for anything else. The cost is bounded whatever the text says.
    """
    if isinstance(text, str):
        return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ValueError(f"a quantity is a text or a number, not {type(text).__name__}")
    if isinstance(text, int):
        return Quantity(max(-LARGEST_QUANTITY, min(LARGEST_QUANTITY, text * NANO)))
    if text != text or text in (float("inf"), float("-inf")):
        raise ValueError("a quantity is a finite number")
    return _parse(repr(text))


def _parse(text: str) -> Quantity:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(f"{shortened(text)} is not a quantity")
    sign, whole, part, fraction, suffix, exponent = match.groups()
    nano = _nano_units(whole or "", part or fraction or "", suffix, exponent)
    return Quantity(-nano if sign == "-" else nano)


_parse_cached = lru_cache(maxsize=16384)(_parse)


def _nano_units(whole: str, fraction: str, suffix: str | None, exponent: str | None) -> int:
    """The magnitude in nano-units, rounded away from zero and capped."""
    factor = _BINARY_FACTORS.get(suffix, 1) if suffix else 1
    shift = 0 if factor > 1 else _decimal_exponent(suffix, exponent)
    # The value is digits x 10^-scale x factor, and digits x 10^-scale is below 10^top and at least 10^(top-1).
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    scale = len(fraction) - shift
    top = len(digits) - scale
    if top > 30:
        return LARGEST_QUANTITY
    if top < -30:
        return 1
    if scale > _KEPT_DIGITS:
        kept, rest = digits[: top + _KEPT_DIGITS], digits[top + _KEPT_DIGITS :]
        digits = kept + ("1" if rest.strip("0") else "0")
        scale = _KEPT_DIGITS + 1
    numerator: int = int(digits) * factor * NANO * 10 ** max(0, -scale)
    denominator: int = 10 ** max(0, scale)
    return min(-(-numerator // denominator), LARGEST_QUANTITY)


def _decimal_exponent(suffix: str | None, exponent: str | None) -> int:
    if suffix is not None:
        return _DECIMAL_EXPONENTS[suffix]
    if exponent is None:
        return 0
    digits = exponent.lstrip("+-").lstrip("0")
    size = _BEYOND_ANY_LENGTH if len(digits) > 9 else int(digits or "0")
    return -size if exponent[0] == "-" else size


def shortened(text: str) -> str:
    """The text in quotes, cut so that a message stays readable."""
    return repr(text) if len(text) <= 64 else f"{text[:48]!r}... ({len(text)} characters)"


def quota_amount(quantity: int, resource: str) -> int:
    """The quota side of a quantity (admission 0.4.2): thousandths of cpu, whole units otherwise, rounded up."""
    if resource == "cpu":
        if quantity >= UNLIMITED_CPU_CORES * NANO:
            return UNLIMITED
        return _away_from_zero(quantity, MILLI)
    if quantity >= LARGEST_QUANTITY:
        return UNLIMITED
    return _away_from_zero(quantity, NANO)


def request_amount(quantity: int, resource: str) -> int:
    """The request side of a quantity (admission 0.4.3): the same units and rounding, clamped to 64 bits."""
    amount = _away_from_zero(quantity, MILLI if resource == "cpu" else NANO)
    return MAXIMUM if amount > MAXIMUM else MINIMUM if amount < MINIMUM else amount


def _away_from_zero(quantity: int, unit: int) -> int:
    return -(-quantity // unit) if quantity >= 0 else quantity // unit


def canonical(resource: str, amount: int, binary: Container[str] = ()) -> str:
    """The text Kueue writes for an amount of a resource (admission 7.1.2, objects 0.2).

    `binary` names further resources that print in binary units, such as the keys of device counters (dra A8).
    """
    if resource == "cpu":
        return canonical_quantity(amount * MILLI)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-") or resource in binary:
        return canonical_quantity(amount * NANO, binary=True)
    return canonical_quantity(amount * NANO)


_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def canonical_quantity(quantity: int, *, binary: bool = False) -> str:
    """The shortest exact text of a quantity given in nano-units: the largest suffix that leaves a whole number.

    Binary form is used only from 1024 upwards and only for whole units, as Kubernetes does.
    """
    if binary and abs(quantity) >= 1024 * NANO and quantity % NANO == 0:
        return _with_suffix(quantity // NANO, 1024, _BINARY_SUFFIXES)
    return _with_suffix(quantity, 1000, _DECIMAL_SUFFIXES) if quantity else "0"


def _with_suffix(value: int, step: int, suffixes: tuple[str, ...]) -> str:
    place = 0
    while place < len(suffixes) - 1 and value % step == 0:
        value //= step
        place += 1
    return f"{value}{suffixes[place]}"
