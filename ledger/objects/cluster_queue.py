"""ClusterQueues (objects 1.1, admission 1.1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger.objects.condition import Conditions
from ledger.objects.label_selector import LabelSelector
from ledger.objects.metadata import ObjectMeta
from ledger.objects.quota import FairSharing, ResourceGroup
from ledger.objects.scalars import Int32

QueueingStrategy = Literal["BestEffortFIFO", "StrictFIFO"]
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


class FlavorFungibility(msgspec.Struct, frozen=True, rename="camel", gc=False):
    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class BorrowWithinCohort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: Int32 | None = None


class Preemption(msgspec.Struct, frozen=True, rename="camel", gc=False):
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"


class AdmissionCheckRule(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """No flavors named means every flavor of the ClusterQueue."""

    name: str
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class AdmissionScope(msgspec.Struct, frozen=True, rename="camel", gc=False):
    admission_mode: str


class MigrationConstraints(msgspec.Struct, frozen=True, rename="camel", gc=False):
    last_acceptable_flavor_name: str | None = None


class Migration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    mode: Literal["TryPreferredFlavors", "RetainFirstAdmission"] | None = None
    constraints: MigrationConstraints = MigrationConstraints()


class ConcurrentAdmissionPolicy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    migration: Migration = Migration()


class ClusterQueueSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: QueueingStrategy = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing = FairSharing()
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None

    @property
    def admission_checks(self) -> tuple[AdmissionCheckRule, ...]:
        return self.admission_checks_strategy.admission_checks if self.admission_checks_strategy else ()


class ClusterQueueStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    conditions: Conditions = ()


class ClusterQueue(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()
