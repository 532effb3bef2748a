"""Pools: slices by driver and pool name, the newest generation only, complete or absent (dra 4).

Two readings of the same slices: `complete` is the reference's, which takes the promised number from the first
slice it meets and does not look inside; `valid` adds what the scheduler demands (P3, P5).
"""

from __future__ import annotations

from ledger.devices.inventory import SliceRecord

COMPLETE = "complete"
VALID = "valid"


class PoolState:
    """One pool; `slices` are the live ones by name. Nothing is remembered beyond them (P9)."""

    __slots__ = ("complete", "problem", "slices", "valid", "version")

    def __init__(self) -> None:
        self.slices: dict[str, SliceRecord] = {}
        self.complete: tuple[SliceRecord, ...] = ()
        self.valid: tuple[SliceRecord, ...] = ()
        self.problem: str | None = None
        self.version = 0

    def settle(self, version: int) -> None:
        """Work out what the pool contributes, after its slices have changed; no two states share a version."""
        self.version = version
        newest = max((record.generation for record in self.slices.values()), default=0)
        current = [record for _, record in sorted(self.slices.items()) if record.generation == newest]
        self.complete = tuple(current) if current and len(current) == current[0].promised else ()
        self.problem = _problem(current)
        self.valid = tuple(current) if self.problem is None else ()

    def contribution(self, scope: str) -> tuple[SliceRecord, ...]:
        return self.valid if scope == VALID else self.complete


def _problem(current: list[SliceRecord]) -> str | None:
    """Why the newest generation contributes no devices, None where it does."""
    if not current:
        return "no slices"
    promised = {record.promised for record in current}
    if len(promised) > 1:
        return f"slices promise different numbers of slices: {', '.join(map(str, sorted(promised)))}"
    if len(current) != current[0].promised:
        return f"{len(current)} of {current[0].promised} slices seen"
    names: set[str] = set()
    for record in current:
        for device in record.devices:
            if device.name in names:
                return f"device {device.name} appears twice"
            names.add(device.name)
    return _counter_problem(current)


def _counter_problem(current: list[SliceRecord]) -> str | None:
    sets: dict[str, frozenset[str]] = {}
    for record in current:
        for name, counters in record.counter_sets:
            if name in sets:
                return f"counter set {name} appears twice"
            sets[name] = frozenset(counters)
    for record in current:
        for device in record.devices:
            for name, consumption in zip(device.sets, device.costs.consumptions, strict=True):
                if name not in sets:
                    return f"device {device.name} consumes from missing counter set {name}"
                if not consumption.keys() <= sets[name]:
                    missing = min(consumption.keys() - sets[name])
                    return f"device {device.name} consumes counter {missing}, which set {name} lacks"
    return None
