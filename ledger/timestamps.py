"""Points in time: whole microseconds since the epoch, in UTC, and their RFC 3339 text (objects 0.3)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

SECOND = 1_000_000
DAY = 86_400 * SECOND

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 31).toordinal() - _EPOCH_DAY
_FIRST_DAY = date(1, 1, 1).toordinal() - _EPOCH_DAY

_RFC_3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,64}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)


class Timestamp(int):
    """Microseconds since 1970-01-01T00:00:00Z."""

    __slots__ = ()


EARLIEST = Timestamp(_FIRST_DAY * DAY)
LATEST = Timestamp((_LAST_DAY + 1) * DAY - 1)


@lru_cache(maxsize=8192)
def parse_timestamp(text: str) -> Timestamp:
    """Read RFC 3339 text; digits finer than a microsecond are dropped. Raises ValueError for anything else."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:64]!r} is not an RFC 3339 time")
    year, month, day, hours, minutes, seconds, fraction, sign, offset_hours, offset_minutes = match.groups()
    if hours > "23" or minutes > "59" or seconds > "59" or (sign and (offset_hours > "23" or offset_minutes > "59")):
        raise ValueError(f"{text[:64]!r} is not a time of day")
    instant = _day(year, month, day) * DAY
    instant += (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * SECOND
    if fraction:
        instant += int(fraction[:6].ljust(6, "0"))
    if sign:
        offset = (int(offset_hours) * 60 + int(offset_minutes)) * 60 * SECOND
        instant += offset if sign == "-" else -offset
        if not EARLIEST <= instant <= LATEST:
            raise ValueError(f"{text[:64]!r} is outside the years 1 to 9999")
    return Timestamp(instant)


@lru_cache(maxsize=512)
def _day(year: str, month: str, day: str) -> int:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"{year}-{month}-{day} is not a date") from None


def format_timestamp(instant: int) -> str:
    """RFC 3339 text in UTC: with milliseconds, or with microseconds when they are not whole milliseconds."""
    day, rest = divmod(instant, DAY)
    seconds, micros = divmod(rest, SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    if micros % 1000:
        return f"{_date_text(day)}T{hour:02d}:{minute:02d}:{second:02d}.{micros:06d}Z"
    return f"{_date_text(day)}T{hour:02d}:{minute:02d}:{second:02d}.{micros // 1000:03d}Z"


def format_seconds(instant: int) -> str:
    """RFC 3339 text in UTC with whole seconds, as the API server keeps times; the rest is dropped."""
    day, rest = divmod(instant, DAY)
    minutes, second = divmod(rest // SECOND, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_date_text(day)}T{hour:02d}:{minute:02d}:{second:02d}Z"


@lru_cache(maxsize=512)
def _date_text(day: int) -> str:
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise ValueError("a time outside the years 1 to 9999 has no RFC 3339 text")
    return date.fromordinal(day + _EPOCH_DAY).isoformat()


def as_datetime(instant: int) -> datetime:
    """The same instant as an aware datetime."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)
