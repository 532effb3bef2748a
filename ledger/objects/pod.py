"""The parts of a pod template that decide what a pod asks for and where it may run (objects 1.5, admission 2)."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.objects.scalars import Int32
from ledger.objects.taint import Toleration
from ledger.quantity import NonNegativeQuantity, Quantity


class ContainerClaim(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A container's use of one of the pod's resource claims."""

    name: str
    request: str = ""


class ResourceRequirements(msgspec.Struct, frozen=True, rename="camel", gc=False):
    requests: dict[str, NonNegativeQuantity] = {}
    limits: dict[str, NonNegativeQuantity] = {}
    claims: tuple[ContainerClaim, ...] = ()


NO_RESOURCES = ResourceRequirements()


class ContainerPort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")
    name: str = ""


class Container(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`restart_policy` `Always` makes an init container a sidecar (admission 2.2.1)."""

    name: str = ""
    resources: ResourceRequirements = NO_RESOURCES
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()


class NodeRequirement(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An expression on the labels (or fields) of a node. An operator nobody knows is an error when it is read."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """All expressions of a term must hold; terms are alternatives."""

    match_expressions: tuple[NodeRequirement, ...] = ()
    match_fields: tuple[NodeRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Any = msgspec.field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Only required node affinity decides; the rest is kept because it is part of a workload's shape (4.5.5)."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: Any = None
    pod_anti_affinity: Any = None


class PodResourceClaim(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A device claim of the pod: a template makes one claim a pod, a name refers to an existing claim."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    runtime_class_name: str | None = None
    overhead: dict[str, Quantity] = {}
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    priority: Int32 | None = None
    priority_class_name: str = ""
    topology_spread_constraints: Any = None


class PodTemplate(msgspec.Struct, frozen=True, rename="camel", gc=False):
    spec: PodSpec = PodSpec()
