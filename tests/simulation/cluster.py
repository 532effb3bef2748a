"""A simulated Kubernetes cluster with Kueue's other half: operators, users, and controllers that act on decisions.

It keeps objects as an API server would, with versions and generations, and puts every write into the watch of its
object. Everything is drawn from one `Random`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tests import builders as build
from tests.builders import FINAL_SHARE, INITIAL_SHARE, NAMESPACE, Event, Object

Key = tuple[str, str, str]
GPU, CPU, MIG = "nvidia.com/gpu", "cpu", "gpu-memory"
DRIVER = "gpu.example.com"


class Cluster:
    """Objects, and per object the writes that nobody has watched yet."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.random = random
        self.now = 100.0
        self.version = 0
        self.number = 0
        self.objects: dict[Key, Object] = {}
        self.watch: dict[Key, deque[Event]] = {}
        self.duties: list[tuple[float, Callable[[], None]]] = []
        self.flavors = [f"f{n}" for n in range(1, random.choice((1, 2, 3)) + 1)]
        self.resources = random.choice(([GPU], [GPU, CPU]))
        self.devices = random.random() < 0.4
        self.fair = random.choice((None, None, (FINAL_SHARE, INITIAL_SHARE), (INITIAL_SHARE,)))
        self.rules = random.choice((None, None, "kueue-0.19"))
        self.checked = random.random() < 0.3
        self.cohorts = [f"c{n}" for n in range(random.choice((0, 1, 3)))]
        self.queues = [f"q{n}" for n in range(random.choice((2, 3, 4)))]
        self.begin()

    # The API server

    def write(self, target: Object) -> None:
        self.version += 1
        key = key_of(target)
        before = self.objects.get(key)
        if "metadata" in target:
            generation = 1
            if before is not None:
                generation = before["metadata"].get("generation", 1)
                generation += before.get("spec") != target.get("spec")
            target = {
                **target,
                "metadata": {**target["metadata"], "resourceVersion": str(self.version), "generation": generation},
            }
        self.objects[key] = target
        change = "MODIFIED" if before is not None else "ADDED"
        self.watch.setdefault(key, deque()).append(self._event(change, target))

    def delete(self, key: Key) -> None:
        target = self.objects.pop(key, None)
        if target is not None:
            self.version += 1
            gone = {**target, "metadata": {**target["metadata"], "resourceVersion": str(self.version)}}
            self.watch.setdefault(key, deque()).append(self._event("DELETED", gone))

    def _event(self, change: str, target: Object) -> Event:
        return build.event(change, target, at=self.now, cluster=self.name)

    def workload(self, name: str, uid: str | None = None) -> Object | None:
        found = self.objects.get(("Workload", NAMESPACE, name))
        return found if found is not None and uid in (None, found["metadata"]["uid"]) else None

    # Operators

    def begin(self) -> None:
        self.configure()
        self.write(build.namespace())
        everything: list[Object] = [
            *(build.flavor(name, {"flavor": name}) for name in self.flavors),
            *(self._cohort(name) for name in self.cohorts if self.random.random() < 0.7),
            *(self._queue(name) for name in self.queues),
            *(build.local_queue(name) for name in self.queues),
        ]
        if self.checked:
            everything.append(_check("slow"))
        if self.devices:
            everything += [_device_class(), _template(), *(_slice(number, 2) for number in range(2))]
        self.random.shuffle(everything)
        for target in everything:
            self.write(target)

    def configure(self) -> None:
        blocks: dict[str, Any] = {}
        if self.devices:
            blocks["resources"] = {"deviceClassMappings": [{"name": MIG, "deviceClassNames": ["gpu.example.com"]}]}
        if self.random.random() < 0.3:
            blocks["waitForPodsReady"] = {
                "timeout": "60s",
                "blockAdmission": self.random.random() < 0.3,
                "requeuingStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 10},
            }
        self.write(build.configuration(self.rules, strategies=self.fair, **blocks))

    def _group(self, *, limits: bool) -> Object:
        pick = self.random.choice
        names = [*self.resources, *([MIG] if self.devices else [])]

        def quota(resource: str) -> Object:
            nominal = pick((0, 2, 4, 6, 8))
            limited = limits and self.random.random() < 0.3
            return build.quota(
                resource,
                nominal,
                borrowing=pick((None, 0, 2, 4)) if limited else None,
                lending=pick((None, 0, nominal // 2)) if limited else None,
            )

        return build.group(**{flavor: [quota(resource) for resource in names] for flavor in self.flavors})

    def _queue(self, name: str) -> Object:
        pick = self.random.choice
        cohort = pick([*self.cohorts, None]) if self.cohorts else None
        queue = build.cluster_queue(
            name,
            self._group(limits=cohort is not None),
            cohort=cohort,
            strict=self.random.random() < 0.3,
            within=pick(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
            reclaim=pick(("Never", "LowerPriority", "Any")),
            weight=pick((None, "0", "1", "2")) if self.fair else None,
        )
        if self.checked and self.random.random() < 0.5:
            queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "slow"}]}
        return queue

    def _cohort(self, name: str) -> Object:
        others = [other for other in self.cohorts if other != name]
        parent = self.random.choice([None, None, *others])
        groups = [self._group(limits=parent is not None)] if self.random.random() < 0.4 else []
        return build.cohort(name, *groups, parent=parent)

    def operate(self) -> None:
        """Somebody changes what is declared."""
        random, pick = self.random, self.random.choice
        name = pick(self.queues)
        what = random.randrange(9)
        if what < 3:
            self.write(self._queue(name))
        elif what == 3 and self.cohorts:
            cohort = pick(self.cohorts)
            if random.random() < 0.3:
                self.delete(("Cohort", "", cohort))
            else:
                self.write(self._cohort(cohort))
        elif what == 4:
            queue = self.objects.get(("ClusterQueue", "", name))
            if queue is not None:
                stop = pick(("None", "Hold", "HoldAndDrain"))
                self.write({**queue, "spec": {**queue["spec"], "stopPolicy": stop}})
        elif what == 5:
            self._come_or_go(build.flavor(pick(self.flavors), {"flavor": "any"}))
        elif what == 6:
            self._come_or_go(pick((self._queue(name), build.local_queue(name))))
        elif what == 7 and self.devices:
            number = random.randrange(3)
            self._come_or_go(pick((_slice(number, pick((1, 2, 4))), _template())))
        elif what == 8:
            self.configure()

    def _come_or_go(self, target: Object) -> None:
        key = key_of(target)
        if key in self.objects and self.random.random() < 0.5:
            self.delete(key)
        else:
            uid = target["metadata"]["uid"] if key in self.objects else f"{target['metadata']['uid']}-{self.version}"
            self.write({**target, "metadata": {**target["metadata"], "uid": uid}})

    # Users

    def submit(self) -> None:
        pick = self.random.choice
        self.number += 1
        count = pick((1, 1, 2, 3))
        more: dict[str, Any] = {}
        if self.devices and self.random.random() < 0.4:
            more["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        pods = build.pod_set(
            count=count,
            min_count=1 if count > 1 and self.random.random() < 0.3 else None,
            requests={resource: pick((1, 1, 2, 3)) for resource in self.resources},
            flavor=pick(self.flavors) if self.random.random() < 0.1 else None,
            **more,
        )
        if more:
            pods["template"]["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        spec = {"maximumExecutionTimeSeconds": 120} if self.random.random() < 0.1 else {}
        name = f"w{pick((self.number, self.number, max(1, self.number - 5))):03}"
        uid = f"{name}-{self.number}"
        if ("Workload", NAMESPACE, name) in self.objects:
            self.delete(("Workload", NAMESPACE, name))
        self.write(
            build.workload(
                name, pick(self.queues), pods, priority=pick((-1, 0, 0, 1)), created=self.now, uid=uid, **spec
            )
        )

    def live(self) -> list[Object]:
        return [
            target
            for (kind, _, _), target in sorted(self.objects.items())
            if kind == "Workload" and not is_true(target, "Finished")
        ]

    def meddle(self) -> None:
        """Something happens to a workload: it ends, is deleted, deactivated, gives pods back, gets a check's answer."""
        live = self.live()
        if not live:
            return
        target = self.random.choice(live)
        holds = is_true(target, "QuotaReserved")
        what = self.random.randrange(12)
        if what < 5 and holds:
            self.write(build.finished(target, at=self.now))
        elif what == 5:
            self.delete(key_of(target))
        elif what == 6:
            self.write({**target, "spec": {**target["spec"], "active": not target["spec"]["active"]}})
        elif what == 7:
            self.write({**target, "spec": {**target["spec"], "priority": self.random.choice((-2, 0, 3))}})
        elif what == 8 and holds:
            count = target["spec"]["podSets"][0]["count"]
            done = [{"name": "main", "count": self.random.randint(0, count)}]
            self.write({**target, "status": {**target["status"], "reclaimablePods": done}})
        elif what == 9 and holds and self.checked:
            state = self.random.choice(("Ready", "Ready", "Pending", "Retry", "Rejected"))
            checks = [{"name": "slow", "state": state, "message": "", "lastTransitionTime": build.moment(self.now)}]
            self.write({**target, "status": {**target["status"], "admissionChecks": checks}})
        elif what == 10 and holds:
            ready = self.random.random() < 0.7
            self.write(build.with_conditions(target, build.condition("PodsReady", ready, "PodsReady", self.now)))

    # Controllers that act on what the ledger decided, each in its own time

    def observe(self, decision: Object) -> None:
        kind = decision["type"]
        if kind not in ("QuotaReserved", "Preempted", "Evicted"):
            return
        named = decision["workload"]
        if self.random.random() < 0.03:
            return  # nobody acts on it
        due = self.now + self.random.choice((0, 0, 1, 5, 40))
        acts = {"QuotaReserved": self._reserve, "Preempted": self._evict, "Evicted": self._evict}
        act = acts[kind]
        self.duties.append((due, lambda: act(decision, named["name"], named["uid"])))

    def work(self) -> None:
        """Controllers do what is due."""
        due = [duty for duty in self.duties if duty[0] <= self.now]
        self.duties = [duty for duty in self.duties if duty[0] > self.now]
        for _, act in due:
            act()

    def _reserve(self, decision: Object, name: str, uid: str) -> None:
        target = self.workload(name, uid)
        if target is None or is_true(target, "Finished") or is_true(target, "QuotaReserved"):
            return
        given = [
            build.assignment(pods["name"], pods["flavors"], pods["usage"], count=pods["count"])
            for pods in decision["podSets"]
        ]
        self.write(build.holding(target, decision["clusterQueue"], given, at=int(self.now)))

    def _evict(self, decision: Object, name: str, uid: str) -> None:
        target = self.workload(name, uid)
        if target is None or not is_true(target, "QuotaReserved"):
            return
        preempted = decision["reason"] if decision["type"] == "Preempted" else None
        reason = "Preempted" if preempted else decision["reason"]
        self.write(build.evicted(target, at=int(self.now), reason=reason, preempted=preempted))
        self.duties.append((self.now + self.random.choice((0, 2, 20)), lambda: self._release(name, uid)))

    def _release(self, name: str, uid: str) -> None:
        target = self.workload(name, uid)
        if target is None or not is_true(target, "QuotaReserved") or is_true(target, "Finished"):
            return
        released = build.released(target, at=int(self.now))
        if self.random.random() < 0.3:
            released["status"]["requeueState"] = {"count": 1, "requeueAt": build.moment(int(self.now) + 30)}
        self.write(released)

    def happen(self) -> None:
        """One random thing, and time goes on."""
        self.now += self.random.choice((0, 0, 0.5, 1, 3, 30))
        what = self.random.random()
        if what < 0.45:
            self.submit()
        elif what < 0.75:
            self.meddle()
        elif what < 0.87:
            self.operate()
        self.work()


def key_of(target: Object) -> Key:
    named = target.get("metadata", {})
    return target["kind"], named.get("namespace", ""), named.get("name", "")


def is_true(target: Object, kind: str) -> bool:
    conditions = target.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _check(name: str) -> Object:
    return {
        "apiVersion": build.KUEUE,
        "kind": "AdmissionCheck",
        "metadata": build.metadata(name, uid=f"check-{name}"),
        "spec": {"controllerName": "example.com/slow"},
        "status": {"conditions": [build.condition("Active", True, "Active", 1)]},
    }


def _device_class() -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": build.metadata("gpu.example.com", uid="class-gpu"),
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }


def _template() -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": build.metadata("one-gpu", NAMESPACE, uid="template-one-gpu"),
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _slice(number: int, devices: int) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": build.metadata(f"slice-{number}", uid=f"slice-{number}"),
        "spec": {
            "driver": DRIVER,
            "nodeName": f"node-{number}",
            "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}", "attributes": {"index": {"int": n}}} for n in range(devices)],
        },
    }
