"""Producers without a broker: Workloads of Jobs, priorities, bursts as batches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from topics.batching import Addressed, addressed, bursts
from topics.submit import InvalidSubmission, submission
from topics.workload_of_job import InvalidJob, PriorityClasses, workload_name, workload_of_job

UID = "c2f9ebdb-8fd5-5ac6-8ca9-bcba6210dddd"


def job(name: str = "resnet-sweep", *, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A Job of a queue; `spec`, `template` and `annotations` are laid over it."""
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": UID,
            "labels": {"kueue.x-k8s.io/queue-name": "queue-a"} | (labels or {}),
            "annotations": more.get("annotations", {}),
        },
        "spec": {"template": template | more.get("template", {})} | more.get("spec", {}),
    }


def classes(*documents: dict[str, Any]) -> PriorityClasses:
    known = PriorityClasses()
    for document in documents:
        known.observe("ADDED", document)
    return known


def priority_class(kind: str, name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "value": value} | more


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (("Job", "batch", "resnet-sweep", UID), "job-resnet-sweep-c8633"),
        (("MPIJob", "kubeflow.org", "asr-train", "11111111-2222-3333-4444-555555555555"), "mpijob-asr-train-fdc94"),
        (("Job", "batch", "sweep", "0b1c2d3e-0000-4000-8000-00000000cafe", "3"), "job-sweep-aed15"),
    ],
)
def test_a_workload_is_named_as_kueue_names_it(owner: tuple[str, ...], name: str) -> None:
    assert workload_name(*owner) == name


def test_a_long_name_is_cut_so_that_the_hash_fits() -> None:
    name = workload_name("Job", "batch", "x" * 250, "0b1c2d3e-0000-4000-8000-00000000cafe")
    assert len(name) == 253
    assert name.endswith("x-4f0e1")


def test_a_job_becomes_the_workload_that_kueue_would_write() -> None:
    submitted = job(
        labels={"kueue.x-k8s.io/max-exec-time-seconds": "600"},
        annotations={"kueue.x-k8s.io/job-min-parallelism": "2", "provreq.kueue.x-k8s.io/x": "y", "other": "z"},
        spec={"parallelism": 4, "completions": 3},
    )
    assert workload_of_job(submitted, classes()) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "job-resnet-sweep-c8633",
            "namespace": "team-a",
            "uid": workload_of_job(submitted, classes())["metadata"]["uid"],
            "labels": {"kueue.x-k8s.io/job-uid": UID},
            "annotations": {"provreq.kueue.x-k8s.io/x": "y"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "resnet-sweep",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        },
        "spec": {
            "queueName": "queue-a",
            "priority": 0,
            "active": True,
            "maximumExecutionTimeSeconds": 600,
            "podSets": [
                {
                    "name": "main",
                    "count": 3,
                    "minCount": 2,
                    "template": {
                        "metadata": {},
                        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
                    },
                }
            ],
        },
    }


def test_the_template_loses_what_the_job_controller_added_and_repeated_environment_names() -> None:
    labels = {
        "job-name": "j",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "team": "a",
    }
    environment = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "env": environment}]}}
    (pod_set,) = workload_of_job(job(template=template), classes())["spec"]["podSets"]
    assert pod_set["template"] == {
        "metadata": {"labels": {"batch.kubernetes.io/job-name": "j", "team": "a"}},
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]}]},
    }


def test_topology_annotations_become_a_request_and_none_is_none() -> None:
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, "spec": {}}
    (asked,) = workload_of_job(job(template=template), classes())["spec"]["podSets"]
    (silent,) = workload_of_job(job(), classes())["spec"]["podSets"]
    assert asked["topologyRequest"] == {
        "required": "rack",
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
    }
    assert "topologyRequest" not in silent


def test_the_priority_is_the_first_of_label_pod_class_global_default_and_zero() -> None:
    known = classes(
        priority_class("WorkloadPriorityClass", "high", 1_000),
        priority_class("PriorityClass", "pods", 500),
        priority_class("PriorityClass", "usual", 7, globalDefault=True),
    )
    with_class = {"spec": {"priorityClassName": "pods", "containers": []}}
    by_label = known.of(job(labels={"kueue.x-k8s.io/priority-class": "high"}, template=with_class))
    by_pod = known.of(job(template=with_class))
    assert (by_label.value, by_label.ref) == (
        1_000,
        {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
    )
    assert (by_pod.value, by_pod.ref) == (
        500,
        {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "pods"},
    )
    assert known.of(job()).value == 7
    assert classes().of(job()) == (0, None)


@pytest.mark.parametrize(
    ("submitted", "reason"),
    [
        (job(labels={"kueue.x-k8s.io/queue-name": ""}), "without the label"),
        (job(labels={"kueue.x-k8s.io/priority-class": "gone"}), "there is no WorkloadPriorityClass 'gone'"),
        (job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "soon"}), "not a whole number"),
        (job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"}), "not between 1 and parallelism - 1"),
        (job(annotations={"kueue.x-k8s.io/prebuilt-workload-name": "w"}), "prebuilt Workload 'w'"),
        (job(spec={"parallelism": -1}), "spec.parallelism is -1"),
    ],
)
def test_a_job_that_no_workload_can_be_written_for_is_named(submitted: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidJob, match=f"Job team-a/resnet-sweep: .*{reason}"):
        workload_of_job(submitted, classes())


def event(document: dict[str, Any], cluster: str | None = None) -> bytes:
    return json.dumps({"type": "ADDED", "object": document} | ({"cluster": cluster} if cluster else {})).encode()


def test_workloads_are_handed_in_at_once() -> None:
    workload = {"kind": "Workload", "metadata": {"name": "w", "namespace": "team-a"}}
    (record,) = submission([event(job()), event(workload)], classes(), "eu-1")
    members = json.loads(record.value)["events"]
    assert record.cluster == "eu-1"
    assert json.loads(record.value)["type"] == "BATCH"
    assert [member["object"]["metadata"]["name"] for member in members] == ["job-resnet-sweep-c8633", "w"]


def test_other_kinds_cannot_be_submitted() -> None:
    with pytest.raises(InvalidSubmission, match="not ClusterQueue"):
        submission([event({"kind": "ClusterQueue"}), event(job())], classes())


def small(number: int, cluster: str = "eu-1", type_: str = "ADDED") -> bytes:
    return b'{"cluster":"%s","type":"%s","number":%d}' % (cluster.encode(), type_.encode(), number)


def test_a_burst_becomes_batches_of_at_most_a_thousand() -> None:
    values = [small(number) for number in range(2_500)]
    packed = list(bursts(addressed(values)))
    assert [len(json.loads(each.value)["events"]) for each in packed] == [1_000, 1_000, 500]
    assert [member for each in packed for member in json.loads(each.value)["events"]] == [
        json.loads(value) for value in values
    ]


def test_a_batch_is_at_most_512_kib() -> None:
    values = [b'{"cluster":"eu-1","type":"ADDED","x":"' + b"x" * 100_000 + b'"}' for _ in range(12)]
    packed = list(bursts(addressed(values)))
    assert [len(json.loads(each.value)["events"]) for each in packed] == [5, 5, 2]
    assert all(len(each.value) <= 512 * 1024 + 100 for each in packed)


def test_batches_keep_clusters_apart_and_leave_out_what_is_no_member() -> None:
    values = [
        small(1),
        small(2, "us-2"),
        small(3, "us-2"),
        b"broken",
        small(4, "us-2", "SYNC_BEGIN"),
        small(5, "us-2", "BATCH"),
        small(6, "us-2"),
    ]
    assert list(bursts(addressed(values, "fallback"))) == [
        Addressed("eu-1", values[0]),
        Addressed("us-2", b'{"cluster":"us-2","type":"BATCH","events":[' + values[1] + b"," + values[2] + b"]}"),
        Addressed("fallback", b"broken"),
        Addressed("us-2", values[4]),
        Addressed("us-2", values[5]),
        Addressed("us-2", values[6]),
    ]
