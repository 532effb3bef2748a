"""Proofs by counting that demands cannot be met together, whatever the arrangement (dra 17.3).

Both look at the cluster as one big node, so they never refuse what some arrangement could hold: more exclusive
devices are needed than match, or more of a counter than is published.
"""

from __future__ import annotations

import msgspec

from ledger.devices.demand import Wanted
from ledger.devices.matching import largest_flow
from ledger.devices.search import Search, Unit
from ledger.devices.space import Spot
from ledger.quantity import canonical_quantity


class Shortage(msgspec.Struct, frozen=True):
    message: str


def shortage(search: Search, units: list[Unit]) -> Shortage | None:
    """What is missing for certain; requests with alternatives or mode All are left out of account."""
    counts: dict[Wanted, int] = {}
    for unit in units:
        for claim in unit.pod.claims:
            for choice in claim.choices:
                if len(choice.alternatives) == 1 and choice.alternatives[0][1].number:
                    wanted = choice.alternatives[0][1]
                    counts[wanted] = counts.get(wanted, 0) + (wanted.number or 0)
    spots: dict[Wanted, dict[tuple[str, str, str], Spot]] = {
        wanted: {spot.key: spot for node in search.nodes for spot in search.spots(wanted, node)} for wanted in counts
    }
    return _too_few_devices(search, counts, spots) or _too_few_counters(search, counts, spots)


Spots = dict[Wanted, dict[tuple[str, str, str], Spot]]


def _too_few_devices(search: Search, counts: dict[Wanted, int], spots: Spots) -> Shortage | None:
    """Exclusive devices by the requests they answer: a flow that cannot carry all proves a shortage (Hall)."""
    exclusive = {
        wanted: count
        for wanted, count in counts.items()
        if not any(spot.device.readable.shared for spot in spots[wanted].values())
    }
    order = list(exclusive)
    groups: dict[tuple[int, ...], int] = {}
    everything = {key: spot for wanted in order for key, spot in spots[wanted].items()}
    for key, spot in everything.items():
        if search.space.fits(spot, ()):
            answers = tuple(number for number, wanted in enumerate(order) if key in spots[wanted])
            groups[answers] = groups.get(answers, 0) + 1
    carried = largest_flow([exclusive[wanted] for wanted in order], groups)
    needed = sum(exclusive.values())
    if carried >= needed:
        return None
    labels = ", ".join(sorted({wanted.label for wanted in order}))
    return Shortage(f"{needed} devices are needed for requests {labels}, {carried} can be had")


def _too_few_counters(search: Search, counts: dict[Wanted, int], spots: Spots) -> Shortage | None:
    """Each device draws at least what the most modest candidate draws; together they must not draw too much."""
    pools = sorted({(spot.driver, spot.pool) for found in spots.values() for spot in found.values()})
    left: dict[tuple[str, str], int] = {}
    for driver, pool in pools:
        for counters in search.space.left_of(driver, pool).values():
            for counter, amount in counters.items():
                left[driver, counter] = left.get((driver, counter), 0) + max(amount, 0)
    needed: dict[tuple[str, str], int] = {}
    for wanted, count in counts.items():
        found = list(spots[wanted].values())
        drivers = {spot.driver for spot in found}
        if len(drivers) != 1 or any(spot.device.readable.shared for spot in found):
            continue
        (driver,) = drivers
        for counter in sorted({name for spot in found for each in spot.device.costs.consumptions for name in each}):
            least = min(sum(max(each.get(counter, 0), 0) for each in spot.device.costs.consumptions) for spot in found)
            needed[driver, counter] = needed.get((driver, counter), 0) + count * least
    for (driver, counter), amount in sorted(needed.items()):
        available = left.get((driver, counter), 0)
        if amount > available:
            return Shortage(f"counter {counter} of {driver} has {_text(available)} left, {_text(amount)} are needed")
    return None


def _text(nanos: int) -> str:
    return canonical_quantity(nanos, binary=True)
