"""Decoding: defaults, both API versions, nulls, deleted objects, exact places (objects 1, design 4)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ledger.events import decode_event
from ledger.objects import Configuration, InvalidObject, UnknownKind, Workload, condition, decode_object, is_true
from ledger.objects.cluster_queue import ClusterQueueSpec, FlavorFungibility, Preemption
from ledger.objects.cohort import CohortSpec
from ledger.objects.configuration import WaitForPodsReady
from ledger.objects.kinds import kinds
from ledger.objects.local_queue import LocalQueueSpec
from ledger.objects.workload import TopologyDomain
from ledger.quantity import NANO
from ledger.timestamps import SECOND, parse_timestamp
from tests.objects.samples import (
    Object,
    cluster_queue,
    configuration,
    container,
    decode,
    group,
    pod_set,
    recorded,
    recorded_lines,
    workload,
)

# --- recordings ------------------------------------------------------------------------------------------------


def test_every_recorded_event_decodes() -> None:
    for line in recorded_lines("events.jsonl"):
        event = decode_event(line)
        assert event.object is not None
        assert not isinstance(event.object, UnknownKind)


def test_every_line_of_the_watch_stream_decodes() -> None:
    for line in recorded_lines("watch-stream.jsonl"):
        decode_event(line)


def test_every_companion_decodes() -> None:
    for item in recorded("companions.json")["items"]:
        assert not isinstance(decode(item), UnknownKind)


@pytest.mark.parametrize("pair", recorded("version-pairs.json")["pairs"], ids=lambda pair: f"{pair['kind']}")
def test_both_versions_of_an_object_are_the_same_object(pair: Object) -> None:
    old, new = decode(pair["v1beta1"]), decode(pair["v1beta2"])
    if isinstance(old, Workload) and old.status.admission is not None:
        old, topology = without_topology(old)
        new, expected = without_topology(new)
        assert topology == expected
    assert old == new


def without_topology(item: Workload) -> tuple[Workload, list[tuple[TopologyDomain, ...]]]:
    assert item.status.admission is not None
    assignments = item.status.admission.pod_set_assignments
    domains = [a.topology_assignment.domains() for a in assignments if a.topology_assignment is not None]
    bare = tuple(msgspec.structs.replace(a, topology_assignment=None) for a in assignments)
    admission = msgspec.structs.replace(item.status.admission, pod_set_assignments=bare)
    status = msgspec.structs.replace(item.status, admission=admission)
    return msgspec.structs.replace(item, status=status), domains


def test_topology_slices_spell_out_their_domains() -> None:
    pair = recorded("version-pairs.json")["pairs"][0]
    _, domains = without_topology(decode(pair["v1beta2"]))
    assert domains == [(TopologyDomain(("b1", "r1"), 4), TopologyDomain(("b1", "r2"), 2))]


# --- defaults --------------------------------------------------------------------------------------------------


def test_a_cluster_queue_gets_the_defaults_of_the_server() -> None:
    queue = decode({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "a"}})
    assert queue.spec == ClusterQueueSpec()
    assert queue.spec.namespace_selector is None
    assert queue.spec.queueing_strategy == "BestEffortFIFO"
    assert queue.spec.flavor_fungibility == FlavorFungibility("MayStopSearch", "TryNextFlavor", None)
    assert queue.spec.preemption == Preemption()
    assert queue.spec.preemption.within_cluster_queue == "Never"
    assert queue.spec.stop_policy == "None"
    assert queue.spec.fair_sharing.weight == NANO
    assert queue.metadata.resource_version == 0


def test_half_a_fungibility_keeps_the_other_default() -> None:
    queue = decode(cluster_queue(flavorFungibility={"whenCanPreempt": "MayStopSearch"}))
    assert queue.spec.flavor_fungibility == FlavorFungibility("MayStopSearch", "MayStopSearch", None)


def test_an_absent_limit_is_not_a_limit_of_zero() -> None:
    quotas = group("f1", cpu="4")
    quotas["flavors"][0]["resources"][0]["borrowingLimit"] = "0"
    quota = decode(cluster_queue(quotas, cohortName="all")).spec.resource_groups[0].flavors[0].resources[0]
    assert quota.borrowing_limit == 0
    assert quota.lending_limit is None


def test_an_absent_selector_is_not_the_empty_one() -> None:
    assert decode(cluster_queue()).spec.namespace_selector is None
    assert decode(cluster_queue(namespaceSelector=None)).spec.namespace_selector is None
    assert decode(cluster_queue(namespaceSelector={})).spec.namespace_selector is not None


def test_cohorts_and_local_queues_get_their_defaults() -> None:
    cohort = decode({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "a"}})
    assert cohort.spec == CohortSpec()
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "a", "namespace": "t"}}
    assert decode(queue).spec == LocalQueueSpec("", "None")


def test_a_workload_gets_the_defaults_of_the_server() -> None:
    item = decode(workload({"template": {"spec": {"containers": [{"name": "c"}]}}}, queueName=""))
    [only] = item.spec.pod_sets
    assert (only.name, only.count, only.min_count) == ("main", 1, None)
    assert (item.spec.active, item.spec.priority, item.spec.queue_name) == (True, None, "")
    assert item.status.admission is None


def test_pod_index_labels_alone_are_no_topology_request() -> None:
    for request, asks in (
        ({"podIndexLabel": "i"}, False),
        ({"required": "rack"}, True),
        ({"unconstrained": True}, True),
    ):
        item = decode(workload(pod_set(container()) | {"topologyRequest": request}))
        assert item.spec.pod_sets[0].topology_request.asks_for_topology is asks


def test_pods_must_be_ready_in_thirty_minutes_unless_the_configuration_says_otherwise() -> None:
    assert configuration() == Configuration()
    assert configuration().wait_for_pods_ready == WaitForPodsReady()
    waiting = configuration(waitForPodsReady={"timeout": "5m"}).wait_for_pods_ready
    assert waiting is not None
    assert (waiting.timeout, waiting.recovery_limit) == (300 * SECOND, 300 * SECOND)
    waiting = configuration(waitForPodsReady={"recoveryTimeout": "0s"}).wait_for_pods_ready
    assert waiting is not None
    assert (waiting.timeout, waiting.recovery_limit) == (1800 * SECOND, None)
    assert configuration(featureGates={"DisableWaitForPodsReady": True}).wait_for_pods_ready is None


def test_fair_sharing_is_on_when_its_block_is_present() -> None:
    assert configuration().fair_sharing is None
    both = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    for block in ({}, {"preemptionStrategies": []}, {"preemptionStrategies": list(both)}):
        sharing = configuration(fairSharing=block).fair_sharing
        assert sharing is not None
        assert sharing.preemption_strategies == both


def test_feature_gates_have_the_defaults_of_this_version() -> None:
    chosen = configuration(featureGates={"PartialAdmission": False, "PriorityBoost": True})
    assert not chosen.gate("PartialAdmission")
    assert chosen.gate("PriorityBoost")
    assert Configuration().gate("PartialAdmission")
    assert not Configuration().gate("PriorityBoost")


# --- what decoding forgives ------------------------------------------------------------------------------------


def test_null_is_an_absent_field() -> None:
    item = workload(pod_set(container({"cpu": "1"}), tolerations=None, nodeSelector=None), priority=None, active=None)
    item["metadata"] |= {"creationTimestamp": None, "labels": None}
    item["status"] = None
    assert decode(item) == decode(workload())


def test_unknown_fields_are_ignored_however_strange() -> None:
    item = workload()
    item["metadata"]["managedFields"] = [{"fieldsV1": {"f:spec": {'k:{"x":1}': [None, 1e300, "\ud83d\ude00"]}}}]
    item["spec"]["fromTheFuture"] = {"a": [[[]]]}
    assert decode(item) == decode(workload())


def test_the_last_of_two_equal_keys_counts() -> None:
    text = json.dumps(workload(priority=1)).replace('"priority": 1', '"priority": 1, "priority": 2')
    assert decode_object(text.encode()).spec.priority == 2


def test_kinds_and_versions_without_use_are_named() -> None:
    for version, kind in (
        ("v1", "Pod"),
        ("kueue.x-k8s.io/v1alpha1", "Workload"),
        ("resource.k8s.io/v1beta1", "DeviceClass"),
    ):
        assert decode({"apiVersion": version, "kind": kind, "metadata": 5}) == UnknownKind(version, kind)


def test_conditions_are_found_by_type() -> None:
    moment = "2026-01-01T00:00:05Z"
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "m", "lastTransitionTime": moment}
    item = decode(workload(status={"conditions": [{"type": "Admitted", "status": "False"}, evicted]}))
    found = condition(item, "Evicted")
    assert found is not None
    assert (found.reason, found.last_transition_time) == ("Preempted", parse_timestamp(moment))
    assert condition(item, "Finished") is None
    assert (is_true(item, "Evicted"), is_true(item, "Admitted"), is_true(item, "Finished")) == (True, False, False)


# --- v1beta1 ---------------------------------------------------------------------------------------------------


def test_an_old_list_of_checks_overrides_the_strategy() -> None:
    old = cluster_queue(
        version="v1beta1",
        admissionChecks=["k1", "k2"],
        admissionChecksStrategy={"admissionChecks": [{"name": "k3"}]},
        cohort="all",
    )
    assert [rule.name for rule in decode(old).spec.admission_checks] == ["k1", "k2"]
    assert decode(old).spec.cohort_name == "all"
    old["spec"]["admissionChecks"] = []
    assert [rule.name for rule in decode(old).spec.admission_checks] == ["k3"]


def test_the_version_decides_not_the_fields() -> None:
    queue = decode(cluster_queue(version="v1beta2", cohort="all", admissionChecks=["k1"]))
    assert queue.spec.cohort_name == ""
    assert queue.spec.admission_checks == ()
    with pytest.raises(InvalidObject, match="whenCanBorrow"):
        decode(cluster_queue(version="v1beta2", flavorFungibility={"whenCanBorrow": "Borrow"}))


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("kueue.x-k8s.io/workloadpriorityclass", ("kueue.x-k8s.io", "WorkloadPriorityClass", "high")),
        ("scheduling.k8s.io/priorityclass", ("scheduling.k8s.io", "PriorityClass", "high")),
        ("", None),
    ],
)
def test_an_old_priority_class_becomes_a_reference(source: str, reference: tuple[str, ...] | None) -> None:
    item = decode(workload(version="v1beta1", priorityClassName="high", priorityClassSource=source, priority=7))
    found = item.spec.priority_class_ref
    assert (None if found is None else (found.group, found.kind, found.name)) == reference
    assert item.spec.priority == 7


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"spec": {"admissionChecks": "k1"}}, "spec.admissionChecks"),
        ({"spec": {"admissionChecks": [1]}}, "spec.admissionChecksStrategy.admissionChecks[0].name"),
        ({"spec": 5}, "spec"),
        ({"metadata": None}, "metadata"),
    ],
)
def test_old_objects_are_refused_with_a_place_too(change: Object, path: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        decode(cluster_queue(version="v1beta1") | change)
    assert caught.value.path == path


def repr_start(value: object) -> str:
    return repr(value)[:20]


# --- places ----------------------------------------------------------------------------------------------------


def broken(item: Object, value: Any, *steps: str | int) -> Object:
    copy = json.loads(json.dumps(item))
    holder = copy
    for step in steps[:-1]:
        holder = holder[step]
    holder[steps[-1]] = value
    return copy


QUEUE = cluster_queue(group("f1", "f2", cpu="1", memory="1Gi"), group("g1", gpu="8"))
POD = ("spec", "podSets", 1, "template", "spec")
ITEM = workload(
    pod_set(container({"cpu": "1"}), name="a"), pod_set(container({"cpu": "1", "memory": "1"}), container(), name="b")
)
FLAVORS = ("spec", "resourceGroups", 0, "flavors")


@pytest.mark.parametrize(
    ("item", "path", "reason"),
    [
        (broken(QUEUE, 5, *FLAVORS, 1, "name"), "spec.resourceGroups[0].flavors[1].name", "Expected `str`, got `int`"),
        (
            broken(QUEUE, "-1", *FLAVORS, 1, "resources", 1, "nominalQuota"),
            "spec.resourceGroups[0].flavors[1].resources[1].nominalQuota",
            "must be greater than or equal to 0, not -1",
        ),
        (
            broken(QUEUE, {"name": "cpu"}, *FLAVORS, 0, "resources", 0),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
            "is required",
        ),
        (
            broken(ITEM, "x", *POD, "containers", 0, "resources", "requests", "memory"),
            "spec.podSets[1].template.spec.containers[0].resources.requests[memory]",
            "'x' is not a quantity",
        ),
        (
            broken(ITEM, "-1", *POD, "containers", 0, "resources", "requests", "cpu"),
            "spec.podSets[1].template.spec.containers[0].resources.requests[cpu]",
            "must be greater than or equal to 0, not -1",
        ),
        (broken(ITEM, -1, "spec", "podSets", 1, "count"), "spec.podSets[1].count", "Expected `int` >= 0"),
        (broken(ITEM, 2**31, "spec", "priority"), "spec.priority", "Expected `int` <= 2147483647"),
        (broken(ITEM, 10**400, "spec", "priority"), "spec.priority", "Expected `int` <= 2147483647"),
        (broken(ITEM, "1", "spec", "priority"), "spec.priority", "Expected `int | null`, got `str`"),
        (broken(ITEM, {"a": 1}, "metadata", "labels"), "metadata.labels[a]", "Expected `str`, got `int`"),
        (broken(ITEM, "12x", "metadata", "resourceVersion"), "metadata.resourceVersion", "a resource version is"),
        (broken(ITEM, "today", "metadata", "creationTimestamp"), "metadata.creationTimestamp", "'today' is not an RFC"),
        (broken(ITEM, [], "metadata"), "metadata", "Expected `object`, got `array`"),
        (broken(ITEM, "Perhaps", "spec", "active"), "spec.active", "Expected `bool`, got `str`"),
        (broken(ITEM, [{"type": "A"}], "status"), "status", "Expected `object`, got `array`"),
        (broken(ITEM, {"conditions": [{"type": "A"}]}, "status"), "status.conditions[0].status", "is required"),
        (
            broken(ITEM, {"conditions": [{"type": "A", "status": "Perhaps"}]}, "status"),
            "status.conditions[0].status",
            "Invalid enum value 'Perhaps'",
        ),
        ({"kind": "Workload"}, "apiVersion", "is required"),
        ({"apiVersion": "v1"}, "kind", "is required"),
    ],
)
def test_an_error_names_its_exact_place(item: Object, path: str, reason: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        decode(item)
    assert caught.value.path == path
    assert caught.value.reason.startswith(reason)


def test_the_place_in_a_large_map_is_found() -> None:
    requests = {f"example.com/r{index}": "1" for index in range(1000)}
    requests["example.com/r618"] = "one"
    with pytest.raises(InvalidObject) as caught:
        decode(workload(pod_set(container(requests))))
    assert caught.value.path == "spec.podSets[0].template.spec.containers[0].resources.requests[example.com/r618]"


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"5", b'"x"', b"{}{}", b"\xff", b'{"kind":NaN}', b"[" * 10**6]
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidObject):
        decode_object(text)


# --- deleted objects -------------------------------------------------------------------------------------------


def deleted(item: Object) -> Any:
    return decode_event(json.dumps({"type": "DELETED", "object": item}).encode()).object


@pytest.mark.parametrize("known", sorted(kinds()), ids="/".join)
def test_a_deleted_object_needs_only_its_identity(known: tuple[str, str]) -> None:
    version, kind = known
    identity = {"name": "x", "namespace": "team", "uid": "u", "resourceVersion": "9"}
    for spec in (
        {},
        {"spec": 5, "status": "gone"},
        {"spec": None},
        {"spec": {"podSets": [], "driver": []}, "value": "x"},
    ):
        found = deleted({"apiVersion": version, "kind": kind, "metadata": identity, **spec})
        assert type(found).__name__ == kind
        assert (found.metadata.name, found.metadata.uid, found.metadata.resource_version) == ("x", "u", 9)


def test_a_deleted_object_keeps_what_can_be_read() -> None:
    assert deleted(workload(pod_set(container({"pods": "1"})), priority=5)).spec.priority == 5
