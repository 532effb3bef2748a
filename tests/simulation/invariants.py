"""What must hold after every event, whatever happened before."""

from __future__ import annotations

import json
from typing import Any

from ledger.decisions import GENESIS, hash_of
from ledger.ledger import Ledger
from tests.model.quota import QuotaModel, plus
from tests.simulation.broken import Broken
from tests.simulation.news import News
from tests.simulation.timers import TimerWatch, everybody_held_will_be_let_go

Decision = dict[str, Any]

REPLACED = "WorkloadSliceReplaced"
WITHDRAWN = ("Suspended", "Misconfigured")
"""Why the ledger takes a reservation back by itself: the queue is stopped, or cannot be used any more."""
PARTS = ("ReclaimablePods", "ScaledDown")
"""Why some of what is charged comes back, and the rest stays."""


class Watch:
    """Follows one cluster of a fold."""

    def __init__(self) -> None:
        self.model = QuotaModel()
        self._news = News()
        self._seq = 0
        self._hash = GENESIS
        self._charged: dict[str, dict[str, dict[str, str]]] = {}
        self._admitted: set[str] = set()
        self._withdrawn: dict[str, str] = {}
        self._shown: dict[str, tuple[str | None, str | None]] = {}
        self._unechoed: dict[str, tuple[str, str | None, str | None]] = {}
        self._timers = TimerWatch()

    def after(self, ledger: Ledger, record: bytes, decisions: list[bytes], rejected: frozenset[int]) -> None:
        """Everything, after one event of this cluster."""
        before, self._charged = self._charged, charges(ledger)
        self._chain(decisions)
        found = [json.loads(value) for value in decisions]
        self._released_is_charged(found, before)
        declared = (dict(self.model.queues), dict(self.model.cohorts))
        news = self._news.of(record, rejected)
        for event in news:
            if not self._is_withdrawn(event) and not self._is_older_than_the_reservation(event):
                self.model.observe(event)
        reserved: set[str] = set()
        replaced = {
            each["workload"]["uid"] for each in found if each["type"] == "Released" and each["reason"] == REPLACED
        }
        for index, decision in enumerate(found):
            following = found[index + 1] if index + 1 < len(found) else None
            if decision["type"] == "QuotaReserved" and not self._is_there(decision):
                continue  # a timer reserved it; then the record itself told its end
            self.model.decide(decision)
            self._take_back(decision, reserved)
            if following is not None and following.get("reason") == REPLACED:
                # 8.2: the slice that it replaces is out of the tables at that instant.
                self._take_back(following, reserved)
            if not (replaced and ledger.state.repeats_reference):
                self._fits(ledger, decision, declared)
        self._agrees(ledger)
        usage_is_the_sum_of_charges(ledger)
        self._timers.after(ledger, news, found)
        if not ledger._syncing:
            everybody_can_be_woken(ledger)
            everybody_held_will_be_let_go(ledger)

    def _chain(self, decisions: list[bytes]) -> None:
        for value in decisions:
            decision = json.loads(value)
            self._seq += 1
            if (decision["seq"], decision["prev"], decision["hash"]) != (self._seq, self._hash, hash_of(value)):
                raise Broken("the chain continues", value)
            self._hash = decision["hash"]

    def _released_is_charged(self, decisions: list[Decision], before: dict[str, dict[str, dict[str, str]]]) -> None:
        """Released is what was charged when the event came, or what was reserved inside it."""
        held = dict(before)
        for decision in decisions:
            if decision["type"] == "QuotaReserved":
                held[decision["workload"]["uid"]] = reserved_amounts(decision)
            elif decision["type"] == "Released" and decision["reason"] in PARTS:
                held.pop(decision["workload"]["uid"], None)  # a part; what is left is compared after the next event
            elif decision["type"] == "Released":
                uid = decision["workload"]["uid"]
                if uid in held and decision["usage"] != held[uid]:
                    raise Broken("released is what was charged", (held[uid], decision))
                held.pop(uid, None)

    def _is_there(self, decision: Decision) -> bool:
        named = decision["workload"]
        return self._news.uid_of("Workload", named["namespace"], named["name"]) == named["uid"]

    def _take_back(self, decision: Decision, reserved: set[str]) -> None:
        """A reservation that was never admitted has no pods: the ledger may take it back by itself (admission 4.8).

        Timers fire before the event that carries the time: what they reserve, the event itself may end (`reserved`).
        """
        uid = decision.get("workload", {}).get("uid", "")
        if decision["type"] == "QuotaReserved":
            reserved.add(uid)
        elif decision["type"] == "Released" and decision["reason"] not in PARTS:
            was_admitted = uid in self._admitted
            self._admitted.discard(uid)
            named = decision["workload"]
            there = self._news.uid_of("Workload", named["namespace"], named["name"])
            if uid in reserved and there in (uid, None):
                reserved.discard(uid)
                self.model.charges.pop((named["namespace"], named["name"]), None)
            taken = decision["reason"] == REPLACED or (not was_admitted and decision["reason"] in WITHDRAWN)
            if taken and there == uid:
                self._withdrawn[uid] = decision["at"]
                self.model.charges.pop((named["namespace"], named["name"]), None)
        if decision["type"] == "QuotaReserved":
            self._withdrawn.pop(decision["workload"]["uid"], None)
            self._unechoed[uid] = (decision["at"], *self._shown.get(uid, (None, None)))
        elif decision["type"] == "Admitted":
            self._admitted.add(decision["workload"]["uid"])

    def _is_older_than_the_reservation(self, event: dict[str, Any]) -> bool:
        """Before its echo an object says of the quota what it said before: that is no loss (admission 7.9)."""
        target = event["object"]
        uid = target.get("metadata", {}).get("uid", "")
        if target["kind"] != "Workload" or event["type"] == "DELETED":
            return False
        conditions = {each["type"]: each for each in target.get("status", {}).get("conditions", ())}
        reserved = conditions.get("QuotaReserved")
        if reserved is None:
            return False
        if reserved["status"] == "True":
            self._unechoed.pop(uid, None)
        evicted = conditions.get("Evicted", {})
        evicted_at = evicted["lastTransitionTime"] if evicted.get("status") == "True" else None
        lost_at = reserved["lastTransitionTime"] if reserved["status"] == "False" else None
        self._shown[uid] = (evicted_at, lost_at)
        ended = target["spec"].get("active") is False or conditions.get("Finished", {}).get("status") == "True"
        if uid not in self._unechoed or ended:
            return False
        decided_at, evicted_before, lost_before = self._unechoed[uid]
        if evicted_at is not None and evicted_at != evicted_before:
            return False
        return lost_before is None or lost_at == lost_before or (lost_at or "") <= decided_at

    def _is_withdrawn(self, event: dict[str, Any]) -> bool:
        """The echo of a reservation that the ledger took back before it came is old news."""
        target = event["object"]
        uid = target.get("metadata", {}).get("uid", "")
        if event["type"] == "DELETED":
            self._withdrawn.pop(uid, None)
        withdrawn = self._withdrawn.get(uid)
        if withdrawn is None:
            return False
        conditions = target.get("status", {}).get("conditions", ())
        if any(each["type"] == "Finished" and each["status"] == "True" for each in conditions):
            return False
        return any(
            each["type"] == "QuotaReserved" and each["status"] == "True" and each["lastTransitionTime"] <= withdrawn
            for each in conditions
        )

    def _fits(self, ledger: Ledger, decision: Decision, declared: tuple[Any, Any]) -> None:
        """Nothing is admitted beyond what is available, but onto quota whose victims are leaving.

        `declared` is what there was before the event: timers decide on that.
        """
        if decision["type"] != "QuotaReserved" or decision["clusterQueue"] not in self.model.queues:
            return
        queue = decision["clusterQueue"]
        node = ("ClusterQueue", queue)
        if self.model.leads_into_a_circle(node):
            return
        for pods in decision["podSets"]:
            for resource, flavor in pods["flavors"].items():
                pair = (flavor, resource)
                leaving = sum(
                    state.reservation.usage.get(ledger.state.numbers.number(flavor, resource), 0)
                    for state in ledger.state.workloads.values()
                    if state.reservation is not None and state.is_evicted
                )
                if plus(self._room(node, pair, declared), leaving) < 0 and pods["usage"].get(resource) not in (
                    None,
                    "0",
                ):
                    raise Broken("nothing is admitted beyond availability", decision)

    def _room(self, node: tuple[str, str], pair: tuple[str, str], declared: tuple[Any, Any]) -> int:
        room = self.model.room(node, pair)
        if room >= 0 or node[1] not in declared[0]:
            return room
        now = (self.model.queues, self.model.cohorts)
        self.model.queues, self.model.cohorts = declared
        try:
            return room if self.model.leads_into_a_circle(node) else max(room, self.model.room(node, pair))
        finally:
            self.model.queues, self.model.cohorts = now

    def _agrees(self, ledger: Ledger) -> None:
        usage = {queue: {k: v for k, v in held.items() if v} for queue, held in ledger.usage().items()}
        usage = {queue: held for queue, held in usage.items() if held}
        if usage != self.model.usage():
            raise Broken("the second model agrees on usage", (usage, self.model.usage()))
        shares = ledger.shares()
        for queue, share in self.model.shares().items():
            if shares[queue].weighted != share:
                raise Broken("the second model agrees on shares", (queue, shares[queue], share))


def charges(ledger: Ledger) -> dict[str, dict[str, dict[str, str]]]:
    """uid -> what is charged, as decisions write it."""
    return {
        state.uid: ledger.recorder.amounts(state.reservation.usage)
        for state in ledger.state.workloads.values()
        if state.reservation is not None
    }


def reserved_amounts(decision: Decision) -> dict[str, dict[str, str]]:
    from ledger.quantity import canonical
    from tests.model.quota import amount

    sums: dict[tuple[str, str], int] = {}
    for pods in decision["podSets"]:
        for resource, flavor in pods["flavors"].items():
            if resource in pods["usage"]:
                pair = (flavor, resource)
                sums[pair] = plus(sums.get(pair, 0), amount(pods["usage"][resource], resource))
    found: dict[str, dict[str, str]] = {}
    for (flavor, resource), value in sorted(sums.items()):
        found.setdefault(flavor, {})[resource] = canonical(resource, value)
    return found


def usage_is_the_sum_of_charges(ledger: Ledger) -> None:
    for name, queue in ledger.state.forest.queues.items():
        sums: dict[int, int] = {}
        for holder in queue.holders.values():
            assert holder.reservation is not None
            for fr, value in holder.reservation.usage.items():
                sums[fr] = plus(sums.get(fr, 0), value)
        used = {fr: value for fr, value in queue.usage.items() if value}
        if used != {fr: value for fr, value in sums.items() if value}:
            raise Broken("usage is the sum of charges", (name, used, sums))


def everybody_can_be_woken(ledger: Ledger) -> None:
    """Who waits in an active queue was looked at and told, or waits for a time or a condition that will come."""
    for queue in ledger.state.forest.queues.values():
        for state in queue.pending:
            if state.waiting_in is not queue:
                raise Broken("who waits knows where", state.key)
            inadmissible = queue.pending.is_inadmissible(state)
            if not inadmissible and not queue.pending.is_active(state):
                raise Broken("who waits is in one place", state.key)
            if not queue.active or queue.tree.cyclic:
                continue
            if state.deactivated_for:
                continue  # told as evicted; it ends when the object says so
            if inadmissible and state.verdict is None and ledger.state.backoff_expired(state):
                raise Broken("who is parked has a verdict", (queue.name, state.key))
    for state in ledger.state.workloads.values():
        if state.reservation is not None and state.waiting_in is not None:
            raise Broken("who holds quota does not wait", state.key)
