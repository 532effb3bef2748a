"""Admission fair sharing: what the workloads of each LocalQueue consumed lately (preemption section 7).

Consumption is kept in nano-units of the user's units (cores, bytes), as exact decimals with nine places. It decays with
a half-life, is sampled at an interval, and a workload that reserves quota is charged a penalty at once, which settles
when it is admitted. The value decides who is offered first inside a ClusterQueue, and who is taken first as a victim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cmp_to_key
from math import inf
from typing import TYPE_CHECKING, Final

from ledger.quantity import NANO
from ledger.timestamps import SECOND, Timestamp

if TYPE_CHECKING:
    from ledger.cluster_queue import ClusterQueueNode, VictimKey
    from ledger.objects.configuration import AdmissionFairSharing
    from ledger.objects.local_queue import AdmissionFairSharingStatus, LocalQueue
    from ledger.workloads import WorkloadState

LocalQueueKey = tuple[str, str]
Nanos = dict[str, int]
"""Resource -> nano-units."""

USAGE_BASED: Final = "UsageBasedAdmissionFairSharing"
_MILLI: Final = NANO // 1000


class Account:
    """R7.2 of one LocalQueue: `consumed` is decayed history, `penalties` are those not settled yet, by workload.

    `last` is when it last decayed. `seeded` says whether what the LocalQueue's status persisted is in it (R7.13): a
    workload may open the account before its LocalQueue is known. `ticking` says whether samples are taken: without
    consumption they change nothing but `last`, which is made up for when it is asked for, so an idle LocalQueue costs
    nothing. `settled` is when a penalty was settled last.
    """

    __slots__ = ("consumed", "last", "penalties", "running", "seeded", "settled", "ticking", "weight")

    def __init__(self, last: Timestamp) -> None:
        self.consumed: Nanos = {}
        self.penalties: dict[str, Nanos] = {}
        self.running: dict[str, Nanos] = {}
        self.last = last
        self.seeded = False
        self.settled = Timestamp(0)
        self.ticking = True
        self.weight = 1.0

    @property
    def is_idle(self) -> bool:
        return not self.running and not any(self.consumed.values()) and not self.has_penalty

    @property
    def has_penalty(self) -> bool:
        return any(any(penalty.values()) for penalty in self.penalties.values())

    def total_running(self) -> Nanos:
        """R7.6: what its admitted workloads hold, flavors merged."""
        return _sum(self.running.values())


class Consumption:
    """The accounts of one cluster. `rules` is the Configuration's block, None where admission fair sharing is off."""

    __slots__ = ("accounts", "rules")

    def __init__(self) -> None:
        self.accounts: dict[LocalQueueKey, Account] = {}
        self.rules: AdmissionFairSharing | None = None

    # Accounts

    def open(self, key: LocalQueueKey, source: LocalQueue | None, now: Timestamp) -> Account:
        """R7.13: what the LocalQueue's status says was consumed is added once, when the LocalQueue is known."""
        account = self.accounts.get(key)
        if account is None:
            account = self.accounts[key] = Account(now)
        if source is not None:
            account.weight = double_of(source.spec.fair_sharing.weight)
            if not account.seeded:
                account.seeded = True
                account.consumed = _sum((account.consumed, _persisted(source)))
        return account

    def adopt(self, account: Account, status: AdmissionFairSharingStatus, now: Timestamp) -> bool:
        """A sample that the cluster took: it wins over our own of the same time. One that may be from before the last
        settlement does not know what was settled, and is old news. `lastUpdate` carries whole seconds."""
        told = status.last_update
        if told is None or told < max(account.last // SECOND * SECOND, account.settled + SECOND):
            return False
        consumed = {name: int(value) for name, value in sorted(status.consumed_resources.items()) if value}
        moved = consumed != {name: value for name, value in account.consumed.items() if value}
        if moved or account.is_idle:
            account.consumed = consumed
            account.last = max(account.last, Timestamp(min(now, told + SECOND)))
        return moved

    def close(self, key: LocalQueueKey) -> None:
        self.accounts.pop(key, None)

    def sample(self, account: Account, now: Timestamp) -> bool:
        """R7.8: decay, if the interval is over or a penalty waits; True when the consumption moved."""
        rules = self.rules
        assert rules is not None
        self.make_up(account, now)
        if now - account.last < interval_of(rules) and not account.has_penalty:
            return False
        before = dict(account.consumed)
        self._decay(account, now)
        if not rules.usage_half_life_time:
            account.consumed = {}
        return account.consumed != before

    def next_sample(self, account: Account) -> Timestamp | None:
        """When the next sample could move anything."""
        if self.rules is None or not account.ticking or account.is_idle:
            return None
        return Timestamp(account.last + interval_of(self.rules))

    def make_up(self, account: Account, now: Timestamp) -> None:
        """The samples that were not taken because the account was idle."""
        if self.rules is not None and account.ticking and account.is_idle and now > account.last:
            interval = interval_of(self.rules)
            account.last = Timestamp(account.last + (now - account.last) // interval * interval)

    def charge(self, account: Account, uid: str, requests: Mapping[str, int], now: Timestamp) -> None:
        """R7.12: the entry penalty of a workload that reserves quota replaces an earlier one of the same workload."""
        assert self.rules is not None
        self.make_up(account, now)
        rate = alpha(interval_of(self.rules), self.rules.usage_half_life_time)
        account.penalties[uid] = {name: times(nanos(name, value), rate) for name, value in sorted(requests.items())}

    def settle(self, account: Account, uid: str, now: Timestamp) -> None:
        """R7.14: on admission; what runs includes the workload already."""
        self._decay(account, now)
        account.settled = now
        for name, value in account.penalties.pop(uid, {}).items():
            account.consumed[name] = account.consumed.get(name, 0) + value

    def admit(self, account: Account, uid: str, usage: Mapping[str, int], now: Timestamp) -> None:
        self.make_up(account, now)
        account.running[uid] = {name: nanos(name, value) for name, value in usage.items()}

    def end(self, account: Account, uid: str, now: Timestamp) -> None:
        account.running.pop(uid, None)
        self.make_up(account, now)

    def _decay(self, account: Account, now: Timestamp) -> None:
        """R7.5, R7.7."""
        assert self.rules is not None
        elapsed = max(0, now - account.last)
        rate = alpha(elapsed, self.rules.usage_half_life_time)
        running = account.total_running()
        account.consumed = {
            name: times(account.consumed.get(name, 0), 1.0 - rate) + times(running.get(name, 0), rate)
            for name in sorted(account.consumed.keys() | running.keys())
        }
        account.last = max(account.last, now)

    # What it decides

    def usage(self, key: LocalQueueKey) -> float:
        """R7.16: summed in the order of the resources' names."""
        account = self.accounts.get(key)
        if account is None:
            return 0.0
        if account.weight <= 0:
            return inf
        weights = self.rules.resource_weights if self.rules is not None else {}
        total = _sum((account.consumed, *account.penalties.values()))
        value = 0.0
        for name in sorted(total):
            value += weights.get(name, 1.0) * (total[name] / NANO)
        return value / account.weight

    def in_victim_order(self, queue: ClusterQueueNode, keys: Iterable[VictimKey]) -> list[VictimKey]:
        """R2.1.3, N4: larger usage first between LocalQueues of different names, then the usual order."""
        holders = queue.holders
        usage: dict[LocalQueueKey, float] = {}
        for key in keys:
            local = holders[key[2]].local_queue
            if local not in usage:
                usage[local] = self.usage(local)

        def compare(one: VictimKey, other: VictimKey) -> int:
            ours, theirs = holders[one[2]].local_queue, holders[other[2]].local_queue
            if ours[1] != theirs[1] and usage[ours] != usage[theirs]:
                return -1 if usage[ours] > usage[theirs] else 1
            return -1 if one < other else int(one > other)

        return sorted(keys, key=cmp_to_key(compare))


def is_usage_based(queue: ClusterQueueNode) -> bool:
    """R7.1."""
    scope = queue.source.spec.admission_scope
    return scope is not None and scope.admission_mode == USAGE_BASED


def interval_of(rules: AdmissionFairSharing) -> int:
    """R7.2."""
    return rules.usage_sampling_interval or 5 * 60 * SECOND


def alpha(elapsed: int, half_life: int) -> float:
    """R7.5: in doubles of seconds."""
    if half_life <= 0:
        return 0.0
    return float(1.0 - 0.5 ** ((elapsed / SECOND) / (half_life / SECOND)))


def times(amount: int, factor: float) -> int:
    """R7.5: the exact product with the shortest text of the double, cut off after nine places."""
    if not amount or factor == 0.0:
        return 0
    _, digits, exponent = Decimal(repr(factor)).as_tuple()
    assert isinstance(exponent, int)
    mantissa = int("".join(map(str, digits)))
    if exponent >= 0:
        return int(amount * mantissa * 10**exponent)
    return int(amount * mantissa // 10**-exponent)


def nanos(resource: str, amount: int) -> int:
    """R7.6: from the integers of admission 0.4: cpu counts in milli-cores."""
    return amount * (_MILLI if resource == "cpu" else NANO)


def double_of(weight: int) -> float:
    """R7.3: mantissa times a power of ten, in doubles."""
    if weight == 0:
        return 0.0
    mantissa, exponent = int(weight), -9
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    return float(mantissa * 10**exponent) if exponent >= 0 else float(mantissa) * 10.0**exponent


def total_request(state: WorkloadState, covered: Callable[[str], bool]) -> dict[str, int]:
    """R7.12: the full request of all pod sets."""
    total: dict[str, int] = {}
    for pod_set in state.pod_sets or ():
        for name, value in pod_set.requests.items():
            if covered(name):
                total[name] = total.get(name, 0) + value
    return total


def _persisted(source: LocalQueue) -> Nanos:
    fair_sharing = source.status.fair_sharing
    status = fair_sharing.admission_fair_sharing_status if fair_sharing is not None else None
    return {} if status is None else {name: int(value) for name, value in sorted(status.consumed_resources.items())}


def _sum(amounts: Iterable[Nanos]) -> Nanos:
    total: Nanos = {}
    for each in amounts:
        for name, value in each.items():
            total[name] = total.get(name, 0) + value
    return total
