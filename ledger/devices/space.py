"""What is free of the devices, while places are tried: taken devices, drawn counters, shared capacity.

Every change is written down, so that a place that leads nowhere can be given back exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ledger.devices.index import DeviceIndex
from ledger.devices.inventory import DeviceRecord, device_path
from ledger.devices.objects import Capacity
from ledger.devices.pools import VALID, PoolState
from ledger.devices.rounding import policed
from ledger.quantity import Quantity

DeviceKey = tuple[str, str, str]
"""(driver, pool, device)."""


SetKey = tuple[str, str, str]
"""(driver, pool, counter set)."""
Asked = tuple[tuple[str, int], ...]
"""Capacities asked for, in nano-units."""


class Spot(NamedTuple):
    """A device that a node can use."""

    driver: str
    pool: str
    device: DeviceRecord

    @property
    def key(self) -> DeviceKey:
        return (self.driver, self.pool, self.device.name)

    @property
    def label(self) -> str:
        return device_path(self.driver, self.pool, self.device.name)


class Space:
    """Devices are exclusive or shared; both may draw on counter sets, a shared one once for all its users."""

    def __init__(self, index: DeviceIndex) -> None:
        self._index = index
        self._published: dict[tuple[str, str], Mapping[str, Mapping[str, int]]] = {}
        self._drawn: dict[SetKey, dict[str, int]] = {}
        self._drawing: dict[SetKey, dict[DeviceKey, Spot]] = {}
        self._shared: dict[DeviceKey, tuple[int, dict[str, int]]] = {}
        self._users: dict[DeviceKey, list[str]] = {}

    # --- taking and giving back --------------------------------------------------------------------------------

    def take(self, spot: Spot, asked: Asked, user: str) -> bool:
        """Take the device, or a share of it; False, with nothing changed, where it does not fit."""
        if not self.fits(spot, asked):
            return False
        first = spot.key not in self._users
        self._users.setdefault(spot.key, []).append(user)
        if spot.device.readable.shared:
            self._consume(spot, self._consumption(spot, asked), 1)
        if first:
            self._draw(spot)
        return True

    def give_back(self, spot: Spot, asked: Asked, user: str) -> None:
        users = self._users[spot.key]
        users.remove(user)
        if spot.device.readable.shared:
            self._consume(spot, self._consumption(spot, asked), -1)
        if not users:
            del self._users[spot.key]
            self._undraw(spot)

    def occupy(self, spot: Spot, consumed: Mapping[str, Quantity], user: str) -> None:
        """A fact of the cluster: it counts even where it does not fit."""
        first = spot.key not in self._users
        self._users.setdefault(spot.key, []).append(user)
        if spot.device.readable.shared:
            capacity = spot.device.readable.capacity
            facts = {name: _fact(spot.driver, consumed, name, each) for name, each in capacity.items()}
            self._consume(spot, facts, 1)
        if first:
            self._draw(spot)

    def is_taken(self, spot: Spot) -> bool:
        return spot.key in self._users

    def fits(self, spot: Spot, asked: Asked) -> bool:
        if not spot.device.readable.shared:
            return spot.key not in self._users and self._fits_counters(spot)
        if spot.key not in self._users and not self._fits_counters(spot):
            return False
        _, used = self._shared.get(spot.key, (0, {}))
        capacity = spot.device.readable.capacity
        consumption = self._consumption(spot, asked)
        return all(used.get(name, 0) + amount <= capacity[name].value for name, amount in consumption.items())

    def drawing_on(self, driver: str, pool: str, name: str) -> list[Spot]:
        """The devices that draw on a counter set."""
        return list(self._drawing.get((driver, pool, name), {}).values())

    def in_the_way_of(self, spots: Iterable[Spot]) -> set[str]:
        """Who holds one of the devices, or draws on a counter set one of them would draw on."""
        found: set[str] = set()
        sets: set[SetKey] = set()
        for spot in spots:
            found.update(self._users.get(spot.key, ()))
            sets.update((spot.driver, spot.pool, name) for name in spot.device.sets)
        for key in sets:
            for each in self._drawing.get(key, ()):
                found.update(self._users.get(each, ()))
        return found

    def _consume(self, spot: Spot, amounts: Mapping[str, int], sign: int) -> None:
        shares, used = self._shared.get(spot.key, (0, {}))
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + sign * amount
        if shares + sign:
            self._shared[spot.key] = (shares + sign, used)
        else:
            self._shared.pop(spot.key, None)

    def _consumption(self, spot: Spot, asked: Asked) -> dict[str, int]:
        """Every capacity of a shared device is consumed: as asked, or by its policy's default (dra 10)."""
        wanted = dict(asked)
        found: dict[str, int] = {}
        for name, capacity in spot.device.readable.capacity.items():
            amount = policed(capacity, _asked(spot.driver, wanted, name), reference=False)
            found[name] = amount if isinstance(amount, int) else int(capacity.value) + 1
        return found

    # --- counters ----------------------------------------------------------------------------------------------

    def _fits_counters(self, spot: Spot) -> bool:
        device = spot.device
        if not device.sets:
            return True
        published = self.sets(spot.driver, spot.pool)
        for name, consumption in zip(device.sets, device.costs.consumptions, strict=True):
            limits = published.get(name, {})
            drawn = self._drawn.get((spot.driver, spot.pool, name), {})
            for counter, amount in consumption.items():
                if drawn.get(counter, 0) + amount > limits.get(counter, 0):
                    return False
        return True

    def _draw(self, spot: Spot) -> None:
        for name, consumption in zip(spot.device.sets, spot.device.costs.consumptions, strict=True):
            key = (spot.driver, spot.pool, name)
            drawn = self._drawn.setdefault(key, {})
            for counter, amount in consumption.items():
                drawn[counter] = drawn.get(counter, 0) + amount
            self._drawing.setdefault(key, {})[spot.key] = spot

    def _undraw(self, spot: Spot) -> None:
        for name, consumption in zip(spot.device.sets, spot.device.costs.consumptions, strict=True):
            key = (spot.driver, spot.pool, name)
            drawn = self._drawn[key]
            for counter, amount in consumption.items():
                drawn[counter] -= amount
            del self._drawing[key][spot.key]

    def left_of(self, driver: str, pool: str) -> dict[str, dict[str, int]]:
        """What the counter sets of a pool still have."""
        found: dict[str, dict[str, int]] = {}
        for name, counters in self.sets(driver, pool).items():
            drawn = self._drawn.get((driver, pool, name), {})
            found[name] = {counter: amount - drawn.get(counter, 0) for counter, amount in counters.items()}
        return found

    def sets(self, driver: str, pool: str) -> Mapping[str, Mapping[str, int]]:
        found = self._published.get((driver, pool))
        if found is None:
            state: PoolState | None = self._index.drivers[driver].pools.get(pool)
            records = state.contribution(VALID) if state is not None else ()
            found = self._published[driver, pool] = {
                name: counters for record in records for name, counters in record.counter_sets
            }
        return found


def _asked(driver: str, wanted: Mapping[str, int], name: str) -> int | None:
    if name in wanted:
        return wanted[name]
    prefix = f"{driver}/"
    return wanted.get(name[len(prefix) :] if name.startswith(prefix) else prefix + name)


def _fact(driver: str, consumed: Mapping[str, Quantity], name: str, capacity: Capacity) -> int:
    """The amount an allocation says it consumes; the policy's default where it does not say."""
    amount = _asked(driver, {key: int(value) for key, value in consumed.items()}, name)
    if amount is not None:
        return amount
    default = policed(capacity, None, reference=False)
    return default if isinstance(default, int) else int(capacity.value)
