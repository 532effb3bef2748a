"""From JSON to objects: one typed decode, exact places in errors, nulls as Kubernetes reads them.

The fast path is a single typed decode. Only when that fails are the plain JSON values looked at: to drop nulls,
which Kubernetes takes for absent fields, and to find the entry that the decoder's error leaves open.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ledger.objects.admission_check import AdmissionCheck
from ledger.objects.cluster_queue import ClusterQueue
from ledger.objects.cohort import Cohort
from ledger.objects.configuration import Configuration
from ledger.objects.errors import InvalidObject
from ledger.objects.job import Job
from ledger.objects.kinds import Kind, kinds
from ledger.objects.limit_range import LimitRange
from ledger.objects.local_queue import LocalQueue
from ledger.objects.metadata import ObjectMeta
from ledger.objects.multikueue import MultiKueueCluster, MultiKueueConfig, ProvisioningRequestConfig
from ledger.objects.namespace import Namespace
from ledger.objects.nesting import GREATEST_DEPTH, is_too_deep
from ledger.objects.node import Node
from ledger.objects.priority_class import PriorityClass
from ledger.objects.resource_flavor import ResourceFlavor
from ledger.objects.runtime_class import RuntimeClass
from ledger.objects.scalars import decode_scalar
from ledger.objects.topology import Topology
from ledger.objects.workload import Workload
from ledger.objects.workload_priority_class import WorkloadPriorityClass


class UnknownKind(msgspec.Struct, frozen=True, gc=False):
    """A kind, or a version of one, that the ledger counts and skips."""

    api_version: str
    kind: str


KubernetesObject = (
    AdmissionCheck
    | ClusterQueue
    | Cohort
    | Configuration
    | Job
    | LimitRange
    | LocalQueue
    | MultiKueueCluster
    | MultiKueueConfig
    | Namespace
    | Node
    | PriorityClass
    | ProvisioningRequestConfig
    | ResourceFlavor
    | RuntimeClass
    | Topology
    | Workload
    | WorkloadPriorityClass
)
"""The kinds this package reads; those of `resource.k8s.io` are in `ledger.devices.objects`."""


class ObjectHeader(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""


class _Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta


_header_decoder = msgspec.json.Decoder(ObjectHeader)
_OPEN = "[...]"
_PLACE = re.compile(r" - at (?:`(key)` in )?`\$(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")


def decode_object(raw: bytes | msgspec.Raw) -> Any:
    """The object in the JSON, validated; `UnknownKind` where the ledger has no use for it.

    Raises InvalidObject with the place and the reason, and nothing else.
    """
    value = bytes(raw)
    if is_too_deep(value):
        raise InvalidObject("", f"is nested more than {GREATEST_DEPTH} levels deep")
    try:
        header = _header_decoder.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise described(error) from None
    kind = find_kind(header)
    if isinstance(kind, UnknownKind):
        return kind
    return decode_kind(value, kind)


def find_kind(header: ObjectHeader) -> Kind | UnknownKind:
    """Raises InvalidObject where the object does not say what it is."""
    kind = kinds().get((header.api_version, header.kind))
    if kind is not None:
        return kind
    if not header.kind:
        raise InvalidObject("kind", "is required")
    if not header.api_version:
        raise InvalidObject("apiVersion", "is required")
    return UnknownKind(header.api_version, header.kind)


def decode_kind(value: bytes, kind: Kind, *, inside: str | None = None, validate: bool = True) -> Any:
    """The object of a known kind; `inside` names the member of `value` that holds it."""
    found = _decode_typed(value, kind, inside)
    if validate:
        kind.validate(found)
    return found


def decode_deleted(value: bytes, kind: Kind, *, inside: str | None = None) -> Any:
    """A deleted object needs an identity only: what else it says is read where it can be, and never refused."""
    try:
        return _decode_typed(value, kind, inside)
    except InvalidObject:
        pass
    identity = _decode_with(value, inside, _Identity, None)
    try:
        return kind.type(metadata=identity.metadata)
    except TypeError:
        # The kind has a required spec. It is gone, so nothing will read it.
        return msgspec.structs.replace(_blank(kind), metadata=identity.metadata)


def _blank(kind: Kind) -> Any:
    return msgspec.convert(_BLANKS[kind.name], kind.type, dec_hook=decode_scalar)


_BLANKS: dict[str, dict[str, Any]] = {
    "AdmissionCheck": {"metadata": {"name": "deleted"}, "spec": {"controllerName": "deleted"}},
    "PriorityClass": {"metadata": {"name": "deleted"}, "value": 0},
    "ResourceSlice": {
        "metadata": {"name": "deleted"},
        "spec": {"driver": "deleted", "pool": {"name": "deleted", "resourceSliceCount": 1}},
    },
    "Topology": {"metadata": {"name": "deleted"}, "spec": {"levels": [{"nodeLabel": "deleted"}]}},
    "WorkloadPriorityClass": {"metadata": {"name": "deleted"}, "value": 0},
}


def _decode_typed(value: bytes, kind: Kind, inside: str | None) -> Any:
    return _decode_with(value, inside, kind.type, kind.convert)


_decoders: dict[tuple[Any, str | None], msgspec.json.Decoder[Any]] = {}


def _decoder(target: Any, inside: str | None) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get((target, inside))
    if decoder is None:
        if inside is not None:
            wrapped = msgspec.defstruct(f"{target.__name__}In{inside.title()}", [(inside, target)], gc=False)
            decoder = msgspec.json.Decoder(wrapped, dec_hook=decode_scalar)
        else:
            decoder = msgspec.json.Decoder(target, dec_hook=decode_scalar)
        _decoders[target, inside] = decoder
    return decoder


def _decode_with(value: bytes, inside: str | None, target: Any, convert: Any) -> Any:
    if convert is None:
        try:
            found = _decoder(target, inside).decode(value)
            return getattr(found, inside) if inside is not None else found
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            failure = described(error, inside)
    else:
        failure = None
    return _decode_plain(value, inside, target, convert, failure)


def _decode_plain(value: bytes, inside: str | None, target: Any, convert: Any, failure: InvalidObject | None) -> Any:
    """The slow way, over plain JSON values."""
    try:
        plain = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise described(error) from None
    if inside is not None:
        plain = plain[inside]
    if not isinstance(plain, dict):
        raise failure or InvalidObject("", "must be an object")
    metadata = plain.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    without_nulls(plain)
    if convert is not None:
        convert(plain)
    try:
        return msgspec.convert(plain, target, dec_hook=decode_scalar)
    except (msgspec.ValidationError, RecursionError, ValueError) as error:
        raise _pinpointed(described(error), plain, target) from None


def without_nulls(value: Any) -> None:
    """Drop members that are null, at any depth: Kubernetes reads them as absent."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            for name in [name for name, member in current.items() if member is None]:
                del current[name]
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)


def described(error: BaseException, inside: str | None = None) -> InvalidObject:
    """The decoder's error as a place and a reason."""
    if isinstance(error, RecursionError):
        return InvalidObject("", "is nested too deeply")
    text = str(error)
    match = _PLACE.search(text)
    path = match[2] if match is not None else ""
    if inside is not None:
        path = path.removeprefix(f".{inside}")
    reason = text if match is None else text[: match.start()]
    missing = _MISSING.fullmatch(reason)
    if missing is not None:
        path, reason = f"{path}.{missing[1]}", "is required"
    return InvalidObject(path.removeprefix("."), reason)


_STEP = re.compile(r"\[(?P<index>\d+)\]|(?P<open>\[\.\.\.\])|(?P<name>[^.\[]+)")


def _pinpointed(failure: InvalidObject, plain: Any, target: Any) -> InvalidObject:
    """The same failure with the names of map entries filled in, which the decoder leaves open. `plain` is used up."""
    if _OPEN not in failure.path:
        return failure
    holder, exact = plain, ""
    for step in _STEP.finditer(failure.path):
        if step["index"] is not None:
            holder, exact = holder[int(step["index"])], exact + step[0]
        elif step["name"] is not None:
            # The last name of the path may be a field that is missing.
            holder, exact = holder.get(step["name"]), f"{exact}.{step[0]}"
        else:
            name = _failing_entry(holder, failure, plain, target)
            holder, exact = holder[name], f"{exact}[{name}]"
    return InvalidObject(exact.removeprefix("."), failure.reason)


def _failing_entry(holder: dict[str, Any], failure: InvalidObject, plain: Any, target: Any) -> str:
    """The first entry of a map that fails, found by halving; it alone is left in the map."""
    entries = list(holder.items())
    good, bad = 0, len(entries)
    while bad - good > 1:
        middle = (good + bad) // 2
        holder.clear()
        holder.update(entries[:middle])
        if _fails_alike(failure, plain, target):
            bad = middle
        else:
            good = middle
    holder.clear()
    holder.update(entries[bad - 1 : bad])
    return entries[bad - 1][0]


def _fails_alike(failure: InvalidObject, plain: Any, target: Any) -> bool:
    try:
        msgspec.convert(plain, target, dec_hook=decode_scalar)
    except (msgspec.ValidationError, ValueError) as error:
        return described(error).path == failure.path
    return False
