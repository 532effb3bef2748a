"""A world of one cluster: plays events into a fold with rising time and remembers what was decided."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ledger.fold import Fold
from tests import builders as build
from tests.builders import NAMESPACE, Event, Object
from tests.notation import POLICIES, Asked, Node, PodSet, Quota, parse_tree, parse_workload

Decision = dict[str, Any]

RULES = {
    "InClusterQueue": "ICQ",
    "InCohortReclamation": "REC",
    "InCohortReclaimWhileBorrowing": "RWB",
    "InCohortFairSharing": "FS",
}
BOTH = (build.FINAL_SHARE, build.INITIAL_SHARE)


class World:
    """One cluster of one fold.

    The tree and the holders are given in the notation of the reference texts (`tests.notation`). Holders are facts:
    they arrive with `status.admission`. Every object is kept as an API server would keep it, so that later events of a
    workload carry the echo of what the ledger decided.
    """

    def __init__(
        self,
        tree: str = "",
        *holders: str,
        rules: str | None = "kueue-0.19",
        strategies: Sequence[str] | None = None,
        gates: dict[str, bool] | None = None,
        flavors: Iterable[Object] = (),
        now: float = 200,
        cluster: str = "test",
        **blocks: Any,
    ) -> None:
        self.fold = Fold()
        self.now = now
        self.cluster = cluster
        self.offset = 0
        self.version = 0
        self.records: list[bytes] = []
        self.decisions: list[Decision] = []
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.flavor_of: dict[str, dict[str, str]] = {}
        self.victims_to_release: list[str] = []
        self.add(build.configuration(rules, strategies=strategies, gates=gates, **blocks))
        self.add(build.namespace())
        self.add(*flavors)
        self.plant(tree)
        for text in holders:
            self.hold(text)

    # Playing events.

    def apply(self, record: Event) -> list[Decision]:
        """Plays one record and gives back what was decided; nothing may be rejected."""
        value = build.encode(record)
        outcome = self.fold.apply(value, offset=self.offset, key=self.cluster.encode())
        self.offset += 1
        self.records.append(value)
        assert outcome.rejections == [], [(r.path, r.reason) for r in outcome.rejections]
        decisions = [json.loads(decision.value) for decision in outcome.decisions]
        for decision in decisions:
            self._remember(decision)
        self.decisions += decisions
        return decisions

    def send(self, change: str, *objects: Object) -> list[Decision]:
        """One event, or one BATCH of several, a second after the last one."""
        self.now += 1
        members = []
        for target in objects:
            self.version += 1
            if "metadata" in target:
                target["metadata"]["resourceVersion"] = str(self.version)
                key = _key(target)
                if change == "DELETED":
                    self.objects.pop(key, None)
                else:
                    self.objects[key] = target
            members.append(build.event(change, target, cluster=self.cluster))
        if len(members) == 1:
            return self.apply({**members[0], "at": build.moment(self.now)})
        return self.apply(build.batch(*members, at=self.now, cluster=self.cluster))

    def add(self, *objects: Object) -> list[Decision]:
        """Adds objects one event after the other."""
        return [decision for target in objects for decision in self.send("ADDED", target)]

    def change(self, *objects: Object) -> list[Decision]:
        """Changed objects, in one record; a changed specification raises the generation."""
        for target in objects:
            before = self.objects.get(_key(target))
            if before is not None and before.get("spec") != target.get("spec") and "metadata" in target:
                generation = before["metadata"].get("generation", 1) + 1
                target["metadata"] = {**target["metadata"], "generation": generation}
        return self.send("MODIFIED", *objects)

    def tick(self, second: float) -> list[Decision]:
        self.now = second
        return self.apply(build.event("TICK", at=second, cluster=self.cluster))

    # Building from notation.

    def plant(self, tree: str) -> None:
        """Flavors, cohorts, ClusterQueues and a LocalQueue for each of those, from a tree text."""
        for node in parse_tree(tree):
            self._plant(node, None)

    def _plant(self, node: Node, parent: str | None) -> None:
        for name in dict.fromkeys(q.flavor for group in node.groups for q in group):
            if ("ResourceFlavor", "", name) not in self.objects:
                self.add(build.flavor(name, {"flavor": name}))
        groups = [_group(quotas) for quotas in node.groups]
        if node.children is not None:
            if groups or node.attributes or parent:
                self.add(build.cohort(node.name, *groups, parent=parent, weight=node.attributes.get("w")))
            for child in node.children:
                self._plant(child, node.name)
            return
        self.flavor_of[node.name] = {}
        for quota in (q for group in node.groups for q in group):
            self.flavor_of[node.name].setdefault(quota.resource, quota.flavor)
        self.add(_cluster_queue(node, groups, parent), build.local_queue(node.name))

    def hold(self, text: str, *, assigned: dict[str, str] | None = None) -> list[Decision]:
        """A workload that holds quota before the ledger first sees it."""
        asked = parse_workload(text)
        target = _workload(asked)
        assignments = []
        for pods in asked.pod_sets:
            flavors = {
                resource: pods.flavor or (assigned or self.flavor_of[asked.queue]).get(resource, "f1")
                for resource in pods.requests
            }
            usage = {resource: _times(amount, pods.count) for resource, amount in pods.requests.items()}
            assignments.append(build.assignment(pods.name, flavors, usage, count=pods.count))
        target = build.holding(target, asked.queue, assignments, at=asked.reserved)
        if asked.evicted:
            target = build.evicted(target, at=asked.reserved, preempted="InClusterQueue")
        return self.add(target)

    def submit(self, *workloads: str | Object) -> list[Decision]:
        """Hands in workloads in one record, so that priorities count among them."""
        return self.send("ADDED", *(_workload(parse_workload(w)) if isinstance(w, str) else w for w in workloads))

    # What happens to workloads afterwards.

    def workload(self, name: str) -> Object:
        return self.objects["Workload", NAMESPACE, name]

    def cluster_queue(self, name: str) -> Object:
        """A copy of a ClusterQueue, to be changed and sent."""
        copy: Object = json.loads(json.dumps(self.objects["ClusterQueue", "", name]))
        return copy

    def finish(self, *names: str) -> list[Decision]:
        return self.change(*(build.finished(self.workload(name), at=self.now + 1) for name in names))

    def evict(self, name: str, reason: str, *, at: float | None = None) -> list[Decision]:
        return self.change(build.evicted(self.workload(name), at=self.now + 1 if at is None else at, reason=reason))

    def release(self, *names: str) -> list[Decision]:
        """Victims give their quota back and wait again."""
        self.victims_to_release = [name for name in self.victims_to_release if name not in names]
        return self.change(*(build.released(self.workload(name), at=self.now + 1) for name in names))

    def delete(self, *names: str) -> list[Decision]:
        return self.send("DELETED", *(dict(self.workload(name)) for name in names))

    def settle(self, rounds: int = 1000) -> list[Decision]:
        """Victims give their quota back at once, in name order, one event each, until none is left."""
        decisions: list[Decision] = []
        for _ in range(rounds):
            waiting = sorted(self.victims_to_release)
            if not waiting:
                return decisions
            decisions += self.release(waiting[0])
        raise AssertionError(f"still preempting after {rounds} victims: {victims(decisions[-20:])}")

    def _remember(self, decision: Decision) -> None:
        if decision["type"] not in ("QuotaReserved", "Preempted"):
            return
        name, namespace = decision["workload"]["name"], decision["workload"]["namespace"]
        target = self.objects["Workload", namespace, name]
        if decision["type"] == "QuotaReserved":
            assignments = [
                build.assignment(s["name"], s["flavors"], s["usage"], count=s["count"]) for s in decision["podSets"]
            ]
            target = build.holding(target, decision["clusterQueue"], assignments, at=int(self.now))
        else:
            target = build.evicted(target, at=int(self.now), preempted=decision["reason"])
            self.victims_to_release.append(name)
        self.objects["Workload", namespace, name] = target

    # Looking at the ledger.

    @property
    def ledger(self) -> Any:
        return self.fold.clusters[self.cluster]

    def usage(self) -> dict[str, dict[str, int]]:
        """What every ClusterQueue holds, by flavor/resource, zero amounts and empty queues left out."""
        held = {queue: {k: v for k, v in amounts.items() if v} for queue, amounts in self.ledger.usage().items()}
        return {queue: amounts for queue, amounts in held.items() if amounts}

    def shares(self) -> dict[str, float]:
        """The dominant resource share of every ClusterQueue."""
        return {queue: share.weighted for queue, share in self.ledger.shares().items()}

    def held(self, queue: str, item: str = "f1/nvidia.com/gpu") -> int:
        return self.usage().get(queue, {}).get(item, 0)

    def reasons(self) -> dict[str, str | None]:
        """The reason token of every waiting workload, by its name."""
        return {name.partition("/")[2]: reason for name, reason in self.ledger.pending_reasons().items()}

    def parked(self) -> dict[str, list[str]]:
        """The workloads parked as inadmissible, by ClusterQueue; queues without any left out."""
        return {
            queue: [name.partition("/")[2] for name in names] for queue, names in self.ledger.parked().items() if names
        }


# Reading decisions.


def victims(decisions: Iterable[Decision]) -> dict[str, str]:
    """Who was preempted, and under which rule, in the short words of the reference."""
    return {d["workload"]["name"]: RULES[d["reason"]] for d in decisions if d["type"] == "Preempted"}


def preemptors(decisions: Iterable[Decision]) -> dict[str, str]:
    """Who was preempted, and by whom."""
    return {d["workload"]["name"]: d["preemptor"]["name"] for d in decisions if d["type"] == "Preempted"}


def admitted(decisions: Iterable[Decision]) -> list[str]:
    """The workloads that got quota, in the order of the decisions."""
    return [d["workload"]["name"] for d in decisions if d["type"] == "QuotaReserved"]


def flavors(decisions: Iterable[Decision]) -> dict[str, dict[str, dict[str, str]]]:
    """The flavors given, by workload and pod set."""
    return {
        d["workload"]["name"]: {s["name"]: s["flavors"] for s in d["podSets"]}
        for d in decisions
        if d["type"] == "QuotaReserved"
    }


def counts(decisions: Iterable[Decision]) -> dict[str, dict[str, int]]:
    """The pods admitted, by workload and pod set."""
    return {
        d["workload"]["name"]: {s["name"]: s["count"] for s in d["podSets"]}
        for d in decisions
        if d["type"] == "QuotaReserved"
    }


def amounts(decisions: Iterable[Decision]) -> dict[str, dict[str, dict[str, str]]]:
    """The usage recorded, by workload and pod set."""
    return {
        d["workload"]["name"]: {s["name"]: s["usage"] for s in d["podSets"]}
        for d in decisions
        if d["type"] == "QuotaReserved"
    }


# From notation to objects.


def _key(target: Object) -> tuple[str, str, str]:
    named = target.get("metadata", {})
    return target["kind"], named.get("namespace", ""), named.get("name", "")


def _group(quotas: list[Quota]) -> Object:
    by_flavor: dict[str, list[Object]] = {}
    for quota in quotas:
        by_flavor.setdefault(quota.flavor, []).append(
            build.quota(quota.resource, quota.nominal, borrowing=quota.borrowing_limit, lending=quota.lending_limit)
        )
    return build.group(**by_flavor)


def _cluster_queue(node: Node, groups: list[Object], cohort: str | None) -> Object:
    given = node.attributes
    fungibility = {}
    if given.get("borrow") == "next":
        fungibility["whenCanBorrow"] = "TryNextFlavor"
    if "preempt" in given:
        fungibility["whenCanPreempt"] = {"stop": "MayStopSearch", "next": "TryNextFlavor"}[given["preempt"]]
    if given.get("pref") == "POB":
        fungibility["preference"] = "PreemptionOverBorrowing"
    return build.cluster_queue(
        node.name,
        *groups,
        cohort=cohort,
        strict="strict" in given,
        within=POLICIES[given["W"]] if "W" in given else None,
        reclaim=POLICIES[given["R"]] if "R" in given else None,
        borrow="LowerPriority" if "B" in given else None,
        threshold=int(given["B"]) if given.get("B") else None,
        fungibility=fungibility,
        weight=given.get("w"),
        stop="Hold" if "stopped" in given else None,
        selects_nothing="unselective" in given,
    )


def _workload(asked: Asked) -> Object:
    target = build.workload(
        asked.name,
        asked.queue,
        *(_pod_set(pods) for pods in asked.pod_sets),
        priority=asked.priority,
        created=asked.created,
        uid=asked.uid,
    )
    if "boost" in asked.attributes:
        target["metadata"]["annotations"] = {"kueue.x-k8s.io/priority-boost": asked.attributes["boost"]}
    return target


def _pod_set(pods: PodSet) -> Object:
    return build.pod_set(
        pods.name, count=pods.count, min_count=pods.min_count, requests=pods.requests, flavor=pods.flavor
    )


def _times(amount: str, count: int) -> str:
    return amount if count == 1 else str(int(amount) * count)
