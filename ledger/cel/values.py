"""Values of the expression language, their names, equality and order.

Python's own `True == 1` must not show: every function dispatches on exact types. Numbers of the three kinds
compare by value across kinds; any other mixed pair is unequal, and has no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.cel.errors import EvaluationError, no_overload
from ledger.cel.quantity import INT64_MAX, INT64_MIN, Quantity
from ledger.cel.semver import Semver

UINT64_MAX = 2**64 - 1
LONGEST_LIST_FOR_INCLUDES = 48


class Uint(int):
    """An unsigned integer; a class of its own because `1u` and `1` are different types."""

    __slots__ = ()


class Optional:
    """A value that may be absent; absence is the single object `NONE`."""

    __slots__ = ("value", "present")

    def __init__(self, value: Any, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE = Optional(None, False)


class Duration:
    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos


class Timestamp:
    """Nanoseconds since the epoch."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos


class TypeValue:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Domains(dict[str, dict[str, Any]]):
    """Attributes or capacities by domain: reading an unknown domain gives an empty map, asking for it says no."""

    __slots__ = ()

    def __missing__(self, domain: str) -> dict[str, Any]:
        return _EMPTY


_EMPTY: dict[str, Any] = {}


class Device:
    """What an expression sees. Build it once for each set of values; it is never changed by evaluation."""

    __slots__ = ("driver", "attributes", "capacity", "allow_multiple_allocations")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Mapping[str, Any]],
        capacity: Mapping[str, Mapping[str, Quantity]],
        allow_multiple_allocations: bool = False,
    ) -> None:
        self.driver = driver
        self.attributes = Domains({domain: dict(ids) for domain, ids in attributes.items()})
        self.capacity = Domains({domain: dict(ids) for domain, ids in capacity.items()})
        self.allow_multiple_allocations = allow_multiple_allocations


DEVICE_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")


def device_field(device: Device, name: str) -> Any:
    if name == "driver":
        return device.driver
    if name == "attributes":
        return device.attributes
    if name == "capacity":
        return device.capacity
    if name == "allowMultipleAllocations":
        return device.allow_multiple_allocations
    raise EvaluationError("NO_SUCH_KEY", f"no such field: {name}", name)


class BoolKey:
    """A map key that is a truth value, kept apart from the numbers 0 and 1."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoolKey) and other.value == self.value

    def __hash__(self) -> int:
        return hash(("bool", self.value))


def to_key(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return BoolKey(value)
    if kind is float and value.is_integer():
        return int(value)
    return _NO_KEY


def from_key(key: Any) -> Any:
    return key.value if type(key) is BoolKey else key


_NO_KEY = object()

_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    tuple: "list",
    dict: "map",
    Domains: "map",
    Optional: "optional_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Device: "kubernetes.DRADevice",
}
_NUMBERS = (int, Uint, float)


def type_name(value: object) -> str:
    return _NAMES.get(type(value), type(value).__name__)


def is_list(value: object) -> bool:
    return type(value) is list or type(value) is tuple


def is_map(value: object) -> bool:
    return isinstance(value, dict)


def equal(left: Any, right: Any) -> bool:
    """Equality never fails: what cannot be compared is unequal."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS:
        return other in _NUMBERS and bool(left == right)
    if is_list(left):
        return is_list(right) and len(left) == len(right) and all(map(equal, left, right))
    if is_map(left):
        if not is_map(right) or len(left) != len(right):
            return False
        return all(key in right and equal(value, right[key]) for key, value in left.items())
    if kind is not other:
        return False
    if kind is Optional:
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    if kind is Duration or kind is Timestamp:
        return bool(left.nanos == right.nanos)
    if kind is TypeValue:
        return bool(left.name == right.name)
    if kind is Device:
        return left is right
    return bool(left == right)


def compare(operator: str, left: Any, right: Any) -> int:
    """Minus one, zero or one; two for numbers that have no order (not a number)."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:
            return 2
        return int(left > right) - int(left < right)
    if kind is other:
        if kind is str or kind is bytes or kind is bool:
            return int(left > right) - int(left < right)
        if kind is Duration or kind is Timestamp:
            return int(left.nanos > right.nanos) - int(left.nanos < right.nanos)
    raise no_overload(operator, left, right)


def checked(value: int, what: str) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise EvaluationError("OVERFLOW", f"integer overflow in {what}")
    return value


def checked_uint(value: int, what: str) -> Uint:
    if not 0 <= value <= UINT64_MAX:
        raise EvaluationError("OVERFLOW", f"unsigned integer overflow in {what}")
    return Uint(value)
