"""Random clusters: trees with limits at all levels, queues of every strategy and policy, and what happens to them.

Everything is drawn from one `random.Random`, so that a seed names a world.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests import builders as build
from tests.builders import FINAL_SHARE, INITIAL_SHARE, Object
from tests.world import Decision, World

GPU = "nvidia.com/gpu"
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
RECLAIM = ("Never", "LowerPriority", "Any")
STRATEGIES: tuple[tuple[str, ...] | None, ...] = (
    None,
    None,
    (FINAL_SHARE, INITIAL_SHARE),
    (FINAL_SHARE,),
    (INITIAL_SHARE,),
)
WEIGHTS = ("0", "500m", "1", "1", "2")


class RandomWorld:
    """A random cluster and the means to let random things happen in it."""

    def __init__(
        self,
        seed: int,
        *,
        rules: str | None = None,
        audit: Callable[[RandomWorld], None] | None = None,
        cluster: str = "test",
    ) -> None:
        self.random = Random(seed)
        self.audit = audit
        pick = self.random.choice
        self.flavors = [f"f{number}" for number in range(1, pick((1, 1, 2, 3)) + 1)]
        self.resources = [GPU] if self.random.random() < 0.6 else [GPU, "cpu"]
        self.fair = pick(STRATEGIES)
        self.world = World(rules=rules, strategies=self.fair, cluster=cluster)
        self.cohorts = self._cohorts()
        self.queues = {f"q{number}": self._queue(f"q{number}") for number in range(pick((2, 3, 3, 4, 5)))}
        self.number = 0
        self.plays = 0

    # The static objects.

    def _cohorts(self) -> dict[str, Object]:
        """A tree of up to three levels below root `c0`, each with or without quota, limits and an object."""
        result: dict[str, Object] = {}
        for number in range(self.random.choice((0, 1, 2, 4))):
            name = f"c{number}"
            parent = f"c{self.random.randrange(number)}" if number else None
            groups = [self._group(limits=parent is not None, cohort=True)] if self.random.random() < 0.5 else []
            if parent is not None or groups or self.random.random() < 0.5:
                result[name] = build.cohort(name, *groups, parent=parent, weight=self._weight())
        return result

    def _weight(self) -> str | None:
        return self.random.choice(WEIGHTS) if self.fair and self.random.random() < 0.6 else None

    def _group(self, *, limits: bool, cohort: bool = False) -> Object:
        chance = self.random.random
        return build.group(
            **{
                flavor: [self._quota(r, limits and chance() < 0.4, cohort) for r in self.resources]
                for flavor in self.flavors
            }
        )

    def _quota(self, resource: str, limited: bool, cohort: bool) -> Object:
        nominal = self.random.choice((0, 1, 2, 3, 4, 6))
        borrowing = self.random.choice((None, 0, 1, 3, 6)) if limited else None
        lending = self.random.choice((None, 0, nominal // 2, nominal + 2 if cohort else nominal)) if limited else None
        return build.quota(resource, nominal, borrowing=borrowing, lending=lending)

    def _queue(self, name: str) -> Object:
        pick = self.random.choice
        cohort = pick([f"c{number}" for number in range(4)][: max(1, len(self.cohorts))] * 4 + [None])
        reclaim = pick(RECLAIM)
        borrow = "LowerPriority" if reclaim != "Never" and self.random.random() < 0.4 else None
        fungibility: dict[str, str] = {}
        if self.random.random() < 0.4:
            fungibility = {
                "whenCanBorrow": pick(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": pick(("MayStopSearch", "TryNextFlavor")),
            }
        return build.cluster_queue(
            name,
            self._group(limits=cohort is not None),
            cohort=cohort,
            strict=self.random.random() < 0.4,
            within=pick(WITHIN),
            reclaim=reclaim,
            borrow=borrow,
            threshold=pick((None, 0, 2)) if borrow else None,
            fungibility=fungibility,
            weight=self._weight(),
        )

    def begin(self) -> list[Decision]:
        """Adds everything static, in any order."""
        everything = [
            *(build.flavor(name, {"flavor": name}) for name in self.flavors),
            *self.cohorts.values(),
            *self.queues.values(),
            *(build.local_queue(name) for name in self.queues),
        ]
        self.random.shuffle(everything)
        return self._step(lambda: self.world.add(*everything))

    def workload(self) -> Object:
        pick = self.random.choice
        self.number += 1
        count = pick((1, 1, 1, 2, 4))
        requests = {r: pick((1, 1, 2, 3, 5)) for r in self.resources if r == GPU or self.random.random() < 0.7}
        pods = [
            build.pod_set(
                "main",
                count=count,
                min_count=1 if count > 1 and self.random.random() < 0.4 else None,
                requests=requests,
                flavor=pick(self.flavors) if self.random.random() < 0.2 else None,
            )
        ]
        if self.random.random() < 0.2:
            pods.append(build.pod_set("more", requests={GPU: pick((1, 2))}))
        return build.workload(
            f"w{self.number:03}",
            pick(list(self.queues)),
            *pods,
            priority=pick((-1, 0, 0, 1, 2)),
            created=self.world.now + pick((0, 0, -20)),
        )

    def fact(self) -> Object:
        """A workload that holds quota in a flavor of its queue before it is first seen; it may overdraw the queue."""
        target = self.workload()
        target["spec"]["podSets"] = target["spec"]["podSets"][:1]
        (pods,) = target["spec"]["podSets"]
        flavor = self.random.choice(self.flavors)
        requests = pods["template"]["spec"]["containers"][0]["resources"]["requests"]
        usage = {resource: int(amount) * pods["count"] for resource, amount in requests.items()}
        given = build.assignment("main", dict.fromkeys(usage, flavor), usage, count=pods["count"])
        return build.holding(target, target["spec"]["queueName"], [given], at=int(self.world.now))

    # What may happen.

    def _step(self, act: Callable[[], list[Decision]]) -> list[Decision]:
        decisions = act()
        self.plays += 1
        if self.audit is not None:
            self.audit(self)
        return decisions

    def _named(self, *, holding: bool | None = None) -> list[str]:
        """The live workloads, all or those that do or do not hold quota."""
        names = []
        for (kind, _, name), target in sorted(self.world.objects.items()):
            if kind == "Workload":
                conditions = {c["type"]: c["status"] for c in target.get("status", {}).get("conditions", ())}
                holds = conditions.get("QuotaReserved") == "True"
                if conditions.get("Finished") != "True" and holding in (None, holds):
                    names.append(name)
        return names

    def happen(self) -> list[Decision]:
        """One random thing; nothing when it does not apply."""
        happenings: list[tuple[int, Callable[[], list[Decision]]]] = [
            (16, lambda: self.world.submit(self.workload())),
            (3, lambda: self.world.submit(*(self.workload() for _ in range(self.random.choice((2, 3, 6)))))),
            (3, lambda: self.world.add(self.fact())),
            (6, lambda: self._on_one(self.world.finish, holding=True)),
            (2, lambda: self._on_one(self.world.delete)),
            (8, self._release),
            (3, self._change_queue),
            (2, self._change_cohort),
            (1, self._stop_or_start),
            (1, self._flavor_comes_or_goes),
            (1, self._queue_comes_or_goes),
            (1, lambda: self._on_one(self._deactivate)),
            (1, lambda: self._on_one(self._reprioritise)),
            (1, lambda: self._on_one(self._reclaim, holding=True)),
            (1, lambda: self.world.tick(self.world.now + 7)),
        ]
        weights = [weight for weight, _ in happenings]
        (_, act) = self.random.choices(happenings, weights)[0]
        return self._step(act)

    def _on_one(self, act: Callable[[str], list[Decision]], *, holding: bool | None = None) -> list[Decision]:
        names = self._named(holding=holding)
        return act(self.random.choice(names)) if names else []

    def _release(self) -> list[Decision]:
        alive = set(self._named(holding=True))
        waiting = sorted(alive.intersection(self.world.victims_to_release))
        return self.world.release(self.random.choice(waiting)) if waiting else []

    def _change_queue(self) -> list[Decision]:
        name = self.random.choice(list(self.queues))
        self.queues[name] = self._queue(name)
        return self.world.change(self.queues[name])

    def _change_cohort(self) -> list[Decision]:
        """New quota, limits or parent; this may close a circle or open it."""
        if not self.cohorts:
            return []
        name = self.random.choice(list(self.cohorts))
        parent = self.random.choice([None, *(other for other in self.cohorts if other != name)])
        groups = [self._group(limits=parent is not None, cohort=True)] if self.random.random() < 0.5 else []
        self.cohorts[name] = build.cohort(name, *groups, parent=parent, weight=self._weight())
        if self.random.random() < 0.2 and ("Cohort", "", name) in self.world.objects:
            return self.world.send("DELETED", self.world.objects["Cohort", "", name])
        return self.world.change(self.cohorts[name])

    def _stop_or_start(self) -> list[Decision]:
        name = self.random.choice(list(self.queues))
        target = {**self.queues[name]}
        target["spec"] = {**target["spec"], "stopPolicy": self.random.choice(("None", "Hold"))}
        self.queues[name] = target
        return self.world.change(target)

    def _flavor_comes_or_goes(self) -> list[Decision]:
        name = self.random.choice(self.flavors)
        if ("ResourceFlavor", "", name) in self.world.objects and self.random.random() < 0.5:
            return self.world.send("DELETED", self.world.objects["ResourceFlavor", "", name])
        return self.world.add(build.flavor(name, {"flavor": name}))

    def _queue_comes_or_goes(self) -> list[Decision]:
        name = self.random.choice(list(self.queues))
        if ("ClusterQueue", "", name) in self.world.objects and self.random.random() < 0.5:
            return self.world.send("DELETED", self.world.objects["ClusterQueue", "", name])
        return self.world.add({**self.queues[name]})

    def _deactivate(self, name: str) -> list[Decision]:
        target = self.world.workload(name)
        return self.world.change({**target, "spec": {**target["spec"], "active": not target["spec"]["active"]}})

    def _reprioritise(self, name: str) -> list[Decision]:
        target = self.world.workload(name)
        priority = self.random.choice((-2, 0, 3))
        return self.world.change({**target, "spec": {**target["spec"], "priority": priority}})

    def _reclaim(self, name: str) -> list[Decision]:
        target = self.world.workload(name)
        count = target["spec"]["podSets"][0]["count"]
        status = {**target["status"], "reclaimablePods": [{"name": "main", "count": self.random.randint(0, count)}]}
        return self.world.change({**target, "status": status})

    def run(self, steps: int) -> RandomWorld:
        self.begin()
        self._step(lambda: self.world.submit(*(self.workload() for _ in range(5))))
        for _ in range(steps):
            self.happen()
        return self

    def settle(self, limit: int) -> int:
        """Victims come back at once until nobody is left; gives back how many there were."""
        played = 0
        while waiting := sorted(set(self.world.victims_to_release)):
            if played == limit:
                return played
            self._step(lambda name=waiting[0]: self.world.release(name))
            played += 1
        return played


def closed_world(seed: int, rules: str | None) -> RandomWorld:
    """A cluster with more work than quota, in which afterwards nothing happens from outside."""
    closed = RandomWorld(seed, rules=rules)
    closed.begin()
    for _ in range(closed.random.choice((4, 8, 12))):
        closed.world.submit(closed.workload())
        if closed.settle(SETTLED_AFTER) >= SETTLED_AFTER:
            break
    return closed


SETTLED_AFTER = 300


def without_place(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision without what depends on where its cause stands in the log."""
    return {key: value for key, value in decision.items() if key not in ("cause", "prev", "hash")}
