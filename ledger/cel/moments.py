"""Durations and timestamps: constructors, texts and parts. Rare in selectors, complete for what is declared."""

from __future__ import annotations

import datetime
import re

from ledger.cel.errors import OVERFLOW, EvaluationError, bad_argument
from ledger.cel.values import Duration, Timestamp

SECOND = 10**9
_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_STEP = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)\Z", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1)
_LONGEST = 315_576_000_000 * SECOND
_EARLIEST = -62_135_596_800 * SECOND
_LATEST = 253_402_300_800 * SECOND


def parse_duration(text: str) -> Duration:
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        step = _STEP.match(rest, position)
        if step is None or not (step[1] or step[2]) or len(step[0]) > 40:
            raise bad_argument(f"invalid duration {text!r}")
        unit, fraction = _UNITS[step[3]], step[2] or ""
        total += int(step[1] or "0") * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = step.end()
    if position == 0 or total > _LONGEST:
        raise bad_argument(f"invalid duration {text!r}")
    return Duration(sign * total)


def duration_of(nanos: int) -> Duration:
    if abs(nanos) > _LONGEST:
        raise EvaluationError(OVERFLOW, "duration overflow")
    return Duration(nanos)


def duration_text(duration: Duration) -> str:
    return f"{_decimal(duration.nanos)}s"


def _decimal(nanos: int) -> str:
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    whole, part = divmod(nanos, SECOND)
    return f"{sign}{whole}" + (f".{part:09d}".rstrip("0") if part else "")


def parse_timestamp(text: str) -> Timestamp:
    shape = _MOMENT.match(text)
    if shape is None:
        raise bad_argument(f"invalid timestamp {text!r}")
    try:
        moment = datetime.datetime(*(int(shape[i]) for i in range(1, 7)))  # type: ignore[arg-type]
    except ValueError as error:
        raise bad_argument(f"invalid timestamp {text!r}") from error
    seconds = (moment - _EPOCH) // datetime.timedelta(seconds=1)
    if shape[8] not in "Zz":
        seconds -= _offset(shape[8])
    return moment_at(seconds * SECOND + int((shape[7] or "").ljust(9, "0") or 0))


def moment_at(nanos: int) -> Timestamp:
    """Only the years 1 to 9999 have timestamps."""
    if not _EARLIEST <= nanos < _LATEST:
        raise EvaluationError(OVERFLOW, "timestamp overflow")
    return Timestamp(nanos)


def timestamp_text(timestamp: Timestamp) -> str:
    seconds, nanos = divmod(timestamp.nanos, SECOND)
    text = (_EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{nanos:09d}".rstrip("0") if nanos else "") + "Z"


def shift(timestamp: Timestamp, nanos: int) -> Timestamp:
    return moment_at(timestamp.nanos + nanos)


def _offset(text: str) -> int:
    shape = _OFFSET.match(text)
    if shape is None:
        raise bad_argument(f"unknown time zone {text!r}")
    seconds = int(shape[2]) * 3600 + int(shape[3]) * 60
    return -seconds if shape[1] == "-" else seconds


def part_of_duration(name: str, duration: Duration) -> int:
    nanos = abs(duration.nanos)
    sign = -1 if duration.nanos < 0 else 1
    if name == "getHours":
        return sign * (nanos // (3600 * SECOND))
    if name == "getMinutes":
        return sign * (nanos // (60 * SECOND))
    if name == "getSeconds":
        return sign * (nanos // SECOND)
    return sign * (nanos // 10**6 % 1000)


def part_of_timestamp(name: str, timestamp: Timestamp, zone: str = "UTC") -> int:
    offset = 0 if zone in ("UTC", "Z", "") else _offset(zone)
    seconds, nanos = divmod(timestamp.nanos, SECOND)
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds + offset)
    except OverflowError:
        raise EvaluationError(OVERFLOW, "timestamp overflow") from None
    parts = {
        "getFullYear": moment.year,
        "getMonth": moment.month - 1,
        "getDate": moment.day,
        "getDayOfMonth": moment.day - 1,
        "getDayOfWeek": (moment.weekday() + 1) % 7,
        "getDayOfYear": moment.timetuple().tm_yday - 1,
        "getHours": moment.hour,
        "getMinutes": moment.minute,
        "getSeconds": moment.second,
        "getMilliseconds": nanos // 10**6,
    }
    return parts[name]
