"""A world that plays the job controller: it echoes what the ledger decides, and gives quota back when told."""

from __future__ import annotations

import json
from typing import Any

from tests import builders as build
from tests.builders import NAMESPACE, Object
from tests.world import Decision, World

GPU = "nvidia.com/gpu"


class Life(World):
    """Time is set with `at`: the next event happens then. Objects carry exactly the conditions that were decided."""

    def at(self, second: float) -> Life:
        self.now = second - 1
        return self

    def queue(
        self, name: str = "a", nominal: int = 10, *, checks: list[Object] | None = None, fair: bool = False, **more: Any
    ) -> None:
        """A ClusterQueue with one flavor, f1, and its LocalQueue."""
        if ("ResourceFlavor", "", "f1") not in self.objects:
            self.add(build.flavor("f1"))
        target = build.cluster_queue(name, build.group(f1=[build.quota(GPU, nominal)]), **more)
        if checks:
            target["spec"]["admissionChecksStrategy"] = {"admissionChecks": checks}
        if fair:
            target["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        self.add(target, build.local_queue(name))

    def check(self, name: str, *, active: bool = True) -> None:
        target: Object = {
            "apiVersion": build.KUEUE,
            "kind": "AdmissionCheck",
            "metadata": build.metadata(name, uid=f"ac-{name}"),
            "spec": {"controllerName": "example.com/controller"},
            "status": {"conditions": [build.condition("Active", active, "Active", 0)]},
        }
        self.add(target)

    def job(self, name: str, gpus: int = 1, queue: str = "a", **more: Any) -> list[Decision]:
        created = more.pop("created", self.now + 1)
        target = build.workload(name, queue, requests={GPU: gpus}, created=created, **more)
        return self.submit(target)

    def copy(self, name: str) -> Object:
        copied: Object = json.loads(json.dumps(self.workload(name)))
        return copied

    def answer(self, name: str, **states: str | tuple[str, int]) -> list[Decision]:
        """The check controllers write: a state, or a state and the seconds after which to try again."""
        target = self.copy(name)
        checks = {check["name"]: check for check in target.setdefault("status", {}).get("admissionChecks", [])}
        for check, answered in states.items():
            state, after = (answered, None) if isinstance(answered, str) else answered
            checks[check] = {"name": check, "state": state, "message": "", "lastTransitionTime": self.moment()}
            if after is not None:
                checks[check]["requeueAfterSeconds"] = after
        target["status"]["admissionChecks"] = [checks[check] for check in sorted(checks)]
        return self.change(target)

    def moment(self) -> str:
        return build.moment(int(self.now + 1))

    def say(self, name: str, kind: str, status: bool, reason: str) -> list[Decision]:
        """A condition as somebody in the cluster writes it."""
        return self.change(
            build.with_conditions(self.copy(name), build.condition(kind, status, reason, int(self.now + 1)))
        )

    def pods(self, name: str, ready: bool, reason: str = "Started") -> list[Decision]:
        return self.say(name, "PodsReady", ready, reason)

    def activate(self, name: str, active: bool) -> list[Decision]:
        target = self.copy(name)
        target["spec"]["active"] = active
        return self.change(target)

    def stop(self, kind: str, name: str, policy: str) -> list[Decision]:
        namespace = NAMESPACE if kind == "LocalQueue" else ""
        target: Object = json.loads(json.dumps(self.objects[kind, namespace, name]))
        target["spec"]["stopPolicy"] = policy
        return self.change(target)

    def give_back(self, name: str) -> list[Decision]:
        """7.4.2: the job has stopped; the quota goes back in one write."""
        target = self.copy(name)
        now = int(self.now + 1)
        conditions = {each["type"]: each for each in target["status"]["conditions"]}
        reason = conditions["Evicted"]["reason"]
        target["status"].pop("admission", None)
        for check in target["status"].get("admissionChecks", []):
            if check["state"] != "Pending":
                check.update(state="Pending", lastTransitionTime=self.moment())
        return self.change(
            build.with_conditions(
                target,
                build.condition("QuotaReserved", False, "PendingEvaluation", now),
                build.condition("Admitted", False, "NoReservation", now),
                build.condition("Requeued", reason in ("Preempted", "NodeFailures"), reason, now),
            )
        )

    def admitted_last(self) -> str:
        """Who got quota last."""
        return [str(d["workload"]["name"]) for d in self.decisions if d["type"] == "QuotaReserved"][-1]

    def _remember(self, decision: Decision) -> None:
        if "workload" not in decision:
            return
        key = ("Workload", decision["workload"]["namespace"], decision["workload"]["name"])
        target = self.objects.get(key)
        if target is None:
            return
        now, kind = int(self.now), decision["type"]
        if kind == "QuotaReserved":
            sets = [
                build.assignment(p["name"], p["flavors"], p["usage"], count=p["count"]) for p in decision["podSets"]
            ]
            target = {**target, "status": {**target.get("status", {})}}
            target["status"]["admission"] = {"clusterQueue": decision["clusterQueue"], "podSetAssignments": sets}
            target = build.with_conditions(
                target,
                build.condition("QuotaReserved", True, "QuotaReserved", now),
                build.condition("Evicted", False, "QuotaReserved", now),
            )
        elif kind == "Admitted":
            target = build.with_conditions(target, build.condition("Admitted", True, "Admitted", now))
        elif kind == "Evicted":
            target = build.evicted(target, at=now, reason=decision["reason"])
        elif kind == "Preempted":
            target = build.evicted(target, at=now, preempted=decision["reason"])
            self.victims_to_release.append(decision["workload"]["name"])
        self.objects[key] = target


TOLD_ONLY = ("QuotaChanged", "ShareChanged", "QueueChanged", "Pending", "Dequeued", "Recorded")
"""Decisions that tell how things stand and move nobody."""


def steps(decisions: list[Decision], name: str | None = None) -> list[str]:
    """What was decided about workloads, one word each: `Reserved w`, `Evicted w PodsReadyTimeout`."""
    words = {"QuotaReserved": "Reserved"}
    found = []
    for decision in decisions:
        workload = decision.get("workload", {}).get("name")
        if decision["type"] in TOLD_ONLY or workload is None:
            continue
        if name is not None and workload != name:
            continue
        kind = words.get(decision["type"], decision["type"])
        reason = decision.get("reason", "")
        found.append(" ".join(each for each in (kind, workload, reason) if each))
    return found
