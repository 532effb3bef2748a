"""The bounded, exact search for places: pods to nodes, requests to devices, in one fixed order.

The order is the scheduler's: nodes by name, pools by driver and name, devices as published, so the first place found
is the one the scheduler would most likely choose. What has been shown to lead nowhere is not tried again under
another name: devices, counter sets and pods that cannot be told apart are interchangeable.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from ledger.devices.candidates import candidates_of
from ledger.devices.constraints import Chosen, satisfied, values
from ledger.devices.demand import ClaimDemand, PodDemand, Wanted
from ledger.devices.index import DeviceIndex
from ledger.devices.inventory import Readable
from ledger.devices.nodes import node_names
from ledger.devices.pools import VALID
from ledger.devices.space import Space, Spot

STEPS = 400_000
"""Devices looked at in one question, about a second's work; each pod adds `STEPS_PER_POD`."""
STEPS_PER_POD = 500
MOST_DEVICES_OF_A_CLAIM = 32


class GaveUp(Exception):
    """The steps are used up: nothing is proved."""


class Unit(NamedTuple):
    """One pod to place, for somebody."""

    user: str
    pod: PodDemand


class Placement:
    """Places that are taken for as long as this is kept."""

    def __init__(self, generators: list[Generator[int, None, None]]) -> None:
        self._generators = generators

    def give_back(self) -> None:
        for each in reversed(self._generators):
            each.close()


class Search:
    def __init__(self, index: DeviceIndex, space: Space, pods: list[PodDemand]) -> None:
        self.index = index
        self.space = space
        self.steps = STEPS
        """How many are left."""
        self._wanted = list(dict.fromkeys(w for pod in pods for w in wanted_of(pod)))
        self._names = sorted(
            {
                constraint.match_attribute or constraint.distinct_attribute or ""
                for pod in pods
                for claim in pod.claims
                for constraint in claim.constraints
            }
        )
        drivers: set[str] = set()
        for wanted in self._wanted:
            drivers |= set(index.drivers) if wanted.drivers is None else wanted.drivers & index.drivers.keys()
        self.drivers = tuple(sorted(drivers))
        self.nodes = node_names(index, self.drivers)
        self._candidates = candidates_of(index)
        self._full: dict[tuple[Wanted, str], int] = {}
        self._first_node: dict[PodDemand, int] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._kind_of: dict[tuple[int, object], int] = {}
        self._sets: dict[tuple[str, str], dict[str, object] | None] = {}

    # --- devices -----------------------------------------------------------------------------------------------

    def spots(self, wanted: Wanted, node: str) -> list[Spot]:
        """The devices of a node that answer a request, taken or not."""
        return self._candidates.of(wanted, node)

    def kind(self, spot: Spot) -> int:
        """Equal for devices that no demand of this search can tell apart."""
        readable, costs = spot.device.readable, spot.device.costs
        key = (readable.number, costs)
        found = self._kind_of.get(key)
        if found is None:
            content = (
                spot.driver,
                tuple(self._candidates.answer(wanted, spot) for wanted in self._wanted),
                tuple(values(readable, name) for name in self._names),
                costs,
                _shared_content(readable),
            )
            found = self._kind_of[key] = self._kinds.setdefault(content, len(self._kinds))
        return found

    def state(self, spot: Spot) -> object:
        """Equal for devices of one node that are interchangeable as things stand."""
        device = spot.device
        if device.readable.shared:
            return spot.key
        if not device.sets:
            return (self.kind(spot),)
        contents = self._contents_of_sets(spot.driver, spot.pool)
        if len(device.sets) > 1 or contents is None:
            return spot.key
        (name,) = device.sets
        drawing = self.space.drawing_on(spot.driver, spot.pool, name)
        return (self.kind(spot), spot.pool, contents[name], tuple(sorted(self.kind(each) for each in drawing)))

    def _contents_of_sets(self, driver: str, pool: str) -> dict[str, object] | None:
        """For each counter set of a pool what it publishes and the kinds of devices that draw on it.

        None where a device draws on several sets, since sets are then not interchangeable one by one.
        """
        if (driver, pool) not in self._sets:
            self._sets[driver, pool] = self._read_sets(driver, pool)
        return self._sets[driver, pool]

    def _read_sets(self, driver: str, pool: str) -> dict[str, object] | None:
        kinds: dict[str, list[int]] = {}
        for record in self.index.drivers[driver].pools[pool].contribution(VALID):
            for device in record.devices:
                if len(device.sets) > 1:
                    return None
                for name in device.sets:
                    kinds.setdefault(name, []).append(self.kind(Spot(driver, pool, device)))
        published = self.space.sets(driver, pool)
        return {name: (tuple(sorted(published[name].items())), tuple(sorted(each))) for name, each in kinds.items()}

    # --- places ------------------------------------------------------------------------------------------------

    def first_fit(self, units: list[Unit]) -> Placement | None:
        """Each unit at the first place there is, without trying another for those before it.

        While nothing is given back, a node that had no place for a pod has none for its like: they start where the
        last one of them was placed.
        """
        placed: list[Generator[int, None, None]] = []
        try:
            for unit in units:
                placing = self._place_pod(unit, self._first_node.get(unit.pod, 0))
                placed.append(placing)
                node = next(placing, len(self.nodes))
                self._first_node[unit.pod] = node
                if node == len(self.nodes):
                    placed.pop()
                    if placed:
                        Placement(placed).give_back()
                    return None
        except GaveUp:
            Placement(placed).give_back()
            raise
        return Placement(placed)

    def place_all(self, units: list[Unit]) -> Placement | None:
        """Places for all units, taken; None, with nothing taken, if there are none at all.

        Raises `GaveUp`, with nothing taken, when the steps run out. Units with equal demands must stand side by side.
        """
        trying: list[Generator[int, None, None]] = []
        reached: list[int] = []
        try:
            while len(reached) < len(units):
                position = len(reached)
                if len(trying) == position:
                    again = position > 0 and units[position - 1].pod == units[position].pod
                    trying.append(self._place_pod(units[position], reached[-1] if again else 0))
                node = next(trying[-1], None)
                if node is not None:
                    reached.append(node)
                    continue
                trying.pop()
                if not trying:
                    return None
                reached.pop()
        except GaveUp:
            Placement(trying).give_back()
            raise
        return Placement(trying)

    def _place_pod(self, unit: Unit, first: int) -> Generator[int, None, None]:
        """Each way to place a pod, from the node with a number on; what it takes is given back on the next step."""
        for number in range(first, len(self.nodes)):
            node = self.nodes[number]
            if unit.pod.nodes is not None and node not in unit.pod.nodes:
                continue
            self._step()
            for _ in self._place_claims(unit, node, 0):
                yield number

    def _place_claims(self, unit: Unit, node: str, number: int) -> Iterator[None]:
        if number == len(unit.pod.claims):
            yield
            return
        claim = unit.pod.claims[number]
        for _ in self._place_choices(unit.user, node, claim, 0, []):
            yield from self._place_claims(unit, node, number + 1)

    def _place_choices(self, user: str, node: str, claim: ClaimDemand, number: int, chosen: Chosen) -> Iterator[None]:
        if number == len(claim.choices):
            yield
            return
        choice = claim.choices[number]
        for option, wanted in choice.alternatives:
            if wanted.number is None:
                places = self._every(user, node, claim, wanted, (choice.name, option), chosen)
            elif wanted.number > MOST_DEVICES_OF_A_CLAIM - len(chosen):
                continue
            else:
                places = self._some(user, node, claim, wanted, (choice.name, option), chosen, 0, wanted.number)
            for _ in places:
                yield from self._place_choices(user, node, claim, number + 1, chosen)

    def _some(
        self,
        user: str,
        node: str,
        claim: ClaimDemand,
        wanted: Wanted,
        names: tuple[str, str],
        chosen: Chosen,
        first: int,
        count: int,
    ) -> Iterator[None]:
        """Each way to choose so many different devices, in ascending order."""
        if not count:
            yield
            return
        spots = self.spots(wanted, node)
        failed: set[object] = set()
        full = self._full.get((wanted, node), 0)
        start = max(first, full)
        following = start == full
        for position in range(start, len(spots) - count + 1):
            spot = spots[position]
            self._step()
            if not self.space.fits(spot, wanted.capacity):
                if following:
                    self._full[wanted, node] = position + 1
                continue
            following = False
            if failed and self.state(spot) in failed:
                continue
            chosen.append((*names, spot.device.readable))
            if satisfied(claim.constraints, chosen):
                self.space.take(spot, wanted.capacity, user)
                try:
                    yield from self._some(user, node, claim, wanted, names, chosen, position + 1, count - 1)
                finally:
                    self._give_back(spot, wanted, user)
            chosen.pop()
            failed.add(self.state(spot))

    def _give_back(self, spot: Spot, wanted: Wanted, user: str) -> None:
        """What was full need not be full any more."""
        self.space.give_back(spot, wanted.capacity, user)
        self._full.clear()
        self._first_node.clear()

    def _every(
        self,
        user: str,
        node: str,
        claim: ClaimDemand,
        wanted: Wanted,
        names: tuple[str, str],
        chosen: Chosen,
    ) -> Iterator[None]:
        """Mode All: every usable matching device of the node, at least one, and none in use (dra 17.9)."""
        spots = self.spots(wanted, node)
        if not spots or len(spots) > MOST_DEVICES_OF_A_CLAIM - len(chosen):
            return
        taken: list[Spot] = []
        before = len(chosen)
        try:
            for spot in spots:
                self._step()
                if self.space.is_taken(spot) or not self.space.take(spot, wanted.capacity, user):
                    return
                taken.append(spot)
                chosen.append((*names, spot.device.readable))
            if satisfied(claim.constraints, chosen):
                yield
        finally:
            for spot in reversed(taken):
                self._give_back(spot, wanted, user)
            del chosen[before:]

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise GaveUp


def wanted_of(pod: PodDemand) -> list[Wanted]:
    return [wanted for claim in pod.claims for choice in claim.choices for _, wanted in choice.alternatives]


def _shared_content(readable: Readable) -> object:
    return tuple(readable.capacity.items()) if readable.shared else None
