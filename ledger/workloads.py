"""What a ledger keeps of one workload: its object, where it waits, what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ledger.devices.charges import DeviceCharges
from ledger.devices.rejection import DeviceRejection
from ledger.devices.settlement import Settlement
from ledger.objects.workload import Workload
from ledger.requests import PodSetRequests, Problem
from ledger.timestamps import Timestamp

if TYPE_CHECKING:
    from ledger.cluster_queue import ClusterQueueNode


class AssignedPodSet(NamedTuple):
    """One pod set of a reservation: `usage` is for all its pods, integers as in admission 0.4."""

    name: str
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody calls
    flavors: dict[str, str]
    usage: dict[str, int]


class SettledClaims(NamedTuple):
    """What a workload was charged for devices against what its claims have, and the devices."""

    settlement: Settlement
    devices: tuple[str, ...]


Reductions = Mapping[str, Mapping[str, int]]
"""Pod set -> resource -> an amount below zero."""
NO_REDUCTIONS: Final[Reductions] = {}
NO_DRIFT: Final[Mapping[int, int]] = {}


class Reservation:
    """Quota held by one workload.

    `usage` is what counts in the ClusterQueue's table (admission 2.7.2, per flavor-resource number); `charged` says
    whether it does (the ClusterQueue may not exist, admission 3.3.6). `echoed` turns True once an object showed the
    reservation: before that an object without it is merely old news, after that it is a loss. `evicted_before` and
    `lost_before` are the times of Evicted and of QuotaReserved False that the object carried when it was reserved, to
    tell old news from a loss before the first echo. `admitted_at` is when it was admitted, by the ledger's own time
    until an echo says better. `settled` is the last settlement of its claims, `reductions` by how much a pod set counts
    less because of it, and `drift` what is allocated per flavor-resource beyond what counts.
    """

    __slots__ = (
        "admitted",
        "admitted_at",
        "charged",
        "cluster_queue",
        "drift",
        "echoed",
        "evicted_before",
        "flavor_resources",
        "lost_before",
        "pod_sets",
        "reductions",
        "reserved_at",
        "settled",
        "usage",
    )

    def __init__(
        self,
        cluster_queue: str,
        pod_sets: tuple[AssignedPodSet, ...],
        reserved_at: Timestamp,
        *,
        echoed: bool,
        admitted: bool,
        evicted_before: Timestamp | None = None,
        lost_before: Timestamp | None = None,
    ) -> None:
        self.cluster_queue = cluster_queue
        self.pod_sets = pod_sets
        self.reserved_at = reserved_at
        self.echoed = echoed
        self.admitted = admitted
        self.admitted_at: Timestamp = reserved_at
        self.evicted_before = evicted_before
        self.lost_before = lost_before
        self.charged = False
        self.usage: dict[int, int] = {}
        self.flavor_resources: frozenset[int] = frozenset()
        self.settled: SettledClaims | None = None
        self.reductions: Reductions = NO_REDUCTIONS
        self.drift: Mapping[int, int] = NO_DRIFT


class FlavorMemory(msgspec.Struct, frozen=True, gc=False):
    """5.5.1: how far the flavor search of each pod set got; -1 means that the last flavor was looked at."""

    tried: tuple[dict[str, int], ...]
    generation: int
    cycle: int

    @property
    def has_pending_flavors(self) -> bool:
        """5.5.4."""
        for pod_set in self.tried:
            for index in pod_set.values():
                if index != -1:
                    return True
        return False


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """One flavor-resource that lacked room when a workload was looked at; amounts are integers (admission 0.4)."""

    pod_set: str
    flavor_resource: int
    requested: int
    available: int
    maximum: int


class PassedOver(NamedTuple):
    """A flavor that was looked at and not taken, and why."""

    pod_set: str
    flavor: str
    resource: str
    reason: str


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Why a workload still waits. Only a changed `reason` (or message of an inadmissible one) is a new verdict."""

    reason: str
    message: str = ""
    shortages: tuple[Shortage, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    members: tuple[str, ...] = ()
    rounds: tuple[int, ...] = ()
    in_the_way: tuple[str, ...] = ()


class ClassPriority(NamedTuple):
    """1.6: the priority that a changed WorkloadPriorityClass writes, until the object's own moves away from `seen`."""

    value: int
    seen: int | None


class StaleCheck(NamedTuple):
    """An admission check as an eviction found it: from then on it counts as Pending (7.4.1)."""

    name: str
    state: str
    at: Timestamp | None


NO_CHECKS: Final = frozenset[StaleCheck]()


class Answered(NamedTuple):
    """A Requeued condition with status False to which the ledger has said already that the wait is over."""

    reason: str
    at: Timestamp | None


class WorkloadState:
    """One workload in the ledger. Identity is (namespace, name, uid); a new uid is a new state. `uid` is unique among
    the workloads of the ledger (`State.identity_of`).

    What its life so far leaves behind (admission 7), where the object may not show it yet: `held` is the reason that
    keeps it out of the heap (Requeued False), `requeue_at` and `requeue_count` are its backoff, `executed_seconds` the
    time of earlier admissions, `deactivated_for` the cause for which the ledger evicted it for good, `stale_checks`
    the check states that its last eviction reset, `withdrawn_at` when its reservation was withdrawn, `requeue_order`
    the time of an eviction that moves it back in its queue. `replaced` says that a larger slice of its job took over.
    `no_devices` is why some flavor that had quota for it had no devices, when its flavors were last looked through.
    """

    __slots__ = (
        "charges",
        "evicted_at",
        "evicted_reason",
        "answered",
        "deactivated_for",
        "evaluated_generation",
        "executed_seconds",
        "flavor_matches",
        "heap_key",
        "held",
        "key",
        "local_queue",
        "memory",
        "no_devices",
        "last_queued_in",
        "order_time",
        "class_priority",
        "place",
        "pod_sets",
        "priority",
        "problems",
        "rejection",
        "replaced",
        "requeue_at",
        "requeue_count",
        "requeue_order",
        "reservation",
        "shape",
        "stale_checks",
        "stopped_loop",
        "told",
        "uid",
        "verdict",
        "victim_key",
        "waiting_in",
        "withdrawn_at",
        "workload",
    )

    def __init__(self, workload: Workload, uid: str) -> None:
        metadata = workload.metadata
        self.key: tuple[str, str] = (metadata.namespace, metadata.name)
        self.uid = uid
        self.workload = workload
        self.local_queue: tuple[str, str] = (metadata.namespace, workload.spec.queue_name)
        self.last_queued_in: tuple[str, str] | None = None
        self.priority = 0
        self.class_priority: ClassPriority | None = None
        self.order_time = 0
        self.pod_sets: tuple[PodSetRequests, ...] | None = None
        self.problems: tuple[Problem, ...] = ()
        self.charges: DeviceCharges | None = None
        self.rejection: DeviceRejection | None = None
        self.shape: bytes | None = None
        self.memory: FlavorMemory | None = None
        self.reservation: Reservation | None = None
        self.evicted_at: Timestamp | None = None
        self.evicted_reason = ""
        self.evaluated_generation: int | None = None
        self.held = ""
        self.requeue_at: Timestamp | None = None
        self.requeue_count = 0
        self.requeue_order: int | None = None
        self.answered: Answered | None = None
        self.executed_seconds = 0
        self.deactivated_for = ""
        self.stale_checks: frozenset[StaleCheck] = NO_CHECKS
        self.withdrawn_at: Timestamp | None = None
        self.replaced = False
        self.flavor_matches: dict[tuple[int, str], tuple[int, str | None]] = {}
        self.place: str | None = None
        self.stopped_loop = False
        self.heap_key: tuple[int, int, str] | None = None
        self.waiting_in: ClusterQueueNode | None = None
        self.victim_key: tuple[int, int, str] | None = None
        self.verdict: Verdict | None = None
        self.no_devices: Verdict | None = None
        self.told: tuple[str, str] | None = None

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def generation(self) -> int:
        return self.workload.metadata.generation

    @property
    def is_evicted(self) -> bool:
        """R0.13: whether quota is being given back, by our decision or by a fact."""
        return self.evicted_at is not None
