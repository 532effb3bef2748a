"""ResourceFlavors (objects 1.4, admission 1.4)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.objects.taint import Taint, Toleration


class ResourceFlavorSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_labels: Annotated[dict[str, str], msgspec.Meta(max_length=8)] = {}
    node_taints: Annotated[tuple[Taint, ...], msgspec.Meta(max_length=8)] = ()
    tolerations: Annotated[tuple[Toleration, ...], msgspec.Meta(max_length=8)] = ()
    topology_name: str | None = None


class ResourceFlavor(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: ResourceFlavorSpec = ResourceFlavorSpec()
