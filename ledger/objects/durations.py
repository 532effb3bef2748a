"""Durations as the Configuration writes them: `20s`, `5m`, `1h30m`, `1.5h`."""

from __future__ import annotations

import re

_PART = re.compile(r"(\d{0,18})(?:\.(\d{0,18}))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


class Duration(int):
    """A length of time in microseconds."""

    __slots__ = ()


def parse_duration(text: str) -> Duration:
    """Read a duration; what is finer than a microsecond is dropped. Raises ValueError for anything else."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if len(text) > 64 or not body:
        raise ValueError(f"{text[:64]!r} is not a duration such as 5m")
    if body == "0":
        return Duration(0)
    nanoseconds, place = 0, 0
    while place < len(body):
        part = _PART.match(body, place)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f"{text!r} is not a duration such as 5m")
        unit = _NANOSECONDS[part[3]]
        nanoseconds += int(part[1] or 0) * unit
        if part[2]:
            nanoseconds += int(part[2]) * unit // 10 ** len(part[2])
        place = part.end()
    if nanoseconds >= 2**63:
        raise ValueError(f"{text!r} is longer than a duration can be")
    microseconds = nanoseconds // 1000
    return Duration(-microseconds if text[0] == "-" else microseconds)
