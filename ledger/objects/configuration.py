"""The Configuration Kueue runs with, and the ledger's own block in it (admission 1.8, dra 5, design 4 and 5)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ledger.objects.durations import Duration
from ledger.objects.metadata import ObjectMeta
from ledger.objects.scalars import Count
from ledger.quantity import Quantity

SECOND = 1_000_000
MINUTE = 60 * SECOND

FairSharingStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
DEFAULT_STRATEGIES: tuple[FairSharingStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")

GATES_OFF_BY_DEFAULT = frozenset(
    {
        "ConcurrentAdmission",
        "CustomMetricLabels",
        "DisableWaitForPodsReady",
        "FastQuotaReleaseInPodIntegration",
        "KueueDRAIntegrationConsumableCapacity",
        "MultiKueueClusterProfile",
        "MultiKueueManagerQuotaAutomation",
        "MultiKueueOrchestratedPreemption",
        "PrioritizePreemptorWorkloads",
        "PriorityBoost",
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "ShortWorkloadNames",
        "UnadmittedWorkloadsExplicitStatus",
        "WorkloadRequestUseMergePatch",
    }
)


class CelExpression(msgspec.Struct, frozen=True, rename="camel", gc=False):
    expression: str = ""


class DeviceSelector(msgspec.Struct, frozen=True, rename="camel", gc=False):
    cel: CelExpression = CelExpression()


class DeviceSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A counter or a capacity that devices of a driver publish."""

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = DeviceSelector()


class ChargeSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Exactly one of the two is set."""

    counter: DeviceSource | None = None
    capacity: DeviceSource | None = None


class DeviceClassMapping(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Device classes that charge to the quota key `name`; without sources one unit a device."""

    name: str = ""
    device_class_names: tuple[str, ...] = ()
    sources: tuple[ChargeSource, ...] = ()


class Transformation(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a request for `input` counts as (admission 2.5)."""

    input: str
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: dict[str, Quantity] = {}


class ResourcesConfiguration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"


class FairSharingConfiguration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Fair sharing is on when the block is present."""

    preemption_strategies: tuple[FairSharingStrategy, ...] = DEFAULT_STRATEGIES

    def __post_init__(self) -> None:
        if not self.preemption_strategies:
            msgspec.structs.force_setattr(self, "preemption_strategies", DEFAULT_STRATEGIES)


class AdmissionFairSharing(msgspec.Struct, frozen=True, rename="camel", gc=False):
    usage_half_life_time: Duration
    usage_sampling_interval: Duration = Duration(5 * MINUTE)
    resource_weights: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}


class RequeuingStrategy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    backoff_limit_count: Count | None = None
    backoff_base_seconds: Count = 60
    backoff_max_seconds: Count = 3600


class WaitForPodsReady(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Times in microseconds. `recovery_timeout` is the timeout unless it is given; 0 there switches it off."""

    timeout: Duration = Duration(30 * MINUTE)
    block_admission: bool = False
    recovery_timeout: Duration | None = None
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()

    @property
    def recovery_limit(self) -> int | None:
        """How long a workload may take to recover, None for ever (admission 7.5.3)."""
        if self.recovery_timeout is None:
            return self.timeout
        return self.recovery_timeout or None


class LedgerConfiguration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The ledger's own choices: which rule set, whether devices must exist, whether charges follow allocations, and how
    long a retry of inadmissible workloads waits for others of its tree (admission 4.7.5)."""

    rules: Literal["ledger", "kueue-0.19"] = "ledger"
    feasibility: bool = False
    settle: bool = False
    retry_delay: Duration | None = None


class Configuration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`Configuration()` is what Kueue runs with when it is given nothing."""

    metadata: ObjectMeta = ObjectMeta(name="")
    resources: ResourcesConfiguration = ResourcesConfiguration()
    fair_sharing: FairSharingConfiguration | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    feature_gates: dict[str, bool] = {}
    ledger: LedgerConfiguration = LedgerConfiguration()

    def __post_init__(self) -> None:
        if self.gate("DisableWaitForPodsReady"):
            msgspec.structs.force_setattr(self, "wait_for_pods_ready", None)

    @property
    def retry_delay(self) -> int:
        """At once, unless the block says otherwise. Admission fair sharing decides by what the clock has decayed, so
        there the second for which the reference merges retries belongs to what it decides (admission 4.7.5)."""
        if self.ledger.retry_delay is not None:
            return self.ledger.retry_delay
        repeats = self.ledger.rules == "kueue-0.19"
        shares = self.admission_fair_sharing is not None and self.gate("AdmissionFairSharing")
        return SECOND if repeats and shares else 0

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on (admission 9, objects 1.14, dra 5.2)."""
        chosen = self.feature_gates.get(name)
        return name not in GATES_OFF_BY_DEFAULT if chosen is None else chosen
