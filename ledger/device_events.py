"""Device objects as they arrive: what they cost workloads that wait is asked anew (dra 15)."""

from __future__ import annotations

from ledger.allocations import Allocations
from ledger.devices.index import DeviceIndex, WorkloadKey
from ledger.devices.objects import Allocation, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from ledger.objects.node import Node
from ledger.state import State
from ledger.workload_events import WorkloadEvents

DeviceObject = DeviceClass | ResourceClaim | ResourceClaimTemplate | ResourceSlice


class DeviceEvents:
    """Applies one object at a time to the index of devices; `None` for the new object means that it is gone."""

    def __init__(self, state: State, workloads: WorkloadEvents, allocations: Allocations) -> None:
        self._state = state
        self._workloads = workloads
        self._allocations = allocations

    @property
    def _index(self) -> DeviceIndex:
        return self._state.devices

    def device_object(self, old: DeviceObject | None, new: DeviceObject | None) -> None:
        version = self._index.version
        self._take(self._index.apply(old, new), version)
        if isinstance(new or old, DeviceClass):
            # What a row counts names the extended resources of its classes.
            for name, queue in self._state.forest.queues.items():
                self._state.dirty_rows.update((name, fr) for fr in {*queue.nominal, *queue.usage})
        if isinstance(new, ResourceSlice):
            self._allocations.slices()

    def claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Its allocation is what settlements are made of, and what is in the way of others. A new one frees nothing:
        wherever these devices are, they were its holder's already, or somebody's who was not known."""
        version = self._index.version
        keys = self._index.apply(old, new)
        freed = allocation_of(old) not in (None, allocation_of(new))
        self._take(keys, version if freed else self._index.version)
        if new is not None:
            self._allocations.claim(new, gone=False)
        elif old is not None:
            self._allocations.claim(old, gone=True)

    def node(self, old: Node | None, new: Node | None) -> None:
        version = self._index.version
        self._take(self._index.apply_node(old, new), version)

    def _take(self, keys: tuple[WorkloadKey, ...], version: int) -> None:
        """What waits for devices is looked at again if any changed, and what read the object is priced again."""
        if self._state.short_of_devices and self._index.version != version:
            self._state.retry_short_of_devices()
        self._price_again(keys)
        self._allocations.charges_of(keys)

    def _price_again(self, keys: tuple[WorkloadKey, ...]) -> None:
        """Q1, Q4: those whose last answer read what changed; who holds quota keeps its price (Q3)."""
        for key in keys:
            state = self._state.workloads.get(key)
            if state is not None:
                self._workloads.price_again(state)


def allocation_of(claim: ResourceClaim | None) -> Allocation | None:
    return claim.status.allocation if claim is not None else None
