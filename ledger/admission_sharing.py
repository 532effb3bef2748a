"""When the accounts of admission fair sharing are charged, settled and sampled (preemption 7.2)."""

from __future__ import annotations

from ledger.cluster_queue import ClusterQueueNode
from ledger.consumption import Account, LocalQueueKey, is_usage_based, total_request
from ledger.fair_pending import FairPendingQueue
from ledger.objects.local_queue import AdmissionFairSharingStatus
from ledger.objects.workload import is_true
from ledger.pending import PendingQueue
from ledger.recorder import Recorder
from ledger.state import State
from ledger.timers import LOCAL_QUEUE, TimerKey
from ledger.workloads import Reservation, WorkloadState


class AdmissionSharing:
    """Keeps one account for each LocalQueue, in ClusterQueues without admission fair sharing too (R7.9)."""

    def __init__(self, state: State, recorder: Recorder) -> None:
        self._state = state
        self._recorder = recorder

    @property
    def is_on(self) -> bool:
        return self._state.consumption.rules is not None

    def restart(self) -> None:
        """A changed Configuration is a new start: accounts are opened, and every queue takes its order (R7.4)."""
        state = self._state
        configuration = state.configuration
        on = configuration.gate("AdmissionFairSharing")
        state.consumption.rules = configuration.admission_fair_sharing if on else None
        if not self.is_on:
            for key in list(state.consumption.accounts):
                self._close(key)
        for name in sorted(state.forest.queues):
            queue = state.forest.queues[name]
            waiting = list(queue.pending)
            for each in waiting:
                queue.pending.remove(each)
            self.choose_order(queue)
            for each in waiting:
                if state.backoff_expired(each):
                    queue.pending.activate(each)
                else:
                    queue.pending.hold(each)
        for key in sorted(state.local_queues):
            self.local_queue_changed(key)
        if self.is_on:
            for holder in sorted(state.workloads.values(), key=lambda holder: holder.key):
                if holder.reservation is not None and holder.reservation.admitted:
                    self.admit(holder, holder.reservation)

    def choose_order(self, queue: ClusterQueueNode) -> None:
        """R7.4: how an empty queue orders what waits in it."""
        by_usage = self.is_on and is_usage_based(queue)
        queue.pending = FairPendingQueue(self._state.consumption) if by_usage else PendingQueue()
        self.take_scope(queue)

    def take_scope(self, queue: ClusterQueueNode) -> None:
        """What of admission fair sharing follows the spec at once: charges, settlement and victims."""
        queue.consumption = self._state.consumption if self.is_on and is_usage_based(queue) else None

    # LocalQueues

    def local_queue_changed(
        self, key: LocalQueueKey, *, replaced: bool = False, told: AdmissionFairSharingStatus | None = None
    ) -> None:
        """`told` is a sample that the LocalQueue's status newly shows."""
        if replaced or key not in self._state.local_queues:
            self._close(key)
        if self.is_on and key in self._state.local_queues:
            known = self._state.consumption.accounts.get(key)
            is_news = known is not None and known.seeded
            account = self._open(key)
            if told is not None and is_news and self._knows_all(key, account):
                if self._state.consumption.adopt(account, told, self._state.now):
                    self._tell(key, account)
            self.look_at(key)

    def _knows_all(self, key: LocalQueueKey, account: Account) -> bool:
        """Whether the cluster has shown every admission that was settled here."""
        members = self._state.by_local_queue.get(key, {})
        return all(uid in members and is_true(members[uid].workload, "Admitted") for uid in account.running)

    def _tell(self, key: LocalQueueKey, account: Account) -> None:
        usage = self._state.consumption.usage(key)
        self._recorder.consumption_changed(key, usage, account.weight, account.consumed)

    def look_at_queue(self, cluster_queue: str) -> None:
        """The ClusterQueue turned active or inactive."""
        if self.is_on:
            for key in sorted(self._state.local_queues_of.get(cluster_queue, ())):
                self.look_at(key)

    def look_at(self, key: LocalQueueKey) -> None:
        """R7.8: a sample, where one is due and the LocalQueue takes part; then the next one."""
        state = self._state
        account = state.consumption.accounts.get(key)
        source = state.local_queues.get(key)
        if account is None or source is None or not self.is_on:
            return
        queue = state.forest.queues.get(source.spec.cluster_queue)
        state.consumption.make_up(account, state.now)
        account.ticking = self._is_sampled(key)
        if account.ticking and queue is not None and state.consumption.sample(account, state.now):
            self._tell(key, account)
            if queue.pending.has_active:
                state.touched.add(queue.name)
        self._set_timer(key, account)

    # Workloads

    def reserve(self, workload: WorkloadState, queue: ClusterQueueNode) -> None:
        """R7.12."""
        if queue.consumption is None:
            return
        strategy = self._state.configuration.resources.quota_check_strategy
        only_covered = strategy == "IgnoreUndeclared" and self._state.configuration.gate("QuotaCheckStrategy")
        requests = total_request(workload, lambda name: not only_covered or name in queue.group_of)
        account = self._open(workload.local_queue)
        queue.consumption.charge(account, workload.uid, requests, self._state.now)
        self._set_timer(workload.local_queue, account)

    def admit(self, workload: WorkloadState, reservation: Reservation) -> None:
        """R7.6: what it holds counts as running."""
        if not self.is_on:
            return
        account = self._open(workload.local_queue)
        self._state.consumption.admit(account, workload.uid, self._merged(reservation), self._state.now)
        self._set_timer(workload.local_queue, account)

    def settle(self, workload: WorkloadState) -> None:
        """R7.14: it became admitted."""
        reservation = workload.reservation
        queue = self._state.forest.queues.get(reservation.cluster_queue) if reservation is not None else None
        if queue is None or queue.consumption is None:
            return
        account = self._open(workload.local_queue)
        queue.consumption.settle(account, workload.uid, self._state.now)
        self._set_timer(workload.local_queue, account)

    def release(self, workload: WorkloadState) -> None:
        """Its reservation is gone; an open penalty stays until it is admitted again (R7.15)."""
        account = self._state.consumption.accounts.get(workload.local_queue)
        if account is not None:
            self._state.consumption.end(account, workload.uid, self._state.now)
            self._set_timer(workload.local_queue, account)

    def forget(self, workload: WorkloadState) -> None:
        """R7.15: the record of its penalty is dropped without being charged."""
        account = self._state.consumption.accounts.get(workload.local_queue)
        if account is not None:
            account.penalties.pop(workload.uid, None)
            self._set_timer(workload.local_queue, account)

    def _is_sampled(self, key: LocalQueueKey) -> bool:
        """R7.8: not while it is unknown or stopped, or its ClusterQueue is missing or inactive."""
        source = self._state.local_queues.get(key)
        if source is None or source.spec.stop_policy != "None":
            return False
        queue = self._state.forest.queues.get(source.spec.cluster_queue)
        return queue is not None and queue.active

    def _merged(self, reservation: Reservation) -> dict[str, int]:
        """R7.6: flavors merged."""
        names = self._state.numbers.names
        usage: dict[str, int] = {}
        for fr, value in reservation.usage.items():
            resource = names[fr][1]
            usage[resource] = usage.get(resource, 0) + value
        return usage

    def _open(self, key: LocalQueueKey) -> Account:
        """A new account knows what runs already: its LocalQueue may have been there before (R7.6)."""
        state = self._state
        is_new = key not in state.consumption.accounts
        account = state.consumption.open(key, state.local_queues.get(key), state.now)
        if is_new:
            account.ticking = self._is_sampled(key)
            for member in state.by_local_queue.get(key, {}).values():
                if member.reservation is not None and member.reservation.admitted:
                    state.consumption.admit(account, member.uid, self._merged(member.reservation), state.now)
        return account

    def _close(self, key: LocalQueueKey) -> None:
        self._state.consumption.close(key)
        self._state.timers.set(_timer(key), None)

    def _set_timer(self, key: LocalQueueKey, account: Account) -> None:
        self._state.timers.set(_timer(key), self._state.consumption.next_sample(account))


def _timer(key: LocalQueueKey) -> TimerKey:
    return TimerKey("", LOCAL_QUEUE, *key)
