"""The kinds the ledger knows, by API version and kind (design 4, objects 1.0)."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from ledger.objects import validation
from ledger.objects.admission_check import AdmissionCheck
from ledger.objects.cluster_queue import ClusterQueue
from ledger.objects.cohort import Cohort
from ledger.objects.configuration import Configuration
from ledger.objects.conversion import CONVERSIONS
from ledger.objects.job import Job
from ledger.objects.limit_range import LimitRange
from ledger.objects.local_queue import LocalQueue
from ledger.objects.multikueue import MultiKueueCluster, MultiKueueConfig, ProvisioningRequestConfig
from ledger.objects.namespace import Namespace
from ledger.objects.node import Node
from ledger.objects.priority_class import PriorityClass
from ledger.objects.resource_flavor import ResourceFlavor
from ledger.objects.runtime_class import RuntimeClass
from ledger.objects.topology import Topology
from ledger.objects.workload import Workload
from ledger.objects.workload_priority_class import WorkloadPriorityClass

KUEUE = "kueue.x-k8s.io"
V1BETA1 = f"{KUEUE}/v1beta1"
V1BETA2 = f"{KUEUE}/v1beta2"
CONFIGURATION = "config.kueue.x-k8s.io/v1beta2"


class Kind(msgspec.Struct, frozen=True):
    """How one kind is read: its type, what is refused, and the rewriting an old version needs."""

    name: str
    type: Any
    validate: validation.Validator
    convert: Any = None


_KUEUE_KINDS: tuple[tuple[type[Any], validation.Validator], ...] = (
    (AdmissionCheck, validation.validate_admission_check),
    (ClusterQueue, validation.validate_cluster_queue),
    (Cohort, validation.validate_cohort),
    (LocalQueue, validation.validate_local_queue),
    (MultiKueueCluster, validation.validate_cluster_scoped),
    (MultiKueueConfig, validation.validate_cluster_scoped),
    (ProvisioningRequestConfig, validation.validate_cluster_scoped),
    (ResourceFlavor, validation.validate_resource_flavor),
    (Topology, validation.validate_topology),
    (Workload, validation.validate_workload),
    (WorkloadPriorityClass, validation.validate_cluster_scoped),
)

_COMPANIONS: tuple[tuple[str, type[Any], validation.Validator], ...] = (
    (CONFIGURATION, Configuration, validation.validate_configuration),
    ("v1", LimitRange, validation.validate_namespaced),
    ("v1", Namespace, validation.validate_cluster_scoped),
    ("v1", Node, validation.validate_cluster_scoped),
    ("batch/v1", Job, validation.validate_namespaced),
    ("node.k8s.io/v1", RuntimeClass, validation.validate_cluster_scoped),
    ("scheduling.k8s.io/v1", PriorityClass, validation.validate_cluster_scoped),
)

_DEVICE_KINDS_IN_NAMESPACES = frozenset({"ResourceClaim", "ResourceClaimTemplate"})


@cache
def kinds() -> dict[tuple[str, str], Kind]:
    """Every known kind by (apiVersion, kind). Made on first use, because the device kinds build on this package."""
    from ledger.devices.objects import KINDS as DEVICE_KINDS

    known: dict[tuple[str, str], Kind] = {}
    for struct, validate in _KUEUE_KINDS:
        name = struct.__name__
        known[V1BETA1, name] = Kind(name, struct, validate, CONVERSIONS.get(name))
        known[V1BETA2, name] = Kind(name, struct, validate)
    for version, struct, validate in _COMPANIONS:
        known[version, struct.__name__] = Kind(struct.__name__, struct, validate)
    for name, device_type in DEVICE_KINDS.items():
        namespaced = name in _DEVICE_KINDS_IN_NAMESPACES
        check = validation.validate_namespaced if namespaced else validation.validate_cluster_scoped
        known["resource.k8s.io/v1", name] = Kind(name, device_type, check)
    return known
