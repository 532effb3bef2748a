"""YAML manifests, as people write them."""

from __future__ import annotations

import io
import json
from typing import Any

from topics.sources import read_events

SETUP = """\
# the set-up of one team
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: "default-flavor"
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  namespace: "team-a"
  name: "user-queue"
spec:
  clusterQueue: "cluster-queue"
"""

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  generateName: sample-job-
spec:
  parallelism: 3
"""


def read(text: str | bytes, cluster: str | None = None, created: int = 0) -> list[bytes]:
    raw = text.encode() if isinstance(text, str) else text
    return list(read_events(io.BytesIO(raw), cluster, created=created))


def objects(text: str, cluster: str | None = None, created: int = 0) -> list[Any]:
    found: list[Any] = []
    for value in read(text, cluster, created):
        event = json.loads(value)
        found.extend(member["object"] for member in event.get("events", [event]))
    return found


def test_the_documents_of_a_file_are_handed_in_together() -> None:
    (batch,) = (json.loads(value) for value in read(SETUP, "eu-1"))
    assert (batch["cluster"], batch["type"]) == ("eu-1", "BATCH")
    assert [(event["type"], event["object"]["kind"]) for event in batch["events"]] == [
        ("ADDED", "ResourceFlavor"),
        ("ADDED", "LocalQueue"),
    ]


def test_an_object_written_by_hand_gets_its_identity_from_its_name_and_its_age_from_its_place() -> None:
    flavor, queue = objects(SETUP, created=1_767_225_600_000_000)
    assert flavor["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00.000Z"
    assert queue["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00.000001Z"
    assert queue["metadata"]["namespace"] == "team-a"
    assert "resourceVersion" not in queue["metadata"]
    assert flavor["metadata"]["uid"] == objects(SETUP.replace("# the set-up", JOB + "---\n#"))[1]["metadata"]["uid"]
    assert len({flavor["metadata"]["uid"], queue["metadata"]["uid"], objects(SETUP, "b")[0]["metadata"]["uid"]}) == 3


def test_what_the_manifest_says_itself_is_kept() -> None:
    text = "kind: Cohort\nmetadata: {name: lab, uid: u-1, creationTimestamp: 2026-01-01T00:00:00Z}\n"
    assert objects(text) == [
        {"kind": "Cohort", "metadata": {"name": "lab", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    ]


def test_a_generated_name_depends_on_the_place_and_the_time_alone() -> None:
    first, second = objects(JOB + "---\n" + JOB)
    assert first["metadata"]["name"].startswith("sample-job-")
    assert len(first["metadata"]["name"]) == len("sample-job-") + 5
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert objects(JOB + "---\n" + JOB) == [first, second]
    assert objects(JOB, created=1)[0]["metadata"]["name"] != first["metadata"]["name"]
    assert first["metadata"]["namespace"] == "default"


def test_scalars_are_read_as_the_kubernetes_tools_read_them() -> None:
    values = "{a: 1:30, b: yes, c: 0644, d: 1e3, e: 0.5, f: ~, 1: 2026-01-01, g: .inf}"
    text = f"kind: Cohort\nmetadata: {{name: a}}\nspec: {values}\n"
    assert objects(text)[0]["spec"] == {
        "a": "1:30",
        "b": True,
        "c": 420,
        "d": "1e3",
        "e": 0.5,
        "f": None,
        "1": "2026-01-01",
        "g": "inf",
    }


def test_a_list_in_a_manifest_is_opened() -> None:
    items = "- kind: Cohort\n  metadata: {name: a}\n- kind: Cohort\n  metadata: {name: b}\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    assert [found["metadata"]["name"] for found in objects(text + "---\nkind: Cohort\nmetadata: {name: c}\n")] == [
        "a",
        "b",
        "c",
    ]


def test_a_document_that_cannot_be_read_is_rejected_alone() -> None:
    bad, batch = read(SETUP + "---\nspec: [\n---\n" + JOB)
    assert bad == b"spec: ["
    assert len(json.loads(batch)["events"]) == 3


def test_a_document_that_is_no_mapping_comes_as_it_was_written() -> None:
    assert read("--- just words\n...\n") == [b"just words"]


def test_references_may_not_unfold_without_limit() -> None:
    bomb = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [
        f"{name}: &{name} [{', '.join(['*' + before] * 10)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    text = "\n".join(bomb)
    assert read("kind: Cohort\n" + text) == [("kind: Cohort\n" + text).encode()]


def test_tags_that_make_objects_are_refused() -> None:
    text = "kind: !!python/object/apply:os.system ['true']\n"
    assert read(text) == [text.strip().encode()]


def test_empty_documents_and_comments_are_nothing() -> None:
    assert read("---\n# nothing\n---\n---\n\n") == []
