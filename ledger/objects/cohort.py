"""Cohorts (objects 1.2, admission 1.2)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.objects.quota import FairSharing, ResourceGroup


class CohortSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """No parent makes a root. Quotas are added on top of what the children bring."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing = FairSharing()


class Cohort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: CohortSpec = CohortSpec()
