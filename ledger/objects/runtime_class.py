"""RuntimeClasses: what a pod costs besides its containers (objects 1.12, admission 2.1.1)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.quantity import NonNegativeQuantity


class Overhead(msgspec.Struct, frozen=True, rename="camel", gc=False):
    pod_fixed: dict[str, NonNegativeQuantity] = {}


class RuntimeClass(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The overhead is at the top level: the kind has no spec."""

    metadata: ObjectMeta
    overhead: Overhead = Overhead()
