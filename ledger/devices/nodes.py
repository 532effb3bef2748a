"""Which devices a node can use (dra P8).

A pool belongs to the nodes its slices name. Slices that a selector or `allNodes` places are looked at for every
node; labels come from Node objects, and a node that was never seen matches by its name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ledger.devices.index import DeviceIndex
from ledger.devices.inventory import DeviceRecord, Location, SliceRecord
from ledger.objects.pod import NodeRequirement, NodeSelector

NOWHERE = ""
"""The node that stands for all where nothing names one: devices for all nodes, in a log without Node objects."""


def node_names(index: DeviceIndex, drivers: tuple[str, ...], allowed: frozenset[str] | None = None) -> list[str]:
    """The nodes with devices of the drivers, sorted."""
    found: set[str] = set()
    floating = False
    for driver in drivers:
        devices = index.drivers.get(driver)
        if devices is None:
            continue
        floating = floating or None in devices.pools_on
        found.update(node for node in devices.pools_on if node is not None)
    if floating:
        found.update(index.nodes or (NOWHERE,))
    if allowed is not None:
        found = {node for node in found if node in allowed or node == NOWHERE}
    return sorted(found)


def usable_on(
    index: DeviceIndex, driver: str, node: str, scope: str
) -> Iterator[tuple[str, SliceRecord, DeviceRecord]]:
    """Pool, slice and device of each device of a driver that the node can use: pools by name, devices in order."""
    devices = index.drivers.get(driver)
    if devices is None:
        return
    names = devices.pools_on.get(node, set()) | devices.pools_on.get(None, set())
    for name in sorted(names):
        for record in devices.pools[name].contribution(scope):
            whole = reaches(index, record.location, node)
            for device in record.devices:
                if whole if device.location is None else reaches(index, device.location, node):
                    yield name, record, device


def stamp_of(index: DeviceIndex, drivers: tuple[str, ...], node: str) -> tuple[int, ...]:
    """Changes whenever a pool that the node can use does."""
    found: list[int] = []
    for driver in drivers:
        devices = index.drivers[driver]
        for name in sorted(devices.pools_on.get(node, ())):
            found.append(devices.pools[name].version)
        for name in sorted(devices.pools_on.get(None, ())):
            found.append(devices.pools[name].version)
        found.append(-1)
    return tuple(found)


def reaches(index: DeviceIndex, location: Location, node: str) -> bool:
    if location.everywhere:
        return True
    if location.node:
        return location.node == node
    if location.selector is None:
        return False
    if node == NOWHERE:
        return True
    return selects(location.selector, node, index.nodes.get(node, {}))


def selects(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms holds; a term without requirements selects nothing."""
    return any(
        (term.match_expressions or term.match_fields)
        and all(_holds(requirement, labels) for requirement in term.match_expressions)
        and all(_holds(requirement, {"metadata.name": name}) for requirement in term.match_fields)
        for term in selector.node_selector_terms
    )


def _holds(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    operator = requirement.operator
    if operator == "In":
        return value is not None and value in requirement.values
    if operator == "NotIn":
        return value is None or value not in requirement.values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(requirement.values) == 1:
        try:
            left, right = int(value), int(requirement.values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False


def nodes_with_labels(index: DeviceIndex, labels: Mapping[str, str]) -> frozenset[str] | None:
    """The nodes a flavor's labels pick; None, meaning all, without labels or without Node objects (G9)."""
    if not labels or not index.nodes:
        return None
    return frozenset(
        name for name, found in index.nodes.items() if all(found.get(key) == value for key, value in labels.items())
    )
