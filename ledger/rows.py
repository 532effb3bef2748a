"""Rows of the table `quota` (design 7): what one ClusterQueue has and holds of one resource on one flavor."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ledger.cluster_queue import ClusterQueueNode
from ledger.recorder import quantity_text
from ledger.tree import FlavorResources


class RowKey(NamedTuple):
    cluster: str
    cluster_queue: str
    flavor: str
    resource: str


class SourceName(msgspec.Struct, frozen=True, rename="camel"):
    """A counter or a capacity dimension of a driver's devices."""

    driver: str
    name: str


class CountedResource(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a row counts: a plain resource only, or the devices of classes, a counter, a capacity, and the extended
    resource through which containers may ask for it (dra 5, 11)."""

    resource: str
    device_class: tuple[str, ...] = ()
    counter: tuple[SourceName, ...] = ()
    capacity: tuple[SourceName, ...] = ()
    extended_resource: tuple[str, ...] = ()


class Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Quantities are canonical. `reserved` counts all that hold quota, `used` the admitted ones of them, `borrowed` is
    what exceeds nominal quota (0 without a cohort, admission 1.1.5), `drift` how much more claims are really given than
    `reserved` counts for them, negative where it is less (dra 16). An absent limit is no limit. `declared` is False for
    usage that stayed on a row which is no longer in the spec. `counts` says what one unit of the resource is."""

    nominal: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None
    reserved: str
    used: str
    borrowed: str
    drift: str = "0"
    declared: bool = True
    counts: CountedResource


def row_of(
    queue: ClusterQueueNode, fr: int, numbers: FlavorResources, counts: CountedResource, drift: int, *, binary: bool
) -> Row | None:
    """None where the queue neither declares the row nor holds anything there."""
    reserved = queue.usage.get(fr, 0)
    declared = fr in queue.nominal
    if not declared and reserved == 0:
        return None
    resource = numbers.names[fr][1]
    nominal = queue.nominal.get(fr, 0)
    borrowing, lending = queue.borrowing_limit.get(fr), queue.lending_limit.get(fr)
    return Row(
        nominal=quantity_text(resource, nominal, binary),
        borrowing_limit=None if borrowing is None else quantity_text(resource, borrowing, binary),
        lending_limit=None if lending is None else quantity_text(resource, lending, binary),
        reserved=quantity_text(resource, reserved, binary),
        used=quantity_text(resource, queue.admitted_usage.get(fr, 0), binary),
        borrowed=quantity_text(resource, max(0, reserved - nominal) if queue.parent is not None else 0, binary),
        drift=quantity_text(resource, drift, binary),
        declared=declared,
        counts=counts,
    )
