"""Taints of flavors and nodes, and the tolerations that answer them."""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger.objects.scalars import Int64


class Taint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class Toleration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An empty operator reads as `Equal`, an empty key or effect as any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None
