"""Objects as people and the Kubernetes tools write them, made into events.

An object that comes from an API server has a uid and a creationTimestamp and goes into its event as it was written.
One that was written by hand lacks them, and gets them the same way each time it is read: a namespace where its kind has
one, a uid from its name, and a creationTimestamp from its place and the time that creation is counted from; where it
has only a generateName, a name from the same two. It gets no resourceVersion: an object without one counts whenever it
differs from what is known of it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ledger.timestamps import Timestamp, format_timestamp
from topics.sources.cluster import ABSENT, with_cluster
from topics.sources.moments import newest_moment
from topics.sources.packing import Unreadable, packed

NAMESPACED = frozenset(
    {
        "Job",
        "LimitRange",
        "LocalQueue",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "Workload",
    }
)
_SUFFIX_SIGNS = "bcdfghjklmnpqrstvwxz2456789"
"""The signs that an API server makes generated names of: no vowels, nothing that reads like another."""

_IDENTITY = uuid.UUID("6f0f6a4c-8e0a-5a2b-9f43-5b1d4a1f7c11")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    creation_timestamp: str | None = None


class _Head(msgspec.Struct, rename="camel"):
    """What a document is: an event (type, no kind), a List, or an object."""

    type: str | None = None
    api_version: str = ""
    kind: str | None = None
    items: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ObjectReader:
    """Turns documents into events and counts places while doing so."""

    def __init__(self, cluster: str | None = None, created: int = 0) -> None:
        self.cluster = cluster
        self.created = created
        self.place = 0
        self._cluster_field = b"" if cluster is None else b'"cluster":' + msgspec.json.encode(cluster) + b","

    def documents(self, documents: Iterable[bytes]) -> Iterator[bytes]:
        """JSON documents: a List or an array of objects is handed in at once, anything else is an event of its own."""
        for document in documents:
            members = self._members(document)
            if members is None:
                yield from self._single(document)
            elif members and _is_event(members[0]):
                for member in members:
                    yield from self._single(member)
            else:
                yield from packed(self._listed(members), self.cluster)

    def manifests(self, documents: Iterable[bytes]) -> Iterator[bytes]:
        """Documents of one file of manifests: one event an object, Lists opened, to be handed in together."""
        for document in documents:
            members = self._members(document)
            if members is None:
                yield from self._single(document)
            else:
                yield from self._listed(members)

    def added(self, document: bytes, moment: Timestamp | None = None) -> bytes:
        """The ADDED event of one object."""
        at = b"" if moment is None else b'"at":"' + format_timestamp(moment).encode() + b'",'
        return b"{" + self._cluster_field + at + b'"type":"ADDED","object":' + self._complete(document) + b"}"

    def _single(self, document: bytes) -> Iterator[bytes]:
        try:
            head = _decode_head(document)
        except _BAD_JSON:
            yield Unreadable(document)
            return
        if head.kind is not None:
            yield self.added(_compact(document), newest_moment(document))
        elif head.type is not None:
            yield self._own_cluster(_compact(document))
        else:
            yield Unreadable(document)

    def _own_cluster(self, event: bytes) -> bytes:
        return event if self.cluster is None else with_cluster(event, self.cluster)

    def _members(self, document: bytes) -> list[bytes] | None:
        """The items of a List or the members of an array; None for anything else."""
        try:
            if document.lstrip()[:1] == b"[":
                return [bytes(member) for member in _decode_raws(document)]
            head = _decode_head(document)
            if head.items is ABSENT or not (head.kind or "").endswith("List"):
                return None
            items = [bytes(item) for item in _decode_raws(head.items)]
        except _BAD_JSON:
            return None
        if head.kind == "List":
            return items
        # a typed list, as the API itself answers, leaves apiVersion and kind out of its items
        kind = (head.kind or "").removesuffix("List")
        return [_with_type(item, head.api_version, kind) for item in items]

    def _listed(self, members: list[bytes]) -> Iterator[bytes]:
        """A list is of one moment, which is not before its newest time stamp."""
        moments = [moment for member in members if (moment := newest_moment(member)) is not None]
        moment = max(moments, default=None)
        for member in members:
            try:
                head = _decode_head(member)
            except _BAD_JSON:
                yield Unreadable(member)
                continue
            yield self.added(_compact(member), moment) if head.kind is not None else Unreadable(member)

    def _complete(self, document: bytes) -> bytes:
        """The object with what an API server would have given it."""
        place = self.place
        self.place += 1
        try:
            head = _decode_head(document)
            metadata = _Metadata() if head.metadata is ABSENT else _decode_metadata(head.metadata)
        except _BAD_JSON:
            return document
        if metadata.name and metadata.uid and metadata.creation_timestamp:
            return document
        whole: dict[str, Any] = msgspec.json.decode(document)
        _fill(whole, self.cluster or "default", place, self.created)
        return msgspec.json.encode(whole)


def _fill(whole: dict[str, Any], cluster: str, place: int, created: int) -> None:
    kind = whole.get("kind", "")
    metadata: dict[str, Any] = whole.setdefault("metadata", {})
    if kind in NAMESPACED and not metadata.get("namespace"):
        metadata["namespace"] = "default"
    if not metadata.get("name") and isinstance(metadata.get("generateName"), str):
        metadata["name"] = metadata["generateName"] + _suffix(
            f"{cluster}/{kind}/{metadata.get('namespace')}/{created}/{place}"
        )
    if kind == "Configuration" and not metadata.get("name"):
        metadata["name"] = "config"
    if kind == "Namespace" and isinstance(labels := metadata.setdefault("labels", {}), dict):
        labels.setdefault("kubernetes.io/metadata.name", metadata.get("name", ""))
    group = str(whole.get("apiVersion", "")).rpartition("/")[0]
    if not metadata.get("uid"):
        identity = f"{cluster}/{group}/{kind}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        metadata["uid"] = str(uuid.uuid5(_IDENTITY, identity))
    if not metadata.get("creationTimestamp"):
        metadata["creationTimestamp"] = format_timestamp(Timestamp(created + place))


def _suffix(seed: str) -> str:
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big")
    signs = []
    for _ in range(5):
        number, sign = divmod(number, len(_SUFFIX_SIGNS))
        signs.append(_SUFFIX_SIGNS[sign])
    return "".join(signs)


def _is_event(document: bytes) -> bool:
    try:
        head = _decode_head(document)
    except _BAD_JSON:
        return False
    return head.kind is None and head.type is not None


def _with_type(item: bytes, api_version: str, kind: str) -> bytes:
    if item[:1] != b"{":
        return item
    try:
        if _decode_head(item).kind is not None:
            return item
    except _BAD_JSON:
        return item
    head = b'{"apiVersion":' + msgspec.json.encode(api_version) + b',"kind":' + msgspec.json.encode(kind)
    return head + (b"" if item[1:].lstrip()[:1] == b"}" else b",") + item[1:]


def _compact(document: bytes) -> bytes:
    """The same document on one line."""
    return msgspec.json.format(document, indent=-1) if b"\n" in document else document
