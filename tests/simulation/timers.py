"""What must hold of time after every event: nothing due is left undone, whoever waits for a time will be woken.

Deadlines are computed anew from the objects and the rules (admission 7.4.6, 7.5.3, 7.5.5, 7.8.1, preemption R7.8), not
asked of the ledger; what it set is then compared with that.
"""

from __future__ import annotations

from typing import Any

from ledger.ledger import Ledger
from ledger.life import timer_of
from ledger.objects.workload import condition, is_true
from ledger.timers import LOCAL_QUEUE, TimerKey
from ledger.timestamps import format_timestamp
from ledger.workloads import WorkloadState
from tests.simulation.broken import Broken

Decision = dict[str, Any]

SECOND = 1_000_000
BACKOFFS = ("PodsReadyTimeout", "AdmissionCheck")
STOPS = {"ClusterQueueStopped": "ClusterQueueRestarted", "LocalQueueStopped": "LocalQueueRestarted"}


class TimerWatch:
    """Follows the decisions of one cluster: when they are stamped, and that nothing strikes twice."""

    def __init__(self) -> None:
        self._told = ""
        self._leaving: set[str] = set()
        self._ended: set[str] = set()

    def after(self, ledger: Ledger, events: list[Decision], decisions: list[Decision]) -> None:
        self._stamps(ledger, decisions)
        for event in events:
            self._observe(event)
        for decision in decisions:
            self._strike(ledger, decision)
        admission_was_open(ledger, events, decisions)
        nothing_is_overdue(ledger)
        everybody_has_a_timer(ledger)

    def _stamps(self, ledger: Ledger, decisions: list[Decision]) -> None:
        """Decisions carry the time of the record that caused them, which never goes back."""
        now = format_timestamp(ledger.now)
        for decision in decisions:
            if decision["at"] != now or decision["at"] < self._told:
                raise Broken("decisions are stamped with the time of their cause", (now, self._told, decision))
            self._told = now

    def _observe(self, event: Decision) -> None:
        """What an object shows may begin another wait, or take an eviction back."""
        target = event["object"]
        if target["kind"] == "Workload":
            uid = target.get("metadata", {}).get("uid", "")
            self._ended.discard(uid)
            self._leaving.discard(uid)

    def _strike(self, ledger: Ledger, decision: Decision) -> None:
        """A workload that is leaving is not evicted again, and a backoff ends once."""
        kind, uid = decision["type"], decision.get("workload", {}).get("uid", "")
        if kind in ("Preempted", "Evicted"):
            if uid in self._leaving:
                raise Broken("nobody is evicted twice", decision)
            self._leaving.add(uid)
        elif kind in ("QuotaReserved", "Released"):
            self._leaving.discard(uid)
            self._ended.discard(uid)
        elif kind == "Requeued" and decision["reason"] == "BackoffFinished":
            if uid in self._ended:
                raise Broken("a backoff ends once", decision)
            self._ended.add(uid)


def admission_was_open(ledger: Ledger, events: list[Decision], decisions: list[Decision]) -> None:
    """7.5.2: whoever was given quota was so while the pods of all others were ready."""
    if not ledger.state.blocks_admission() or len(events) > 1:
        return
    target = events[0]["object"] if events else {"kind": ""}
    if target["kind"] == "Configuration":
        return
    told = target.get("metadata", {}).get("uid", "")
    given = {d["workload"]["uid"] for d in decisions if d["type"] == "QuotaReserved"}
    holders = {uid: w for uid, w in ledger.state.not_ready.items() if w.reservation is not None and uid != told}
    held = given & holders.keys()
    if held and (len(held) > 1 or holders.keys() - given):
        raise Broken("admission waits until pods are ready", (sorted(given), sorted(holders)))


def nothing_is_overdue(ledger: Ledger) -> None:
    """Timers that the time has passed have struck."""
    deadline = ledger.next_deadline()
    if deadline is not None and deadline <= ledger.now:
        raise Broken("no timer is left behind", (deadline, ledger.now, ledger.state.timers._heap[0]))


def everybody_has_a_timer(ledger: Ledger) -> None:
    """Each workload and LocalQueue has the timer that the rules say, and no other."""
    state = ledger.state
    expected: dict[TimerKey, int] = {}
    for workload in state.workloads.values():
        deadline = deadline_of(ledger, workload)
        if deadline is not None:
            expected[timer_of(workload)] = deadline
    rules = state.consumption.rules
    for key, account in state.consumption.accounts.items():
        source = state.local_queues.get(key)
        queue = None if source is None else state.forest.queues.get(source.spec.cluster_queue)
        sampled = source is not None and source.spec.stop_policy == "None" and queue is not None and queue.active
        if rules is not None and sampled and not account.is_idle:
            interval = rules.usage_sampling_interval or 300 * SECOND
            expected[TimerKey("", LOCAL_QUEUE, *key)] = account.last + interval
    found = {key: at for key, at in state.timers._deadlines.items() if key.kind != "Retry"}
    if found != expected:
        wrong = {key: (found.get(key), expected.get(key)) for key in found.keys() ^ expected.keys()}
        wrong |= {
            key: (found[key], expected[key]) for key in found.keys() & expected.keys() if found[key] != expected[key]
        }
        raise Broken("everybody has the timer that the rules say", (ledger.now, wrong))


def deadline_of(ledger: Ledger, workload: WorkloadState) -> int | None:
    """When time alone does something to it."""
    target = workload.workload
    if not target.spec.active or is_true(target, "Finished") or workload.replaced:
        return None
    reservation = workload.reservation
    if reservation is None:
        if workload.requeue_at is not None and workload.requeue_at <= ledger.now:
            raise Broken("a backoff that is over has ended", workload.key)
        return workload.requeue_at
    if workload.is_evicted:
        return None
    shown = target.status.requeue_state
    if ledger.state.repeats_reference and reservation.echoed and shown is not None:
        # 7.4.6: the reference does nothing about a holder before the time that its object shows.
        if shown.requeue_at is not None and shown.requeue_at > ledger.now:
            return shown.requeue_at
    found = []
    if reservation.admitted:
        waiting = ledger.state.configuration.wait_for_pods_ready
        ready = condition(target, "PodsReady")
        if waiting is not None and (ready is None or ready.status != "True"):
            recovery = waiting.timeout if waiting.recovery_timeout is None else waiting.recovery_timeout
            if ready is None or ready.reason in ("WaitForStart", "PodsReady"):
                found.append(("its pods", reservation.admitted_at + waiting.timeout))
            elif ready.reason == "WaitForRecovery" and recovery:
                since = ready.last_transition_time
                found.append(("its pods", (reservation.admitted_at if since is None else since) + recovery))
        allowed = target.spec.maximum_execution_time_seconds
        if allowed is not None:
            left = allowed - workload.executed_seconds
            found.append(("its execution", reservation.admitted_at + left * SECOND))
    retried = any(check.state == "Retry" for check in ledger.state.live_checks(workload))
    if retried:
        # A check that asks for a retry has the word: what comes due meanwhile is not acted on.
        if workload.requeue_at is None or workload.requeue_at <= ledger.now:
            raise Broken("a retry that is due has been given", workload.key)
        found = [(what, at) for what, at in found if at > ledger.now] + [("its retry", workload.requeue_at)]
    for what, at in found:
        if at <= ledger.now:
            raise Broken(f"{what} did not run out unnoticed", (workload.key, at, ledger.now))
    return min((at for _, at in found), default=None)


def everybody_held_will_be_let_go(ledger: Ledger) -> None:
    """Whom no retry moves waits for a time, for a queue, or for what only an object can say."""
    state = ledger.state
    for queue in state.forest.queues.values():
        for workload in queue.pending.held():
            if workload.requeue_at is not None or workload.stopped_loop:
                continue
            if not workload.held:
                raise Broken("who is held has a reason", workload.key)
            if workload.held in BACKOFFS:
                raise Broken("a backoff without an end has ended", workload.key)
            requeued = condition(workload.workload, "Requeued")
            if workload.held in ("Preempted", "NodeFailures") and (requeued is None or requeued.status != "False"):
                raise Broken("a victim waits for nothing", workload.key)
            local = state.local_queues.get(workload.local_queue)
            stopped = queue.source.spec.stop_policy != "None"
            if workload.held == "ClusterQueueStopped" and not stopped:
                raise Broken("a queue that starts takes its workloads back", workload.key)
            if workload.held == "LocalQueueStopped" and local is not None and local.spec.stop_policy == "None":
                raise Broken("a LocalQueue that starts takes its workloads back", workload.key)
            own = workload.held == "Deactivated" or not state.repeats_reference
            if workload.held.startswith("Deactivated") and own:
                raise Broken("who is active again waits again", workload.key)
