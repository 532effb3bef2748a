"""LimitRanges: defaults and bounds for the containers and pods of a namespace (objects 1.12, admission 2.1, 2.11)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta
from ledger.quantity import Quantity


class LimitRangeItem(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str
    default: dict[str, Quantity] = {}
    default_request: dict[str, Quantity] = {}
    max: dict[str, Quantity] = {}
    min: dict[str, Quantity] = {}
    max_limit_request_ratio: dict[str, Quantity] = {}


class LimitRangeSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: LimitRangeSpec = LimitRangeSpec()
