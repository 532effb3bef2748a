"""AdmissionChecks (objects 1.7, admission 1.5)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ledger.objects.condition import Conditions, find_condition
from ledger.objects.metadata import ObjectMeta


class CheckParameters(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_group: str
    kind: str
    name: str


class AdmissionCheckSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    controller_name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    parameters: CheckParameters | None = None


class AdmissionCheckStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    conditions: Conditions = ()


class AdmissionCheck(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: AdmissionCheckSpec
    status: AdmissionCheckStatus = AdmissionCheckStatus()

    @property
    def active(self) -> bool:
        """A ClusterQueue that names a check which is not active admits nothing."""
        found = find_condition(self.status.conditions, "Active")
        return found is not None and found.status == "True"
