"""LocalQueues (objects 1.3, admission 1.3)."""

from __future__ import annotations

import msgspec

from ledger.objects.cluster_queue import StopPolicy
from ledger.objects.metadata import ObjectMeta
from ledger.objects.quota import FairSharing
from ledger.quantity import Quantity
from ledger.timestamps import Timestamp


class LocalQueueSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    cluster_queue: str = ""
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing = FairSharing()


class AdmissionFairSharingStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    consumed_resources: dict[str, Quantity] = {}
    last_update: Timestamp | None = None


class FairSharingStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What Kueue knew of the queue's consumption, for a ledger that takes over from it."""

    fair_sharing: FairSharingStatus | None = None


class LocalQueue(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()
