"""Label selectors, taints and tolerations, node affinity (admission 5.3.6, 5.3.7, objects 1.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ledger.objects.label_selector import LabelSelector
from ledger.objects.names import is_label_value
from ledger.objects.pod import NodeRequirement, NodeTerm, PodSpec
from ledger.objects.taint import Taint, Toleration


class UnparsableAffinity(Exception):
    """An expression of the pod's node affinity that cannot be read: it fails the whole pod set group (5.3.7)."""


def match_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects the labels: an absent one selects nothing, the empty one everything."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for requirement in selector.match_expressions:
        present = requirement.key in labels
        match requirement.operator:
            case "In":
                holds = present and labels[requirement.key] in requirement.values
            case "NotIn":
                holds = not present or labels[requirement.key] not in requirement.values
            case "Exists":
                holds = present
            case "DoesNotExist":
                holds = not present
        if not holds:
            return False
    return True


def untolerated_taint(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that keeps a pod away; `PreferNoSchedule` never does (5.3.6)."""
    for taint in taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect or key stands for any; the value is compared as the operator says (5.3.6)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            given, bound = _integer(taint.value), _integer(toleration.value)
            if given is None or bound is None:
                return False
            return given > bound if toleration.operator == "Gt" else given < bound
        case _:
            return False


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def _integer(text: str) -> int | None:
    """A 64-bit integer, or None."""
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def affinity_matches(pod: PodSpec, labels: Mapping[str, str], keys: frozenset[str] | None = None) -> bool:
    """Whether a node with exactly these labels suits the pod, looking only at expressions on `keys` (5.3.7).

    `keys` are the flavor's own label keys, so by default those of `labels`. Raises UnparsableAffinity.
    """
    considered: Iterable[str] = labels.keys() if keys is None else keys
    if not considered:
        # Nothing of the pod is about this flavor: no key is left in its selector and every term is empty.
        return True
    for key, value in pod.node_selector.items():
        if key in considered and labels.get(key) != value:
            return False
    affinity = pod.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return True
    terms = [_considered(term, considered) for term in affinity.node_affinity.required.node_selector_terms]
    if not terms or not all(terms):
        # The terms are alternatives: one that says nothing about this flavor admits it.
        return True
    return _any_term_matches(terms, labels)


def _considered(term: NodeTerm, keys: Iterable[str]) -> list[NodeRequirement]:
    """The expressions of a term that are about the flavor; fields of a node never are."""
    return [requirement for requirement in term.match_expressions if requirement.key in keys]


def _any_term_matches(terms: Sequence[Sequence[NodeRequirement]], labels: Mapping[str, str]) -> bool:
    """The first term that matches decides. One that cannot be read is an error only when no other matches."""
    unreadable: UnparsableAffinity | None = None
    for term in terms:
        try:
            verdicts = [_requirement_matches(requirement, labels) for requirement in term]
        except UnparsableAffinity as error:
            unreadable = unreadable or error
            continue
        if all(verdicts):
            return True
    if unreadable is not None:
        raise unreadable
    return False


def _requirement_matches(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    """The operators of node affinity. What is not one, or lacks the values it needs, cannot be read."""
    value, values = labels.get(requirement.key), requirement.values
    _need(all(is_label_value(allowed) for allowed in values), requirement, "has a value that is no label value")
    match requirement.operator:
        case "In":
            _need(bool(values), requirement, "needs values")
            return value is not None and value in values
        case "NotIn":
            _need(bool(values), requirement, "needs values")
            return value is None or value not in values
        case "Exists":
            _need(not values, requirement, "takes no values")
            return value is not None
        case "DoesNotExist":
            _need(not values, requirement, "takes no values")
            return value is None
        case "Gt" | "Lt":
            _need(len(values) == 1, requirement, "needs exactly one value")
            bound = _integer(values[0])
            if bound is None:
                raise UnparsableAffinity(_text(requirement, "needs an integer value"))
            given = None if value is None else _integer(value)
            if given is None:
                return False
            return given > bound if requirement.operator == "Gt" else given < bound
        case _:
            raise UnparsableAffinity(_text(requirement, "is not an operator of node affinity"))


def _need(condition: bool, requirement: NodeRequirement, what: str) -> None:
    if not condition:
        raise UnparsableAffinity(_text(requirement, what))


def _text(requirement: NodeRequirement, what: str) -> str:
    return f"node affinity on {requirement.key!r}: operator {requirement.operator!r} {what}"


def matches_flavor(
    pod: PodSpec,
    *,
    flavor_labels: Mapping[str, str],
    flavor_taints: Iterable[Taint] = (),
    flavor_tolerations: Sequence[Toleration] = (),
    keys: frozenset[str] | None = None,
) -> bool:
    """Parts (c) and (d) of the match test of a flavor (5.3.6). Raises UnparsableAffinity."""
    if untolerated_taint(flavor_taints, (*pod.tolerations, *flavor_tolerations)) is not None:
        return False
    return affinity_matches(pod, flavor_labels, keys)
