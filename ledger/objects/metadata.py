"""What every Kubernetes object says about itself."""

from __future__ import annotations

import msgspec

from ledger.objects.scalars import ResourceVersion
from ledger.timestamps import Timestamp


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`resource_version` and `generation` are 0 where an object carries none, as hand-made events do."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: ResourceVersion = ResourceVersion(0)
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
