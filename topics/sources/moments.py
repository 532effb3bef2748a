"""When an object was last written, as far as it says itself.

A recorded watch or a saved list carries no time of arrival. The newest of an object's own time stamps is the earliest
moment at which it can have looked as it does.
"""

from __future__ import annotations

import msgspec

from ledger.timestamps import Timestamp, parse_timestamp


class _Written(msgspec.Struct):
    time: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None
    managed_fields: tuple[_Written, ...] = ()


class _Condition(msgspec.Struct, rename="camel"):
    last_transition_time: str | None = None


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Object).decode


def newest_moment(document: bytes | msgspec.Raw) -> Timestamp | None:
    """The newest time stamp of an object, None where it has none or cannot be read."""
    try:
        read = _decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    texts: list[str | None] = []
    if read.metadata is not None:
        texts.append(read.metadata.creation_timestamp)
        texts.extend(entry.time for entry in read.metadata.managed_fields)
    if read.status is not None:
        texts.extend(condition.last_transition_time for condition in read.status.conditions)
    moments = []
    for text in texts:
        try:
            if text:
                moments.append(parse_timestamp(text))
        except ValueError:
            continue
    return max(moments, default=None)
