"""What the API server or Kueue's webhooks refuse is refused, with its place (objects 1, admission 1)."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.objects import InvalidObject
from tests.objects.samples import (
    Object,
    cluster_queue,
    container,
    decode,
    group,
    pod_set,
    workload,
)


def refused(item: Object) -> str:
    with pytest.raises(InvalidObject) as caught:
        decode(item)
    return caught.value.path


def named(item: Object, **metadata: Any) -> Object:
    return item | {"metadata": item["metadata"] | metadata}


def limited(nominal: str, **limits: str) -> Object:
    quotas = group("f1", cpu=nominal)
    quotas["flavors"][0]["resources"][0] |= limits
    return quotas


def kueue(kind: str, spec: Object | None = None, **more: Any) -> Object:
    metadata = {"name": "a", "namespace": "team"} if kind == "LocalQueue" else {"name": "a"}
    spec_part = {} if spec is None else {"spec": spec}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **spec_part, **more}


def flavor(**spec: Any) -> Object:
    return kueue("ResourceFlavor", spec)


TRY_NEXT = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}
GROUPS = "spec.resourceGroups"


@pytest.mark.parametrize(
    ("item", "path"),
    [
        (named(cluster_queue(), name=""), "metadata.name"),
        (named(cluster_queue(), name="A"), "metadata.name"),
        (named(cluster_queue(), name="a" * 254), "metadata.name"),
        (named(cluster_queue(), name="a..b"), "metadata.name"),
        (named(cluster_queue(), namespace="team"), "metadata.namespace"),
        (named(workload(), namespace=""), "metadata.namespace"),
        (cluster_queue(cohortName="Not a name"), "spec.cohortName"),
        (cluster_queue(*[group(f"f{n}", **{f"r{n}": "1"}) for n in range(17)]), GROUPS),
        (cluster_queue(group("f1", cpu="1"), group("f2", cpu="1")), f"{GROUPS}[1].coveredResources[0]"),
        (cluster_queue(group("f1", cpu="1"), group("f1", memory="1")), f"{GROUPS}[1].flavors[0].name"),
        (cluster_queue(group("f1", "f1", cpu="1")), f"{GROUPS}[0].flavors[1].name"),
        (cluster_queue(group(cpu="1")), f"{GROUPS}[0].flavors"),
        (cluster_queue(group("f1")), f"{GROUPS}[0].coveredResources"),
        (cluster_queue(group(*[f"f{n}" for n in range(65)], cpu="1")), f"{GROUPS}[0].flavors"),
        (cluster_queue(group("f1", **{f"r{n}": "1" for n in range(65)})), f"{GROUPS}[0].coveredResources"),
        (cluster_queue(group(*[f"f{n}" for n in range(27)], **{f"r{n}": "1" for n in range(19)})), f"{GROUPS}[0]"),
        (
            cluster_queue(*[group(*[f"f{g}-{n}" for n in range(60)], **{f"r{g}": "1"}) for g in range(5)]),
            GROUPS,
        ),
        (
            cluster_queue(group("f1", cpu="1") | {"coveredResources": ["memory"]}),
            f"{GROUPS}[0].flavors[0].resources[0].name",
        ),
        (
            cluster_queue(group("f1", cpu="1") | {"coveredResources": ["cpu", "memory"]}),
            f"{GROUPS}[0].flavors[0].resources",
        ),
        (cluster_queue(limited("-1")), f"{GROUPS}[0].flavors[0].resources[0].nominalQuota"),
        (cluster_queue(limited("4", borrowingLimit="1")), f"{GROUPS}[0].flavors[0].resources[0].borrowingLimit"),
        (cluster_queue(limited("4", lendingLimit="1")), f"{GROUPS}[0].flavors[0].resources[0].lendingLimit"),
        (
            cluster_queue(limited("4", lendingLimit="5"), cohortName="all"),
            f"{GROUPS}[0].flavors[0].resources[0].lendingLimit",
        ),
        (
            cluster_queue(limited("4", borrowingLimit="-1"), cohortName="all"),
            f"{GROUPS}[0].flavors[0].resources[0].borrowingLimit",
        ),
        (cluster_queue(queueingStrategy="LIFO"), "spec.queueingStrategy"),
        (cluster_queue(stopPolicy="Stop"), "spec.stopPolicy"),
        (cluster_queue(namespaceSelector={"matchLabels": {"a b": "c"}}), "spec.namespaceSelector.matchLabels"),
        (
            cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "spec.namespaceSelector.matchExpressions[0].values",
        ),
        (
            cluster_queue(
                namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}
            ),
            "spec.namespaceSelector.matchExpressions[0].values",
        ),
        (
            cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
            "spec.namespaceSelector.matchExpressions[0].operator",
        ),
        (
            cluster_queue(flavorFungibility={"preference": "PreemptionOverBorrowing"}),
            "spec.flavorFungibility.preference",
        ),
        (
            cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
            "spec.preemption.borrowWithinCohort.policy",
        ),
        (cluster_queue(preemption={"withinClusterQueue": "Any"}), "spec.preemption.withinClusterQueue"),
        (cluster_queue(fairSharing={"weight": "-1"}), "spec.fairSharing.weight"),
        (cluster_queue(fairSharing={"weight": "1n"}), "spec.fairSharing.weight"),
        (
            cluster_queue(admissionChecksStrategy={"admissionChecks": []}),
            "spec.admissionChecksStrategy.admissionChecks",
        ),
        (
            cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "k"}, {"name": "k"}]}),
            "spec.admissionChecksStrategy.admissionChecks[1].name",
        ),
        (
            cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "k", "onFlavors": ["f", "f"]}]}),
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]",
        ),
        (
            cluster_queue(concurrentAdmissionPolicy={}, queueingStrategy="StrictFIFO"),
            "spec.concurrentAdmissionPolicy",
        ),
    ],
)
def test_a_cluster_queue_no_server_would_store_is_refused(item: Object, path: str) -> None:
    assert refused(item) == path


@pytest.mark.parametrize(
    "spec",
    [
        {"fairSharing": {"weight": "0"}},
        {"fairSharing": {"weight": "2n"}},
        {"fairSharing": {"weight": 2}},
        {"flavorFungibility": TRY_NEXT | {"preference": "PreemptionOverBorrowing"}},
        {"preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}},
        {"admissionChecksStrategy": {"admissionChecks": [{"name": "k", "onFlavors": ["not-in-the-queue"]}]}},
        {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
        {"concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}}},
    ],
)
def test_a_cluster_queue_a_server_would_store_is_accepted(spec: Object) -> None:
    assert decode(cluster_queue(**spec)).metadata.name == "a"


def test_a_cohort_may_lend_more_than_its_own_quota_but_needs_a_parent_for_limits() -> None:
    groups = [limited("4", lendingLimit="5")]
    assert decode(kueue("Cohort", {"parentName": "root", "resourceGroups": groups})).spec.parent_name == "root"
    assert refused(kueue("Cohort", {"resourceGroups": groups})) == f"{GROUPS}[0].flavors[0].resources[0].lendingLimit"
    assert refused(kueue("Cohort", {"parentName": "Root"})) == "spec.parentName"
    assert refused(kueue("Cohort", {"fairSharing": {"weight": "0.1n"}})) == "spec.fairSharing.weight"


@pytest.mark.parametrize(
    ("item", "path"),
    [
        (kueue("LocalQueue", {"clusterQueue": "A b"}), "spec.clusterQueue"),
        (kueue("LocalQueue", {"clusterQueue": "a", "stopPolicy": "No"}), "spec.stopPolicy"),
        (flavor(nodeLabels={f"l{n}": "x" for n in range(9)}), "spec.nodeLabels"),
        (flavor(nodeLabels={"a": "b c"}), "spec.nodeLabels[a]"),
        (flavor(nodeTaints=[{"key": "a", "effect": "NoRun"}]), "spec.nodeTaints[0].effect"),
        (flavor(nodeTaints=[{"key": "a", "effect": "NoSchedule", "value": v} for v in "xy"]), "spec.nodeTaints[1]"),
        (flavor(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}]), "spec.tolerations[0].operator"),
        (flavor(tolerations=[{"value": "x"}]), "spec.tolerations[0].operator"),
        (flavor(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]), "spec.tolerations[0].value"),
        (flavor(tolerations=[{"key": "a", "tolerationSeconds": 5}]), "spec.tolerations[0].effect"),
        (flavor(topologyName="racks"), "spec.topologyName"),
        (kueue("WorkloadPriorityClass"), "value"),
        (kueue("WorkloadPriorityClass", value=2**31), "value"),
        (kueue("AdmissionCheck", {"controllerName": ""}), "spec.controllerName"),
        (
            kueue("AdmissionCheck", {"controllerName": "c", "parameters": {"kind": "K", "name": "n"}}),
            "spec.parameters.apiGroup",
        ),
        (kueue("Topology", {"levels": []}), "spec.levels"),
        (kueue("Topology", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "rack"}]}), "spec.levels[1].nodeLabel"),
        (
            kueue("Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "rack"}]}),
            "spec.levels[0].nodeLabel",
        ),
    ],
)
def test_other_objects_no_server_would_store_are_refused(item: Object, path: str) -> None:
    assert refused(item) == path


POD = "spec.podSets[0].template.spec"
GROUPED = {"topologyRequest": {"required": "rack", "podSetGroupName": "g"}}


def admitted(*assignments: Object) -> Object:
    return {"admission": {"clusterQueue": "a", "podSetAssignments": list(assignments)}}


@pytest.mark.parametrize(
    ("item", "path"),
    [
        (workload(podSets=[]), "spec.podSets"),
        (workload(*[pod_set(container(), name=f"p{n}") for n in range(19)]), "spec.podSets"),
        (workload(pod_set(container(), name="Main")), "spec.podSets[0].name"),
        (workload(pod_set(container()), pod_set(container())), "spec.podSets[1].name"),
        (workload(pod_set(container(), count=2, minimum=3)), "spec.podSets[0].minCount"),
        (workload(pod_set(container(), minimum=0)), "spec.podSets[0].minCount"),
        (workload(pod_set(container({"pods": "1"}))), f"{POD}.containers[0].resources.requests[pods]"),
        (workload(pod_set(container(limits={"pods": "1"}))), f"{POD}.containers[0].resources.limits[pods]"),
        (workload(pod_set(container(), resources={"requests": {"pods": "1"}})), f"{POD}.resources.requests[pods]"),
        (
            workload(pod_set(container(), initContainers=[container({"pods": "1"})])),
            f"{POD}.initContainers[0].resources.requests[pods]",
        ),
        (workload(pod_set(container({"not a name": "1"}))), f"{POD}.containers[0].resources.requests"),
        (workload(pod_set(container({"cpu": "-1m"}))), f"{POD}.containers[0].resources.requests[cpu]"),
        (workload(pod_set(container(limits={"cpu": "-1m"}))), f"{POD}.containers[0].resources.limits[cpu]"),
        (workload(pod_set(container()) | GROUPED), "spec.podSets[0].topologyRequest.podSetGroupName"),
        (
            workload(
                pod_set(container(), name="a", count=2) | GROUPED, pod_set(container(), name="b", count=2) | GROUPED
            ),
            "spec.podSets[1].topologyRequest.podSetGroupName",
        ),
        (
            workload(pod_set(container()) | {"topologyRequest": {"required": "a b"}}),
            "spec.podSets[0].topologyRequest.required",
        ),
        (workload(priority=1, priorityClassRef={"group": "g", "kind": "K", "name": "n"}), "spec.priorityClassRef"),
        (
            workload(priorityClassRef={"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "n"}),
            "spec.priority",
        ),
        (workload(maximumExecutionTimeSeconds=0), "spec.maximumExecutionTimeSeconds"),
        (workload(preemptionGates=[{"name": "g"}, {"name": "g"}]), "spec.preemptionGates[1].name"),
        (workload(status={"conditions": [{"type": "A", "status": "True"}] * 2}), "status.conditions[1].type"),
        (
            workload(status={"conditions": [{"type": f"C{n}", "status": "True"} for n in range(17)]}),
            "status.conditions",
        ),
        (workload(status=admitted()), "status.admission.podSetAssignments"),
        (workload(status=admitted({"name": "other"})), "status.admission.podSetAssignments"),
        (workload(status=admitted({"name": "main"}, {"name": "main"})), "status.admission.podSetAssignments"),
        (
            workload(
                pod_set(container(), count=3),
                status=admitted({"name": "main", "count": 3, "resourceUsage": {"gpu": "10"}}),
            ),
            "status.admission.podSetAssignments[0].resourceUsage[gpu]",
        ),
        (workload(status={"admissionChecks": [{"name": "k", "state": "Done"}]}), "status.admissionChecks[0].state"),
        (workload(status={"admissionChecks": [{"name": "k", "state": "Ready"}] * 2}), "status.admissionChecks[1].name"),
        (workload(status={"reclaimablePods": [{"name": "main", "count": -1}]}), "status.reclaimablePods[0].count"),
        (workload(status={"clusterName": "east", "nominatedClusterNames": ["west"]}), "status.nominatedClusterNames"),
    ],
)
def test_a_workload_no_server_would_store_is_refused(item: Object, path: str) -> None:
    assert refused(item) == path


def test_a_workload_with_pod_sets_of_no_pods_and_several_minimum_counts_is_accepted() -> None:
    sets = [pod_set(container(), name=name, count=count, minimum=1) for name, count in (("a", 2), ("b", 3))]
    assert len(decode(workload(*sets, pod_set(container(), name="c", count=0))).spec.pod_sets) == 3


def test_facts_that_are_capped_when_they_are_read_are_accepted() -> None:
    status = admitted({"name": "main", "count": 6, "resourceUsage": {"cpu": "12"}})
    status["reclaimablePods"] = [{"name": "main", "count": 12}, {"name": "gone", "count": 1}]
    assert decode(workload(pod_set(container(), count=4), status=status)).status.admission is not None


# --- the Configuration -----------------------------------------------------------------------------------------


def settings(**blocks: Any) -> Object:
    return {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **blocks}


@pytest.mark.parametrize(
    ("blocks", "path"),
    [
        (
            {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare", "LessThanOrEqualToFinalShare"]}},
            "fairSharing.preemptionStrategies",
        ),
        ({"fairSharing": {"preemptionStrategies": ["Best"]}}, "fairSharing.preemptionStrategies[0]"),
        (
            {"resources": {"quotaCheckStrategy": "IgnoreUndeclared", "excludeResourcePrefixes": ["a"]}},
            "resources.excludeResourcePrefixes",
        ),
        ({"resources": {"transformations": [{"input": "a"}, {"input": "a"}]}}, "resources.transformations[1].input"),
        (
            {"resources": {"transformations": [{"input": "a", "strategy": "Keep"}]}},
            "resources.transformations[0].strategy",
        ),
        ({"admissionFairSharing": {}}, "admissionFairSharing.usageHalfLifeTime"),
        ({"admissionFairSharing": {"usageHalfLifeTime": "soon"}}, "admissionFairSharing.usageHalfLifeTime"),
        (
            {"admissionFairSharing": {"usageHalfLifeTime": "1m", "resourceWeights": {"cpu": -1}}},
            "admissionFairSharing.resourceWeights[cpu]",
        ),
        ({"waitForPodsReady": {"timeout": 5}}, "waitForPodsReady.timeout"),
        ({"ledger": {"rules": "mine"}}, "ledger.rules"),
        ({"featureGates": {"PartialAdmission": "yes"}}, "featureGates[PartialAdmission]"),
    ],
)
def test_a_configuration_kueue_would_not_start_with_is_refused(blocks: Object, path: str) -> None:
    assert refused(settings(**blocks)) == path


GPU = "device.driver == 'gpu.example.com'"


def fence(name: str = "memory", driver: str = "gpu.example.com", expression: str = GPU) -> Object:
    return {"name": name, "driver": driver, "deviceSelector": {"cel": {"expression": expression}}}


def mapping(name: str = "gpus", *classes: str, sources: list[Object] | None = None) -> Object:
    result: Object = {"name": name, "deviceClassNames": list(classes) or ["gpu.example.com"]}
    return result if sources is None else result | {"sources": sources}


def mapped(*mappings: Object, rules: str = "ledger", consumable: bool = True, **gates: bool) -> Object:
    return settings(
        resources={"deviceClassMappings": list(mappings)},
        featureGates={"KueueDRAIntegrationConsumableCapacity": consumable, **gates},
        ledger={"rules": rules},
    )


MAPPINGS = "resources.deviceClassMappings"
SOURCES = f"{MAPPINGS}[0].sources"


def capacity(name: str = "memory") -> Object:
    return {"capacity": fence(name)}


def counter(name: str = "memory", **more: str) -> Object:
    return {"counter": fence(name, **more)}


def priced(*sources: Object, **more: Any) -> Object:
    return mapped(mapping(sources=list(sources)), **more)


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(mapped(*[mapping(f"m{n}", f"c{n}") for n in range(17)]), MAPPINGS, id="C1"),
        pytest.param(mapped(mapping("no @")), f"{MAPPINGS}[0].name", id="C2"),
        pytest.param(mapped(mapping(f"{'a.' * 120}a/{'b' * 63}")), f"{MAPPINGS}[0].name", id="C3"),
        pytest.param(mapped(mapping("a", "x"), mapping("a", "y")), f"{MAPPINGS}[1].name", id="C4"),
        pytest.param(mapped({"name": "a"}), f"{MAPPINGS}[0].deviceClassNames", id="C5"),
        pytest.param(mapped(mapping("a", *[f"c{n}" for n in range(9)])), f"{MAPPINGS}[0].deviceClassNames", id="C6"),
        pytest.param(mapped(mapping("a", "no @")), f"{MAPPINGS}[0].deviceClassNames[0]", id="C7"),
        pytest.param(mapped(mapping("a", "x", "x")), f"{MAPPINGS}[0].deviceClassNames[1]", id="C8"),
        pytest.param(mapped(mapping("a", "x"), mapping("b", "x")), f"{MAPPINGS}[1].deviceClassNames[0]", id="C9"),
        pytest.param(
            mapped(*[mapping(name, "x", sources=[counter()]) for name in "ab"]),
            f"{MAPPINGS}[1].deviceClassNames[0]",
            id="C10",
        ),
        pytest.param(priced({}), f"{SOURCES}[0]", id="C12 neither"),
        pytest.param(
            priced({"counter": fence(), "capacity": fence()}),
            SOURCES,
            id="C12 both",
        ),
        pytest.param(
            priced(counter(), KueueDRAIntegrationPartitionableDevices=False),
            f"{SOURCES}[0].counter",
            id="C13 counter",
        ),
        pytest.param(
            priced(capacity(), consumable=False),
            f"{SOURCES}[0].capacity",
            id="C13 capacity",
        ),
        pytest.param(priced(counter("")), f"{SOURCES}[0].counter.name", id="C14 empty"),
        pytest.param(priced(counter("a_b")), f"{SOURCES}[0].counter.name", id="C14"),
        pytest.param(
            priced(counter(driver="")),
            f"{SOURCES}[0].counter.driver",
            id="C15 empty",
        ),
        pytest.param(
            priced(counter(driver="GPU")),
            f"{SOURCES}[0].counter.driver",
            id="C15",
        ),
        pytest.param(priced(counter(), capacity()), SOURCES, id="C16"),
        pytest.param(
            priced(counter(expression="")),
            f"{SOURCES}[0].counter.deviceSelector.cel.expression",
            id="C17",
        ),
        pytest.param(
            priced(counter(expression="device.driver")),
            f"{SOURCES}[0].counter.deviceSelector.cel.expression",
            id="C18",
        ),
        pytest.param(
            priced(capacity("memory-bytes")),
            f"{SOURCES}[0].capacity.name",
            id="C19",
        ),
        pytest.param(
            priced(capacity("/memory")),
            f"{SOURCES}[0].capacity.name",
            id="C19 domain",
        ),
        pytest.param(
            priced(capacity("m" * 33)),
            f"{SOURCES}[0].capacity.name",
            id="C20",
        ),
        pytest.param(
            priced(counter("a"), counter("b")),
            SOURCES,
            id="C21",
        ),
        pytest.param(
            priced(capacity("a.b/c/d")),
            f"{SOURCES}[0].capacity.name",
            id="C23",
        ),
        pytest.param(
            priced(capacity(), capacity()),
            f"{SOURCES}[1]",
            id="C24",
        ),
    ],
)
def test_a_wrong_device_class_mapping_is_refused(item: Object, path: str) -> None:
    assert refused(item) == path


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(mapped(*[mapping(name, "x", sources=[counter(name)]) for name in ("memory", "sms")]), id="C11"),
        pytest.param(priced(capacity("a"), capacity("b")), id="C22"),
        pytest.param(
            priced(counter("a"), counter("b"), rules="kueue-0.19"),
            id="C21 as the reference",
        ),
        pytest.param(priced(capacity("a.b/c/d"), rules="kueue-0.19"), id="C23 as the reference"),
        pytest.param(
            priced(capacity(), capacity(), rules="kueue-0.19"),
            id="C24 as the reference",
        ),
        pytest.param(
            mapped(
                mapping("a", "x", sources=[counter("a"), counter("b")]),
                mapping("b", "x", sources=[counter("c"), counter("b")]),
                rules="kueue-0.19",
            ),
            id="the first source only, as the reference",
        ),
    ],
)
def test_other_device_class_mappings_are_accepted(item: Object) -> None:
    assert len(decode(item).resources.device_class_mappings) in (1, 2)


def test_all_that_is_wrong_with_the_mappings_is_told() -> None:
    with pytest.raises(InvalidObject) as caught:
        decode(mapped(mapping("no @", "x", "x", sources=[{}])))
    assert caught.value.path == f"{MAPPINGS}[0].name"
    assert f"{MAPPINGS}[0].deviceClassNames[1]: 'x' is there twice" in caught.value.reason
    assert f"{SOURCES}[0]: counter or capacity is needed" in caught.value.reason
