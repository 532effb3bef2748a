"""Nodes (objects 1.12)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.quantity import Quantity


class NodeTaint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class NodeCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str
    status: str


class NodeStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    allocatable: dict[str, Quantity] = {}
    conditions: tuple[NodeCondition, ...] = ()


class Node(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(found.type == "Ready" and found.status == "True" for found in self.status.conditions)
