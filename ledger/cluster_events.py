"""Everything but Workloads as it arrives: queues, cohorts, flavors, checks, and what requests depend on
(admission 3.9, 4.1, 4.7, 4.9)."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.admission_sharing import AdmissionSharing
from ledger.allocations import Allocations
from ledger.cluster_queue import ClusterQueueNode
from ledger.objects.admission_check import AdmissionCheck
from ledger.objects.cluster_queue import ClusterQueue
from ledger.objects.cohort import Cohort
from ledger.objects.configuration import Configuration
from ledger.objects.limit_range import LimitRange
from ledger.objects.local_queue import AdmissionFairSharingStatus, LocalQueue
from ledger.objects.namespace import Namespace
from ledger.objects.resource_flavor import ResourceFlavor
from ledger.objects.runtime_class import RuntimeClass
from ledger.objects.topology import Topology
from ledger.objects.workload_priority_class import WorkloadPriorityClass
from ledger.recorder import Recorder
from ledger.state import State
from ledger.workload_events import WorkloadEvents
from ledger.workloads import WorkloadState

CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"


class ClusterEvents:
    """Applies one object at a time to the state; `None` for the new object means that it is gone."""

    def __init__(
        self,
        state: State,
        recorder: Recorder,
        workloads: WorkloadEvents,
        sharing: AdmissionSharing,
        allocations: Allocations,
    ) -> None:
        self._state = state
        self._recorder = recorder
        self._workloads = workloads
        self._sharing = sharing
        self._allocations = allocations

    # ClusterQueues

    def cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if new is None:
            assert old is not None
            self._remove_queue(old.metadata.name)
        elif old is None or old.metadata.uid != new.metadata.uid:
            if old is not None:
                self._remove_queue(old.metadata.name)
            self._add_queue(new)
        else:
            self._change_queue(old, new)

    def _add_queue(self, source: ClusterQueue) -> None:
        """4.1.3, 4.7.2: it takes over the quota already held in its name and the workloads of its LocalQueues."""
        state = self._state
        queue = ClusterQueueNode(source, state.numbers)
        self._sharing.choose_order(queue)
        state.forest.put_queue(queue)
        queue.stuck = queue.tree.cyclic and state.repeats_reference
        self._index_queue(queue, add=True)
        self._recorder.quota_changed(queue, {}, self._recorder.declared_quota(queue))
        for holder in _by_key(state.reserved_in.get(queue.name, {}).values()):
            state.charge(holder)
        self._mark_all_rows(queue)
        self._refresh_activity(queue)
        state.move_queue(queue.name)
        state.watch(state.reserved_in.get(queue.name, {}).values())
        for local_queue in sorted(state.local_queues_of.get(queue.name, ())):
            self._take_workloads_of(local_queue, queue)
        state.retry_tree_of(queue.name)

    def _change_queue(self, old: ClusterQueue, new: ClusterQueue) -> None:
        """4.7.2: any change of the spec raises a retry; one of status or labels alone does not (4.7.4)."""
        state = self._state
        queue = state.forest.queues[new.metadata.name]
        queue.stuck = False
        if (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None):
            state.watch(queue.holders.values())
        if old.spec == new.spec:
            queue.source = new
            self._refresh_activity(queue)
            return
        before = self._recorder.declared_quota(queue)
        left = queue.tree
        self._mark_all_rows(queue)
        self._index_queue(queue, add=False)
        queue.take_spec(new, state.numbers)
        self._sharing.take_scope(queue)
        state.forest.put_queue(queue)
        self._index_queue(queue, add=True)
        self._recorder.quota_changed(queue, before, self._recorder.declared_quota(queue))
        self._mark_all_rows(queue)
        self._refresh_activity(queue)
        state.dirty_shares.update(other.name for other in left.queues)
        state.retry_tree_of(queue.name)
        if old.spec.admission_checks_strategy != new.spec.admission_checks_strategy:
            state.watch(queue.holders.values())
        if old.spec.stop_policy != new.spec.stop_policy:
            state.watch(queue.holders.values())
            if new.spec.stop_policy == "None":
                state.restart(queue.pending, CLUSTER_QUEUE_STOPPED)

    def _remove_queue(self, name: str) -> None:
        """4.7.3: no retry. What was held in it is remembered for the day it comes back."""
        state = self._state
        queue = state.forest.queues[name]
        self._withdraw(queue.holders.values())
        state.watch(queue.holders.values())
        for waiting in list(queue.pending):
            self._workloads.leave_queue(waiting)
        for holder in list(queue.holders.values()):
            assert holder.reservation is not None
            holder.reservation.charged = False
            holder.victim_key = None
        self._mark_all_rows(queue)
        self._index_queue(queue, add=False)
        state.move_queue(name)
        before = self._recorder.declared_quota(queue)
        siblings = [other.name for other in queue.tree.queues if other is not queue]
        state.forest.remove_queue(name)
        state.touched.update(siblings)
        state.dirty_shares.update(siblings)
        self._sharing.look_at_queue(name)
        self._recorder.quota_changed(queue, before, {})

    def _index_queue(self, queue: ClusterQueueNode, *, add: bool) -> None:
        flavors = [flavor for group in queue.groups for flavor in group.flavors]
        checks = [rule.name for rule in queue.source.spec.admission_checks]
        for index, names in ((self._state.queues_by_flavor, flavors), (self._state.queues_by_check, checks)):
            for name in names:
                if add:
                    index.setdefault(name, set()).add(queue.name)
                else:
                    index[name].discard(queue.name)

    def _mark_all_rows(self, queue: ClusterQueueNode) -> None:
        for fr in {*queue.nominal, *queue.usage}:
            self._state.dirty_rows.add((queue.name, fr))
        self._state.dirty_shares.add(queue.name)

    def _refresh_activity(self, queue: ClusterQueueNode) -> bool:
        """4.9.1, 4.9.2; True when the queue turned active."""
        was_active = queue.active
        queue.inactive_reason, queue.inactive_message = self._inactivity(queue)
        queue.active = not queue.inactive_reason
        self._state.moved_queues.add(("", queue.name))
        if was_active != queue.active:
            queue.tree.heights_known = False
            self._state.touched.add(queue.name)
            self._sharing.look_at_queue(queue.name)
            self._state.move_queue(queue.name)
        return queue.active and not was_active

    def _inactivity(self, queue: ClusterQueueNode) -> tuple[str, str]:
        """The first reason that applies, and all of them in words (objects 4.1)."""
        state, spec = self._state, queue.source.spec
        if queue.source.metadata.deletion_timestamp is not None:
            return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        found: list[tuple[str, str]] = []
        if spec.stop_policy != "None":
            found.append(("Stopped", "is stopped"))
        flavors = [flavor for group in queue.groups for flavor in group.flavors]
        if missing := sorted({name for name in flavors if name not in state.flavors}):
            found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        found.extend(self._check_problems(queue))
        for name in flavors:
            flavor = state.flavors.get(name)
            topology = flavor.spec.topology_name if flavor is not None else None
            if topology and topology not in state.topologies:
                found.append(("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{name}"'))
        if found:
            return found[0][0], f"Can't admit new workloads: {', '.join(message for _, message in found)}."
        return ("Unknown", "Can't admit new workloads.") if queue.stuck else ("", "")

    def _check_problems(self, queue: ClusterQueueNode) -> list[tuple[str, str]]:
        rules = queue.source.spec.admission_checks
        checks = {rule.name: self._state.admission_checks.get(rule.name) for rule in rules}
        found: list[tuple[str, str]] = []
        if missing := sorted(name for name, check in checks.items() if check is None):
            found.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"))
        if inactive := sorted(name for name, check in checks.items() if check is not None and not check.active):
            found.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(inactive)}"))
        by_controller: dict[str, list[str]] = {}
        for name, check in sorted(checks.items()):
            if check is not None:
                by_controller.setdefault(check.spec.controller_name, []).append(name)
        multikueue = by_controller.get(MULTIKUEUE, [])
        if len(multikueue) > 1:
            names = ",".join(multikueue)
            message = f"Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {names}"
            found.append(("MultipleMultiKueueAdmissionChecks", message))
        if per_flavor := sorted(rule.name for rule in rules if rule.name in multikueue and rule.on_flavors):
            message = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(per_flavor)}"
            found.append(("MultiKueueAdmissionCheckAppliedPerFlavor", message))
        if multikueue and PROVISIONING in by_controller:
            names = ", ".join(sorted((*multikueue, *by_controller[PROVISIONING])))
            message = f"Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: {names}"
            found.append(("MultiKueueWithProvisioningRequest", message))
        return found

    # Cohorts

    def cohort(self, old: Cohort | None, new: Cohort | None) -> None:
        state = self._state
        name = (new or old).metadata.name  # type: ignore[union-attr]
        if old is not None and new is not None and old.spec == new.spec:
            return
        node = state.forest.cohorts.get(name)
        before = self._recorder.declared_quota(node) if node is not None and node.declared else {}
        neighbours = [queue.name for queue in node.tree.queues] if node is not None else []
        if new is None:
            assert node is not None
            state.forest.remove_cohort(name)
            self._recorder.quota_changed(node, before, {})
        else:
            node = state.forest.declare_cohort(new, state.numbers)
            self._recorder.quota_changed(node, before, self._recorder.declared_quota(node))
        members = [queue.name for queue in node.tree.queues]
        state.touched.update((*neighbours, *members))
        state.dirty_shares.update((*neighbours, *members))
        if new is not None and members and not node.tree.cyclic:
            state.retry_tree_of(members[0])

    # LocalQueues

    def local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        """4.1.2: a stopped LocalQueue leaves the queues with all its waiting workloads; a started one comes back."""
        state = self._state
        metadata = (new or old).metadata  # type: ignore[union-attr]
        key = (metadata.namespace, metadata.name)
        was_known = state.known_local_queue(key)
        if old is not None:
            state.local_queues_of[old.spec.cluster_queue].discard(key)
        if new is None:
            del state.local_queues[key]
        else:
            state.local_queues[key] = new
            state.local_queues_of.setdefault(new.spec.cluster_queue, set()).add(key)
        state.move_local_queue(key)
        replaced = old is not None and new is not None and old.metadata.uid != new.metadata.uid
        told = sample_of(new)
        self._sharing.local_queue_changed(key, replaced=replaced, told=told if told != sample_of(old) else None)
        now_known = state.known_local_queue(key)
        moved = (
            was_known is not None
            and now_known is not None
            and (
                was_known.spec.cluster_queue != now_known.spec.cluster_queue
                or was_known.metadata.uid != now_known.metadata.uid
            )
        )
        if old is not None and new is not None and old.spec.stop_policy != new.spec.stop_policy:
            members = state.by_local_queue.get(key, {}).values()
            state.watch(member for member in members if member.reservation is not None)
            if new.spec.stop_policy == "None":
                state.restart(members, LOCAL_QUEUE_STOPPED)
        if old is not None and (new is None or replaced or new.metadata.deletion_timestamp is not None):
            self._withdraw(state.by_local_queue.get(key, {}).values())
        if was_known is not None and (now_known is None or moved):
            for waiting in _by_key(state.by_local_queue.get(key, {}).values()):
                self._workloads.leave_queue(waiting)
        if now_known is not None and (was_known is None or moved):
            queue = state.forest.queues.get(now_known.spec.cluster_queue)
            if queue is not None:
                self._take_workloads_of(key, queue)

    def _withdraw(self, members: Iterable[WorkloadState]) -> None:
        """7.6: their queue is gone; what was admitted runs on."""
        for holder in _by_key(members):
            if holder.reservation is not None and not holder.reservation.admitted and not holder.is_evicted:
                self._workloads.withdraw(holder, "Misconfigured")

    def _take_workloads_of(self, local_queue: tuple[str, str], queue: ClusterQueueNode) -> None:
        if self._state.known_local_queue(local_queue) is None:
            return
        for waiting in _by_key(self._state.by_local_queue.get(local_queue, {}).values()):
            self._workloads.enter_heap(waiting, queue)

    # What ClusterQueues refer to

    def resource_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        state = self._state
        name = (new or old).metadata.name  # type: ignore[union-attr]
        if new is None:
            del state.flavors[name]
        else:
            state.flavors[name] = new
        # Another uid is another flavor: for the blink between them its users were inactive.
        replaced = old is not None and new is not None and old.metadata.uid != new.metadata.uid
        changed = old is None or new is None or old.spec != new.spec or replaced
        if changed:
            state.flavor_versions[name] = state.flavor_versions.get(name, 0) + 1
        users = self._queues(state.queues_by_flavor.get(name, ()))
        self._refresh_users(users)
        if changed and old is not None and new is not None:
            for queue in users:
                state.retry_tree_of(queue.name)

    def admission_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        state = self._state
        name = (new or old).metadata.name  # type: ignore[union-attr]
        if new is None:
            del state.admission_checks[name]
        else:
            state.admission_checks[name] = new
        self._refresh_users(self._queues(state.queues_by_check.get(name, ())))

    def topology(self, old: Topology | None, new: Topology | None) -> None:
        state = self._state
        name = (new or old).metadata.name  # type: ignore[union-attr]
        if new is None:
            del state.topologies[name]
        else:
            state.topologies[name] = new
        flavors = sorted(f for f, flavor in state.flavors.items() if flavor.spec.topology_name == name)
        self._refresh_users(
            self._queues({queue for flavor in flavors for queue in state.queues_by_flavor.get(flavor, ())})
        )

    def _queues(self, names: Iterable[str]) -> list[ClusterQueueNode]:
        return [self._state.forest.queues[name] for name in sorted(names)]

    def _refresh_users(self, queues: Iterable[ClusterQueueNode]) -> None:
        """4.7.2: a queue that turns active has its tree retried."""
        for queue in queues:
            if self._refresh_activity(queue):
                self._state.retry_tree_of(queue.name)

    def workload_priority_class(self, old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None) -> None:
        """1.6.1: created anew or changed, it rewrites the priority of all that name it; one that is gone, nothing."""
        if new is None or (old is not None and (old.value, old.metadata.uid) == (new.value, new.metadata.uid)):
            return
        for workload in _by_key(self._state.by_priority_class.get(new.metadata.name, {}).values()):
            self._workloads.follow_class(workload, new.value)

    # What requests and nomination depend on

    def namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """4.7.2: a namespace that newly matches a ClusterQueue raises a retry there."""
        state = self._state
        name = (new or old).metadata.name  # type: ignore[union-attr]
        candidates = {
            waiting.waiting_in.name: waiting.waiting_in
            for waiting in state.by_namespace.get(name, {}).values()
            if waiting.waiting_in is not None
        }
        matched = {queue for queue, node in candidates.items() if state.namespace_matches(node, name)}
        if new is None:
            del state.namespaces[name]
        else:
            state.namespaces[name] = new
        for queue in sorted(candidates):
            if queue not in matched and state.namespace_matches(candidates[queue], name):
                state.retry_tree_of(queue)

    def limit_range(self, old: LimitRange | None, new: LimitRange | None) -> None:
        metadata = (new or old).metadata  # type: ignore[union-attr]
        ranges = self._state.limit_ranges.setdefault(metadata.namespace, {})
        if new is None:
            del ranges[metadata.name]
        else:
            ranges[metadata.name] = new
        if old is None or new is None or old.spec != new.spec:
            self._prepare_again(self._state.by_namespace.get(metadata.namespace, {}).values())

    def runtime_class(self, old: RuntimeClass | None, new: RuntimeClass | None) -> None:
        state = self._state
        name = (new or old).metadata.name  # type: ignore[union-attr]
        if new is None:
            del state.runtime_classes[name]
        else:
            state.runtime_classes[name] = new
        self._prepare_again(
            waiting
            for waiting in state.workloads.values()
            if any(p.template.spec.runtime_class_name == name for p in waiting.workload.spec.pod_sets)
        )

    def configuration(self, old: Configuration | None, new: Configuration | None) -> None:
        """A changed Configuration is a new start for all that waits."""
        state = self._state
        configuration = new if new is not None else Configuration()
        changed = configuration != state.configuration
        state.configuration = configuration
        if not changed:
            return
        self._sharing.restart()
        self._allocations.restart()
        self._prepare_again(state.workloads.values())
        state.watch(state.workloads.values())
        for name in sorted(state.forest.queues):
            state.retry_tree_of(name)
            # What a row counts, and in which units it is written, follows from the mappings.
            self._mark_all_rows(state.forest.queues[name])

    def _prepare_again(self, workloads: Iterable[WorkloadState]) -> None:
        for waiting in _by_key(workloads):
            self._workloads.price_again(waiting)


def sample_of(source: LocalQueue | None) -> AdmissionFairSharingStatus | None:
    """The consumption that a LocalQueue's status shows."""
    fair_sharing = source.status.fair_sharing if source is not None else None
    return fair_sharing.admission_fair_sharing_status if fair_sharing is not None else None


def _by_key(workloads: Iterable[WorkloadState]) -> list[WorkloadState]:
    return sorted(workloads, key=lambda state: state.key)
