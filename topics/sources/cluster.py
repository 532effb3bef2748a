"""The cluster of an event that names none."""

from __future__ import annotations

import msgspec

ABSENT = msgspec.Raw(b"")
"""What a field of any content holds where a document does not have it."""


class _ClusterOnly(msgspec.Struct):
    cluster: msgspec.Raw = ABSENT


_decode_cluster = msgspec.json.Decoder(_ClusterOnly).decode


def with_cluster(value: bytes, cluster: str) -> bytes:
    """The same event in a cluster, where it names none; what is no JSON object stays as it is."""
    try:
        if _decode_cluster(value).cluster is not ABSENT:
            return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return value
    separator = b"" if value[1:].lstrip().startswith(b"}") else b","
    return b'{"cluster":' + msgspec.json.encode(cluster) + separator + value[1:]
