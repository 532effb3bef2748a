"""Builders of objects and events: a queue, a cohort, a flavor, a workload in one line each.

Objects are the dicts a Kubernetes API server would send; amounts are quantity texts or numbers. `event` wraps one of
them into a record of the events topic and `encode` turns that into its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]
Event = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "team"
START = datetime(2026, 1, 1, tzinfo=UTC)
FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"


def moment(second: float) -> str:
    """The timestamp a number of seconds after the start of every test."""
    return (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(change: str, target: Object | None = None, *, at: float | None = None, cluster: str = "test") -> Event:
    record: Event = {"cluster": cluster, "type": change}
    if at is not None:
        record["at"] = moment(at)
    if target is not None:
        record["object"] = target
    return record


def batch(*events: Event, at: float | None = None, cluster: str = "test") -> Event:
    record: Event = {"cluster": cluster, "type": "BATCH", "events": list(events)}
    if at is not None:
        record["at"] = moment(at)
    return record


def encode(record: Event) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def configuration(
    rules: str | None = "kueue-0.19",
    *,
    strategies: Sequence[str] | None = None,
    gates: Mapping[str, bool] | None = None,
    **blocks: Any,
) -> Object:
    """The Configuration; fair sharing is on when strategies are given."""
    result: Object = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **blocks}
    if rules is not None:
        result["ledger"] = {"rules": rules}
    if strategies is not None:
        result["fairSharing"] = {"preemptionStrategies": list(strategies)}
    if gates:
        result["featureGates"] = dict(gates)
    return result


def metadata(name: str, namespace: str | None = None, *, uid: str = "", created: float = 0, **more: Any) -> Object:
    result: Object = {"name": name, "uid": uid or name, "creationTimestamp": moment(created), **more}
    if namespace is not None:
        result["namespace"] = namespace
    return result


def namespace(name: str = NAMESPACE, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name, uid=f"ns-{name}", labels=labels)}


def flavor(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    taints: Sequence[Object] = (),
    tolerations: Sequence[Object] = (),
) -> Object:
    spec: Object = {}
    if labels:
        spec["nodeLabels"] = dict(labels)
    if taints:
        spec["nodeTaints"] = list(taints)
    if tolerations:
        spec["tolerations"] = list(tolerations)
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": metadata(name, uid=f"rf-{name}"), "spec": spec}


def quota(resource: str, nominal: object, *, borrowing: object = None, lending: object = None) -> Object:
    result: Object = {"name": resource, "nominalQuota": str(nominal)}
    if borrowing is not None:
        result["borrowingLimit"] = str(borrowing)
    if lending is not None:
        result["lendingLimit"] = str(lending)
    return result


def group(**flavors: Sequence[Object]) -> Object:
    """A resource group from `flavor=[quota(...), ...]`, in the order of the arguments."""
    covered = [q["name"] for q in next(iter(flavors.values()))]
    return {
        "coveredResources": covered,
        "flavors": [{"name": name.replace("_", "-"), "resources": list(quotas)} for name, quotas in flavors.items()],
    }


def cluster_queue(
    name: str,
    *groups: Object,
    cohort: str | None = None,
    strict: bool = False,
    within: str | None = None,
    reclaim: str | None = None,
    borrow: str | None = None,
    threshold: int | None = None,
    fungibility: Mapping[str, str] | None = None,
    weight: str | None = None,
    stop: str | None = None,
    selector: Object | None = None,
    selects_nothing: bool = False,
) -> Object:
    spec: Object = {
        "resourceGroups": list(groups),
        "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
    }
    if not selects_nothing:
        spec["namespaceSelector"] = selector or {}
    if cohort is not None:
        spec["cohortName"] = cohort
    preemption: Object = {}
    if within:
        preemption["withinClusterQueue"] = within
    if reclaim:
        preemption["reclaimWithinCohort"] = reclaim
    if borrow:
        preemption["borrowWithinCohort"] = {"policy": borrow}
        if threshold is not None:
            preemption["borrowWithinCohort"]["maxPriorityThreshold"] = threshold
    if preemption:
        spec["preemption"] = preemption
    if fungibility:
        spec["flavorFungibility"] = dict(fungibility)
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    if stop:
        spec["stopPolicy"] = stop
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": metadata(name, uid=f"cq-{name}"), "spec": spec}


def cohort(name: str, *groups: Object, parent: str | None = None, weight: str | None = None) -> Object:
    spec: Object = {}
    if groups:
        spec["resourceGroups"] = list(groups)
    if parent is not None:
        spec["parentName"] = parent
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": metadata(name, uid=f"cohort-{name}"), "spec": spec}


def local_queue(name: str, queue: str | None = None, *, namespace: str = NAMESPACE, stop: str | None = None) -> Object:
    """A LocalQueue; it leads to the ClusterQueue of the same name unless told otherwise."""
    spec: Object = {"clusterQueue": queue or name}
    if stop:
        spec["stopPolicy"] = stop
    return {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": metadata(name, namespace, uid=f"lq-{namespace}-{name}"),
        "spec": spec,
    }


def limit_range(name: str, *limits: Object, namespace: str = NAMESPACE) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata(name, namespace, uid=f"lr-{namespace}-{name}"),
        "spec": {"limits": list(limits)},
    }


def container(requests: Mapping[str, object] | None = None, *, limits: Mapping[str, object] | None = None) -> Object:
    resources = {}
    if requests:
        resources["requests"] = {name: str(amount) for name, amount in requests.items()}
    if limits:
        resources["limits"] = {name: str(amount) for name, amount in limits.items()}
    return {"name": "c", "image": "registry.example/app:1", "resources": resources}


def pod_set(
    name: str = "main",
    *containers: Object,
    count: int = 1,
    min_count: int | None = None,
    requests: Mapping[str, object] | None = None,
    flavor: str | None = None,
    **pod: Any,
) -> Object:
    """A pod set; `requests` makes its one container, `flavor` selects the nodes labelled with that flavor's name."""
    spec: Object = {"restartPolicy": "Never", "containers": list(containers) or [container(requests)], **pod}
    if flavor is not None:
        spec["nodeSelector"] = {"flavor": flavor}
    result: Object = {"name": name, "count": count, "template": {"metadata": {}, "spec": spec}}
    if min_count is not None:
        result["minCount"] = min_count
    return result


def workload(
    name: str,
    queue: str,
    *pod_sets: Object,
    requests: Mapping[str, object] | None = None,
    priority: int = 0,
    created: float = 0,
    uid: str = "",
    namespace: str = NAMESPACE,
    **spec: Any,
) -> Object:
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": metadata(name, namespace, uid=uid, created=created, generation=1),
        "spec": {
            "queueName": queue,
            "priority": priority,
            "active": True,
            "podSets": list(pod_sets) or [pod_set(requests=requests)],
            **spec,
        },
    }


def condition(kind: str, status: bool, reason: str, at: float, message: str = "") -> Object:
    return {
        "type": kind,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment(at),
    }


def with_conditions(target: Object, *conditions: Object) -> Object:
    """A copy of a workload with these conditions in place of those of the same types."""
    status = dict(target.get("status", {}))
    named = {c["type"]: c for c in status.get("conditions", [])}
    named.update({c["type"]: c for c in conditions})
    return {**target, "status": {**status, "conditions": list(named.values())}}


def holding(target: Object, queue: str, assignments: Sequence[Object], *, at: float = 0) -> Object:
    """A copy of a workload that holds quota: a fact, or the echo of a reservation."""
    status = {
        **target.get("status", {}),
        "admission": {"clusterQueue": queue, "podSetAssignments": list(assignments)},
    }
    return with_conditions(
        {**target, "status": status},
        condition("QuotaReserved", True, "QuotaReserved", at),
        condition("Admitted", True, "Admitted", at),
        *(
            condition(c["type"], False, "QuotaReserved", at)
            for c in status.get("conditions", [])
            if c["type"] in ("Evicted", "Preempted") and c["status"] == "True"
        ),
    )


def assignment(name: str, flavors: Mapping[str, str], usage: Mapping[str, object], *, count: int = 1) -> Object:
    return {
        "name": name,
        "flavors": dict(flavors),
        "resourceUsage": {resource: str(amount) for resource, amount in usage.items()},
        "count": count,
    }


def evicted(target: Object, *, at: float, reason: str = "Preempted", preempted: str | None = None) -> Object:
    """A copy of a workload that is told to give its quota back and still holds it."""
    conditions = [condition("Evicted", True, reason, at)]
    if preempted is not None:
        conditions.append(condition("Preempted", True, preempted, at))
    return with_conditions(target, *conditions)


def released(target: Object, *, at: float) -> Object:
    """A copy of a preempted workload that gave its quota back and waits again (7.4.2)."""
    result = with_conditions(
        target,
        condition("QuotaReserved", False, "Pending", at),
        condition("Admitted", False, "NoReservation", at),
        condition("Requeued", True, "Preempted", at),
    )
    status = {key: value for key, value in result["status"].items() if key != "admission"}
    return {**result, "status": status}


def finished(target: Object, *, at: float) -> Object:
    return with_conditions(target, condition("Finished", True, "Succeeded", at, "Job finished successfully"))
