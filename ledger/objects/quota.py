"""Quotas as ClusterQueues and Cohorts declare them (objects 1.1, 1.2)."""

from __future__ import annotations

import msgspec

from ledger.quantity import NANO, NonNegativeQuantity

ONE = NonNegativeQuantity(NANO)


class ResourceQuota(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An absent limit is no limit; a limit of 0 is none at all."""

    name: str
    nominal_quota: NonNegativeQuantity
    borrowing_limit: NonNegativeQuantity | None = None
    lending_limit: NonNegativeQuantity | None = None


class FlavorQuotas(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    resources: tuple[ResourceQuota, ...]


class ResourceGroup(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The order of the flavors is the order of preference."""

    covered_resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class FairSharing(msgspec.Struct, frozen=True, rename="camel", gc=False):
    weight: NonNegativeQuantity = ONE
