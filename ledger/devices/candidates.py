"""Which devices of a node answer which request: looked up once for all questions until something changes."""

from __future__ import annotations

from ledger.devices.demand import Wanted
from ledger.devices.index import DeviceIndex
from ledger.devices.nodes import usable_on
from ledger.devices.pools import VALID
from ledger.devices.priced import servable
from ledger.devices.space import Spot
from ledger.devices.taints import tolerated
from ledger.devices.verdicts import MATCH, Verdicts
from ledger.quantity import Quantity

_MOST_LISTS = 20_000


class Candidates:
    """Belongs to one version of an index."""

    def __init__(self, index: DeviceIndex) -> None:
        self.version = index.version
        self._index = index
        self._verdicts: dict[tuple[Wanted, str], Verdicts] = {}
        self._of: dict[tuple[Wanted, str], list[Spot]] = {}
        self._on: dict[tuple[str, str], list[Spot]] = {}

    def of(self, wanted: Wanted, node: str) -> list[Spot]:
        """The scheduler's order: drivers and pools by name, devices as published, those bound late at the end."""
        found = self._of.get((wanted, node))
        if found is None:
            drivers = self._index.drivers
            names = sorted(drivers if wanted.drivers is None else wanted.drivers & drivers.keys())
            found = [spot for name in names for spot in self._devices(name, node) if self.answer(wanted, spot)]
            found.sort(key=lambda spot: spot.device.bound_late)
            if len(self._of) > _MOST_LISTS:
                self._of.clear()
            self._of[wanted, node] = found
        return found

    def answer(self, wanted: Wanted, spot: Spot) -> bool:
        readable = spot.device.readable
        if wanted.drivers is not None and spot.driver not in wanted.drivers:
            return False
        verdicts = self._verdicts.get((wanted, spot.driver))
        if verdicts is None:
            devices = self._index.drivers[spot.driver]
            verdicts = devices.verdicts((), wanted.class_selectors, wanted.selectors, reference=False)
            self._verdicts[wanted, spot.driver] = verdicts
        return (
            verdicts.of(readable) is MATCH
            and (not readable.taints or tolerated(readable.taints, wanted.tolerations))
            and (not wanted.capacity or servable(readable, {name: Quantity(v) for name, v in wanted.capacity}))
        )

    def _devices(self, driver: str, node: str) -> list[Spot]:
        found = self._on.get((driver, node))
        if found is None:
            usable = usable_on(self._index, driver, node, VALID)
            found = self._on[driver, node] = [Spot(driver, pool, device) for pool, _, device in usable]
        return found


def candidates_of(index: DeviceIndex) -> Candidates:
    """Those of the index as it is now."""
    found = index.remembered_places.get("candidates")
    if not isinstance(found, Candidates) or found.version != index.version:
        found = index.remembered_places["candidates"] = Candidates(index)
    return found
