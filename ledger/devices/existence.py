"""Whether the devices of one claim exist at all, on one node together (dra 8 for the ledger, 17.1 to 17.3).

What is in use does not matter here, nor do counters and constraints: that is feasibility. A claim that no node could
hold if it were empty is not worth a place in the queue.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.devices.census import Census, Price
from ledger.devices.context import Charging, Place, texts
from ledger.devices.inventory import Costs, Readable
from ledger.devices.matching import all_matched
from ledger.devices.nodes import node_names, stamp_of, usable_on
from ledger.devices.objects import DeviceClass, DeviceRequest
from ledger.devices.pools import VALID
from ledger.devices.priced import servable
from ledger.devices.rejection import (
    INSUFFICIENT_DEVICES,
    INTERNAL,
    INVALID,
    PERMANENT,
    RETRYABLE,
    SELECTOR_EVAL,
    Problem,
)
from ledger.devices.rounding import UNSERVED
from ledger.devices.taints import tolerated
from ledger.devices.verdicts import MATCH, Verdicts

MOST_DEVICES_OF_A_CLAIM = 32


NodeQuestion = tuple[tuple[object, ...], tuple[str, ...], int]
"""What is needed, the drivers asked, the version of the nodes."""


class Need(NamedTuple):
    """So many devices of a request must be there. A request without selectors of its own needs one of its class."""

    place: Place
    request: DeviceRequest
    device_class: DeviceClass
    wanted: int
    drivers: tuple[str, ...]
    counted: bool
    """A counting source has already found so many in the cluster."""

    @property
    def question(self) -> tuple[object, ...]:
        """What the answer depends on, besides the devices."""
        asked = tuple(sorted(self.request.capacity_requests.items()))
        selectors = texts(self.device_class.spec.selectors), texts(self.request.selectors)
        return (selectors, self.request.tolerations, asked, self.wanted)


def missing_devices(charging: Charging, place: Place, needs: list[Need]) -> Problem | None:
    """What keeps every node from holding the claim, None where some node could."""
    for need in needs:
        problem = None if need.counted else _too_few(charging, need, _censuses(charging, need))
        if problem is not None:
            return problem
    wanted = sum(need.wanted for need in needs)
    if wanted <= 1:
        return None
    reached, node = _best_node(charging, needs, wanted)
    if reached == wanted:
        return None
    classes = ", ".join(dict.fromkeys(need.request.device_class_name for need in needs))
    detail = (
        f"insufficient matching devices on any node for {classes}: "
        f"{reached} of {wanted} on the best node, {node or 'any'}"
    )
    return Problem(INSUFFICIENT_DEVICES, RETRYABLE, place.path, INTERNAL, detail)


def _best_node(charging: Charging, needs: list[Need], wanted: int) -> tuple[int, str]:
    """How many of the needed devices the best node can give, and the first such node.

    The answer is remembered until any device changes, what a node can give until one of its pools does.
    """
    index = charging.index
    drivers = tuple(sorted({driver for need in needs for driver in need.drivers}))
    question: NodeQuestion = (tuple(need.question for need in needs), drivers, index.nodes_version)
    answers: dict[int, tuple[int, str]] = index.best_nodes.get((question, charging.nodes))
    if index.version not in answers:
        answers.clear()
        answers[index.version] = _search_nodes(charging, needs, wanted, question)
    return answers[index.version]


def _search_nodes(charging: Charging, needs: list[Need], wanted: int, question: NodeQuestion) -> tuple[int, str]:
    index = charging.index
    drivers = question[1]
    known: dict[str, tuple[tuple[int, ...], int]] = index.existence.get(question)
    best = (0, "")
    for node in node_names(index, drivers, charging.nodes):
        stamp = stamp_of(index, drivers, node)
        found = known.get(node)
        if found is None or found[0] != stamp:
            found = known[node] = (stamp, _on_node(charging, node, needs, drivers))
        if found[1] > best[0]:
            best = (found[1], node)
        if best[0] == wanted:
            break
    return best


def _censuses(charging: Charging, need: Need) -> dict[str, Census]:
    requests = need.request.capacity_requests

    def price(readable: Readable, costs: Costs) -> Price:
        return 0 if servable(readable, requests) else UNSERVED

    key = ("exists", tuple(sorted(requests.items())))
    found: dict[str, Census] = {}
    for driver in need.drivers:
        census = charging.census(driver, (), need.device_class, need.request, key, price)
        if census is not None:
            found[driver] = census
    return found


def matched_devices(charging: Charging, need: Need) -> int:
    """How many usable devices of the cluster answer a request."""
    return sum(census.matched - census.unserved for census in _censuses(charging, need).values())


def _too_few(charging: Charging, need: Need, censuses: dict[str, Census]) -> Problem | None:
    matched = sum(census.matched - census.unserved for census in censuses.values())
    failing = [census for census in censuses.values() if census.failures]
    if failing and all(c.hopeless or not (c.matched or c.refused or c.failures) for c in censuses.values()):
        text = min(census.failure or "" for census in failing)
        detail = (
            f"null: ResourceClaimTemplate {need.place.template}: CEL evaluation failed for DeviceClass "
            f"{need.request.device_class_name}: {text}; use has(...) or .?"
        )
        path = f"{need.place.path}.exactly.selectors"
        return Problem(SELECTOR_EVAL, PERMANENT, path, INVALID, detail)
    if failing:
        text = min(census.failure or "" for census in failing)
        charging.diagnostics.append(f"{need.place.path}: some devices cannot be evaluated: {text}")
    if matched >= need.wanted:
        return None
    detail = (
        f"ResourceClaimTemplate {need.place.template}: insufficient matching devices in DeviceClass "
        f"{need.request.device_class_name}: {matched} device(s) match but {need.wanted} requested"
    )
    return Problem(INSUFFICIENT_DEVICES, RETRYABLE, need.place.path, INTERNAL, detail)


def _on_node(charging: Charging, node: str, needs: list[Need], drivers: tuple[str, ...]) -> int:
    """How many of the needed devices the node can give: exclusive ones once, shared ones once a request."""
    exclusive: list[list[int]] = [[] for _ in needs]
    shared = [0] * len(needs)
    number = 0
    for driver in drivers:
        verdicts = [_verdicts(charging, need, driver) for need in needs]
        for _, _, device in usable_on(charging.index, driver, node, VALID):
            number += 1
            readable = device.readable
            for position, (need, own) in enumerate(zip(needs, verdicts, strict=True)):
                if own.of(readable) is not MATCH:
                    continue
                if readable.taints and not tolerated(readable.taints, need.request.tolerations):
                    continue
                if not servable(readable, need.request.capacity_requests):
                    continue
                if readable.shared:
                    shared[position] += 1
                else:
                    exclusive[position].append(number)
    seats = [max(need.wanted - shared[position], 0) for position, need in enumerate(needs)]
    granted = sum(min(need.wanted, shared[position]) for position, need in enumerate(needs))
    return granted + all_matched(seats, exclusive)


def _verdicts(charging: Charging, need: Need, driver: str) -> Verdicts:
    selectors = texts(need.device_class.spec.selectors), texts(need.request.selectors)
    return charging.index.drivers[driver].verdicts((), *selectors, reference=False)
