"""WorkloadPriorityClasses (objects 1.6, admission 1.6)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.objects.scalars import Int32


class WorkloadPriorityClass(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A change of `value` rewrites the priority of every workload that names the class, running ones too."""

    metadata: ObjectMeta
    value: Int32
