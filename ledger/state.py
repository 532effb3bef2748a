"""The state of one cluster: its objects, its trees, its workloads, and the indexes between them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from ledger.amounts import divide, multiply
from ledger.cluster_queue import ClusterQueueNode
from ledger.consumption import Consumption
from ledger.devices.charges import DeviceCharges
from ledger.devices.charging import mappings_of
from ledger.devices.index import DeviceIndex
from ledger.devices.rejection import DeviceRejection
from ledger.forest import Forest
from ledger.objects.admission_check import AdmissionCheck
from ledger.objects.configuration import Configuration
from ledger.objects.limit_range import LimitRange
from ledger.objects.local_queue import LocalQueue
from ledger.objects.namespace import Namespace
from ledger.objects.resource_flavor import ResourceFlavor
from ledger.objects.runtime_class import RuntimeClass
from ledger.objects.topology import Topology
from ledger.objects.workload import (
    PRIORITY_BOOST,
    SLICE_REPLACEMENT_FOR,
    AdmissionCheckState,
    Workload,
    condition,
    is_true,
)
from ledger.requests import admissibility_problems, scheduling_shape, total_requests
from ledger.rows import CountedResource, SourceName
from ledger.selectors import UnparsableAffinity, affinity_matches, match_labels, untolerated_taint
from ledger.slices import ReplacedSlice
from ledger.timers import RETRY, TimerKey, Timers
from ledger.timestamps import Timestamp
from ledger.tree import FlavorResources, Tree
from ledger.workload_facts import covering_checks, required_checks
from ledger.workloads import NO_DRIFT, AssignedPodSet, Reservation, StaleCheck, Verdict, WorkloadState

if TYPE_CHECKING:
    from ledger.cycle import HeldEntry

NAMESPACED_NAME = tuple[str, str]

REFERENCE_RULES = "kueue-0.19"


class State:
    """Everything the fold knows. `retries` and `touched` name ClusterQueues whose trees the event concerned: first
    retries take effect, then cycles run (design 5). `outside` says that the event is more than a consequence of what
    the ledger decided itself. `watched` are workloads to be looked at for what follows from a change (admission 7),
    `restarted` those that a queue gets back after its first cycles. `moved` and `moved_queues` may stand otherwise than
    was told (`ledger.standings`); a ClusterQueue is ("", name) there. `not_ready` hold quota without their pods being
    ready; `held_back` is the rest of the cycle in which the scheduling loop waits for them, first whom it would reserve
    for, `kept_waiting` names the trees that wait with it (admission 7.5.2)."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.now: Timestamp = Timestamp(0)
        self.configuration = Configuration()
        self.numbers = FlavorResources()
        self.forest = Forest()
        self.flavors: dict[str, ResourceFlavor] = {}
        self.flavor_versions: dict[str, int] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.local_queues: dict[NAMESPACED_NAME, LocalQueue] = {}
        self.limit_ranges: dict[str, dict[str, LimitRange]] = {}
        self.runtime_classes: dict[str, RuntimeClass] = {}
        self.admission_checks: dict[str, AdmissionCheck] = {}
        self.topologies: dict[str, Topology] = {}
        self.devices = DeviceIndex()
        self.workloads: dict[NAMESPACED_NAME, WorkloadState] = {}
        self.uids: set[str] = set()
        self.by_local_queue: dict[NAMESPACED_NAME, dict[str, WorkloadState]] = {}
        self.by_namespace: dict[str, dict[str, WorkloadState]] = {}
        self.by_priority_class: dict[str, dict[str, WorkloadState]] = {}
        self.reserved_in: dict[str, dict[str, WorkloadState]] = {}
        self.queues_by_flavor: dict[str, set[str]] = {}
        self.queues_by_check: dict[str, set[str]] = {}
        self.local_queues_of: dict[str, set[NAMESPACED_NAME]] = {}
        self.retries: set[str] = set()
        self.touched: set[str] = set()
        self.retries_after_victims: set[str] = set()
        self.outside = False
        self.dirty_rows: set[tuple[str, int]] = set()
        self.dirty_shares: set[str] = set()
        self.drift: dict[tuple[str, int], int] = {}
        self.short_of_devices: dict[str, WorkloadState] = {}
        self.told: dict[str, WorkloadState] = {}
        self.moved: dict[str, WorkloadState] = {}
        self.moved_queues: set[NAMESPACED_NAME] = set()
        self.watched: dict[str, WorkloadState] = {}
        self.restarted: OrderedDict[str, WorkloadState] = OrderedDict()
        self.not_ready: dict[str, WorkloadState] = {}
        self.held_back: list[HeldEntry] = []
        self.kept_waiting: set[str] = set()
        self.timers = Timers()
        self.consumption = Consumption()
        self.differing_echoes = 0

    # Queues

    @property
    def repeats_reference(self) -> bool:
        """Whether the Configuration asks for the reference's rules, bugs included (design 5)."""
        return self.configuration.ledger.rules == REFERENCE_RULES

    def known_local_queue(self, key: NAMESPACED_NAME) -> LocalQueue | None:
        """4.1.2: a stopped LocalQueue is unknown to the queues. So is one that is being deleted: what is reserved
        there would be withdrawn at once (7.6), and reserved again, for ever."""
        queue = self.local_queues.get(key)
        if queue is None or queue.spec.stop_policy != "None" or queue.metadata.deletion_timestamp is not None:
            return None
        return queue

    def queue_of(self, state: WorkloadState) -> ClusterQueueNode | None:
        """The ClusterQueue in which the workload waits, through its LocalQueue (objects 3.1)."""
        local = self.known_local_queue(state.local_queue)
        return self.forest.queues.get(local.spec.cluster_queue) if local is not None else None

    def namespace_matches(self, queue: ClusterQueueNode, namespace: str) -> bool:
        """Whether the namespace exists and the ClusterQueue selects it (objects 3.2)."""
        known = self.namespaces.get(namespace)
        return known is not None and match_labels(queue.source.spec.namespace_selector, known.metadata.labels)

    def identity_of(self, workload: Workload) -> str:
        """Its uid, by which all tables know it. An API server gives each object its own; a hand-made event may carry
        none, or one that is taken, and goes by its name then."""
        metadata = workload.metadata
        if metadata.uid and metadata.uid not in self.uids:
            return metadata.uid
        identity = f"{metadata.namespace}/{metadata.name}"
        while identity in self.uids:
            identity += "/"
        return identity

    def retry_tree_of(self, cluster_queue: str) -> None:
        """4.7.1: the inadmissible workloads of the queue's whole tree are to be looked at again."""
        self.retries.add(cluster_queue)
        self.touched.add(cluster_queue)

    def retry_tree_after_victims(self, cluster_queue: str) -> None:
        """A victim that was seen on its way out gave its quota back: whoever it was taken for is looked at first, and
        the inadmissible workloads of the tree once no such victim is left. The reference gets there by merging retries
        for a second (4.7.5), in which victims of one preemption give their quota back and their preemptor takes it."""
        self.retries_after_victims.add(cluster_queue)
        self.touched.add(cluster_queue)

    def _has_leaving(self, tree: Tree) -> bool:
        """Whether some object of the tree shows that its workload is evicted and still holds quota."""
        return any(
            is_true(holder.workload, "Evicted") and is_true(holder.workload, "QuotaReserved")
            for queue in tree.queues
            for holder in queue.evicted_holders.values()
        )

    def raise_retries_after_victims(self) -> None:
        """Retry the trees in which no holder is on its way out any more."""
        for name in sorted(self.retries_after_victims):
            queue = self.forest.queues.get(name)
            if queue is not None and self._has_leaving(queue.tree):
                continue
            self.retries_after_victims.discard(name)
            if queue is not None:
                self.retry_tree_of(name)

    def retry_short_of_devices(self, *, after_victims: bool = False) -> None:
        """dra 17: devices may have become free, or there are more: who had quota and no devices is looked at again, in
        whatever tree. Quota that goes back serves whoever it was taken for first."""
        for uid, state in sorted(self.short_of_devices.items()):
            queue = state.waiting_in
            if queue is None or state.no_devices is None:
                del self.short_of_devices[uid]
            elif after_victims:
                self.retry_tree_after_victims(queue.name)
            else:
                self.retry_tree_of(queue.name)

    def trees_of(self, cluster_queues: Iterable[str]) -> list[Tree]:
        """The trees of these queues, each once, in the order of their names."""
        queues = self.forest.queues
        trees = {id(queue.tree): queue.tree for name in cluster_queues if (queue := queues.get(name)) is not None}
        return sorted(trees.values(), key=lambda tree: (tree.name, bool(tree.cohorts)))

    def tree_of_timer(self, key: TimerKey) -> Tree | None:
        """The tree whose retry is due, if there still is one of that name."""
        root = self.forest.cohorts.get(key.name) if key.namespace == _COHORTS else self.forest.queues.get(key.name)
        return root.tree if root is not None else None

    # Workloads to be looked at

    def watch(self, workloads: Iterable[WorkloadState]) -> None:
        """In the order of their names: something that decides over them has changed."""
        for state in sorted(workloads, key=lambda state: state.key):
            self.watched[state.uid] = state

    def restart(self, workloads: Iterable[WorkloadState], held: str) -> None:
        """7.6: their queue was stopped, and takes workloads again."""
        for state in sorted(workloads, key=lambda state: state.key):
            if state.held == held:
                self.restarted[state.uid] = state

    def move_queue(self, cluster_queue: str) -> None:
        """Whether the queue takes workloads may have changed, and with it where everybody stands who waits there."""
        self.moved_queues.add(("", cluster_queue))
        for local_queue in self.local_queues_of.get(cluster_queue, ()):
            self.move_local_queue(local_queue)

    def move_local_queue(self, key: NAMESPACED_NAME) -> None:
        self.moved_queues.add(key)
        for state in self.by_local_queue.get(key, {}).values():
            if state.reservation is None:
                self.moved[state.uid] = state

    # Waiting workloads

    def tell(self, state: WorkloadState, verdict: Verdict) -> None:
        """The workload has a verdict; it becomes a decision at the end of the event, if it is news by then."""
        state.verdict = verdict
        self.told[state.uid] = state

    def is_queueable(self, workload: Workload) -> bool:
        """4.1.1, for a workload without reservation."""
        if not workload.spec.active or workload.metadata.deletion_timestamp is not None:
            return False
        if self.admission_gate(workload):
            return False
        for held in workload.status.conditions:
            if held.type == "Finished" and held.status == "True":
                return False
            if held.type == "QuotaReserved" and held.status == "False" and held.reason == "OnHold":
                return False
            if held.type == "WaitingForReplacementPods" and held.status == "True":
                return False
        return True

    def admission_gate(self, workload: Workload) -> str:
        """What holds the workload back until it is taken off the annotation (4.1.1)."""
        return workload.metadata.annotations.get(_GATED_BY, "") if self.configuration.gate("AdmissionGatedBy") else ""

    def is_waiting(self, state: WorkloadState) -> bool:
        """Whether a workload without reservation still wants one."""
        return state.workload.spec.active and not is_true(state.workload, "Finished")

    def backoff_expired(self, state: WorkloadState) -> bool:
        """4.6.1: equality counts as expired."""
        return not state.held and (state.requeue_at is None or self.now >= state.requeue_at)

    @property
    def orders_by_eviction(self) -> bool:
        """4.3.4: whether a PodsReady timeout moves a workload back in its queue."""
        waiting = self.configuration.wait_for_pods_ready
        return waiting is None or waiting.requeuing_strategy.timestamp == "Eviction"

    def live_checks(self, state: WorkloadState) -> tuple[AdmissionCheckState, ...]:
        """The admission checks that apply (7.2.3), those that an eviction has reset as Pending (7.4.1)."""
        checks = state.workload.status.admission_checks
        if not checks:
            return checks
        names = self._applying_checks(state)
        if names is not None:
            checks = tuple(check for check in checks if check.name in names)
        if not state.stale_checks:
            return checks
        return tuple(
            check
            if StaleCheck(check.name, check.state, check.last_transition_time) not in state.stale_checks
            else msgspec.structs.replace(check, state="Pending")
            for check in checks
        )

    def delay_of_holder(self, state: WorkloadState) -> Timestamp | None:
        """7.4.6: until when the reference's controller does nothing but wait, for who holds quota and shows a requeueAt
        that lies ahead: no other answer of a check, no stop of a queue and no timeout is looked at before."""
        shown = state.workload.status.requeue_state
        if shown is None or shown.requeue_at is None or shown.requeue_at <= self.now or not self.repeats_reference:
            return None
        return shown.requeue_at if state.reservation is not None and state.reservation.echoed else None

    def _applying_checks(self, state: WorkloadState) -> list[str] | None:
        """7.2.2: what the controller keeps on the list; None where it knows no ClusterQueue to ask."""
        reservation = state.reservation
        if reservation is None:
            queue = self.queue_of(state)
            return covering_checks(queue) if queue is not None else None
        queue = self.forest.queues.get(reservation.cluster_queue)
        return required_checks(queue, state) if queue is not None else None

    def prepare(self, state: WorkloadState) -> None:
        """Section 2 and 4.3: what the queue needs to know of a waiting workload."""
        workload = state.workload
        state.priority = self.effective_priority(state)
        state.order_time = self.order_time(state)
        limits = self.limit_ranges_of(state.namespace)
        answer = self.devices.charges(workload, self.configuration)
        state.rejection = answer if isinstance(answer, DeviceRejection) else None
        state.charges = answer if isinstance(answer, DeviceCharges) else None
        state.pod_sets = total_requests(
            workload,
            limit_ranges=limits,
            runtime_classes=self.runtime_classes,
            configuration=self.configuration,
            devices=state.charges,
        )
        state.problems = tuple(
            admissibility_problems(workload, limit_ranges=limits, runtime_classes=self.runtime_classes)
        )
        shape = scheduling_shape(
            workload,
            state.pod_sets,
            priority=state.priority,
            limit_ranges=limits,
            runtime_classes=self.runtime_classes,
        )
        if state.shape is not None and shape != state.shape:
            # 4.5.4, 5.5.5: the flavor memory belongs to the shape it was made for.
            state.memory = None
            state.flavor_matches.clear()
        state.shape = shape

    @property
    def binary_keys(self) -> set[str]:
        """Quota keys of counters and capacities are written in binary units (dra A8)."""
        return mappings_of(self.devices, self.configuration).binary_keys

    def counted(self, resource: str) -> CountedResource:
        """What one unit of a resource is (design 7): a resource as containers ask for it, or a key of the mappings."""
        counted = mappings_of(self.devices, self.configuration).counted(resource)
        return CountedResource(
            resource=resource,
            device_class=counted.device_classes,
            counter=tuple(SourceName(driver=driver, name=name) for driver, name in counted.counters),
            capacity=tuple(SourceName(driver=driver, name=name) for driver, name in counted.capacities),
            extended_resource=tuple(
                sorted(
                    extended
                    for name in counted.device_classes
                    if (known := self.devices.classes.get(name)) is not None
                    and (extended := known.spec.extended_resource_name)
                )
            ),
        )

    def limit_ranges_of(self, namespace: str) -> list[LimitRange]:
        """By name (D9). The reference's decisions show its bounds, never its defaults, so its rule set drops those."""
        ranges = self.limit_ranges.get(namespace)
        if not ranges:
            return []
        found = [ranges[name] for name in sorted(ranges)]
        return [without_defaults(limit_range) for limit_range in found] if self.repeats_reference else found

    def declared_priority(self, state: WorkloadState) -> int:
        """1.6.1: `spec.priority`, where a changed class has not written it already."""
        of_class, declared = state.class_priority, state.workload.spec.priority
        return of_class.value if of_class is not None and of_class.seen == declared else declared or 0

    def effective_priority(self, state: WorkloadState) -> int:
        """1.7.1, R0.10."""
        priority = self.declared_priority(state)
        if self.configuration.gate("PriorityBoost"):
            priority += _signed(state.workload.metadata.annotations.get(PRIORITY_BOOST, ""))
        return priority

    def order_time(self, state: WorkloadState) -> int:
        """4.3.4, R0.11: times of conditions carry whole seconds."""
        workload = state.workload
        created = workload.metadata.creation_timestamp or 0
        evicted = condition(workload, "Evicted")
        if evicted is not None and evicted.status == "True":
            at = evicted.last_transition_time or 0
            if evicted.reason == "PodsReadyTimeout" and self.orders_by_eviction:
                return at
            if evicted.reason == "AdmissionCheck":
                return at
        elif state.requeue_order is not None:
            return state.requeue_order
        if not self.configuration.gate("PrioritySortingWithinCohort"):
            preempted = condition(workload, "Preempted")
            if (
                preempted is not None
                and preempted.status == "True"
                and preempted.reason == "InCohortReclaimWhileBorrowing"
            ):
                return (preempted.last_transition_time or 0) + 1_000
        return created

    def mismatch(self, state: WorkloadState, pod_set: int, flavor: str) -> str | None:
        """5.3.6: why the pod set cannot use the flavor; remembered until the flavor changes.

        Raises UnparsableAffinity.
        """
        version = self.flavor_versions.get(flavor, 0)
        key = (pod_set, flavor)
        known = state.flavor_matches.get(key)
        if known is not None and known[0] == version:
            return known[1]
        answer = self._mismatch(state, pod_set, flavor)
        state.flavor_matches[key] = (version, answer)
        return answer

    def _mismatch(self, state: WorkloadState, pod_set: int, flavor_name: str) -> str | None:
        flavor = self.flavors.get(flavor_name)
        if flavor is None:
            return "FlavorNotFound"
        spec_set = state.workload.spec.pod_sets[pod_set]
        request = spec_set.topology_request
        if flavor.spec.topology_name and not (request is not None and request.asks_for_topology):
            queue = self.queue_of(state)
            if queue is not None and not self._all_flavors_have_topology(queue):
                return "FlavorIsForTopologyRequests"
        pod = spec_set.template.spec
        if flavor.spec.node_taints:
            taint = untolerated_taint(flavor.spec.node_taints, (*pod.tolerations, *flavor.spec.tolerations))
            if taint is not None:
                return f"UntoleratedTaint {taint.key}={taint.value}:{taint.effect}"
        try:
            if flavor.spec.node_labels and not affinity_matches(pod, flavor.spec.node_labels):
                return "NodeAffinityMismatch"
        except UnparsableAffinity:
            state.flavor_matches.pop((pod_set, flavor_name), None)
            raise
        return None

    def _all_flavors_have_topology(self, queue: ClusterQueueNode) -> bool:
        flavors = [self.flavors.get(name) for group in queue.groups for name in group.flavors]
        return all(flavor is not None and flavor.spec.topology_name for flavor in flavors)

    def replaced_slice(self, queue: ClusterQueueNode, state: WorkloadState) -> ReplacedSlice | None:
        """8.2: the slice that this one replaces, if it holds quota in the same ClusterQueue."""
        named = state.workload.metadata.annotations.get(SLICE_REPLACEMENT_FOR)
        if named is None or not self.configuration.gate("ElasticJobsViaWorkloadSlices"):
            return None
        namespace, _, name = named.rpartition("/")
        replaced = self.workloads.get((state.namespace, name))
        if replaced is None or namespace not in ("", state.namespace) or replaced is state:
            return None
        if replaced.uid not in queue.holders or replaced.reservation is None:
            return None
        return ReplacedSlice(replaced, tuple(self.live_pod_sets(replaced)), replaced.reservation.usage)

    def note_readiness(self, state: WorkloadState) -> None:
        """7.5.2: whoever holds quota counts, admitted or not."""
        if state.reservation is not None and not is_true(state.workload, "PodsReady"):
            self.not_ready[state.uid] = state
            return
        self.not_ready.pop(state.uid, None)
        if self.held_back and not self.not_ready:
            self.touched.update(self.kept_waiting)

    def blocks_admission(self) -> bool:
        """7.5.2: whether a reservation must wait until the pods of all who hold quota are ready."""
        waiting = self.configuration.wait_for_pods_ready
        return waiting is not None and waiting.block_admission and bool(self.not_ready)

    # Reserved workloads

    def give(self, state: WorkloadState, reservation: Reservation) -> None:
        """The workload holds this reservation from now on, known to whoever asks for the queue's holders."""
        state.reservation = reservation
        state.told = None
        state.withdrawn_at = state.requeue_order = None
        self.watched[state.uid] = state
        self.note_readiness(state)
        self.set_usage(state)
        self.reserved_in.setdefault(reservation.cluster_queue, {})[state.uid] = state

    def take_away(self, state: WorkloadState) -> Reservation:
        reservation = state.reservation
        assert reservation is not None
        queue = self.forest.queues.get(reservation.cluster_queue)
        if queue is not None and reservation.charged:
            self.discharge(queue, state)
            self.mark_rows(reservation)
        state.reservation = None
        self.watched[state.uid] = state
        if reservation.drift:
            self._set_drift(reservation, NO_DRIFT)
        if self.short_of_devices:
            self.retry_short_of_devices(after_victims=True)
        self.note_readiness(state)
        state.evicted_at = None
        state.evicted_reason = ""
        holders = self.reserved_in[reservation.cluster_queue]
        del holders[state.uid]
        if not holders:
            del self.reserved_in[reservation.cluster_queue]
        return reservation

    def discharge(self, queue: ClusterQueueNode, state: WorkloadState) -> None:
        """The reservation counts no longer. The reference leaves a saturated total where it is (0.4.5)."""
        assert state.reservation is not None
        saturated = not self.repeats_reference and queue.is_saturated(state.reservation.usage)
        queue.discharge(state)
        if saturated:
            queue.sum_holders()

    def set_usage(self, state: WorkloadState) -> None:
        """2.7.2, 3.3.5: what the reservation counts, less the pods that are reclaimable. It must not be charged."""
        reservation = state.reservation
        assert reservation is not None and not reservation.charged
        usage: dict[int, int] = {}
        frs: set[int] = set()
        for pod_set in self.live_pod_sets(state):
            less = reservation.reductions.get(pod_set.name)
            for resource, amount in pod_set.usage.items():
                flavor = pod_set.flavors.get(resource)
                if flavor is not None:
                    if less is not None:
                        amount = max(0, amount + less.get(resource, 0))
                    fr = self.numbers.number(flavor, resource)
                    usage[fr] = usage.get(fr, 0) + amount
                    frs.add(fr)
        reservation.usage = usage
        reservation.flavor_resources = frozenset(frs)

    def live_pod_sets(self, state: WorkloadState) -> list[AssignedPodSet]:
        reservation, workload = state.reservation, state.workload
        assert reservation is not None
        reclaimable = {pods.name: pods.count for pods in workload.status.reclaimable_pods}
        if reclaimable and not self.configuration.gate("ReclaimablePods"):
            reclaimable = {}
        counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
        live = []
        for pod_set in reservation.pod_sets:
            spec_count = counts.get(pod_set.name, pod_set.count)
            left = spec_count - min(reclaimable.get(pod_set.name, 0), spec_count)
            if left < pod_set.count:
                usage = {name: multiply(divide(value, pod_set.count), left) for name, value in pod_set.usage.items()}
                pod_set = pod_set._replace(count=left, usage=usage)
            live.append(pod_set)
        return live

    def show_drift(self, state: WorkloadState) -> None:
        """What is allocated beyond what counts, or less than that, per flavor-resource of the reservation."""
        reservation = state.reservation
        assert reservation is not None and reservation.settled is not None
        drift: dict[int, int] = {}
        for pod_set in reservation.pod_sets:
            more = reservation.settled.settlement.by_pod_set.get(pod_set.name, {})
            less = reservation.reductions.get(pod_set.name, {})
            for resource, flavor in pod_set.flavors.items():
                amount = more.get(resource, 0) - less.get(resource, 0)
                if amount:
                    fr = self.numbers.number(flavor, resource)
                    drift[fr] = drift.get(fr, 0) + amount
        if drift != reservation.drift:
            self._set_drift(reservation, drift)

    def _set_drift(self, reservation: Reservation, drift: Mapping[int, int]) -> None:
        """The rows of the ClusterQueue show the sum over all that hold quota there."""
        for fr in {*reservation.drift, *drift}:
            place = (reservation.cluster_queue, fr)
            self.dirty_rows.add(place)
            value = self.drift.get(place, 0) - reservation.drift.get(fr, 0) + drift.get(fr, 0)
            if value:
                self.drift[place] = value
            else:
                self.drift.pop(place, None)
        reservation.drift = drift

    def charge(self, state: WorkloadState) -> None:
        """Let the reservation count, if its ClusterQueue exists."""
        reservation = state.reservation
        assert reservation is not None
        queue = self.forest.queues.get(reservation.cluster_queue)
        if queue is not None and not reservation.charged:
            queue.charge(state)
            self.mark_rows(reservation)

    def mark_rows(self, reservation: Reservation) -> None:
        """What the reservation counts changed: rows and shares are new, and cycles may find other room."""
        name = reservation.cluster_queue
        self.touched.add(name)
        for fr in reservation.usage:
            self.dirty_rows.add((name, fr))
        self.dirty_shares.add(name)


def timer_of_tree(tree: Tree) -> TimerKey:
    """4.7.5: retries of one tree are merged under the name of its root."""
    return TimerKey("", RETRY, _COHORTS if tree.cohorts else "", tree.name)


def without_defaults(limit_range: LimitRange) -> LimitRange:
    items = tuple(msgspec.structs.replace(item, default={}, default_request={}) for item in limit_range.spec.limits)
    return msgspec.structs.replace(limit_range, spec=msgspec.structs.replace(limit_range.spec, limits=items))


_COHORTS = "Cohorts"
_GATED_BY = "kueue.x-k8s.io/admission-gated-by"


def _signed(text: str) -> int:
    """A signed 32-bit integer, or 0 where the text is none (R0.10)."""
    try:
        value = int(text)
    except ValueError:
        return 0
    return value if -(2**31) <= value < 2**31 else 0
