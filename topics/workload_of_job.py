"""The Workload of a batch/v1 Job, as Kueue's job integration writes it (kueue-objects 5.1 to 5.3)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXECUTION_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
ADMISSION_GATE = "kueue.x-k8s.io/admission-gated-by"
JOB_UID = "kueue.x-k8s.io/job-uid"
PROVISIONING = "provreq.kueue.x-k8s.io/"
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"

#: Labels that the Job controller puts on the template; `batch.kubernetes.io/job-name` stays.
_CONTROLLER_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/controller-uid")

_TOPOLOGY_ANNOTATIONS = {
    "kueue.x-k8s.io/podset-required-topology": "required",
    "kueue.x-k8s.io/podset-preferred-topology": "preferred",
    "kueue.x-k8s.io/podset-unconstrained-topology": "unconstrained",
    "kueue.x-k8s.io/podset-slice-required-topology": "podSetSliceRequiredTopology",
    "kueue.x-k8s.io/podset-slice-size": "podSetSliceSize",
    "kueue.x-k8s.io/podset-group-name": "podSetGroupName",
}
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

#: A Workload name is at most this long: 253 less "-" and five digits.
_PREFIX_BYTES = 247

#: Namespace of the uids made here: a stable function of the Job's uid.
_WORKLOAD_UIDS = uuid.UUID("9c4d3e52-7f0e-5a57-8d2f-1a7f5b0c6e3d")


class InvalidJob(ValueError):
    """A Job that no Workload can be written for; the message names it and says why."""


class Priority(NamedTuple):
    """A Workload's priority and where it comes from."""

    value: int
    ref: dict[str, str] | None


class PriorityClasses:
    """WorkloadPriorityClasses and PriorityClasses as last seen."""

    def __init__(self) -> None:
        self._workload: dict[str, int] = {}
        self._pod: dict[str, int] = {}
        self._default: dict[str, int] = {}

    def observe(self, type_: str, document: Mapping[str, Any]) -> None:
        """An event of one of the two kinds; others are passed over."""
        name = str((document.get("metadata") or {}).get("name", ""))
        value = document.get("value", 0)
        kind = document.get("kind")
        if kind not in ("WorkloadPriorityClass", "PriorityClass") or not isinstance(value, int):
            return
        classes = self._workload if kind == "WorkloadPriorityClass" else self._pod
        if kind == "PriorityClass":
            self._default.pop(name, None)
        if type_ == "DELETED":
            classes.pop(name, None)
            return
        classes[name] = value
        if kind == "PriorityClass" and document.get("globalDefault") is True:
            self._default[name] = value

    def of(self, job: Mapping[str, Any]) -> Priority:
        """The first of: the Job's label, the template's class, the global default, 0 (kueue-objects 5.2)."""
        labels = _texts(job, "labels")
        if PRIORITY_CLASS in labels:
            name = labels[PRIORITY_CLASS]
            return Priority(
                self._value(self._workload, "WorkloadPriorityClass", name, job),
                {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name},
            )
        name = str(_template(job).get("spec", {}).get("priorityClassName") or "")
        if name:
            return Priority(self._value(self._pod, "PriorityClass", name, job), _pod_class(name))
        if self._default:
            # Several global defaults: the lowest value, as the Priority admission plugin takes it.
            value, name = min((value, name) for name, value in self._default.items())
            return Priority(value, _pod_class(name))
        return Priority(0, None)

    @staticmethod
    def _value(classes: Mapping[str, int], kind: str, name: str, job: Mapping[str, Any]) -> int:
        if name not in classes:
            raise InvalidJob(f"{_named(job)}: there is no {kind} {name!r} in the log of its cluster")
        return classes[name]


def workload_name(kind: str, group: str, owner: str, uid: str, extra: str | None = None) -> str:
    """The name that Kueue gives the Workload of an owner (kueue-objects 5.3)."""
    prefix = f"{kind.lower()}-{owner}".encode()[:_PREFIX_BYTES].decode(errors="ignore")
    parts = [kind, group, owner, uid] + ([extra] if extra is not None else [])
    digits = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()[:5]
    return f"{prefix}-{digits}"


def workload_of_job(job: Mapping[str, Any], classes: PriorityClasses) -> dict[str, Any]:
    """The Workload that Kueue would write for a Job; `InvalidJob` where it would write none."""
    metadata: Mapping[str, Any] = job.get("metadata") or {}
    labels, annotations = _texts(job, "labels"), _texts(job, "annotations")
    name, uid = str(metadata.get("name", "")), str(metadata.get("uid", ""))
    if not name or not uid:
        raise InvalidJob(f"{_named(job)}: a Job needs a name and a uid")
    if not labels.get(QUEUE_NAME):
        raise InvalidJob(f"{_named(job)}: without the label {QUEUE_NAME} it is not Kueue's to admit")
    prebuilt = annotations.get(PREBUILT_WORKLOAD) or labels.get(PREBUILT_WORKLOAD)
    if prebuilt:
        raise InvalidJob(f"{_named(job)}: it runs with the prebuilt Workload {prebuilt!r}; submit that one")
    extra = str(metadata.get("generation", 1)) if annotations.get(ELASTIC_JOB) == "true" else None
    priority = classes.of(job)
    spec: dict[str, Any] = {
        "queueName": labels[QUEUE_NAME],
        "podSets": [_pod_set(job, annotations)],
        "priority": priority.value,
        "active": True,
    }
    if priority.ref is not None:
        spec["priorityClassRef"] = priority.ref
    if MAX_EXECUTION_TIME in labels:
        spec["maximumExecutionTimeSeconds"] = _number(job, MAX_EXECUTION_TIME, labels[MAX_EXECUTION_TIME])
    kept = {
        key: value
        for key, value in sorted(annotations.items())
        if key.startswith(PROVISIONING) or key == ADMISSION_GATE
    }
    workload: dict[str, Any] = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name("Job", "batch", name, uid, extra),
            "namespace": str(metadata.get("namespace") or "default"),
            "uid": str(uuid.uuid5(_WORKLOAD_UIDS, uid)),
            "labels": {JOB_UID: uid},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": name,
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": [RESOURCE_IN_USE],
        },
        "spec": spec,
    }
    if kept:
        workload["metadata"]["annotations"] = kept
    if metadata.get("creationTimestamp"):
        workload["metadata"]["creationTimestamp"] = metadata["creationTimestamp"]
    return workload


def _pod_set(job: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    spec: Mapping[str, Any] = job.get("spec") or {}
    parallelism = _count(job, "parallelism", spec.get("parallelism"), 1)
    completions = _count(job, "completions", spec.get("completions"), parallelism)
    pod_set: dict[str, Any] = {
        "name": "main",
        "count": min(parallelism, completions),
        "template": _cleaned(_template(job)),
    }
    if MIN_PARALLELISM in annotations:
        least = _number(job, MIN_PARALLELISM, annotations[MIN_PARALLELISM])
        if not 0 < least < parallelism:
            raise InvalidJob(f"{_named(job)}: {MIN_PARALLELISM} is {least}, not between 1 and parallelism - 1")
        pod_set["minCount"] = least
    topology = _topology_request(job)
    if topology:
        pod_set["topologyRequest"] = topology
    return pod_set


def _topology_request(job: Mapping[str, Any]) -> dict[str, Any]:
    """The request that the template's annotations make. The pod index label alone is none, and is not written."""
    annotations = _texts(_template(job), "annotations")
    request: dict[str, Any] = {}
    for annotation, name in _TOPOLOGY_ANNOTATIONS.items():
        if annotation not in annotations:
            continue
        text = annotations[annotation]
        if name == "unconstrained":
            request[name] = text == "true"
        elif name == "podSetSliceSize":
            request[name] = _number(job, annotation, text)
        else:
            request[name] = text
    if request:
        request["podIndexLabel"] = _COMPLETION_INDEX
    return request


def _cleaned(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template without what the Job controller adds, and with each environment name once."""
    cleaned = dict(template)
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _CONTROLLER_LABELS}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    cleaned["metadata"] = metadata
    spec = dict(template.get("spec") or {})
    for name in ("initContainers", "containers"):
        if isinstance(spec.get(name), list):
            spec[name] = [_with_distinct_environment(container) for container in spec[name]]
    cleaned["spec"] = spec
    return cleaned


def _with_distinct_environment(container: Any) -> Any:
    if not isinstance(container, dict) or not isinstance(container.get("env"), list):
        return container
    last: dict[Any, Any] = {}
    for variable in container["env"]:
        last[variable.get("name") if isinstance(variable, dict) else repr(variable)] = variable
    return container | {"env": list(last.values())}


def _template(job: Mapping[str, Any]) -> Mapping[str, Any]:
    template = (job.get("spec") or {}).get("template") or {}
    if not isinstance(template, dict):
        raise InvalidJob(f"{_named(job)}: spec.template is no object")
    return template


def _texts(document: Mapping[str, Any], name: str) -> dict[str, str]:
    found = (document.get("metadata") or {}).get(name) or {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _count(job: Mapping[str, Any], name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidJob(f"{_named(job)}: spec.{name} is {value!r}, not a whole number of 0 or more")
    return value


def _number(job: Mapping[str, Any], name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidJob(f"{_named(job)}: {name} is {text!r}, not a whole number") from None


def _pod_class(name: str) -> dict[str, str]:
    return {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}


def _named(job: Mapping[str, Any]) -> str:
    metadata: Mapping[str, Any] = job.get("metadata") or {}
    return f"Job {metadata.get('namespace') or 'default'}/{metadata.get('name', '?')}"
