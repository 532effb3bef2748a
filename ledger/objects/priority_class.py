"""PriorityClasses of pods (objects 1.12)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.objects.scalars import Int32


class PriorityClass(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    value: Int32
    global_default: bool = False
