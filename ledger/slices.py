"""Workload slices of an elastic job: a larger slice takes over from the one that holds quota (admission 8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ledger.requests import PodSetRequests
from ledger.workloads import AssignedPodSet, WorkloadState

PODS = "pods"


class ReplacedSlice(NamedTuple):
    """The slice that another one replaces, and what its pod sets count now; `usage` is that per flavor-resource."""

    state: WorkloadState
    pod_sets: tuple[AssignedPodSet, ...]
    usage: dict[int, int]

    def flavors(self, pod_sets: Sequence[PodSetRequests]) -> list[Mapping[str, str]]:
        """The flavors to keep, for each pod set of the new slice."""
        held = {pod_set.name: pod_set.flavors for pod_set in self.pod_sets}
        return [held.get(pod_set.name, {}) for pod_set in pod_sets]

    def growth(self, pod_sets: Sequence[PodSetRequests]) -> list[PodSetRequests]:
        """Only the difference is requested, pod set by pod set."""
        held = {pod_set.name: pod_set for pod_set in self.pod_sets}
        grown = []
        for pod_set in pod_sets:
            old = held.get(pod_set.name)
            if old is not None:
                requests = {name: value - old.usage.get(name, 0) for name, value in pod_set.requests.items()}
                pod_set = PodSetRequests(pod_set.name, pod_set.count - old.count, requests)
            grown.append(pod_set)
        return grown


def whole(admitted: Sequence[AssignedPodSet], pod_sets: Sequence[PodSetRequests]) -> tuple[AssignedPodSet, ...]:
    """What a slice of which only the growth was assigned holds altogether."""
    found = []
    for assigned, pod_set in zip(admitted, pod_sets, strict=True):
        amounts = {**pod_set.requests, PODS: pod_set.count}
        usage = {name: amounts[name] for name in assigned.usage}
        found.append(assigned._replace(count=pod_set.count, usage=usage))
    return tuple(found)
