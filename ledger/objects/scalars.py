"""The scalar types of Kubernetes JSON that are more than JSON's own, and how msgspec reads them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ledger.objects.durations import Duration, parse_duration
from ledger.quantity import NonNegativeQuantity, Quantity, parse_quantity
from ledger.timestamps import Timestamp, parse_timestamp

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ResourceVersion(int):
    """The version of an object. Text in JSON, decimal, and comparable inside one resource of one cluster."""

    __slots__ = ()


def decode_scalar(kind: type[Any], value: object) -> object:
    """The hook msgspec calls for the types it does not know."""
    if kind is NonNegativeQuantity:
        quantity = parse_quantity(value)  # type: ignore[arg-type]
        if quantity < 0:
            raise ValueError(f"must be greater than or equal to 0, not {value}")
        return NonNegativeQuantity(quantity)
    if kind is Timestamp:
        if not isinstance(value, str):
            raise ValueError(f"a time is a text, not {type(value).__name__}")
        return parse_timestamp(value)
    if kind is Quantity:
        return parse_quantity(value)  # type: ignore[arg-type]
    if kind is ResourceVersion:
        return _resource_version(value)
    if kind is Duration:
        if not isinstance(value, str):
            raise ValueError(f"a duration is a text such as 5m, not {type(value).__name__}")
        return parse_duration(value)
    raise TypeError(f"no way to read {kind.__name__}")


def _resource_version(value: object) -> ResourceVersion:
    if isinstance(value, str) and len(value) <= 20 and (not value or (value.isdecimal() and value.isascii())):
        return ResourceVersion(value or 0)
    raise ValueError("a resource version is a decimal number in a text")
