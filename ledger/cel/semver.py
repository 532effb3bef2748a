"""Semantic versions 2.0.0 inside expressions."""

from __future__ import annotations

import functools
import re

from ledger.cel.errors import bad_argument

_NUMBER = r"(?:0|[1-9]\d*)"
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SHAPE = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?\Z", re.ASCII)
_LONGEST = 256


@functools.total_ordering
class Semver:
    """Build metadata takes no part in comparison; a pre-release precedes its release."""

    __slots__ = ("major", "minor", "patch", "prerelease")

    def __init__(self, major: int, minor: int, patch: int, prerelease: tuple[int | str, ...] = ()) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        self.prerelease = prerelease

    def _order(self) -> tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]:
        identifiers = tuple((0, i, "") if isinstance(i, int) else (1, 0, i) for i in self.prerelease)
        return (self.major, self.minor, self.patch, 0 if identifiers else 1, identifiers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order() == other._order()

    def __lt__(self, other: Semver) -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(("semver", self._order()))

    def __repr__(self) -> str:
        suffix = "-" + ".".join(map(str, self.prerelease)) if self.prerelease else ""
        return f"Semver({self.major}.{self.minor}.{self.patch}{suffix})"


def parse_semver(text: str, normalize: bool = False) -> Semver:
    if len(text) > _LONGEST:
        raise bad_argument("semver: string is too long")
    shape = _SHAPE.match(_normalize(text) if normalize else text)
    if shape is None:
        raise bad_argument(f"No Major.Minor.Patch elements found or invalid version: {text!r}")
    identifiers: list[int | str] = []
    for part in (shape[4] or "").split(".") if shape[4] else ():
        if not part.isdigit():
            identifiers.append(part)
        elif len(part) > 1 and part[0] == "0":
            raise bad_argument(f"Numeric PreRelease version must not contain leading zeroes {part!r}")
        else:
            identifiers.append(int(part))
    numbers = [int(shape[i]) for i in (1, 2, 3)]
    if any(number > 2**64 - 1 for number in numbers):
        raise bad_argument(f"version number out of range: {text!r}")
    return Semver(numbers[0], numbers[1], numbers[2], tuple(identifiers))


def _normalize(text: str) -> str:
    """Spaces around, one leading v and leading zeros go; a missing minor or patch becomes zero."""
    text = text.strip()
    text = text[1:] if text.startswith("v") else text
    core, separator, rest = text, "", ""
    for position, character in enumerate(text):
        if character in "-+":
            core, separator, rest = text[:position], character, text[position + 1 :]
            break
    parts = core.split(".")
    if len(parts) > 3 or (separator and len(parts) < 3):
        return text
    stripped = [part.lstrip("0") or "0" if part else "" for part in parts]
    return ".".join(stripped + ["0"] * (3 - len(stripped))) + separator + rest
