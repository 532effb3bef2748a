"""Topologies (objects 1.8)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ledger.objects.metadata import ObjectMeta


class TopologyLevel(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_label: Annotated[str, msgspec.Meta(min_length=1, max_length=316)]


class TopologySpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    levels: Annotated[tuple[TopologyLevel, ...], msgspec.Meta(min_length=1, max_length=16)]


class Topology(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: TopologySpec
