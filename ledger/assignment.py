"""The result of looking for flavors for one workload (admission 5.3.12 to 5.3.15, 5.5.2, 5.8.4)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from ledger.workloads import AssignedPodSet, PassedOver, Shortage


class Mode(IntEnum):
    """How an assignment, a pod set or a resource can be had (admission 0.2)."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


class SearchMode(IntEnum):
    """How one resource can be had on one flavor (admission 0.2, R1.8)."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Blocker(IntEnum):
    """5.8.4: severities of what keeps a flavor from fitting."""

    NONE = 0
    WAITING_FOR_QUOTA = 2
    EXCEEDS_MAX_QUOTA = 3
    NO_MATCHING_FLAVOR = 4


REASON_OF_BLOCKER: Final = {
    Blocker.NONE: "NoMatchingFlavor",
    Blocker.WAITING_FOR_QUOTA: "WaitingForQuota",
    Blocker.EXCEEDS_MAX_QUOTA: "ExceedsMaxQuota",
    Blocker.NO_MATCHING_FLAVOR: "NoMatchingFlavor",
}


class ResourceAssignment(msgspec.Struct, frozen=True, gc=False):
    """The flavor of one resource: its flavor-resource number, mode, borrowing level, and the last flavor looked at."""

    flavor: str
    flavor_resource: int
    mode: Mode
    level: int
    tried: int


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One flavor that a search looked at: where (pod set, resource group), and the worst that stood in its way."""

    pod_set: int
    group: int
    flavor: str
    mode: SearchMode
    blocker: Blocker


class PodSetAssignment(msgspec.Struct, frozen=True, gc=False):
    """One pod set of an assignment. `requests` includes the implicit resource pods where it is covered (2.8.1)."""

    name: str
    count: int
    requests: dict[str, int]
    flavors: dict[str, ResourceAssignment]
    mode: Mode


class Assignment:
    """Flavors for a whole workload, as far as they were found."""

    __slots__ = ("attempts", "level", "mode", "passed_over", "pod_sets", "requests", "shortages", "usage")

    def __init__(self) -> None:
        self.pod_sets: list[PodSetAssignment] = []
        self.usage: dict[int, int] = {}
        self.requests: dict[int, int] = {}
        self.mode = Mode.FIT
        self.level = 0
        self.attempts: list[Attempt] = []
        self.shortages: list[Shortage] = []
        self.passed_over: list[PassedOver] = []

    def append(self, pod_set: PodSetAssignment) -> None:
        """Add a pod set: its usage joins, the mode falls to the lowest, the level rises to the highest (5.3.13)."""
        self.pod_sets.append(pod_set)
        if pod_set.mode < self.mode:
            self.mode = pod_set.mode
        for resource, assigned in pod_set.flavors.items():
            fr, amount = assigned.flavor_resource, pod_set.requests[resource]
            self.usage[fr] = self.usage.get(fr, 0) + amount
            if resource != "pods" and amount != 0:
                self.requests[fr] = self.requests.get(fr, 0) + amount
            if assigned.level > self.level:
                self.level = assigned.level

    def tried(self) -> tuple[dict[str, int], ...]:
        """5.5.2: per pod set and resource the index of the last flavor looked at."""
        return tuple([{r: a.tried for r, a in pod_set.flavors.items()} for pod_set in self.pod_sets])

    def contested(self) -> frozenset[int]:
        """5.9: every flavor-resource whose own mode is Preempt."""
        return frozenset(
            assigned.flavor_resource
            for pod_set in self.pod_sets
            for assigned in pod_set.flavors.values()
            if assigned.mode is Mode.PREEMPT
        )

    def pinned_flavors(self) -> tuple[dict[str, str], ...]:
        """5.7.3: the flavor nominated for each resource of each pod set."""
        return tuple({r: a.flavor for r, a in pod_set.flavors.items()} for pod_set in self.pod_sets)

    def to_admit(self) -> tuple[AssignedPodSet, ...]:
        """7.1.1: usage for exactly the resources that got a flavor."""
        return tuple(
            AssignedPodSet(
                pod_set.name,
                pod_set.count,
                {resource: pod_set.flavors[resource].flavor for resource in sorted(pod_set.flavors)},
                {resource: pod_set.requests[resource] for resource in sorted(pod_set.flavors)},
            )
            for pod_set in self.pod_sets
        )

    def no_fit_reason(self) -> str:
        """5.8.4: the mildest blocker inside a resource group, over groups and pod sets the most severe one."""
        worst = Blocker.NONE
        for index, pod_set in enumerate(self.pod_sets):
            if pod_set.mode is not Mode.NO_FIT:
                continue
            by_group: dict[int, Blocker] = {}
            for attempt in self.attempts:
                if attempt.pod_set == index and attempt.mode is SearchMode.NO_FIT:
                    by_group[attempt.group] = min(by_group.get(attempt.group, attempt.blocker), attempt.blocker)
            worst = max(worst, max(by_group.values(), default=Blocker.NO_MATCHING_FLAVOR))
        return REASON_OF_BLOCKER[worst]
