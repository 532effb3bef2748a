"""Conditions in the status of an object (objects 0.3)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ledger.timestamps import Timestamp


class Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None
    observed_generation: int = 0


Conditions = Annotated[tuple[Condition, ...], msgspec.Meta(max_length=16)]


def find_condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type; their order in the list means nothing."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None
