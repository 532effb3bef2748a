"""Whether the devices for a workload can be had, given what others hold (dra 17).

A wrong "no" would starve a workload, so only what is proved is refused: by counting, or by a complete search. What
the search cannot finish counts as possible. Feasibility never changes a price and never admits anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ledger.devices.bounds import Shortage, shortage
from ledger.devices.demand import Holder, PodDemand, Unknown, pod_demands
from ledger.devices.index import DeviceIndex
from ledger.devices.mappings import Mappings
from ledger.devices.search import STEPS_PER_POD, GaveUp, Placement, Search, Unit, wanted_of
from ledger.devices.space import Space, Spot
from ledger.objects.workload import WorkloadSpec
from ledger.quantity import Quantity

ClaimKey = tuple[str, str]
"""(namespace, name)."""

IMPOSSIBLE = "impossible"
"""No node could ever hold the pods, if everything were free."""
IMPOSSIBLE_NOW = "impossible-now"
"""The devices exist but are in use."""
_MOST_NAMED = 10


class Feasible(msgspec.Struct, frozen=True):
    """`certain` says that places were found; otherwise the search gave up, or something it needs is not known."""

    certain: bool


class NoDevices(msgspec.Struct, frozen=True, rename="camel"):
    """Quota would allow it, the devices do not. `in_the_way` names holders: workloads, and claims of others."""

    verdict: str
    message: str
    in_the_way: tuple[str, ...] = ()


def feasible(
    index: DeviceIndex,
    mappings: Mappings,
    subject: Holder,
    held: Iterable[Holder],
    leaving: frozenset[ClaimKey] = frozenset(),
) -> Feasible | NoDevices:
    """`held` are the workloads that hold quota, with their pods whose claims are not allocated yet.

    Allocated claims need not be named: the index knows them. Those that are `leaving` count as gone.
    """
    try:
        demands = pod_demands(index, mappings, subject)
    except Unknown:
        return Feasible(False)
    if not demands:
        return Feasible(True)
    places = _held_places(index, mappings, held, leaving)
    if places is None:
        return Feasible(False)
    units = _units(subject.name, demands)
    pods = [pod for pod, _ in demands]
    search = _search(index, places.space, pods, units)
    found = _attempt(search, units)
    if isinstance(found, Placement):
        found.give_back()
        return Feasible(True)
    wanted = [each for pod in pods for each in wanted_of(pod)]
    spots = [spot for node in search.nodes for each in wanted for spot in search.spots(each, node)]
    blockers = sorted(places.space.in_the_way_of(spots))
    everyone = [*units, *places.units]
    together = _search(index, _space(index, leaving), [*pods, *places.pods], everyone)
    lacking = shortage(together, everyone)
    if lacking is None:
        result = _attempt(together, _side_by_side(everyone)) if places.units else found
        if result is not None:
            return Feasible(isinstance(result, Placement))
    return _refusal(index, demands, units, blockers, lacking)


# --- what others hold: worked out once for as long as nothing changes -------------------------------------------


class _Holding(NamedTuple):
    name: str
    spec: WorkloadSpec
    pods: tuple[tuple[str, int], ...]
    nodes: tuple[tuple[str, tuple[str, ...]], ...]


class _HeldPlaces:
    """The pods of the holders at the first places there are; those that do not fit cannot be running."""

    def __init__(
        self, version: int, mappings: Mappings, holdings: list[_Holding], leaving: frozenset[ClaimKey], space: Space
    ) -> None:
        self.version = version
        self.mappings = mappings
        self.holdings = holdings
        self.leaving = leaving
        self.space = space
        self.units: list[Unit] = []
        self.pods: list[PodDemand] = []
        self.placements: list[Placement] = []


def _held_places(
    index: DeviceIndex, mappings: Mappings, held: Iterable[Holder], leaving: frozenset[ClaimKey]
) -> _HeldPlaces | None:
    """None where placing them takes too long to say anything."""
    holders = sorted(held, key=lambda each: each.name)
    holdings = [_holding(holder) for holder in holders]
    known = index.remembered_places.get("held")
    if (
        isinstance(known, _HeldPlaces)
        and known.version == index.version
        and known.mappings is mappings
        and known.leaving == leaving
        and known.holdings == holdings
    ):
        return known
    places = _HeldPlaces(index.version, mappings, holdings, leaving, _space(index, leaving))
    demands = _demands_of(index, mappings, holders)
    everyone = [unit for name, each in demands for unit in _units(name, each)]
    search = _search(index, places.space, [pod for _, each in demands for pod, _ in each], everyone)
    for name, each in demands:
        theirs = _units(name, each)
        try:
            placement = search.first_fit(theirs)
        except GaveUp:
            return None
        if placement is not None:
            places.units.extend(theirs)
            places.pods.extend(pod for pod, _ in each)
            places.placements.append(placement)
    index.remembered_places["held"] = places
    return places


def _holding(holder: Holder) -> _Holding:
    nodes = tuple(sorted((name, tuple(sorted(each))) for name, each in holder.nodes.items()))
    return _Holding(holder.name, holder.workload.spec, tuple(sorted(holder.pods.items())), nodes)


def _space(index: DeviceIndex, leaving: frozenset[ClaimKey]) -> Space:
    """With nothing in use but what allocated claims have that stay."""
    space = Space(index)
    for spot, consumed, user in _allocated(index, leaving):
        space.occupy(spot, consumed, user)
    return space


def _search(index: DeviceIndex, space: Space, pods: list[PodDemand], units: list[Unit]) -> Search:
    search = Search(index, space, pods)
    search.steps += STEPS_PER_POD * len(units)
    return search


def _attempt(search: Search, units: list[Unit]) -> Placement | GaveUp | None:
    """Places, the first that come or else after a full search; None where there are none for certain."""
    try:
        return search.first_fit(units) or search.place_all(units)
    except GaveUp as exhausted:
        return exhausted


def _demands_of(
    index: DeviceIndex, mappings: Mappings, holders: list[Holder]
) -> list[tuple[str, list[tuple[PodDemand, int]]]]:
    """By name; a holder about whose demand something is unknown holds nothing that could be placed."""
    found: list[tuple[str, list[tuple[PodDemand, int]]]] = []
    for holder in holders:
        try:
            demands = pod_demands(index, mappings, holder)
        except Unknown:
            continue
        if demands:
            found.append((holder.name, demands))
    return found


def _units(user: str, demands: list[tuple[PodDemand, int]]) -> list[Unit]:
    return [Unit(user, pod) for pod, count in demands for _ in range(count)]


def _side_by_side(units: list[Unit]) -> list[Unit]:
    """Equal demands next to each other, otherwise in the order they came."""
    groups: dict[PodDemand, list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.pod, []).append(unit)
    return [unit for group in groups.values() for unit in group]


def _allocated(index: DeviceIndex, leaving: frozenset[ClaimKey]) -> list[tuple[Spot, dict[str, Quantity], str]]:
    """Every device that a claim of the cluster has, by claim (dra 16.2: also those nobody accounts for)."""
    found = []
    for key, claim in sorted(index.claims.items()):
        allocation = claim.status.allocation if key not in leaving else None
        for result in allocation.devices.results if allocation is not None else ():
            if result.admin_access:
                continue
            device = index.device(result.driver, result.pool, result.device)
            if device is not None:
                user = f"claim {key[0]}/{key[1]}"
                found.append((Spot(result.driver, result.pool, device), result.consumed_capacity, user))
    return found


def _refusal(
    index: DeviceIndex,
    demands: list[tuple[PodDemand, int]],
    units: list[Unit],
    blockers: list[str],
    lacking: Shortage | None,
) -> NoDevices:
    """Say whether an empty cluster could hold the pods, how far the best node gets, and who is in the way."""
    empty = Search(index, Space(index), [pod for pod, _ in demands])
    alone = _attempt(empty, units)
    verdict = IMPOSSIBLE_NOW if alone is not None and blockers else IMPOSSIBLE
    if lacking is not None:
        message = lacking.message
    else:
        reached, node = _best_node(empty, demands)
        wanted = max(pod.devices for pod, _ in demands)
        message = f"devices for {reached} of {wanted} on the best node, {node or 'any'}, if it were empty"
    if verdict == IMPOSSIBLE_NOW:
        names = ", ".join(blockers[:_MOST_NAMED])
        more = f" and {len(blockers) - _MOST_NAMED} more" if len(blockers) > _MOST_NAMED else ""
        return NoDevices(verdict, f"{message}; in use by {names}{more}", tuple(blockers))
    return NoDevices(verdict, message)


def _best_node(search: Search, demands: list[tuple[PodDemand, int]]) -> tuple[int, str]:
    best = (0, "")
    for node in search.nodes:
        for pod, _ in demands:
            reached = 0
            for wanted in wanted_of(pod):
                reached += min(len(search.spots(wanted, node)), wanted.number or 1)
            if reached > best[0]:
                best = (reached, node)
    return best
