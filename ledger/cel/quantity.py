"""Kubernetes quantities inside expressions: exact numbers with a scale of one billionth."""

from __future__ import annotations

import functools
import re

from ledger.cel.errors import bad_argument

NANO = 10**9
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

_SHAPE = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([eE])([+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)\Z", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 512
_LIMIT = INT64_MAX * NANO


@functools.total_ordering
class Quantity:
    """An amount in billionths; finer digits round away from zero, larger magnitudes are capped (dra A1)."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(("quantity", self.nanos))

    def __repr__(self) -> str:
        return f"Quantity({self.nanos})"

    @property
    def is_integer(self) -> bool:
        return self.nanos % NANO == 0 and INT64_MIN <= self.nanos // NANO <= INT64_MAX

    def as_integer(self) -> int:
        if not self.is_integer:
            raise bad_argument("cannot convert value to integer")
        return self.nanos // NANO

    def as_float(self) -> float:
        return self.nanos / NANO

    @property
    def sign(self) -> int:
        return (self.nanos > 0) - (self.nanos < 0)


def parse_quantity(text: str) -> Quantity:
    """Bounded work for any text: an exponent is compared before it is applied."""
    if len(text) > _LONGEST:
        raise bad_argument("quantities must match the regular expression of resource quantities")
    shape = _SHAPE.match(text)
    if shape is None or not (shape[2] or shape[3]):
        raise bad_argument("quantities must match the regular expression of resource quantities")
    fraction = shape[3] or ""
    digits = int((shape[2] or "") + fraction or "0")
    if shape[6] in _BINARY:
        magnitude = _scale(digits << _BINARY[shape[6]], 9 - len(fraction))
    else:
        exponent = int(shape[5]) if shape[4] else _DECIMAL[shape[6] or ""]
        magnitude = _scale(digits, exponent + 9 - len(fraction))
    magnitude = min(magnitude, _LIMIT)
    return Quantity(-magnitude if shape[1] == "-" else magnitude)


def _scale(digits: int, power: int) -> int:
    """`digits` times ten to `power`, rounded up; beyond any limit the limit is enough."""
    if digits == 0:
        return 0
    if power >= 0:
        return digits * int(10**power) if power <= 40 else _LIMIT
    if -power > _LONGEST + 8:
        return 1
    return -(-digits // int(10**-power))
