"""The records of `quota.decisions` (design 6): one closed list of types, hash-chained per cluster.

Field order in these structs is the order in the canonical bytes. Amounts are canonical Kubernetes quantities; nested
maps are flavor -> resource -> quantity. The hash is BLAKE2b-256 over the record without its field `hash`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from ledger.devices.charges import RequestCharge

GENESIS: Final = "0" * 64
"""`prev` of the first decision of a cluster."""

RULES_VERSION: Final = 2
"""Grows whenever the same events would be decided otherwise; each decision carries it."""

Amounts = dict[str, dict[str, str]]
"""Flavor -> resource -> quantity."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class Cause(_Part, frozen=True, kw_only=True):
    """The event that made the decision; `index` is the place inside a BATCH, 0 otherwise."""

    topic: str
    partition: int
    offset: int
    index: int


class WorkloadReference(_Part, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str


class LocalQueueReference(_Part, frozen=True, kw_only=True):
    namespace: str
    name: str


class PreemptorReference(_Part, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    cluster_queue: str


class PodSetReservation(_Part, frozen=True, kw_only=True):
    """`usage` is for all `count` pods."""

    name: str
    count: int
    flavors: dict[str, str]
    usage: dict[str, str]


class FlavorPassedOver(_Part, frozen=True, kw_only=True):
    """A flavor that was looked at and not taken. `missing` is what it lacked, where it lacked quota."""

    pod_set: str
    flavor: str
    resource: str
    reason: str
    missing: str = ""


class Missing(_Part, frozen=True, kw_only=True):
    """One flavor-resource that lacks room.

    `requested` is what the workload needs there, `maximum` what it could ever get.
    """

    pod_set: str
    flavor: str
    resource: str
    requested: str
    available: str
    maximum: str
    missing: str


class Holder(_Part, frozen=True, kw_only=True):
    """Who holds what is missing.

    `reclaimable` says whether some of it is borrowed and the waiting queue may reclaim it.
    """

    cluster_queue: str
    flavor: str
    resource: str
    held: str
    nominal: str
    borrowed: str
    reclaimable: bool


class ShareValue(_Part, frozen=True, kw_only=True):
    """A dominant resource share; `share` is absent where it is infinite (weight 0 while borrowing)."""

    share: float | None
    weighted_share: int


class PreemptionShares(_Part, frozen=True, kw_only=True):
    """Shares of the two nodes below the lowest common cohort: with the preemptor's request, and of the victim's side
    before and after the victim is gone."""

    preemptor: ShareValue
    victim_before: ShareValue
    victim_after: ShareValue


class QuotaValues(_Part, frozen=True, kw_only=True):
    """Declared quota of one row; an absent limit is no limit. `unlimited` is a nominal quota beyond 64 bits."""

    nominal: str
    borrowing_limit: str | None = None
    lending_limit: str | None = None


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    seq: int
    cluster: str
    at: str
    cause: Cause
    rules: str


class QuotaReserved(_Record, frozen=True, kw_only=True, tag="QuotaReserved"):
    """Quota is taken. `position` is how many waiting workloads stood before it, parked ones included; `claims` is how
    each request for devices came to its amount per pod."""

    workload: WorkloadReference
    cluster_queue: str
    local_queue: LocalQueueReference | None = None
    pod_sets: list[PodSetReservation]
    borrowed: Amounts = {}
    cycle: int
    position: int
    considered: list[FlavorPassedOver] = []
    claims: list[RequestCharge] = []
    prev: str
    hash: str = ""


class Recorded(_Record, frozen=True, kw_only=True, tag="Recorded"):
    """Quota that somebody else decided over is charged as an object shows it (design 5): a reservation that comes with
    its workload or differs from the one decided here, its admission, its eviction, or that an eviction was undone.
    `usage` is what counts of it, less the pods that were given back."""

    workload: WorkloadReference
    cluster_queue: str
    local_queue: LocalQueueReference | None = None
    pod_sets: list[PodSetReservation]
    usage: Amounts
    admitted: bool
    evicted: str = ""
    prev: str
    hash: str = ""


class Admitted(_Record, frozen=True, kw_only=True, tag="Admitted"):
    """All admission checks are ready."""

    workload: WorkloadReference
    cluster_queue: str
    prev: str
    hash: str = ""


class Preempted(_Record, frozen=True, kw_only=True, tag="Preempted"):
    """A victim is chosen. `needed` is what would be missing for the preemptor if this victim alone stayed; the paths
    are those of the two queues from the root cohort down."""

    workload: WorkloadReference
    cluster_queue: str
    reason: str
    rule: str
    preemptor: PreemptorReference
    preemptor_path: str
    victim_path: str
    priority: int
    preemptor_priority: int
    usage: Amounts
    needed: Amounts = {}
    shares: PreemptionShares | None = None
    cycle: int
    prev: str
    hash: str = ""


class Evicted(_Record, frozen=True, kw_only=True, tag="Evicted"):
    """Quota must be given back for another reason than preemption; `reason` is Kueue's."""

    workload: WorkloadReference
    cluster_queue: str
    reason: str
    message: str = ""
    prev: str
    hash: str = ""


class Released(_Record, frozen=True, kw_only=True, tag="Released"):
    """Quota went back; `usage` is what was charged until then, or the part of it that went back."""

    workload: WorkloadReference
    cluster_queue: str
    reason: str
    usage: Amounts
    prev: str
    hash: str = ""


class Requeued(_Record, frozen=True, kw_only=True, tag="Requeued"):
    """Back in the queue; not offered before `not_before` where that is given."""

    workload: WorkloadReference
    cluster_queue: str
    reason: str
    not_before: str = ""
    prev: str
    hash: str = ""


class Dequeued(_Record, frozen=True, kw_only=True, tag="Dequeued"):
    """A workload that waited, as some `Pending`, `Requeued`, `Inadmissible` or `Released` said, does so no more, and
    got no quota."""

    workload: WorkloadReference
    reason: str
    prev: str
    hash: str = ""


class Pending(_Record, frozen=True, kw_only=True, tag="Pending"):
    """The verdict on a waiting workload changed; without `cluster_queue` it is in no queue. `members` and `round` name
    a preemption loop that was stopped, `in_the_way` the workloads and claims that have the devices it would need."""

    workload: WorkloadReference
    cluster_queue: str
    local_queue: LocalQueueReference | None = None
    reason: str
    message: str = ""
    missing: list[Missing] = []
    held_by: list[Holder] = []
    considered: list[FlavorPassedOver] = []
    members: list[str] = []
    round: list[int] = []
    in_the_way: list[str] = []
    prev: str
    hash: str = ""


class Inadmissible(_Record, frozen=True, kw_only=True, tag="Inadmissible"):
    """It cannot be decided as it is."""

    workload: WorkloadReference
    cluster_queue: str = ""
    reason: str
    message: str
    prev: str
    hash: str = ""


class ShareChanged(_Record, frozen=True, kw_only=True, tag="ShareChanged"):
    """The dominant resource share of a ClusterQueue or a Cohort changed, or a sample moved the consumption of a
    LocalQueue; exactly one of the three is named. Of a LocalQueue the share is its usage (preemption R7.16), and
    `consumed` is what it comes from, without penalties."""

    cluster_queue: str = ""
    cohort: str = ""
    local_queue: LocalQueueReference | None = None
    share: float | None
    weighted_share: int
    dominant_resource: str = ""
    weight: float
    consumed: dict[str, str] = {}
    prev: str
    hash: str = ""


class QuotaChanged(_Record, frozen=True, kw_only=True, tag="QuotaChanged"):
    """Declared quota of one row changed; `before` is absent for a new row, `after` for one that is gone."""

    cluster_queue: str = ""
    cohort: str = ""
    flavor: str
    resource: str
    before: QuotaValues | None = None
    after: QuotaValues | None = None
    prev: str
    hash: str = ""


class QueueChanged(_Record, frozen=True, kw_only=True, tag="QueueChanged"):
    """Whether a queue takes workloads, or what its status is arranged by, changed; reason and message are those of its
    condition `Active` (objects 4.1, 4.3), or the reason is `Deleted`. Of a LocalQueue `cluster_queue` is where it
    leads; `cohort` and `flavors`, in the order of the specification, are those of a ClusterQueue."""

    cluster_queue: str
    local_queue: LocalQueueReference | None = None
    active: bool
    reason: str
    message: str = ""
    cohort: str = ""
    flavors: list[str] = []
    prev: str
    hash: str = ""


class Settled(_Record, frozen=True, kw_only=True, tag="Settled"):
    """What the claims of a workload are really given, against what it was charged for devices, by quota key.

    `difference` is `allocated` less `charged`; of `slots` claims so many are `settled`, the others stand in `allocated`
    with their charge. `unresolved` are devices about which too little is known to price them.
    """

    workload: WorkloadReference
    cluster_queue: str
    charged: dict[str, str]
    allocated: dict[str, str]
    difference: dict[str, str] = {}
    slots: int
    settled: int
    devices: list[str] = []
    unresolved: list[str] = []
    prev: str
    hash: str = ""


Decision = (
    QuotaReserved
    | Recorded
    | Admitted
    | Preempted
    | Evicted
    | Released
    | Requeued
    | Dequeued
    | Pending
    | Inadmissible
    | ShareChanged
    | QuotaChanged
    | QueueChanged
    | Settled
)

DECISION_TYPES: Final = (
    QuotaReserved,
    Recorded,
    Admitted,
    Preempted,
    Evicted,
    Released,
    Requeued,
    Dequeued,
    Pending,
    Inadmissible,
    ShareChanged,
    QuotaChanged,
    QueueChanged,
    Settled,
)


class DecisionRecord(NamedTuple):
    """A decision as it is written: `value` are the canonical bytes with `prev` and `hash`."""

    cluster: str
    seq: int
    value: bytes
    hash: str


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Decision)


def encode_decision(decision: Decision) -> DecisionRecord:
    """The record with its hash; `decision.hash` must be empty."""
    body = _encoder.encode(decision)
    digest = blake2b(body, digest_size=32).hexdigest()
    return DecisionRecord(decision.cluster, decision.seq, b'%b,"hash":"%b"}' % (body[:-1], digest.encode()), digest)


def decode_decision(value: bytes) -> Decision:
    """Raises msgspec.ValidationError or msgspec.DecodeError where the bytes are no decision."""
    return _decoder.decode(value)


def hash_of(value: bytes) -> str:
    """The hash that the bytes of a record should carry."""
    body, _, _ = value.rpartition(b',"hash":"')
    return blake2b(body + b"}", digest_size=32).hexdigest()
