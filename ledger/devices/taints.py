"""Taints of devices and the tolerations of requests (dra G10)."""

from __future__ import annotations

from ledger.devices.objects import Taint
from ledger.objects.taint import Toleration

KEEPS_AWAY = ("NoSchedule", "NoExecute")


def tolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    """Unknown effects count as none, so only the two known ones keep a request away."""
    return all(any(_answers(each, taint) for each in tolerations) for taint in taints if taint.effect in KEEPS_AWAY)


def _answers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    return bool(toleration.key) and operator == "Equal" and toleration.value == taint.value
