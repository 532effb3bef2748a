"""How many devices match a request, and at which prices: counted once, then kept up to date by differences.

A `Grouping` is what the pools of one driver contribute, as counts per content, with a log of its changes. A
`Census` is one question to it; asked again, it reads only what was logged since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ledger.devices.inventory import Costs, Readable, SliceRecord
from ledger.devices.rounding import UNSERVED
from ledger.devices.taints import tolerated
from ledger.devices.verdicts import MATCH, OUTSIDE, REFUSED, Failed, Verdicts
from ledger.objects.taint import Toleration

Price = int | str | None
"""Nano-units; `UNSERVED`; None where the device does not publish what is priced."""
Pricing = Callable[[Readable, Costs], Price]

_LONGEST_LOG = 65536


class Deciding(NamedTuple):
    """The device that an explanation names: the first at the price."""

    label: str
    readable: Readable | None


class Grouping:
    """Counts per readable and costs, of the devices that pools contribute under one reading of completeness."""

    def __init__(self) -> None:
        self.members: dict[Readable, dict[Costs, int]] = {}
        self.log: list[tuple[Readable, Costs, int]] = []
        self.start = 0

    @property
    def end(self) -> int:
        return self.start + len(self.log)

    def change(self, removed: tuple[SliceRecord, ...], added: tuple[SliceRecord, ...]) -> None:
        difference: dict[tuple[Readable, Costs], int] = {}
        for records, sign in ((removed, -1), (added, 1)):
            for record in records:
                for device in record.devices:
                    key = (device.readable, device.costs)
                    difference[key] = difference.get(key, 0) + sign
        for (readable, costs), delta in difference.items():
            if delta:
                self._apply(readable, costs, delta)
        if len(self.log) > _LONGEST_LOG:
            self.start += len(self.log)
            self.log = []

    def _apply(self, readable: Readable, costs: Costs, delta: int) -> None:
        counts = self.members.setdefault(readable, {})
        count = counts.get(costs, 0) + delta
        if count:
            counts[costs] = count
        else:
            del counts[costs]
            if not counts:
                del self.members[readable]
        self.log.append((readable, costs, delta))


class Census:
    def __init__(
        self,
        grouping: Grouping,
        verdicts: Verdicts,
        pricing: Pricing,
        tolerations: tuple[Toleration, ...] | None,
        range_of_pools: tuple[str, frozenset[str] | None],
    ) -> None:
        """Tolerations are None where taints do not count (G10)."""
        self.grouping = grouping
        self.verdicts = verdicts
        self.pricing = pricing
        self.tolerations = tolerations
        self.scope, self.nodes = range_of_pools
        self.deciding: tuple[tuple[int, int], Deciding] | None = None
        self._restart()

    def _restart(self) -> None:
        self.position = self.grouping.end
        self.matched = 0
        self.refused = 0
        self.failures: dict[str, int] = {}
        self.prices: dict[Price, int] = {}
        of = self.verdicts.of
        for readable, counts in self.grouping.members.items():
            verdict = self._verdict(readable) if readable.taints else of(readable)
            if verdict is OUTSIDE:
                continue
            if verdict is MATCH:
                for costs, count in counts.items():
                    price = self.pricing(readable, costs)
                    self.prices[price] = self.prices.get(price, 0) + count
                    self.matched += count
            elif verdict is not None:
                self._count(verdict, sum(counts.values()))

    def up_to_date(self) -> Census:
        """This census, after what changed since it was last asked."""
        if self.position < self.grouping.start:
            self._restart()
            return self
        for readable, costs, delta in self.grouping.log[self.position - self.grouping.start :]:
            verdict = self._verdict(readable)
            if verdict is MATCH:
                price = self.pricing(readable, costs)
                self._add(self.prices, price, delta)
                self.matched += delta
            elif verdict is not None:
                self._count(verdict, delta)
            if readable not in self.grouping.members:
                self.verdicts.forget(readable)
        self.position = self.grouping.end
        return self

    def _verdict(self, readable: Readable) -> str | Failed | None:
        if readable.taints and self.tolerations is not None and not tolerated(readable.taints, self.tolerations):
            return None
        return self.verdicts.of(readable)

    def _count(self, verdict: str | Failed, delta: int) -> None:
        if isinstance(verdict, Failed):
            self._add(self.failures, verdict.error.text, delta)
        elif verdict is REFUSED:
            self.refused += delta

    @staticmethod
    def _add(counts: dict[Any, int], key: Any, delta: int) -> None:
        count = counts.get(key, 0) + delta
        if count:
            counts[key] = count
        else:
            counts.pop(key, None)

    @property
    def failure(self) -> str | None:
        return min(self.failures) if self.failures else None

    @property
    def hopeless(self) -> bool:
        """Every candidate of the class errs, and in the same way: the selector can never work (dra 8, LEDGER)."""
        return len(self.failures) == 1 and not self.matched and not self.refused

    @property
    def highest(self) -> int | None:
        """The highest price of a matching device that can serve the request."""
        return max((price for price in self.prices if isinstance(price, int)), default=None)

    @property
    def published(self) -> bool:
        """Whether any matching device publishes what is priced, servable or not."""
        return any(price is not None for price in self.prices)

    @property
    def unserved(self) -> int:
        return self.prices.get(UNSERVED, 0)

    def verdict_of(self, readable: Readable) -> str | Failed | None:
        return self._verdict(readable)
