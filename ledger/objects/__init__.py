"""Kubernetes objects as the ledger reads them: typed, defaulted, validated (objects, admission 1)."""

from __future__ import annotations

from ledger.objects.admission_check import AdmissionCheck
from ledger.objects.cluster_queue import ClusterQueue
from ledger.objects.cohort import Cohort
from ledger.objects.condition import Condition
from ledger.objects.configuration import Configuration
from ledger.objects.decoding import KubernetesObject, UnknownKind, decode_object
from ledger.objects.errors import InvalidObject
from ledger.objects.job import Job
from ledger.objects.limit_range import LimitRange
from ledger.objects.local_queue import LocalQueue
from ledger.objects.metadata import ObjectMeta, OwnerReference
from ledger.objects.multikueue import MultiKueueCluster, MultiKueueConfig, ProvisioningRequestConfig
from ledger.objects.namespace import Namespace
from ledger.objects.node import Node
from ledger.objects.priority_class import PriorityClass
from ledger.objects.resource_flavor import ResourceFlavor
from ledger.objects.runtime_class import RuntimeClass
from ledger.objects.topology import Topology
from ledger.objects.workload import Workload, condition, is_true
from ledger.objects.workload_priority_class import WorkloadPriorityClass

__all__ = [
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "Condition",
    "Configuration",
    "InvalidObject",
    "Job",
    "KubernetesObject",
    "LimitRange",
    "LocalQueue",
    "MultiKueueCluster",
    "MultiKueueConfig",
    "Namespace",
    "Node",
    "ObjectMeta",
    "OwnerReference",
    "PriorityClass",
    "ProvisioningRequestConfig",
    "ResourceFlavor",
    "RuntimeClass",
    "Topology",
    "UnknownKind",
    "Workload",
    "WorkloadPriorityClass",
    "condition",
    "decode_object",
    "is_true",
]
