"""Namespaces: their labels decide which ClusterQueues take their workloads (objects 1.12)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta


class Namespace(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
