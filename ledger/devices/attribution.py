"""From an allocated claim to the workload it belongs to (dra 16.2).

Pods are not events, so a claim's pod is known by name only: the name its job gave it. The longest name of an owner
that fits wins, since `train-1-abcde` may be a pod of `train` or of `train-1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.devices.objects import ResourceClaim
from ledger.objects.workload import Workload

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
EXTENDED_RESOURCES = "extended-resources"
"""The slot of the claim that the scheduler makes for extended resources."""

_GENERATED = re.compile(r"-[a-z0-9-]+\Z")

WorkloadKey = tuple[str, str]


class Owners:
    """Workloads by the name of their owner: a job, or a pod that is its own workload."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], list[WorkloadKey]] = {}
        self._names: dict[WorkloadKey, tuple[str, ...]] = {}

    def apply(self, old: Workload | None, new: Workload | None) -> None:
        """Take in a change of a workload; `old` None is an addition, `new` None a deletion."""
        subject = new if new is not None else old
        if subject is None:
            return
        key = (subject.metadata.namespace, subject.metadata.name)
        names = () if new is None else tuple(sorted({owner.name for owner in new.metadata.owner_references}))
        if self._names.get(key, ()) == names:
            return
        for name in self._names.pop(key, ()):
            workloads = self._owners[key[0], name]
            workloads.remove(key)
            if not workloads:
                del self._owners[key[0], name]
        if names:
            self._names[key] = names
        for name in names:
            workloads = self._owners.setdefault((key[0], name), [])
            workloads.append(key)
            workloads.sort()

    def workloads_of(self, claim: ResourceClaim) -> tuple[WorkloadKey, ...]:
        """The workloads whose owner can have made the claim's pod; none means devices nobody accounts for."""
        namespace = claim.metadata.namespace
        for pod in pods_of(claim):
            for name in owner_names(pod):
                found = self._owners.get((namespace, name))
                if found:
                    return tuple(found)
        return ()


def pods_of(claim: ResourceClaim) -> list[str]:
    """The pods a claim is for: the one that owns it, else those it is reserved for."""
    owners = [owner.name for owner in claim.metadata.owner_references if owner.kind == "Pod"]
    return owners or [consumer.name for consumer in claim.status.reserved_for if consumer.resource == "pods"]


def owner_names(pod: str) -> Iterator[str]:
    """The pod's own name, then what is left of it part by part: an owner's pods are named after it."""
    yield pod
    position = pod.rfind("-")
    while position > 0:
        if _GENERATED.match(pod[position:]):
            yield pod[:position]
        position = pod.rfind("-", 0, position)


def slot_name(claim: ResourceClaim) -> str | None:
    """The pod's claim entry that the claim was made for, None where it does not say."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
        return EXTENDED_RESOURCES
    return claim.metadata.annotations.get(POD_CLAIM_NAME)
