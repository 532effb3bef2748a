"""From exact quantities to whole, saturating amounts (dra 2), and what a policy makes of an asked amount (dra 10 K3).

Quantities are in nano-units; amounts are whole units of 64 bits.
"""

from __future__ import annotations

from ledger.devices.objects import Capacity, RequestPolicy, ValidRange

NANO = 10**9
LARGEST = 2**63 - 1
SMALLEST = -(2**63)

UNSERVED = "unserved"
"""The device cannot serve the asked amount."""


def clamp(amount: int) -> int:
    return LARGEST if amount > LARGEST else SMALLEST if amount < SMALLEST else amount


def whole(nanos: int) -> int:
    """Away from zero to whole units, then clamped (A3)."""
    return clamp(-(-nanos // NANO) if nanos >= 0 else nanos // NANO)


def charged(nanos: int, count: int) -> int:
    """The price of one device times their number; a negative price is nothing (A5, A6)."""
    price = max(whole(nanos), 0)
    return clamp(price * count) if count > 1 else price


def plus(left: int, right: int) -> int:
    return clamp(left + right)


def policed(capacity: Capacity, asked: int | None, *, reference: bool) -> int | str:
    """What one device charges for an asked amount, in nano-units; `UNSERVED` where its policy refuses (K3).

    The reference works on whole units and never compares with the device's value (G4, G35).
    """
    rounded = _rounded(capacity.request_policy, unpoliced(capacity, asked), reference=reference)
    if isinstance(rounded, int) and not reference and rounded > capacity.value:
        return UNSERVED
    return rounded


def unpoliced(capacity: Capacity, asked: int | None) -> int:
    """What is asked of a capacity before any policy: the request, else the default, else everything (K3)."""
    if asked is not None:
        return int(asked)
    policy = capacity.request_policy
    return int(policy.default if policy is not None and policy.default is not None else capacity.value)


def _rounded(policy: RequestPolicy | None, base: int, *, reference: bool) -> int | str:
    if policy is None:
        return base
    if policy.valid_values:
        return min((int(value) for value in policy.valid_values if value >= base), default=UNSERVED)
    if policy.valid_range is not None:
        return _in_range(policy.valid_range, base, reference=reference)
    return base


def _in_range(valid: ValidRange, base: int, *, reference: bool) -> int | str:
    if reference:
        return _in_whole_range(valid, base)
    lowest = 0 if valid.min is None else int(valid.min)
    amount = max(base, lowest) if valid.min is not None else base
    if valid.step is not None and valid.min is not None and valid.step > 0:
        amount = lowest + -(-(amount - lowest) // valid.step) * valid.step
    return UNSERVED if valid.max is not None and amount > valid.max else amount


def _in_whole_range(valid: ValidRange, base: int) -> int | str:
    amount = whole(base) if valid.min is None else max(whole(base), whole(valid.min))
    if valid.step is not None and valid.min is not None and whole(valid.step) > 0:
        lowest, step = whole(valid.min), whole(valid.step)
        if (amount - lowest) % step:
            amount = clamp(lowest + ((amount - lowest) // step + 1) * step)
    return UNSERVED if valid.max is not None and amount > whole(valid.max) else amount * NANO
