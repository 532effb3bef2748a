"""Constraints between the devices of a claim: matching and distinct attributes (dra 17.6)."""

from __future__ import annotations

from collections.abc import Hashable

from ledger.devices.inventory import Readable
from ledger.devices.objects import Attribute, Constraint

Chosen = list[tuple[str, str, Readable]]
"""Request name, alternative's name, device, in the order they were chosen."""


def values(readable: Readable, name: str) -> frozenset[tuple[str, Hashable]] | None:
    """The attribute's values with their type: several for a list, None where the device has no such attribute."""
    domain, slash, key = name.partition("/")
    attribute = readable.attributes.get(key if slash and domain == readable.driver else name)
    return None if attribute is None else _values(attribute)


def _values(attribute: Attribute) -> frozenset[tuple[str, Hashable]]:
    single: tuple[tuple[str, Hashable | None], ...] = (
        ("string", attribute.string_value),
        ("int", attribute.int_value),
        ("bool", attribute.bool_value),
        ("version", attribute.version_value),
    )
    several = (
        ("string", attribute.string_values),
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("version", attribute.version_values),
    )
    found: set[tuple[str, Hashable]] = {(kind, value) for kind, value in single if value is not None}
    for kind, listed in several:
        found.update((kind, value) for value in listed or ())
    return frozenset(found)


def satisfied(constraints: tuple[Constraint, ...], chosen: Chosen) -> bool:
    return all(_holds(constraint, chosen) for constraint in constraints)


def _holds(constraint: Constraint, chosen: Chosen) -> bool:
    name = constraint.match_attribute or constraint.distinct_attribute
    if name is None:
        return True
    found = [values(readable, name) for request, option, readable in chosen if _concerns(constraint, request, option)]
    present = [each for each in found if each is not None]
    if len(present) < len(found):
        return False
    if constraint.match_attribute is not None:
        return len(present) < 2 or bool(frozenset.intersection(*present))
    return sum(map(len, present)) == len(frozenset().union(*present))


def _concerns(constraint: Constraint, request: str, option: str) -> bool:
    return not constraint.requests or request in constraint.requests or f"{request}/{option}" in constraint.requests
