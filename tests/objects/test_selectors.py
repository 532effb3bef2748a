"""Label selectors, taints and tolerations, node affinity (admission 5.3.6, 5.3.7; scenarios T49 to T51)."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.objects.label_selector import LabelRequirement, LabelSelector
from ledger.objects.pod import PodSpec
from ledger.objects.taint import Taint, Toleration
from ledger.selectors import (
    UnparsableAffinity,
    affinity_matches,
    match_labels,
    matches_flavor,
    tolerates,
    untolerated_taint,
)
from tests.objects.samples import Object, container, decoded_workload, pod_set


def pod(**spec: Any) -> PodSpec:
    return decoded_workload(pod_set(container(), **spec)).spec.pod_sets[0].template.spec


def required(*terms: Any) -> Object:
    """Required node affinity; a term is a list of (key, operator, *values)."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": k, "operator": o, "values": list(v)} for k, o, *v in term]}
                    for term in terms
                ]
            }
        }
    }


# --- label selectors -------------------------------------------------------------------------------------------


def test_an_absent_selector_matches_nothing_and_the_empty_one_everything() -> None:
    assert not match_labels(None, {"a": "b"})
    assert match_labels(LabelSelector(), {})


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ("x", "y"), {"x": True, "z": False, None: False}),
        ("NotIn", ("x", "y"), {"x": False, "z": True, None: True}),
        ("Exists", (), {"x": True, None: False}),
        ("DoesNotExist", (), {"x": False, None: True}),
    ],
)
def test_the_operators_of_a_label_selector(operator: Any, values: tuple[str, ...], matches: dict[Any, bool]) -> None:
    selector = LabelSelector({}, (LabelRequirement("a", operator, values),))
    assert {value: match_labels(selector, {} if value is None else {"a": value}) for value in matches} == matches


def test_all_of_a_label_selector_must_hold() -> None:
    selector = LabelSelector({"a": "x"}, (LabelRequirement("b", "Exists"),))
    assert match_labels(selector, {"a": "x", "b": ""})
    assert not match_labels(selector, {"a": "x"})
    assert not match_labels(selector, {"a": "y", "b": ""})


# --- taints ----------------------------------------------------------------------------------------------------

TAINT = Taint("k", "NoSchedule", "5")


@pytest.mark.parametrize(
    ("toleration", "answer"),
    [
        (Toleration("k", "", "5"), True),
        (Toleration("k", "Equal", "5"), True),
        (Toleration("k", "Equal", "6"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("k", "Exists", effect="NoSchedule"), True),
        (Toleration("k", "Exists", effect="NoExecute"), False),
        (Toleration("k", "Gt", "4"), True),
        (Toleration("k", "Gt", "5"), False),
        (Toleration("k", "Lt", "6"), True),
        (Toleration("k", "Lt", "5"), False),
        (Toleration("k", "Lt", "six"), False),
        (Toleration("k", "Lt", "99999999999999999999"), False),
        (Toleration("k", "Like", "5"), False),
        (Toleration("", "", ""), False),
    ],
)
def test_a_toleration_answers_a_taint(toleration: Toleration, answer: bool) -> None:
    assert tolerates(toleration, TAINT) is answer


def test_a_taint_whose_value_is_no_number_is_not_compared() -> None:
    assert not tolerates(Toleration("k", "Gt", "1"), Taint("k", "NoSchedule", "many"))


def test_the_first_taint_nobody_tolerates_is_named() -> None:
    taints = [Taint("a", "PreferNoSchedule"), Taint("b", "NoExecute"), Taint("c", "NoSchedule")]
    assert untolerated_taint(taints, []) == taints[1]
    assert untolerated_taint(taints, [Toleration("b", "Exists")]) == taints[2]
    assert untolerated_taint(taints, [Toleration(operator="Exists")]) is None


def test_T51_tolerations_of_the_flavor_count_and_soft_taints_do_not() -> None:
    hard, soft = Taint("k", "NoSchedule", "v"), Taint("k", "PreferNoSchedule", "v")
    assert matches_flavor(pod(), flavor_labels={}, flavor_taints=[hard], flavor_tolerations=[Toleration("k", "Exists")])
    assert matches_flavor(pod(), flavor_labels={}, flavor_taints=[soft])
    assert not matches_flavor(pod(), flavor_labels={}, flavor_taints=[hard])
    assert matches_flavor(pod(tolerations=[{"key": "k", "value": "v"}]), flavor_labels={}, flavor_taints=[hard])


# --- node affinity ---------------------------------------------------------------------------------------------


def test_T49_a_selector_counts_only_where_the_flavor_has_the_label() -> None:
    item = pod(nodeSelector={"zone": "b", "disk": "ssd"})
    assert not affinity_matches(item, {"zone": "a"})
    assert affinity_matches(item, {"zone": "b"})
    assert affinity_matches(item, {})


def test_T50_a_term_about_other_labels_makes_the_affinity_void() -> None:
    item = pod(affinity=required([("zone", "In", "b")], [("disk", "In", "ssd")]))
    assert affinity_matches(item, {"zone": "a"})
    assert not affinity_matches(pod(affinity=required([("zone", "In", "b")])), {"zone": "a"})


def test_the_keys_looked_at_can_be_given() -> None:
    item = pod(nodeSelector={"disk": "ssd"})
    assert affinity_matches(item, {"zone": "a"})
    assert not affinity_matches(item, {"zone": "a"}, frozenset({"zone", "disk"}))


@pytest.mark.parametrize(
    ("expression", "five", "seven"),
    [
        (("n", "In", "5", "6"), True, False),
        (("n", "NotIn", "5", "6"), False, True),
        (("n", "Exists"), True, True),
        (("n", "DoesNotExist"), False, False),
        (("n", "Gt", "6"), False, True),
        (("n", "Lt", "6"), True, False),
    ],
)
def test_the_operators_of_node_affinity(expression: tuple[str, ...], five: bool, seven: bool) -> None:
    item = pod(affinity=required([expression]))
    assert affinity_matches(item, {"n": "5"}) is five
    assert affinity_matches(item, {"n": "7"}) is seven


def test_terms_are_alternatives_and_expressions_are_not() -> None:
    item = pod(affinity=required([("a", "In", "1"), ("b", "In", "1")], [("a", "In", "2"), ("c", "Exists")]))
    assert affinity_matches(item, {"a": "1", "b": "1"})
    assert not affinity_matches(item, {"a": "1", "b": "2"})
    assert affinity_matches(item, {"a": "2", "b": "2"})


def test_fields_and_preferences_and_empty_affinities_decide_nothing() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [fields]}}
    assert affinity_matches(pod(affinity={"nodeAffinity": terms}), {"zone": "a"})
    assert affinity_matches(pod(affinity=required()), {"zone": "a"})
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"x": 1}}]}
    assert affinity_matches(pod(affinity={"nodeAffinity": preferred}), {"zone": "a"})


@pytest.mark.parametrize(
    "expression",
    [
        ("zone", "Like", "a"),
        ("zone", "In"),
        ("zone", "NotIn"),
        ("zone", "Exists", "a"),
        ("zone", "DoesNotExist", "a"),
        ("zone", "Gt", "a"),
        ("zone", "Lt", "1", "2"),
        ("zone", "In", "not a value"),
    ],
)
def test_an_expression_that_cannot_be_read_is_an_error(expression: tuple[str, ...]) -> None:
    with pytest.raises(UnparsableAffinity, match="zone"):
        affinity_matches(pod(affinity=required([expression])), {"zone": "a"})
    assert affinity_matches(pod(affinity=required([expression])), {"disk": "ssd"})


def test_an_unreadable_term_does_not_matter_where_another_matches() -> None:
    item = pod(affinity=required([("zone", "Like", "a")], [("zone", "In", "a")]))
    assert affinity_matches(item, {"zone": "a"})
    with pytest.raises(UnparsableAffinity):
        affinity_matches(item, {"zone": "b"})
