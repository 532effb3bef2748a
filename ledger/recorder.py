"""Turns what the fold does into decisions: numbers them, chains them, and keeps those of the running event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from heapq import nsmallest
from math import ceil
from typing import TYPE_CHECKING, TypedDict

import msgspec

from ledger import decisions
from ledger.amounts import MAXIMUM
from ledger.assignment import Assignment
from ledger.cluster_queue import ClusterQueueNode
from ledger.cycle import Preempting, Reserved
from ledger.decisions import (
    GENESIS,
    RULES_VERSION,
    Amounts,
    Cause,
    DecisionRecord,
    FlavorPassedOver,
    Holder,
    LocalQueueReference,
    Missing,
    PodSetReservation,
    PreemptionShares,
    PreemptorReference,
    QuotaValues,
    ShareValue,
    WorkloadReference,
)
from ledger.flavors import missing
from ledger.quantity import canonical, canonical_quantity
from ledger.shares import Share
from ledger.timestamps import format_timestamp
from ledger.tree import CohortNode, Node, Tree
from ledger.victims import Target
from ledger.workloads import AssignedPodSet, Reservation, SettledClaims, Shortage, Verdict, WorkloadState

if TYPE_CHECKING:
    from ledger.standings import QueueStanding
    from ledger.state import State

HOLDERS_NAMED = 8
"""How many holders of a missing flavor-resource a `Pending` names, the largest first."""


class Head(TypedDict):
    """What every record begins with."""

    seq: int
    cluster: str
    at: str
    cause: Cause
    rules: str
    prev: str


class Recorder:
    """The decisions of one cluster. `seq` and `last_hash` continue the chain (design 6)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.seq = 0
        self.last_hash = GENESIS
        self._records: list[DecisionRecord] = []
        self._written_at = (-1, "")
        self.largest_holders: dict[tuple[int, int], list[tuple[Holder, Holder | None]]] = {}
        self.cause = Cause(topic="", partition=0, offset=0, index=0)

    def take(self) -> list[DecisionRecord]:
        """What was decided since the last call."""
        records, self._records = self._records, []
        return records

    def reserved(self, reserved: Reserved, cycle: int) -> None:
        entry = reserved.entry
        queue, assignment, state = entry.queue, entry.assignment, entry.state
        assert assignment is not None and state.reservation is not None
        self._append(
            decisions.QuotaReserved(
                workload=reference(state),
                cluster_queue=queue.name,
                local_queue=local_queue_reference(state),
                pod_sets=[self._pod_set(p) for p in state.reservation.pod_sets],
                borrowed=self._borrowed(queue, assignment.usage),
                cycle=cycle,
                position=reserved.position,
                considered=self._passed_over(assignment),
                claims=list(state.charges.requests) if state.charges is not None else [],
                **self._head(),
            )
        )

    def recorded(self, state: WorkloadState) -> None:
        reservation = state.reservation
        assert reservation is not None
        self._append(
            decisions.Recorded(
                workload=reference(state),
                cluster_queue=reservation.cluster_queue,
                local_queue=local_queue_reference(state),
                pod_sets=[self._pod_set(p) for p in reservation.pod_sets],
                usage=self.amounts(reservation.usage),
                admitted=reservation.admitted,
                evicted=state.evicted_reason,
                **self._head(),
            )
        )

    def admitted(self, state: WorkloadState, cluster_queue: str) -> None:
        self._append(decisions.Admitted(workload=reference(state), cluster_queue=cluster_queue, **self._head()))

    def preempted(
        self,
        preempting: Preempting,
        target: Target,
        needed: Mapping[int, int],
        shares: tuple[Share, Share, Share] | None,
        cycle: int,
    ) -> None:
        preemptor, victim = preempting.entry.state, target.state
        assert victim.reservation is not None
        self._append(
            decisions.Preempted(
                workload=reference(victim),
                cluster_queue=target.queue.name,
                reason=target.reason,
                rule=target.rule,
                preemptor=PreemptorReference(
                    namespace=preemptor.namespace,
                    name=preemptor.name,
                    uid=preemptor.workload.metadata.uid,
                    cluster_queue=preempting.entry.queue.name,
                ),
                preemptor_path=path_of(preempting.entry.queue),
                victim_path=path_of(target.queue),
                priority=victim.priority,
                preemptor_priority=preemptor.priority,
                usage=self.amounts(victim.reservation.usage),
                needed=self.amounts(needed),
                shares=None
                if shares is None
                else PreemptionShares(
                    preemptor=share_value(shares[0]),
                    victim_before=share_value(shares[1]),
                    victim_after=share_value(shares[2]),
                ),
                cycle=cycle,
                **self._head(),
            )
        )

    def evicted(self, state: WorkloadState, cluster_queue: str, reason: str, message: str) -> None:
        self._append(
            decisions.Evicted(
                workload=reference(state), cluster_queue=cluster_queue, reason=reason, message=message, **self._head()
            )
        )

    def released(self, state: WorkloadState, reservation: Reservation, reason: str, usage: Mapping[int, int]) -> None:
        self._append(
            decisions.Released(
                workload=reference(state),
                cluster_queue=reservation.cluster_queue,
                reason=reason,
                usage=self.amounts(usage),
                **self._head(),
            )
        )

    def requeued(self, state: WorkloadState, cluster_queue: str, reason: str, not_before: int | None) -> None:
        self._append(
            decisions.Requeued(
                workload=reference(state),
                cluster_queue=cluster_queue,
                reason=reason,
                not_before="" if not_before is None else format_timestamp(not_before),
                **self._head(),
            )
        )

    def dequeued(self, state: WorkloadState, reason: str) -> None:
        self._append(decisions.Dequeued(workload=reference(state), reason=reason, **self._head()))

    def pending(self, state: WorkloadState, queue: ClusterQueueNode | None, verdict: Verdict) -> None:
        self._append(
            decisions.Pending(
                workload=reference(state),
                cluster_queue=queue.name if queue is not None else "",
                local_queue=local_queue_reference(state),
                reason=verdict.reason,
                message=verdict.message,
                missing=[self._missing(shortage) for shortage in verdict.shortages],
                held_by=self._holders(queue, state.priority, verdict.shortages) if queue is not None else [],
                considered=[
                    FlavorPassedOver(pod_set=p.pod_set, flavor=p.flavor, resource=p.resource, reason=p.reason)
                    for p in verdict.passed_over
                ],
                members=list(verdict.members),
                round=list(verdict.rounds),
                in_the_way=list(verdict.in_the_way),
                **self._head(),
            )
        )

    def inadmissible(self, state: WorkloadState, cluster_queue: str, reason: str, message: str) -> None:
        self._append(
            decisions.Inadmissible(
                workload=reference(state), cluster_queue=cluster_queue, reason=reason, message=message, **self._head()
            )
        )

    def settled(self, state: WorkloadState, reservation: Reservation, claims: SettledClaims) -> None:
        settlement = claims.settlement
        self._append(
            decisions.Settled(
                workload=reference(state),
                cluster_queue=reservation.cluster_queue,
                charged=self._by_key(settlement.charged),
                allocated=self._by_key(settlement.allocated),
                difference=self._by_key(settlement.difference),
                slots=settlement.slots,
                settled=settlement.settled,
                devices=list(claims.devices),
                unresolved=list(settlement.unresolved),
                **self._head(),
            )
        )

    def share_changed(self, node: Node, share: Share) -> None:
        value = share_value(share)
        is_cohort = isinstance(node, CohortNode)
        self._append(
            decisions.ShareChanged(
                cluster_queue="" if is_cohort else node.name,
                cohort=node.name if is_cohort else "",
                share=value.share,
                weighted_share=value.weighted_share,
                dominant_resource=share.resource,
                weight=share.weight,
                **self._head(),
            )
        )

    def consumption_changed(
        self, local_queue: tuple[str, str], usage: float, weight: float, consumed: Mapping[str, int]
    ) -> None:
        namespace, name = local_queue
        is_infinite = usage == float("inf")
        self._append(
            decisions.ShareChanged(
                local_queue=LocalQueueReference(namespace=namespace, name=name),
                share=None if is_infinite else usage,
                weighted_share=MAXIMUM if is_infinite else ceil(usage),
                weight=weight,
                consumed={resource: canonical_quantity(value) for resource, value in consumed.items()},
                **self._head(),
            )
        )

    def quota_changed(self, node: Node, before: Mapping[int, QuotaValues], after: Mapping[int, QuotaValues]) -> None:
        """One record for each row that changed, in the order of flavor and resource."""
        is_cohort = isinstance(node, CohortNode)
        for fr in self._state.numbers.by_name({*before, *after}):
            old, new = before.get(fr), after.get(fr)
            if old == new:
                continue
            flavor, resource = self._state.numbers.names[fr]
            self._append(
                decisions.QuotaChanged(
                    cluster_queue="" if is_cohort else node.name,
                    cohort=node.name if is_cohort else "",
                    flavor=flavor,
                    resource=resource,
                    before=old,
                    after=new,
                    **self._head(),
                )
            )

    def queue_changed(self, local_queue: LocalQueueReference | None, standing: QueueStanding) -> None:
        self._append(
            decisions.QueueChanged(
                cluster_queue=standing.cluster_queue,
                local_queue=local_queue,
                active=standing.active,
                reason=standing.reason,
                message=standing.message,
                cohort=standing.cohort,
                flavors=list(standing.flavors),
                **self._head(),
            )
        )

    def declared_quota(self, node: Node) -> dict[int, QuotaValues]:
        """What a node declares now, as records show it."""
        names = self._state.numbers.names
        return {
            fr: QuotaValues(
                nominal=self._text(names[fr][1], nominal),
                borrowing_limit=self._limit_text(names[fr][1], node.borrowing_limit.get(fr)),
                lending_limit=self._limit_text(names[fr][1], node.lending_limit.get(fr)),
            )
            for fr, nominal in node.nominal.items()
        }

    def amounts(self, usage: Mapping[int, int]) -> Amounts:
        """Flavor -> resource -> quantity, both ascending."""
        nested: Amounts = {}
        binary = self._state.binary_keys
        for fr in self._state.numbers.by_name(usage):
            flavor, resource = self._state.numbers.names[fr]
            nested.setdefault(flavor, {})[resource] = amount_text(resource, usage[fr], resource in binary)
        return nested

    def _append(self, decision: decisions.Decision) -> None:
        record = decisions.encode_decision(decision)
        self.seq, self.last_hash = record.seq, record.hash
        self._records.append(record)

    def _head(self) -> Head:
        return {
            "seq": self.seq + 1,
            "cluster": self._state.cluster,
            "at": self._at(),
            "cause": self.cause,
            "rules": f"{self._state.configuration.ledger.rules}/{RULES_VERSION}",
            "prev": self.last_hash,
        }

    def _pod_set(self, pod_set: AssignedPodSet) -> PodSetReservation:
        binary = self._state.binary_keys
        usage = {
            resource: amount_text(resource, value, resource in binary) for resource, value in pod_set.usage.items()
        }
        return PodSetReservation(name=pod_set.name, count=pod_set.count, flavors=pod_set.flavors, usage=usage)

    def _by_key(self, amounts: Mapping[str, int]) -> dict[str, str]:
        return {key: self._text(key, amount) for key, amount in amounts.items()}

    def _text(self, resource: str, amount: int) -> str:
        return quantity_text(resource, amount, resource in self._state.binary_keys)

    def _limit_text(self, resource: str, limit: int | None) -> str | None:
        return None if limit is None else self._text(resource, limit)

    def _at(self) -> str:
        """All records of one event carry the same time."""
        now = self._state.now
        if now != self._written_at[0]:
            self._written_at = (now, format_timestamp(now))
        return self._written_at[1]

    def _borrowed(self, queue: ClusterQueueNode, usage: Mapping[int, int]) -> Amounts:
        """How much of the queue's usage in these rows exceeds its nominal quota now."""
        if queue.parent is None:
            return {}
        over = {fr: queue.usage.get(fr, 0) - queue.nominal.get(fr, 0) for fr in usage}
        return self.amounts({fr: value for fr, value in over.items() if value > 0})

    def _passed_over(self, assignment: Assignment) -> list[FlavorPassedOver]:
        """Flavors that were looked at and not taken: for lack of quota, or because they do not match."""
        taken = {(p.name, a.flavor) for p in assignment.pod_sets for a in p.flavors.values()}
        considered = [
            FlavorPassedOver(pod_set=p.pod_set, flavor=p.flavor, resource=p.resource, reason=p.reason)
            for p in assignment.passed_over
        ]
        for shortage in assignment.shortages:
            flavor, resource = self._state.numbers.names[shortage.flavor_resource]
            if (shortage.pod_set, flavor) not in taken:
                reason = "ExceedsMaxQuota" if shortage.requested > shortage.maximum else "WaitingForQuota"
                considered.append(
                    FlavorPassedOver(
                        pod_set=shortage.pod_set,
                        flavor=flavor,
                        resource=resource,
                        reason=reason,
                        missing=self._text(resource, missing(shortage)),
                    )
                )
        return considered

    def _missing(self, shortage: Shortage) -> Missing:
        flavor, resource = self._state.numbers.names[shortage.flavor_resource]
        return Missing(
            pod_set=shortage.pod_set,
            flavor=flavor,
            resource=resource,
            requested=self._text(resource, shortage.requested),
            available=self._text(resource, shortage.available),
            maximum=self._text(resource, shortage.maximum),
            missing=self._text(resource, missing(shortage)),
        )

    def _holders(self, queue: ClusterQueueNode, priority: int, shortages: Iterable[Shortage]) -> list[Holder]:
        """The queues of the tree that hold most of what is missing, those that borrow it first."""
        frs = dict.fromkeys(s.flavor_resource for s in shortages if s.requested <= s.maximum)
        return [
            reclaimable if reclaimable is not None and self._can_reclaim(queue, priority, holder, fr) else holder
            for fr in self._state.numbers.by_name(frs)
            for holder, reclaimable in self._largest_holders(queue.tree, fr)
        ]

    def _can_reclaim(self, queue: ClusterQueueNode, priority: int, holder: Holder, fr: int) -> bool:
        """Whether the queue's policy lets a workload of this priority take back some of what the holder borrows."""
        policy = queue.reclaim_within_cohort
        if holder.cluster_queue == queue.name or policy == "Never":
            return False
        ranked = self._state.forest.queues[holder.cluster_queue].holders_by_rank.get(fr, [])
        return bool(ranked) and (policy == "Any" or ranked[0][0] < priority)

    def _largest_holders(self, tree: Tree, fr: int) -> list[tuple[Holder, Holder | None]]:
        """The largest holders of a flavor-resource, each as it is told to a queue that cannot reclaim from it, and to
        one that can; remembered for the verdicts of one event."""
        known = self.largest_holders.get((id(tree), fr))
        if known is None:
            ranked = []
            for queue in tree.queues:
                held = queue.usage.get(fr, 0)
                if held > 0:
                    borrowed = max(0, held - queue.nominal.get(fr, 0)) if queue.parent is not None else 0
                    ranked.append((-borrowed, -held, queue.name, queue))
            known = [self._holder(fr, queue, -borrowed) for borrowed, _, _, queue in nsmallest(HOLDERS_NAMED, ranked)]
            self.largest_holders[(id(tree), fr)] = known
        return known

    def _holder(self, fr: int, queue: ClusterQueueNode, borrowed: int) -> tuple[Holder, Holder | None]:
        flavor, resource = self._state.numbers.names[fr]
        holder = Holder(
            cluster_queue=queue.name,
            flavor=flavor,
            resource=resource,
            held=self._text(resource, queue.usage[fr]),
            nominal=self._text(resource, queue.nominal.get(fr, 0)),
            borrowed=self._text(resource, borrowed),
            reclaimable=False,
        )
        return holder, (msgspec.structs.replace(holder, reclaimable=True) if borrowed > 0 else None)


def reference(state: WorkloadState) -> WorkloadReference:
    return WorkloadReference(namespace=state.namespace, name=state.name, uid=state.workload.metadata.uid)


def path_of(queue: ClusterQueueNode) -> str:
    """R6.2: root cohort to queue, as messages on victims show it."""
    return "".join(f"/{node.name}" for node in reversed(queue.path))


def share_value(share: Share) -> ShareValue:
    weighted = share.weighted
    return ShareValue(share=None if weighted == float("inf") else weighted, weighted_share=share.reported)


@lru_cache(maxsize=1 << 14)
def amount_text(resource: str, amount: int, binary: bool) -> str:
    """A canonical quantity (admission 7.1.2, dra A8). Amounts repeat from record to record."""
    return canonical(resource, amount, (resource,) if binary else ())


def local_queue_reference(state: WorkloadState) -> LocalQueueReference | None:
    namespace, name = state.local_queue
    return LocalQueueReference(namespace=namespace, name=name) if name else None


def quantity_text(resource: str, amount: int, binary: bool) -> str:
    """A canonical quantity; `unlimited` for what is none (admission 0.4.1)."""
    return "unlimited" if amount >= MAXIMUM else amount_text(resource, amount, binary)
