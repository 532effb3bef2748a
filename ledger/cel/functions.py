"""Every function of the environment, by name; the first operand of a member call is its target.

Types are looked at when a function runs, because the values of attributes are only known then. A name that is not
in `FUNCTIONS` is a compile error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ledger.cel import moments, strings
from ledger.cel.cost import Budget, of_length, spend
from ledger.cel.errors import EvaluationError, bad_argument, no_overload, no_such_key
from ledger.cel.quantity import INT64_MAX, INT64_MIN, Quantity, parse_quantity
from ledger.cel.semver import Semver, parse_semver
from ledger.cel.values import (
    LONGEST_LIST_FOR_INCLUDES,
    NONE,
    UINT64_MAX,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    checked,
    checked_uint,
    compare,
    equal,
    is_list,
    is_map,
    to_key,
    type_name,
)

Function = Callable[..., Any]


# --- operators -------------------------------------------------------------------------------------------------


def add(budget: Budget, left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is int and other is int:
        return checked(left + right, "addition")
    if kind is Uint and other is Uint:
        return checked_uint(int(left) + int(right), "addition")
    if kind is float and other is float:
        return left + right
    if (kind is str and other is str) or (kind is bytes and other is bytes):
        spend(budget, of_length(len(left) + len(right)))
        return left + right
    if is_list(left) and is_list(right):
        spend(budget, of_length(len(left) + len(right)))
        return [*left, *right]
    if kind is Duration and other is Duration:
        return moments.duration_of(left.nanos + right.nanos)
    if kind is Timestamp and other is Duration:
        return moments.shift(left, right.nanos)
    if kind is Duration and other is Timestamp:
        return moments.shift(right, left.nanos)
    raise no_overload("_+_", left, right)


def subtract(budget: Budget, left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is int and other is int:
        return checked(left - right, "subtraction")
    if kind is Uint and other is Uint:
        return checked_uint(int(left) - int(right), "subtraction")
    if kind is float and other is float:
        return left - right
    if kind is Duration and other is Duration:
        return moments.duration_of(left.nanos - right.nanos)
    if kind is Timestamp and other is Duration:
        return moments.shift(left, -right.nanos)
    if kind is Timestamp and other is Timestamp:
        return Duration(left.nanos - right.nanos)
    raise no_overload("_-_", left, right)


def multiply(budget: Budget, left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is int and other is int:
        return checked(left * right, "multiplication")
    if kind is Uint and other is Uint:
        return checked_uint(int(left) * int(right), "multiplication")
    if kind is float and other is float:
        return left * right
    raise no_overload("_*_", left, right)


def divide(budget: Budget, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is not type(right):
        raise no_overload("_/_", left, right)
    if kind is float:
        if right == 0:
            return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)
        return left / right
    if kind is not int and kind is not Uint:
        raise no_overload("_/_", left, right)
    if right == 0:
        raise bad_argument("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if kind is Uint:
        return Uint(quotient)
    return checked(quotient if (left < 0) == (right < 0) else -quotient, "division")


def modulo(budget: Budget, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is not type(right) or (kind is not int and kind is not Uint):
        raise no_overload("_%_", left, right)
    if right == 0:
        raise bad_argument("modulus by zero")
    if left == INT64_MIN and right == -1:
        raise EvaluationError("OVERFLOW", "integer overflow in modulus")
    rest = abs(int(left)) % abs(int(right))
    return Uint(rest) if kind is Uint else (-rest if left < 0 else rest)


def negate(budget: Budget, value: Any) -> Any:
    if type(value) is int:
        return checked(-value, "negation")
    if type(value) is float:
        return -value
    raise no_overload("-_", value)


def equals(budget: Budget, left: Any, right: Any) -> bool:
    spend(budget, _size_for_cost(left))
    return equal(left, right)


def differs(budget: Budget, left: Any, right: Any) -> bool:
    spend(budget, _size_for_cost(left))
    return not equal(left, right)


def _size_for_cost(value: Any) -> int:
    return of_length(len(value)) if isinstance(value, (str, bytes, list, tuple, dict)) else 1


def less(budget: Budget, left: Any, right: Any) -> bool:
    return compare("_<_", left, right) == -1


def less_or_equal(budget: Budget, left: Any, right: Any) -> bool:
    return compare("_<=_", left, right) in (-1, 0)


def greater(budget: Budget, left: Any, right: Any) -> bool:
    return compare("_>_", left, right) == 1


def greater_or_equal(budget: Budget, left: Any, right: Any) -> bool:
    return compare("_>=_", left, right) in (0, 1)


def is_in(budget: Budget, value: Any, container: Any) -> bool:
    if is_map(container):
        key = to_key(value)
        return key in container
    if is_list(container):
        spend(budget, of_length(len(container)))
        return any(equal(value, element) for element in container)
    raise no_overload("@in", value, container)


def index(budget: Budget, container: Any, key: Any) -> Any:
    if is_map(container):
        try:
            return container[to_key(key)]
        except KeyError:
            raise no_such_key(key) from None
    if is_list(container):
        return container[_position(container, key)]
    if type(container) is Optional:
        return optional_index(budget, container, key)
    raise no_overload("_[_]", container, key)


def _position(container: Any, key: Any) -> int:
    position = int(key) if type(key) is float and key.is_integer() else key
    if type(position) is not int and type(position) is not Uint:
        raise no_overload("_[_]", container, key)
    if not 0 <= position < len(container):
        raise bad_argument(f"index out of bounds: {position}")
    return int(position)


def optional_index(budget: Budget, container: Any, key: Any) -> Optional:
    if type(container) is Optional:
        if not container.present:
            return NONE
        container = container.value
    if is_map(container):
        try:
            return Optional(container[to_key(key)])
        except KeyError:
            return NONE
    if is_list(container):
        if type(key) not in (int, Uint):
            raise no_overload("_[?_]", container, key)
        return Optional(container[key]) if 0 <= key < len(container) else NONE
    raise no_overload("_[?_]", container, key)


# --- sizes and conversions -------------------------------------------------------------------------------------


def size(budget: Budget, value: Any) -> int:
    if type(value) is str:
        spend(budget, of_length(len(value)))
    elif type(value) is not bytes and not is_list(value) and not is_map(value):
        raise no_overload("size", value)
    return len(value)


def to_dyn(budget: Budget, value: Any) -> Any:
    return value


def to_int(budget: Budget, value: Any) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is Uint:
        return checked(int(value), "conversion")
    if kind is float:
        if value != value or not INT64_MIN < value < INT64_MAX:
            raise EvaluationError("OVERFLOW", "integer overflow in conversion")
        return int(value)
    if kind is str:
        return checked(_digits(value, "int", value.lstrip("+-") if value[:1] in ("+", "-") else value), "conversion")
    if kind is Timestamp:
        return int(value.nanos // moments.SECOND)
    raise no_overload("int", value)


def to_uint(budget: Budget, value: Any) -> Uint:
    kind = type(value)
    if kind is Uint:
        return Uint(value)
    if kind is int:
        return checked_uint(value, "conversion")
    if kind is float:
        if value != value or not 0 <= value < UINT64_MAX:
            raise EvaluationError("OVERFLOW", "unsigned integer overflow in conversion")
        return Uint(int(value))
    if kind is str:
        return checked_uint(_digits(value, "uint", value), "conversion")
    raise no_overload("uint", value)


def _digits(text: str, target: str, digits: str) -> int:
    if not digits or len(text) > 24 or not (digits.isascii() and digits.isdigit()):
        raise bad_argument(f"cannot convert {text!r} to {target}")
    return int(text)


def to_double(budget: Budget, value: Any) -> float:
    kind = type(value)
    if kind in (int, Uint, float):
        return float(value)
    if kind is str:
        if len(value) > 400 or "_" in value or value.strip() != value:
            raise bad_argument(f"cannot convert {value!r} to double")
        try:
            return float(value)
        except ValueError:
            raise bad_argument(f"cannot convert {value!r} to double") from None
    raise no_overload("double", value)


_TRUE = ("1", "t", "true", "TRUE", "True", "T")
_FALSE = ("0", "f", "false", "FALSE", "False", "F")


def to_bool(budget: Budget, value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and (value in _TRUE or value in _FALSE):
        return value in _TRUE
    if type(value) is str:
        raise bad_argument(f"cannot convert {value!r} to bool")
    raise no_overload("bool", value)


def to_string(budget: Budget, value: Any) -> str:
    kind = type(value)
    if kind is bytes:
        try:
            return str(value.decode("utf-8"))
        except UnicodeDecodeError:
            raise bad_argument("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind in (str, bool, int, Uint, float, Duration, Timestamp):
        return strings.plain_text(value)
    raise no_overload("string", value)


def to_bytes(budget: Budget, value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        spend(budget, of_length(len(value)))
        return value.encode()
    raise no_overload("bytes", value)


def type_of(budget: Budget, value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def to_duration(budget: Budget, value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is str:
        return moments.parse_duration(value)
    raise no_overload("duration", value)


def to_timestamp(budget: Budget, value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    if type(value) is str:
        return moments.parse_timestamp(value)
    if type(value) is int:
        return moments.moment_at(value * moments.SECOND)
    raise no_overload("timestamp", value)


def _part(name: str) -> Function:
    def part(budget: Budget, value: Any, zone: Any = None) -> int:
        if type(value) is Timestamp:
            return moments.part_of_timestamp(name, value, "UTC" if zone is None else strings.text_of(name, zone))
        if type(value) is Duration and name in ("getHours", "getMinutes", "getSeconds", "getMilliseconds"):
            return moments.part_of_duration(name, value)
        raise no_overload(name, value)

    return part


# --- optionals -------------------------------------------------------------------------------------------------


def optional_of(budget: Budget, value: Any) -> Optional:
    return Optional(value)


def optional_none(budget: Budget) -> Optional:
    return NONE


def optional_of_non_zero(budget: Budget, value: Any) -> Optional:
    zero = value is None or (type(value) in (bool, int, Uint, float) and not value)
    empty = isinstance(value, (str, bytes, list, tuple, dict)) and not value
    return NONE if zero or empty else Optional(value)


def _as_optional(function: str, value: Any) -> Optional:
    if type(value) is not Optional:
        raise no_overload(function, value)
    return value


def optional_value(budget: Budget, value: Any) -> Any:
    optional = _as_optional("value", value)
    if not optional.present:
        raise bad_argument("optional.none() dereference")
    return optional.value


def has_value(budget: Budget, value: Any) -> bool:
    return _as_optional("hasValue", value).present


# --- quantities, versions, membership --------------------------------------------------------------------------


def to_quantity(budget: Budget, text: Any) -> Quantity:
    return parse_quantity(strings.text_of("quantity", text))


def is_quantity(budget: Budget, text: Any) -> bool:
    try:
        parse_quantity(strings.text_of("isQuantity", text))
    except EvaluationError as error:
        if error.code != "BAD_ARGUMENT":
            raise
        return False
    return True


def to_semver(budget: Budget, text: Any, normalize: Any = False) -> Semver:
    if type(normalize) is not bool:
        raise no_overload("semver", text, normalize)
    return parse_semver(strings.text_of("semver", text), normalize)


def is_semver(budget: Budget, text: Any, normalize: Any = False) -> bool:
    try:
        to_semver(budget, text, normalize)
    except EvaluationError as error:
        if error.code != "BAD_ARGUMENT":
            raise
        return False
    return True


def _order(function: str, left: Any, right: Any) -> int:
    if type(left) is not type(right) or type(left) not in (Quantity, Semver):
        raise no_overload(function, left, right)
    return int(left > right) - int(left < right)


def compare_to(budget: Budget, left: Any, right: Any) -> int:
    return _order("compareTo", left, right)


def is_greater_than(budget: Budget, left: Any, right: Any) -> bool:
    return _order("isGreaterThan", left, right) > 0


def is_less_than(budget: Budget, left: Any, right: Any) -> bool:
    return _order("isLessThan", left, right) < 0


def _as_quantity(function: str, value: Any) -> Quantity:
    if type(value) is not Quantity:
        raise no_overload(function, value)
    return value


def as_integer(budget: Budget, value: Any) -> int:
    return _as_quantity("asInteger", value).as_integer()


def is_integer(budget: Budget, value: Any) -> bool:
    return _as_quantity("isInteger", value).is_integer


def as_approximate_float(budget: Budget, value: Any) -> float:
    return _as_quantity("asApproximateFloat", value).as_float()


def sign(budget: Budget, value: Any) -> int:
    return _as_quantity("sign", value).sign


def _operand(function: str, value: Any) -> int:
    return value * 10**9 if type(value) is int else _as_quantity(function, value).nanos


def quantity_add(budget: Budget, left: Any, right: Any) -> Quantity:
    return Quantity(_as_quantity("add", left).nanos + _operand("add", right))


def quantity_sub(budget: Budget, left: Any, right: Any) -> Quantity:
    return Quantity(_as_quantity("sub", left).nanos - _operand("sub", right))


def _version_part(name: str) -> Function:
    def part(budget: Budget, value: Any) -> int:
        if type(value) is not Semver:
            raise no_overload(name, value)
        return checked(getattr(value, name), name)

    return part


def includes(budget: Budget, holder: Any, value: Any) -> bool:
    """Membership that reads alike for an attribute with one value and for one with a list (dra S8)."""
    if not is_list(holder):
        if is_list(value) or is_map(holder) or type(holder) is not type(value):
            raise no_overload("includes", holder, value)
        return equal(holder, value)
    if len(holder) > LONGEST_LIST_FOR_INCLUDES:
        raise bad_argument(f"list has more than {LONGEST_LIST_FOR_INCLUDES} values")
    spend(budget, of_length(len(holder)))
    return any(equal(element, value) for element in holder)


FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    "_+_": (2, 2, add), "_-_": (2, 2, subtract), "_*_": (2, 2, multiply), "_/_": (2, 2, divide),
    "_%_": (2, 2, modulo), "-_": (1, 1, negate), "_==_": (2, 2, equals), "_!=_": (2, 2, differs),
    "_<_": (2, 2, less), "_<=_": (2, 2, less_or_equal), "_>_": (2, 2, greater), "_>=_": (2, 2, greater_or_equal),
    "@in": (2, 2, is_in), "in": (2, 2, is_in), "_in_": (2, 2, is_in),
    "_[_]": (2, 2, index), "_[?_]": (2, 2, optional_index), "_?._": (2, 2, optional_index),
    "size": (1, 1, size), "dyn": (1, 1, to_dyn), "int": (1, 1, to_int), "uint": (1, 1, to_uint),
    "double": (1, 1, to_double), "bool": (1, 1, to_bool), "string": (1, 1, to_string), "bytes": (1, 1, to_bytes),
    "type": (1, 1, type_of), "duration": (1, 1, to_duration), "timestamp": (1, 1, to_timestamp),
    "matches": (2, 2, strings.matches), "contains": (2, 2, strings.contains),
    "startsWith": (2, 2, strings.starts_with), "endsWith": (2, 2, strings.ends_with),
    "charAt": (2, 2, strings.char_at), "indexOf": (2, 3, strings.index_of),
    "lastIndexOf": (2, 3, strings.last_index_of), "join": (1, 2, strings.join),
    "lowerAscii": (1, 1, strings.lower_ascii), "upperAscii": (1, 1, strings.upper_ascii),
    "replace": (3, 4, strings.replace), "split": (2, 3, strings.split), "substring": (2, 3, strings.substring),
    "trim": (1, 1, strings.trim), "reverse": (1, 1, strings.reverse), "strings.quote": (1, 1, strings.quote),
    "format": (2, 2, strings.format_text),
    "optional.of": (1, 1, optional_of), "optional.none": (0, 0, optional_none),
    "optional.ofNonZeroValue": (1, 1, optional_of_non_zero), "value": (1, 1, optional_value),
    "hasValue": (1, 1, has_value),
    "quantity": (1, 1, to_quantity), "isQuantity": (1, 1, is_quantity), "semver": (1, 2, to_semver),
    "isSemver": (1, 2, is_semver), "compareTo": (2, 2, compare_to), "isGreaterThan": (2, 2, is_greater_than),
    "isLessThan": (2, 2, is_less_than), "asInteger": (1, 1, as_integer), "isInteger": (1, 1, is_integer),
    "asApproximateFloat": (1, 1, as_approximate_float), "sign": (1, 1, sign), "add": (2, 2, quantity_add),
    "sub": (2, 2, quantity_sub), "major": (1, 1, _version_part("major")), "minor": (1, 1, _version_part("minor")),
    "patch": (1, 1, _version_part("patch")), "includes": (2, 2, includes),
    **{name: (1, 2, _part(name)) for name in (
        "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
        "getHours", "getMinutes", "getSeconds", "getMilliseconds")},
}  # fmt: skip
