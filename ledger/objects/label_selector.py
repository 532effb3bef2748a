"""Label selectors as the API writes them."""

from __future__ import annotations

from typing import Literal

import msgspec


class LabelRequirement(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """All of it must hold. The empty selector matches everything; an absent one, where it is optional, nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()
