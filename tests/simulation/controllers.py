"""Kueue's other half: controllers and jobs that act on what the ledger decided, each in its own time, or never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests import builders as build
from tests.builders import Object
from tests.simulation.cluster import Cluster, is_true

Act = Callable[[Object, str, str], None]

DRAINING = (0, 0, 2, 20)
"""How long the pods of an evicted job take to go."""


class Controllers:
    """Acts on the decisions of one cluster. `duties` are what they will do, and when."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = cluster.random
        self._duties: list[tuple[float, Callable[[], None]]] = []
        self._acts: dict[str, Act] = {
            "QuotaReserved": self._reserve,
            "Admitted": self._admit,
            "Preempted": self._evict,
            "Evicted": self._evict,
            "Requeued": self._requeue,
            "Released": self._withdraw,
        }

    def observe(self, decision: Object) -> None:
        if self._random.random() < 0.03:
            return  # nobody acts on it
        due = self._cluster.now + self._random.choice((0, 0, 1, 5, 40))
        act = self._acts.get(decision["type"])
        if act is not None:
            named = decision["workload"]
            self._duties.append((due, lambda: act(decision, named["name"], named["uid"])))
        elif decision["type"] == "ShareChanged" and "localQueue" in decision:
            self._duties.append((due, lambda: self._publish_sample(decision)))

    def work(self) -> None:
        """Controllers do what is due."""
        now = self._cluster.now
        due = [duty for duty in self._duties if duty[0] <= now]
        self._duties = [duty for duty in self._duties if duty[0] > now]
        for _, act in due:
            act()

    @property
    def _now(self) -> int:
        return int(self._cluster.now)

    def _later(self, act: Callable[[], None]) -> None:
        self._duties.append((self._cluster.now + self._random.choice(DRAINING), act))

    def _reserve(self, decision: Object, name: str, uid: str) -> None:
        target = self._cluster.workload(name, uid)
        if target is None or is_true(target, "Finished") or is_true(target, "QuotaReserved"):
            return
        given = [
            build.assignment(pods["name"], pods["flavors"], pods["usage"], count=pods["count"])
            for pods in decision["podSets"]
        ]
        held = build.holding(target, decision["clusterQueue"], given, at=self._now)
        if self._cluster.checks:
            # Admitted is a write of its own, when the ledger says so.
            held = build.with_conditions(
                held, build.condition("Admitted", False, "UnsatisfiedAdmissionChecks", self._now)
            )
        self._cluster.write(held)

    def _admit(self, decision: Object, name: str, uid: str) -> None:
        target = self._cluster.workload(name, uid)
        if target is not None and is_true(target, "QuotaReserved") and not is_true(target, "Admitted"):
            self._cluster.write(build.with_conditions(target, build.condition("Admitted", True, "Admitted", self._now)))

    def _evict(self, decision: Object, name: str, uid: str) -> None:
        """The eviction is written; a workload that is deactivated is inactive first; then its pods go."""
        target = self._cluster.workload(name, uid)
        if target is None:
            return
        preempted = decision["reason"] if decision["type"] == "Preempted" else None
        reason = "Preempted" if preempted else decision["reason"]
        if reason.startswith("DeactivatedDueTo"):
            self._cluster.write({**target, "spec": {**target["spec"], "active": False}})
            target = self._cluster.workload(name, uid)
            assert target is not None
        if not is_true(target, "QuotaReserved"):
            return
        target = build.evicted(target, at=self._now, reason=reason, preempted=preempted)
        status: dict[str, Any] = dict(target["status"])
        status["admissionChecks"] = [{**each, "state": "Pending"} for each in status.get("admissionChecks", ())]
        if reason == "PodsReadyTimeout" and self._random.random() < 0.7:
            count = status.get("requeueState", {}).get("count", 0) + 1
            at = self._now + self._random.choice((0, 5, 10, 11, 40))
            status["requeueState"] = {"count": count, "requeueAt": build.moment(at)}
        elif reason.startswith("Deactivated"):
            status.pop("requeueState", None)
        self._cluster.write({**target, "status": status})
        self._later(lambda: self._release(name, uid, reason))

    def _release(self, name: str, uid: str, reason: str) -> None:
        target = self._cluster.workload(name, uid)
        if target is None or not is_true(target, "QuotaReserved") or is_true(target, "Finished"):
            return
        released = build.with_conditions(
            build.released(target, at=self._now),
            build.condition("Requeued", reason in ("Preempted", "NodeFailures"), reason, self._now),
            build.condition("PodsReady", False, "WaitForStart", self._now),
        )
        if self._random.random() < 0.1:
            released["status"]["requeueState"] = {"count": 1, "requeueAt": build.moment(self._now + 30)}
        if self._random.random() < 0.5:
            released["status"]["accumulatedPastExecutionTimeSeconds"] = self._random.choice((0, 5, 15))
        self._cluster.write(released)

    def _requeue(self, decision: Object, name: str, uid: str) -> None:
        target = self._cluster.workload(name, uid)
        if target is None or is_true(target, "QuotaReserved"):
            return
        status = dict(target.get("status", {}))
        if "requeueState" in status:
            status["requeueState"] = {"count": status["requeueState"].get("count", 0)}
        waiting = {**target, "status": status}
        self._cluster.write(
            build.with_conditions(waiting, build.condition("Requeued", True, decision["reason"], self._now))
        )

    def _withdraw(self, decision: Object, name: str, uid: str) -> None:
        """A reservation that was taken back without an eviction; a slice that another one replaced."""
        target = self._cluster.workload(name, uid)
        if target is None or is_true(target, "Finished"):
            return
        if decision["reason"] == "WorkloadSliceReplaced":
            self._cluster.write(build.finished(target, at=self._now))
        elif decision["reason"] in ("Suspended", "Misconfigured") and is_true(target, "QuotaReserved"):
            status = {key: value for key, value in target["status"].items() if key != "admission"}
            self._cluster.write(
                build.with_conditions(
                    {**target, "status": status},
                    build.condition("QuotaReserved", False, decision["reason"], self._now),
                    build.condition("Admitted", False, "NoReservation", self._now),
                )
            )

    def _publish_sample(self, decision: Object) -> None:
        """The LocalQueue's status shows what it consumed, as of when it was told."""
        named = decision["localQueue"]
        target = self._cluster.objects.get(("LocalQueue", named["namespace"], named["name"]))
        if target is not None and self._random.random() < 0.7:
            sample = {"consumedResources": dict(decision.get("consumed", {})), "lastUpdate": decision["at"]}
            status = {"fairSharing": {"admissionFairSharingStatus": sample}}
            self._cluster.write({**target, "status": status})
