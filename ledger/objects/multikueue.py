"""Kinds the ledger knows by name only: they explain waits, they decide nothing (objects 1.9 to 1.11)."""

from __future__ import annotations

import msgspec

from ledger.objects.condition import Conditions
from ledger.objects.metadata import ObjectMeta


class MultiKueueConfig(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta


class MultiKueueClusterStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    conditions: Conditions = ()


class MultiKueueCluster(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Never its kubeconfig."""

    metadata: ObjectMeta
    status: MultiKueueClusterStatus = MultiKueueClusterStatus()


class ProvisioningRequestConfig(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
