"""The functions on strings: the standard ones, the strings extension, and regular expressions by RE2.

Indices count characters, not bytes. Upper and lower case touch ASCII letters only.
"""

from __future__ import annotations

import functools
from typing import Any

from ledger.cel.cost import Budget, of_length, spend
from ledger.cel.errors import bad_argument, no_overload
from ledger.cel.moments import duration_text, timestamp_text
from ledger.cel.quantity import Quantity
from ledger.cel.semver import Semver
from ledger.cel.values import Duration, Timestamp, TypeValue, Uint, from_key, is_list, is_map

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACES = (*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
_SPACE = "".join(map(chr, _SPACES))
_ESCAPED = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", '"': '"'}
_ESCAPES = {character: "\\" + letter for character, letter in _ESCAPED.items()}


@functools.lru_cache(maxsize=512)
def pattern(text: str) -> Any:
    """A compiled RE2 pattern; Python's own `re` speaks another language and can run for ever."""
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise bad_argument(f"error parsing regexp: {error}") from error


def text_of(function: str, value: Any, *others: Any) -> str:
    if type(value) is not str:
        raise no_overload(function, value, *others)
    return value


def number_of(function: str, value: Any) -> int:
    if type(value) is not int:
        raise no_overload(function, value)
    return value


def matches(budget: Budget, text: Any, regex: Any) -> bool:
    text_of("matches", text, regex)
    text_of("matches", regex, text)
    spend(budget, of_length(len(text)) * (len(regex) // 4 + 1))
    return pattern(regex).search(text) is not None


def contains(budget: Budget, text: Any, part: Any) -> bool:
    text_of("contains", text, part)
    text_of("contains", part, text)
    spend(budget, of_length(len(text)) * of_length(len(part)))
    return part in text


def starts_with(budget: Budget, text: Any, part: Any) -> bool:
    text_of("startsWith", text, part)
    return bool(text.startswith(text_of("startsWith", part, text)))


def ends_with(budget: Budget, text: Any, part: Any) -> bool:
    text_of("endsWith", text, part)
    return bool(text.endswith(text_of("endsWith", part, text)))


def char_at(budget: Budget, text: Any, index: Any) -> str:
    text_of("charAt", text, index)
    if not 0 <= number_of("charAt", index) <= len(text):
        raise bad_argument(f"index out of range: {index}")
    return str(text[index : index + 1])


def index_of(budget: Budget, text: Any, part: Any, start: Any = 0) -> int:
    text_of("indexOf", text, part)
    text_of("indexOf", part, text)
    spend(budget, of_length(len(text)))
    if not part:
        return number_of("indexOf", start)
    if not 0 <= number_of("indexOf", start) <= len(text):
        raise bad_argument(f"index out of range: {start}")
    return int(text.find(part, start))


def last_index_of(budget: Budget, text: Any, part: Any, start: Any = None) -> int:
    text_of("lastIndexOf", text, part)
    text_of("lastIndexOf", part, text)
    spend(budget, of_length(len(text)))
    if not part:
        return len(text) if start is None else number_of("lastIndexOf", start)
    if start is None:
        return int(text.rfind(part))
    if not 0 <= number_of("lastIndexOf", start) <= len(text):
        raise bad_argument(f"index out of range: {start}")
    return int(text.rfind(part, 0, start + len(part)))


def join(budget: Budget, parts: Any, separator: Any = "") -> str:
    if not is_list(parts):
        raise no_overload("join", parts)
    text_of("join", separator)
    texts = [text_of("join", part) for part in parts]
    spend(budget, of_length(sum(map(len, texts)) + len(separator) * len(texts)))
    return str(separator.join(texts))


def lower_ascii(budget: Budget, text: Any) -> str:
    spend(budget, of_length(len(text_of("lowerAscii", text))))
    return str(text.translate(_LOWER))


def upper_ascii(budget: Budget, text: Any) -> str:
    spend(budget, of_length(len(text_of("upperAscii", text))))
    return str(text.translate(_UPPER))


def replace(budget: Budget, text: Any, old: Any, new: Any, limit: Any = -1) -> str:
    for value in (text, old, new):
        text_of("replace", value)
    number_of("replace", limit)
    places = text.count(old) if old else len(text) + 1
    count = places if limit < 0 else min(places, limit)
    spend(budget, of_length(len(text)) + of_length(count * len(new)))
    return str(text.replace(old, new, limit if limit >= 0 else -1))


def split(budget: Budget, text: Any, separator: Any, limit: Any = -1) -> list[str]:
    text_of("split", text, separator)
    text_of("split", separator, text)
    number_of("split", limit)
    spend(budget, of_length(len(text)))
    if limit == 0:
        return []
    if separator:
        return list(text.split(separator, limit - 1 if limit > 0 else -1))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(budget: Budget, text: Any, start: Any, end: Any = None) -> str:
    text_of("substring", text, start)
    number_of("substring", start)
    stop = len(text) if end is None else number_of("substring", end)
    if not 0 <= start <= len(text):
        raise bad_argument(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise bad_argument(f"index out of range: {stop}")
    if start > stop:
        raise bad_argument(f"invalid substring range. start: {start}, end: {stop}")
    spend(budget, of_length(stop - start))
    return str(text[start:stop])


def trim(budget: Budget, text: Any) -> str:
    spend(budget, of_length(len(text_of("trim", text))))
    return str(text.strip(_SPACE))


def reverse(budget: Budget, text: Any) -> str:
    spend(budget, of_length(len(text_of("reverse", text))))
    return str(text[::-1])


def quote(budget: Budget, text: Any) -> str:
    spend(budget, of_length(len(text_of("strings.quote", text))))
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def double_text(value: float) -> str:
    """As the shortest decimal that reads back, without a fraction for whole numbers."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def format_text(budget: Budget, template: Any, arguments: Any) -> str:
    """`%s %d %f %e %b %o %x %X %%`, with an optional precision for the two kinds of fractions."""
    text_of("format", template, arguments)
    if not is_list(arguments):
        raise no_overload("format", template, arguments)
    result: list[str] = []
    position, used = 0, 0
    while position < len(template):
        character = template[position]
        position += 1
        if character != "%":
            result.append(character)
            continue
        precision = 6
        if template[position : position + 1] == ".":
            stop = position + 1
            while stop < len(template) and template[stop] in "0123456789" and stop - position < 4:
                stop += 1
            precision = int(template[position + 1 : stop] or "0")
            position = stop
        verb = template[position : position + 1]
        position += 1
        if verb == "%":
            result.append("%")
            continue
        if used >= len(arguments):
            raise bad_argument(f"index {used} out of range")
        result.append(_formatted(verb, precision, arguments[used]))
        used += 1
        spend(budget, of_length(len(result[-1])))
    return "".join(result)


def _formatted(verb: str, precision: int, value: Any) -> str:
    kind = type(value)
    whole = kind is int or kind is Uint
    if verb == "s":
        return plain_text(value)
    if verb == "d" and whole:
        return str(int(value))
    if verb == "b" and (whole or kind is bool):
        return f"{int(value):b}"
    if verb == "o" and whole:
        return f"{int(value):o}"
    if verb in ("x", "X"):
        data = value.encode() if kind is str else value
        if whole or type(data) is bytes:
            text = f"{int(data):x}" if whole else data.hex()
            return text.upper() if verb == "X" else text
    if verb in ("f", "e") and (whole or kind is float):
        return f"{float(value):.{precision}{verb}}"
    raise bad_argument(f"could not format {value!r} with %{verb}")


def plain_text(value: Any) -> str:
    """A value as `%s` writes it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Uint:
        return str(int(value))
    if kind is float:
        return double_text(value)
    if value is None:
        return "null"
    if kind is bytes:
        return str(value.decode("utf-8", "replace"))
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is TypeValue:
        return str(value.name)
    if is_list(value):
        return "[" + ", ".join(map(plain_text, value)) + "]"
    if is_map(value):
        entries = sorted((plain_text(from_key(key)), plain_text(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"
    if kind is Quantity or kind is Semver:
        return repr(value)
    raise no_overload("format", value)
