"""How a broken invariant is told."""

from __future__ import annotations


class Broken(AssertionError):
    """An invariant does not hold. `name` says which, for the shrinker; `records` is the log up to there."""

    def __init__(self, name: str, detail: object) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.records: list[bytes] = []
