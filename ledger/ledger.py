"""One cluster's ledger: `apply(event)` gives decisions (design 5).

The order inside an event: the object changes, then the retries it raised take effect, then cycles run on the trees it
touched until nothing changes. A batch does that once for all its members.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from ledger.admission_sharing import AdmissionSharing
from ledger.allocations import Allocations
from ledger.cluster_events import ClusterEvents
from ledger.decisions import Cause, DecisionRecord
from ledger.device_events import DeviceEvents
from ledger.device_room import DeviceRoom
from ledger.devices.objects import ResourceSlice, without_devices
from ledger.events import Event, EventType
from ledger.life import Life
from ledger.objects.decoding import UnknownKind
from ledger.objects.metadata import ObjectMeta
from ledger.objects.workload import Workload
from ledger.recorder import Recorder
from ledger.rows import Row, RowKey, row_of
from ledger.scheduler import Scheduler
from ledger.settlements import Settlements
from ledger.shares import Share, share_of
from ledger.standings import Standings
from ledger.state import State, timer_of_tree
from ledger.timers import LOCAL_QUEUE, RETRY, TimerKey
from ledger.timestamps import Timestamp
from ledger.tree import Node
from ledger.workload_events import WorkloadEvents

TOMBSTONES_KEPT: Final = 4096
"""How many deleted objects a ledger remembers, to tell late news of them from new objects."""

EVERY_KIND: Final = "*"
NO_KIND: Final = "-"

ObjectKey = tuple[str, str]


class Ledger:
    """The state of one cluster and what may be asked of it. Time is the greatest `at` seen (design 5)."""

    def __init__(self, cluster: str) -> None:
        self.state = State(cluster)
        self.recorder = Recorder(self.state)
        self._sharing = AdmissionSharing(self.state, self.recorder)
        self._allocations = Allocations(self.state)
        self._workload_events = WorkloadEvents(self.state, self.recorder, self._sharing, self._allocations)
        self._settlements = Settlements(self.state, self.recorder, self._workload_events, self._allocations)
        cluster_events = ClusterEvents(
            self.state, self.recorder, self._workload_events, self._sharing, self._allocations
        )
        device_events = DeviceEvents(self.state, self._workload_events, self._allocations)
        self._scheduler = Scheduler(
            self.state, self.recorder, self._workload_events, self._sharing, DeviceRoom(self.state, self._allocations)
        )
        self._life = Life(self.state, self.recorder, self._workload_events)
        self._standings = Standings(self.state, self.recorder)
        self._handlers: dict[str, Callable[[Any, Any], None]] = {
            "ClusterQueue": cluster_events.cluster_queue,
            "Cohort": cluster_events.cohort,
            "LocalQueue": cluster_events.local_queue,
            "ResourceFlavor": cluster_events.resource_flavor,
            "AdmissionCheck": cluster_events.admission_check,
            "Topology": cluster_events.topology,
            "Namespace": cluster_events.namespace,
            "LimitRange": cluster_events.limit_range,
            "RuntimeClass": cluster_events.runtime_class,
            "WorkloadPriorityClass": cluster_events.workload_priority_class,
            "Configuration": cluster_events.configuration,
            "DeviceClass": device_events.device_object,
            "ResourceSlice": device_events.device_object,
            "ResourceClaim": device_events.claim,
            "ResourceClaimTemplate": device_events.device_object,
            "Node": device_events.node,
            "Workload": self._workload,
        }
        self._objects: dict[str, dict[ObjectKey, Any]] = {}
        self._tombstones: OrderedDict[str, int] = OrderedDict()
        self._syncing: dict[str, set[tuple[str, str, str]]] = {}
        self._shares: dict[tuple[str, str], Share] = {}

    @property
    def cluster(self) -> str:
        return self.state.cluster

    @property
    def now(self) -> Timestamp:
        return self.state.now

    @property
    def seq(self) -> int:
        return self.recorder.seq

    @property
    def last_hash(self) -> str:
        return self.recorder.last_hash

    def apply(self, event: Event, topic: str, partition: int, offset: int) -> list[DecisionRecord]:
        """Fold one event; the decisions it makes, in order."""
        self.recorder.cause = Cause(topic=topic, partition=partition, offset=offset, index=0)
        self._take_time(event.at, settles=not self._syncing)
        if event.type is EventType.BATCH:
            for index, member in enumerate(event.members):
                if isinstance(member, Event):
                    self.recorder.cause = Cause(topic=topic, partition=partition, offset=offset, index=index)
                    self._take_time(member.at, settles=False)
                    self._change(member)
        else:
            self._change(event)
        if not self._syncing:
            self._settle()
        return self.recorder.take()

    def _take_time(self, at: Timestamp | None, *, settles: bool) -> None:
        """Timers that the time has passed come due before the event that carries it, one after the other, each with
        the cycles that follow from it. Within a batch and within a list cycles come at the end."""
        state = self.state
        if at is None or at <= state.now:
            return
        state.now = at
        while (key := state.timers.pop_due(at)) is not None:
            self._fire(key)
            if settles:
                self._settle()

    def _fire(self, key: TimerKey) -> None:
        state = self.state
        if key.kind == RETRY:
            tree = state.tree_of_timer(key)
            if tree is not None:
                self._scheduler.retry([tree])
                state.touched.update(queue.name for queue in tree.queues)
            return
        if key.kind == LOCAL_QUEUE:
            self._sharing.look_at((key.namespace, key.name))
            return
        waiting = state.workloads.get((key.namespace, key.name))
        if waiting is not None and waiting.uid == key.uid:
            state.outside = True
            self._life.look_at(waiting)

    def next_deadline(self) -> Timestamp | None:
        """When something is due that only time brings: a TICK with that time lets it happen."""
        return self.state.timers.next_deadline()

    # (1) The object changes

    def _change(self, event: Event) -> None:
        if event.type is EventType.SYNC_BEGIN:
            for scope in scopes_of(event):
                self._syncing[scope] = set()
        elif event.type is EventType.SYNC_END:
            for scope in scopes_of(event):
                self._end_sync(scope)
        elif event.object is not None and not isinstance(event.object, UnknownKind):
            if event.type is EventType.DELETED:
                self._delete(event.object)
            else:
                self._put(event.object)
        self._look_at_watched()

    def _put(self, new: Any) -> None:
        kind = type(new).__name__
        metadata: ObjectMeta = new.metadata
        key = (metadata.namespace, metadata.name)
        self._note_seen(kind, key)
        objects = self._objects.setdefault(kind, {})
        old = objects.get(key)
        if self._is_old_news(old, new):
            return
        if old is not None and old.metadata.uid != metadata.uid:
            self._bury(old.metadata.uid, metadata.resource_version)
        objects[key] = without_devices(new) if isinstance(new, ResourceSlice) else new
        handler = self._handlers.get(kind)
        if handler is not None:
            self.state.outside |= handler != self._workload
            handler(old, new)

    def _delete(self, gone: Any) -> None:
        kind = type(gone).__name__
        metadata: ObjectMeta = gone.metadata
        key = (metadata.namespace, metadata.name)
        self._bury(metadata.uid, metadata.resource_version)
        objects = self._objects.get(kind, {})
        old = objects.get(key)
        # News of the end of an earlier object of that name is older than the one that is there now. Where objects
        # carry no versions, as hand-made ones do, the name decides.
        if old is not None and not 0 < metadata.resource_version < old.metadata.resource_version:
            self._drop(kind, key)

    def _drop(self, kind: str, key: ObjectKey) -> None:
        old = self._objects[kind].pop(key)
        handler = self._handlers.get(kind)
        if handler is not None:
            self.state.outside = True
            handler(old, None)

    def _is_old_news(self, old: Any, new: Any) -> bool:
        """Objects 0.1: a version not above the stored one of the same uid, or of its grave, changes nothing."""
        version = new.metadata.resource_version
        buried = self._tombstones.get(new.metadata.uid)
        if buried is not None and 0 < version <= buried:
            return True
        if old is None or old.metadata.uid != new.metadata.uid:
            return False
        if version and old.metadata.resource_version:
            return bool(version <= old.metadata.resource_version)
        # The devices of a slice are kept by the index only, so slices without versions cannot be told apart here.
        return bool(new == old) and not isinstance(new, ResourceSlice)

    def _bury(self, uid: str, version: int) -> None:
        if not uid or not version:
            return
        self._tombstones[uid] = max(version, self._tombstones.get(uid, 0))
        if len(self._tombstones) > TOMBSTONES_KEPT:
            self._tombstones.popitem(last=False)

    def _note_seen(self, kind: str, key: ObjectKey) -> None:
        for scope in (kind, EVERY_KIND):
            if scope in self._syncing:
                self._syncing[scope].add((kind, *key))

    def _end_sync(self, scope: str) -> None:
        """Objects that were not seen since the list began are gone (design 4)."""
        seen = self._syncing.pop(scope, None)
        if seen is None:
            return
        kinds = sorted(self._objects.keys() - {"Configuration"}) if scope == EVERY_KIND else [scope]
        for kind in kinds:
            for key in sorted(self._objects.get(kind, ())):
                if (kind, *key) not in seen:
                    self._drop(kind, key)

    def _workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._workload_events.put(new)
        elif old is not None:
            metadata = old.metadata
            self._workload_events.remove(self.state.workloads[(metadata.namespace, metadata.name)])
        self._allocations.workload(old, new)

    # (2) and (3) Retries take effect, cycles run, and what became of it is told

    def _settle(self) -> None:
        """Cycles, and what follows from them. Workloads that a restarted queue gets back come after its first cycles,
        one by one, as the reference's controller writes them."""
        state = self.state
        if state.moved_queues:
            self._standings.tell_queues()
        if state.moved:
            self._standings.tell_departures()
        if self._allocations.changed:
            self._settlements.look()
        while True:
            self._run_cycles()
            self._look_at_watched()
            if state.retries_after_victims and not (state.retries or state.touched):
                state.raise_retries_after_victims()
            if state.retries or state.touched:
                continue
            if not state.restarted:
                break
            _, restarted = state.restarted.popitem(last=False)
            self._life.restart(restarted)
        if state.told:
            self._tell_verdicts()
        if state.moved:
            self._standings.tell_workloads()
        if state.dirty_shares:
            self._tell_shares()

    def _look_at_watched(self) -> None:
        """What follows from a change of these workloads besides scheduling (admission 7)."""
        watched = self.state.watched
        while watched:
            self._life.look_at(watched.pop(next(iter(watched))))

    def _run_cycles(self) -> None:
        state = self.state
        if state.outside:
            self._scheduler.forget_rounds(state.trees_of(state.touched | state.retries))
            state.outside = False
        if state.retries:
            trees = state.trees_of(state.retries)
            state.retries.clear()
            delay = state.configuration.retry_delay
            if delay:
                for tree in trees:
                    state.timers.set_once(timer_of_tree(tree), state.now + delay)
            else:
                self._scheduler.retry(trees)
        if state.touched:
            touched = state.trees_of(state.touched)
            state.touched.clear()
            self._scheduler.settle(touched)

    def _tell_verdicts(self) -> None:
        """One `Pending` for every verdict that is news at the end of the event."""
        self.recorder.largest_holders.clear()
        for waiting in self.state.told.values():
            verdict = waiting.verdict
            if verdict is None or waiting.reservation is not None or not self.state.is_waiting(waiting):
                continue
            news = (verdict.reason, "")
            if waiting.told != news:
                waiting.told = news
                self.recorder.pending(waiting, waiting.waiting_in, verdict)
        self.state.told.clear()

    def _tell_shares(self) -> None:
        """`ShareChanged` for the nodes whose usage or quota moved; only fair sharing computes shares."""
        state = self.state
        if state.configuration.fair_sharing is not None:
            nodes: dict[tuple[str, str], Node] = {}
            for name in state.dirty_shares:
                queue = state.forest.queues.get(name)
                if queue is None or queue.tree.cyclic:
                    continue
                nodes[("ClusterQueue", name)] = queue
                for cohort in queue.path[1:]:
                    nodes[("Cohort", cohort.name)] = cohort
            for key in sorted(nodes):
                share = share_of(nodes[key], state.numbers)
                before = self._shares.get(key)
                if before is None and share.ratio == 0.0:
                    continue
                if before is None or (before.weighted, before.resource) != (share.weighted, share.resource):
                    self._shares[key] = share
                    self.recorder.share_changed(nodes[key], share)
        state.dirty_shares.clear()

    # What may be asked

    def drain_rows(self) -> dict[RowKey, Row | None]:
        """Rows that changed since the last call, in the order of their keys; None for a row that is gone."""
        state = self.state
        rows: dict[RowKey, Row | None] = {}
        for name, fr in state.dirty_rows:
            flavor, resource = state.numbers.names[fr]
            queue = state.forest.queues.get(name)
            key = RowKey(state.cluster, name, flavor, resource)
            rows[key] = (
                None
                if queue is None
                else row_of(
                    queue,
                    fr,
                    state.numbers,
                    state.counted(resource),
                    state.drift.get((name, fr), 0),
                    binary=resource in state.binary_keys,
                )
            )
        state.dirty_rows.clear()
        return dict(sorted(rows.items()))

    def usage(self) -> dict[str, dict[str, int]]:
        """ClusterQueue -> "flavor/resource" -> integer held, zeros left out."""
        names = self.state.numbers.names
        return {
            name: {
                "/".join(names[fr]): queue.usage[fr]
                for fr in self.state.numbers.by_name(queue.usage)
                if queue.usage[fr] != 0
            }
            for name, queue in sorted(self.state.forest.queues.items())
        }

    def shares(self) -> dict[str, Share]:
        """The dominant resource share of every ClusterQueue, as things stand."""
        return {
            name: share_of(queue, self.state.numbers)
            for name, queue in sorted(self.state.forest.queues.items())
            if not queue.tree.cyclic
        }

    def parked(self) -> dict[str, list[str]]:
        """ClusterQueue -> inadmissible workloads as namespace/name, queues without any left out."""
        return {
            name: sorted("/".join(waiting.key) for waiting in queue.pending.inadmissible())
            for name, queue in sorted(self.state.forest.queues.items())
            if queue.pending.inadmissible()
        }

    def pending_reasons(self) -> dict[str, str | None]:
        """namespace/name -> reason of the last verdict, None where there was none, for every waiting workload."""
        return {
            "/".join(key): waiting.verdict.reason if waiting.verdict is not None else None
            for key, waiting in sorted(self.state.workloads.items())
            if waiting.reservation is None and self.state.is_waiting(waiting)
        }


def scopes_of(event: Event) -> tuple[str, ...]:
    """What a SYNC_BEGIN or SYNC_END is about. A list of no kind still holds back cycles while it lasts."""
    if event.kinds is None:
        return (EVERY_KIND,)
    return event.kinds or (NO_KIND,)
