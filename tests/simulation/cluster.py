"""A simulated Kubernetes cluster: its API server, its operators and its users.

It keeps objects as an API server would, with versions and generations, and puts every write into the watch of its
object. Everything is drawn from one `Random`. Controllers that act on decisions are in `controllers`.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from tests import builders as build
from tests.builders import FINAL_SHARE, INITIAL_SHARE, NAMESPACE, Event, Object
from tests.simulation.samples import (
    CPU,
    GPU,
    MIG,
    check,
    device_class,
    local_queue,
    priority_class,
    resource_slice,
    template,
)

Key = tuple[str, str, str]

GATES: tuple[dict[str, bool], ...] = (
    {},
    {},
    {},
    {"PriorityBoost": True},
    {"MultiKueueOrchestratedPreemption": True},
    {"DisableWaitForPodsReady": True},
    {"ElasticJobsViaWorkloadSlices": False},
    {"SchedulingEquivalenceHashing": False},
    {"PrioritySortingWithinCohort": False},
)


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
        self.flavors = [f"f{n}" for n in range(1, random.choice((1, 2, 3)) + 1)]
        self.resources = random.choice(([GPU], [GPU, CPU]))
        self.devices = random.random() < 0.4
        self.fair = random.choice((None, None, (FINAL_SHARE, INITIAL_SHARE), (INITIAL_SHARE,)))
        self.rules = random.choice((None, None, "kueue-0.19"))
        self.checks = random.choice(([], [], ["slow"], ["slow"], ["slow", "paid"], ["slow", "paid", "safe"]))
        self.classes = random.choice(([], [], ["gold"], ["gold", "iron"]))
        self.sharing = random.random() < 0.3
        self.elastic = random.random() < 0.4
        self.cohorts = [f"c{n}" for n in range(random.choice((0, 1, 3)))]
        self.queues = [f"q{n}" for n in range(random.choice((2, 3, 4)))]
        self.local_queues = {name: name for name in self.queues}
        if self.sharing or random.random() < 0.2:
            self.local_queues |= {f"{name}-too": name for name in self.queues[:2]}
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
            *(self._local_queue(name) for name in self.local_queues),
            *(check(name) for name in self.checks),
            *(priority_class(name, 1) for name in self.classes),
        ]
        if self.devices:
            everything += [device_class(), template(), *(resource_slice(number, 2) for number in range(2))]
        self.random.shuffle(everything)
        for target in everything:
            self.write(target)

    def configure(self) -> None:
        blocks: dict[str, Any] = {}
        if self.devices:
            blocks["resources"] = {"deviceClassMappings": [{"name": MIG, "deviceClassNames": ["gpu.example.com"]}]}
        if self.random.random() < 0.5:
            blocks["waitForPodsReady"] = self._pods_ready()
        if self.sharing:
            blocks["admissionFairSharing"] = {
                "usageHalfLifeTime": self.random.choice(("60s", "60s", "600s", "0s")),
                "usageSamplingInterval": self.random.choice(("10s", "30s")),
                "resourceWeights": self.random.choice(({}, {CPU: 0.0}, {GPU: 2.5})),
            }
        self.write(build.configuration(self.rules, strategies=self.fair, gates=self.random.choice(GATES), **blocks))

    def _pods_ready(self) -> Object:
        pick = self.random.choice
        strategy: Object = {
            "backoffBaseSeconds": pick((0, 5, 10)),
            "backoffMaxSeconds": pick((8, 20, 3600)),
            "timestamp": pick(("Eviction", "Creation")),
        }
        limit = pick((None, 0, 1, 3))
        if limit is not None:
            strategy["backoffLimitCount"] = limit
        waiting = {
            "timeout": pick(("10s", "60s")),
            "blockAdmission": self.random.random() < 0.3,
            "requeuingStrategy": strategy,
        }
        recovery = pick((None, "0s", "15s"))
        return waiting if recovery is None else {**waiting, "recoveryTimeout": recovery}

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
        named = [self._rule(each) for each in self.checks if self.random.random() < 0.5]
        if named:
            queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": named}
        if self.sharing and self.random.random() < 0.7:
            queue["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        return queue

    def _rule(self, name: str) -> Object:
        """A check for all flavors, or for some."""
        if self.random.random() < 0.5:
            return {"name": name}
        return {"name": name, "onFlavors": [each for each in self.flavors if self.random.random() < 0.7]}

    def _local_queue(self, name: str) -> Object:
        weight = self.random.choice((None, None, "0", "0.5", "2")) if self.sharing else None
        return local_queue(name, self.local_queues[name], weight)

    def _cohort(self, name: str) -> Object:
        others = [other for other in self.cohorts if other != name]
        parent = self.random.choice([None, None, *others])
        groups = [self._group(limits=parent is not None)] if self.random.random() < 0.4 else []
        return build.cohort(name, *groups, parent=parent)

    def operate(self) -> None:
        """Somebody changes what is declared."""
        random, pick = self.random, self.random.choice
        name = pick(self.queues)
        what = random.randrange(14)
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
            self._come_or_go(pick((self._queue(name), self._local_queue(pick([*self.local_queues])))))
        elif what == 7 and self.devices:
            number = random.randrange(3)
            self._come_or_go(pick((resource_slice(number, pick((1, 2, 4))), template())))
        elif what == 8:
            self.configure()
        elif what in (9, 13):
            self._stop_local_queue(pick([*self.local_queues]))
        elif what in (10, 11) and self.checks:
            self._come_or_go(check(pick(self.checks), active=random.random() < 0.6))
        elif what == 12 and self.classes:
            self._change_class(pick(self.classes))

    def _stop_local_queue(self, name: str) -> None:
        target = self.objects.get(("LocalQueue", NAMESPACE, name))
        if target is not None:
            stop = self.random.choice(("None", "Hold", "HoldAndDrain", "HoldAndDrain"))
            self.write({**target, "spec": {**target["spec"], "stopPolicy": stop}})

    def _start_queues(self) -> None:
        for _, target in sorted(self.objects.items()):
            if target.get("spec", {}).get("stopPolicy", "None") != "None":
                self.write({**target, "spec": {**target["spec"], "stopPolicy": "None"}})

    def _change_class(self, name: str) -> None:
        """A class changes or is made anew; Kueue's controller rewrites the workloads that name it, in its time."""
        value = self.random.choice((-1, 0, 1, 5))
        self._come_or_go(priority_class(name, value))
        if ("WorkloadPriorityClass", "", name) in self.objects and self.random.random() < 0.7:
            for target in self.live():
                reference = target["spec"].get("priorityClassRef")
                if reference is not None and reference["name"] == name:
                    self.write({**target, "spec": {**target["spec"], "priority": value}})

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
        name = f"w{pick((self.number, self.number, max(1, self.number - 5))):03}"
        if ("Workload", NAMESPACE, name) in self.objects:
            self.delete(("Workload", NAMESPACE, name))
        self.write(self._workload(name, pick([*self.local_queues]), pods))

    def _workload(self, name: str, queue: str, *pod_sets: Object, replaces: str | None = None) -> Object:
        random, pick = self.random, self.random.choice
        spec: dict[str, Any] = {}
        if random.random() < 0.15:
            spec["maximumExecutionTimeSeconds"] = pick((20, 120))
        if random.random() < 0.1:
            spec["preemptionGates"] = [{"name": "gate"}]
        if self.classes and random.random() < 0.5:
            group = "kueue.x-k8s.io"
            spec["priorityClassRef"] = {"group": group, "kind": "WorkloadPriorityClass", "name": pick(self.classes)}
        uid = f"{name}-{self.number}"
        target = build.workload(
            name, queue, *pod_sets, priority=pick((-1, 0, 0, 1)), created=int(self.now), uid=uid, **spec
        )
        annotations: dict[str, str] = {}
        if random.random() < 0.05:
            annotations["kueue.x-k8s.io/admission-gated-by"] = "somebody"
        if random.random() < 0.1:
            annotations["kueue.x-k8s.io/priority-boost"] = pick(("3", "-3", "much"))
        if replaces is not None:
            annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = f"{NAMESPACE}/{replaces}"
        target["metadata"]["annotations"] = annotations
        return target

    def scale(self) -> None:
        """An elastic job grows, by a new slice, or shrinks in place."""
        live = [target for target in self.live() if "minCount" not in target["spec"]["podSets"][0]]
        if not live:
            return
        old = self.random.choice(live)
        pods = old["spec"]["podSets"][0]
        if self.random.random() < 0.6:
            self.number += 1
            grown = {**pods, "count": pods["count"] + self.random.choice((1, 2))}
            name = f"s{self.number:03}"
            self.write(self._workload(name, old["spec"]["queueName"], grown, replaces=old["metadata"]["name"]))
        elif pods["count"] > 1 and is_true(old, "QuotaReserved"):
            shrunk = {**pods, "count": pods["count"] - 1}
            self.write({**old, "spec": {**old["spec"], "podSets": [shrunk]}})

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
        random, pick = self.random, self.random.choice
        target = pick(live)
        holds = is_true(target, "QuotaReserved")
        what = random.randrange(17)
        if what < 4 and holds:
            self.write(build.finished(target, at=self.now))
        elif what == 4:
            self.delete(key_of(target))
        elif what == 5:
            self.write({**target, "spec": {**target["spec"], "active": not target["spec"]["active"]}})
        elif what == 6:
            self.write({**target, "spec": {**target["spec"], "priority": pick((-2, 0, 3))}})
        elif what == 7 and holds:
            count = target["spec"]["podSets"][0]["count"]
            done = [{"name": "main", "count": random.randint(0, count)}]
            self.write({**target, "status": {**target["status"], "reclaimablePods": done}})
        elif what in (8, 9, 10) and self.checks:
            self._answer(target)
        elif what in (11, 12, 13) and holds:
            ready, reason = pick(((True, "Started"), (False, "WaitForRecovery"), (False, "WaitForStart")))
            self.write(build.with_conditions(target, build.condition("PodsReady", ready, reason, int(self.now))))
        elif what == 14:
            gated = {"kueue.x-k8s.io/admission-gated-by": ""}
            annotations = {**target["metadata"].get("annotations", {}), **gated}
            self.write({**target, "metadata": {**target["metadata"], "annotations": annotations}})
        elif what == 15 and holds and random.random() < 0.5:
            self.write(build.evicted(target, at=int(self.now), reason="NodeFailures"))
        elif what == 16:
            gate = {"name": "gate", "position": pick(("Open", "Closed"))}
            self.write({**target, "status": {**target.get("status", {}), "preemptionGates": [gate]}})

    def _answer(self, target: Object) -> None:
        """Controllers of checks answer, now and then one that was not asked."""
        pick = self.random.choice
        answers = {each["name"]: each for each in target.get("status", {}).get("admissionChecks", ())}
        for name in self.checks:
            if self.random.random() < 0.6:
                state = pick(("Ready", "Ready", "Pending", "Retry", "Retry", "Rejected"))
                answer = {
                    "name": name,
                    "state": state,
                    "message": "",
                    "lastTransitionTime": build.moment(int(self.now)),
                }
                if state == "Retry" and self.random.random() < 0.6:
                    answer["requeueAfterSeconds"] = pick((1, 5, 30))
                answers[name] = answer
        listed = [answers[name] for name in sorted(answers)]
        self.write({**target, "status": {**target.get("status", {}), "admissionChecks": listed}})

    def happen(self) -> None:
        """One random thing, and time goes on."""
        self.now += self.random.choice((0, 0, 0.5, 1, 3, 30))
        what = self.random.random()
        if what < 0.40:
            self.submit()
        elif what < 0.46 and self.elastic:
            self.scale()
        elif what < 0.78:
            self.meddle()
        elif what < 0.90:
            self.operate()
        elif what < 0.94:
            self._start_queues()


def key_of(target: Object) -> Key:
    named = target.get("metadata", {})
    return target["kind"], named.get("namespace", ""), named.get("name", "")


def is_true(target: Object, kind: str) -> bool:
    conditions = target.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
