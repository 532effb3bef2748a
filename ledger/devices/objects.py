"""The four kinds of `resource.k8s.io/v1` (dra 1), as far as charging, feasibility and settlement read them.

Unknown fields are ignored, so a field of a newer Kubernetes never makes an object undecodable (dra G34).
Defaults are those an API server would have written (dra 1.4): a request without a mode asks for an exact
count, and one without a count asks for one device.
"""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.objects.pod import NodeSelector
from ledger.objects.scalars import Int64
from ledger.objects.taint import Toleration
from ledger.quantity import Quantity

EXACT_COUNT = "ExactCount"
ALL_DEVICES = "All"


class Expression(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The `cel` part of a selector."""

    expression: str = ""


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """One selector of a class, of a request or of a counting source; a device must satisfy all of a list."""

    cel: Expression = Expression()

    @property
    def text(self) -> str:
        return self.cel.expression


# --- DeviceClass (dra 1.3) -------------------------------------------------------------------------------------


class DeviceClassSpec(msgspec.Struct, frozen=True, rename="camel"):
    selectors: tuple[Selector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()


# --- ResourceSlice (dra 1.2) -----------------------------------------------------------------------------------


class Attribute(msgspec.Struct, frozen=True, rename="camel", cache_hash=True):
    """Exactly one of the fields is set; the lists are those of Kubernetes 1.36 and later (dra G25)."""

    string_value: str | None = msgspec.field(default=None, name="string")
    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    version_value: str | None = msgspec.field(default=None, name="version")
    string_values: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    int_values: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    version_values: tuple[str, ...] | None = msgspec.field(default=None, name="versions")


class ValidRange(msgspec.Struct, frozen=True, rename="camel"):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class RequestPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """How a driver rounds what is asked of a capacity that may be shared (dra 10 K3)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: ValidRange | None = None


class Capacity(msgspec.Struct, frozen=True, rename="camel"):
    value: Quantity
    request_policy: RequestPolicy | None = None


class Counter(msgspec.Struct, frozen=True, rename="camel", gc=False):
    value: Quantity


class CounterSet(msgspec.Struct, frozen=True, rename="camel"):
    """What a pool has to give out between the devices that consume from it."""

    name: str
    counters: dict[str, Counter] = {}


class CounterConsumption(msgspec.Struct, frozen=True, rename="camel"):
    """What one device takes out of one counter set."""

    counter_set: str
    counters: dict[str, Counter] = {}


class Taint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str
    effect: str = "None"
    value: str = ""


class Device(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    allow_multiple_allocations: bool = False
    taints: tuple[Taint, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    binding_conditions: tuple[str, ...] = ()


class Pool(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(msgspec.Struct, frozen=True, rename="camel"):
    driver: str
    pool: Pool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    spec: ResourceSliceSpec


# --- ResourceClaim and ResourceClaimTemplate (dra 1.4) ---------------------------------------------------------


class CapacityRequests(msgspec.Struct, frozen=True, rename="camel"):
    requests: dict[str, Quantity] = {}


class DeviceRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What both an `exactly` request and one alternative of `firstAvailable` ask for."""

    device_class_name: str = ""
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequests | None = None
    name: str = ""

    @property
    def mode(self) -> str:
        return self.allocation_mode or EXACT_COUNT

    @property
    def capacity_requests(self) -> dict[str, Quantity]:
        return self.capacity.requests if self.capacity is not None else {}


class ClaimRequest(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    exactly: DeviceRequest | None = None
    first_available: tuple[DeviceRequest, ...] = ()


class Constraint(msgspec.Struct, frozen=True, rename="camel"):
    """No requests named means all requests of the claim."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimDevices(msgspec.Struct, frozen=True, rename="camel"):
    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    devices: ClaimDevices = ClaimDevices()


class ClaimTemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    spec: ClaimTemplateSpec = ClaimTemplateSpec()


class AllocationResult(msgspec.Struct, frozen=True, rename="camel"):
    """One device given to one request; `request` is `name`, or `name/alternative` of firstAvailable."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] = {}


class AllocatedDevices(msgspec.Struct, frozen=True, rename="camel"):
    results: tuple[AllocationResult, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Who may use an allocated claim, nearly always a pod."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


DeviceObject = DeviceClass | ResourceSlice | ResourceClaim | ResourceClaimTemplate

KINDS: dict[str, type[DeviceClass] | type[ResourceSlice] | type[ResourceClaim] | type[ResourceClaimTemplate]] = {
    "DeviceClass": DeviceClass,
    "ResourceSlice": ResourceSlice,
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
}


def without_devices(slice_: ResourceSlice) -> ResourceSlice:
    """The same slice as a record of its being there, for whoever need not keep what the device index keeps."""
    spec = msgspec.structs.replace(slice_.spec, devices=(), shared_counters=())
    return msgspec.structs.replace(slice_, spec=spec)
