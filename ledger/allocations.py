"""Which allocated claims belong to which workload, and what each of them costs (dra 16.2, 16.3).

A claim may be seen before its workload, its class or its slices: claims are found by the names their pods can have
come from, and priced when they are first asked for. A price is kept for as long as the allocation is the same: slices
that arrive later never rewrite it, but where they were missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ledger.devices.attribution import EXTENDED_RESOURCES, Owners, WorkloadKey, owner_names, pods_of
from ledger.devices.charges import DeviceCharges
from ledger.devices.charging import mappings_of
from ledger.devices.objects import Allocation, ResourceClaim
from ledger.devices.settlement import ActualCost, actual_cost, settle
from ledger.objects.workload import PodSet, Workload
from ledger.state import State
from ledger.workloads import AssignedPodSet, Reductions, SettledClaims, WorkloadState

ClaimKey = tuple[str, str]
SETTLED = "Settled"


class AllocatedClaim(NamedTuple):
    """A claim that has devices. `names` are those of whom its pod may belong to, `owners` the workloads found there."""

    allocation: Allocation
    names: tuple[str, ...]
    owners: tuple[WorkloadKey, ...]


class Allocations:
    """The allocated claims of one cluster. `changed` names the workloads to settle, with whether an allocation of
    theirs is new."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._owners = Owners()
        self._claims: dict[ClaimKey, AllocatedClaim] = {}
        self._costs: dict[ClaimKey, ActualCost] = {}
        self._unresolved: set[ClaimKey] = set()
        self._by_name: dict[tuple[str, str], set[ClaimKey]] = {}
        self._by_workload: dict[WorkloadKey, set[ClaimKey]] = {}
        self.changed: dict[WorkloadKey, bool] = {}

    # Changes

    def claim(self, claim: ResourceClaim, *, gone: bool) -> None:
        """J3: an allocation that is seen again changes nothing."""
        key = (claim.metadata.namespace, claim.metadata.name)
        known = self._claims.get(key)
        allocation = claim.status.allocation if not gone else None
        if allocation is None:
            if known is not None:
                self._forget(key, known)
            return
        names = tuple(dict.fromkeys(name for pod in pods_of(claim) for name in owner_names(pod)))
        if known is not None and (known.allocation, known.names) == (allocation, names):
            return
        if known is not None:
            self._forget(key, known)
        for name in names:
            self._by_name.setdefault((key[0], name), set()).add(key)
        self._claims[key] = AllocatedClaim(allocation, names, ())
        self._attribute(key)

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """A workload that is new, changed or gone: claims may have been waiting for it."""
        subject = new if new is not None else old
        if subject is None:
            return
        key = (subject.metadata.namespace, subject.metadata.name)
        if old is None or new is None or old.metadata.owner_references != new.metadata.owner_references:
            self._owners.apply(old, new)
            owners = [*(old.metadata.owner_references if old is not None else ())]
            owners += new.metadata.owner_references if new is not None else ()
            for name in sorted({owner.name for owner in owners}) if self._claims else ():
                for claim in sorted(self._by_name.get((key[0], name), ())):
                    self._attribute(claim)
        if key in self._by_workload:
            self.changed.setdefault(key, False)

    def slices(self) -> None:
        """Devices that were unknown when they were allocated may be known now (dra 16.3)."""
        for claim in sorted(self._unresolved):
            self._costs.pop(claim, None)
            self._mark(self._claims[claim].owners)
        self._unresolved.clear()

    def charges_of(self, keys: Iterable[WorkloadKey]) -> None:
        """What kept a fact from being priced has changed."""
        for key in keys:
            if key in self._by_workload:
                self.changed.setdefault(key, False)

    def restart(self) -> None:
        """A new Configuration: other keys, another policy."""
        self._costs.clear()
        self._unresolved.clear()
        self._mark(sorted(self._by_workload), new=True)

    def _forget(self, key: ClaimKey, known: AllocatedClaim) -> None:
        del self._claims[key]
        self._costs.pop(key, None)
        self._unresolved.discard(key)
        for name in known.names:
            claims = self._by_name[key[0], name]
            claims.discard(key)
            if not claims:
                del self._by_name[key[0], name]
        self._unlink(key, known.owners)
        self._mark(known.owners)

    def _attribute(self, key: ClaimKey) -> None:
        known = self._claims[key]
        owners = self._owners.workloads_of(self._state.devices.claims[key])
        if owners == known.owners:
            return
        self._unlink(key, known.owners)
        for owner in owners:
            self._by_workload.setdefault(owner, set()).add(key)
        self._claims[key] = known._replace(owners=owners)
        self._mark(known.owners)
        self._mark(owners, new=True)

    def _unlink(self, key: ClaimKey, owners: Iterable[WorkloadKey]) -> None:
        for owner in owners:
            claims = self._by_workload[owner]
            claims.discard(key)
            if not claims:
                del self._by_workload[owner]

    def _mark(self, workloads: Iterable[WorkloadKey], *, new: bool = False) -> None:
        for key in workloads:
            self.changed[key] = self.changed.get(key, False) or new

    # Answers

    def of(self, state: WorkloadState) -> list[ClaimKey]:
        """The allocated claims of a workload, ascending. Where several share an owner, the first that holds quota has
        them: slices of one elastic job."""
        return [key for key in sorted(self._by_workload.get(state.key, ())) if self._holder(self._claims[key]) is state]

    def _holder(self, claim: AllocatedClaim) -> WorkloadState | None:
        for key in claim.owners:
            state = self._state.workloads.get(key)
            if state is not None and state.reservation is not None:
                return state
        return None

    def settled(self, state: WorkloadState) -> SettledClaims | None:
        """What the workload is charged against what its claims have; None as long as none ever had anything."""
        reservation, claims = state.reservation, self.of(state)
        assert reservation is not None
        charges = self._charges(state) if claims or reservation.settled is not None else None
        if charges is None:
            return None
        costs = [self._cost(claim) for claim in claims]
        pods = {pod_set.name: pod_set.count for pod_set in self._state.live_pod_sets(state)}
        devices = sorted({device for cost in costs for device in cost.devices})
        return SettledClaims(settle(charges, pods, costs), tuple(devices))

    def _charges(self, state: WorkloadState) -> DeviceCharges | None:
        """Of a fact they are worked out from what is known by now, once."""
        reservation = state.reservation
        if state.charges is None and reservation is not None:
            answer = self._state.devices.charges(state.workload, self._state.configuration)
            if isinstance(answer, DeviceCharges):
                state.charges = as_recorded(answer, reservation.pod_sets)
        return state.charges

    def _cost(self, key: ClaimKey) -> ActualCost:
        known = self._costs.get(key)
        if known is None:
            index = self._state.devices
            known = actual_cost(index, mappings_of(index, self._state.configuration), index.claims[key])
            assert known is not None
            self._costs[key] = known
            if known.unresolved:
                self._unresolved.add(key)
        return known

    def pods_with_devices(self, state: WorkloadState) -> dict[str, int]:
        """How many pods of each pod set have devices already. A pod's claims are allocated together, so one counts for
        all; a claim goes to the first pod set with such an entry and room for another pod."""
        slots: dict[str | None, int] = {}
        for key in self.of(state):
            slot = self._cost(key).slot
            slots[slot] = slots.get(slot, 0) + 1
        found: dict[str, int] = {}
        if not slots:
            return found
        specs = {pod_set.name: pod_set for pod_set in state.workload.spec.pod_sets}
        for live in self._state.live_pod_sets(state):
            names = _slots_of(specs[live.name]) if live.name in specs else []
            taken = min(live.count, max((slots.get(name, 0) for name in names), default=0))
            for name in names:
                slots[name] = max(0, slots.get(name, 0) - taken)
            found[live.name] = taken
        return found


def as_recorded(charges: DeviceCharges, pod_sets: Iterable[AssignedPodSet]) -> DeviceCharges:
    """A fact is charged what it records, whatever its devices cost by now; dear requests give way first."""
    requests = list(charges.requests)
    for pod_set in pod_sets:
        for key, amount in charges.pod_set(pod_set.name).added.items():
            excess = amount - pod_set.usage.get(key, 0) // max(1, pod_set.count)
            places = [i for i, each in enumerate(requests) if (each.pod_set, each.key) == (pod_set.name, key)]
            for place in sorted(places, key=lambda i: -requests[i].amount):
                left = max(0, requests[place].amount - excess)
                excess -= requests[place].amount - left
                requests[place] = msgspec.structs.replace(requests[place], amount=left)
    return msgspec.structs.replace(charges, requests=tuple(requests))


def reductions_of(settled: SettledClaims | None) -> Reductions:
    """How much less than its charge each pod set counts, by key: never more than was charged (16.5 shrink)."""
    found = {
        name: {key: amount for key, amount in amounts.items() if amount < 0}
        for name, amounts in (settled.settlement.by_pod_set.items() if settled is not None else ())
    }
    return {name: amounts for name, amounts in found.items() if amounts}


def _slots_of(pod_set: PodSet) -> list[str]:
    return [*(entry.name for entry in pod_set.template.spec.resource_claims), EXTENDED_RESOURCES]
