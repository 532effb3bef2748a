"""Quantities and versions inside expressions."""

from __future__ import annotations

import itertools
import time

import pytest

from ledger.cel import EvaluationError, parse_quantity, parse_semver

NANO = 10**9


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1", NANO), ("1Ki", 1024 * NANO), ("1.5Gi", 3 * 2**29 * NANO), ("500m", NANO // 2), ("1n", 1), ("0.1n", 1),
        ("-0.1n", -1), ("1e3", 1000 * NANO), ("1E", 10**18 * NANO), ("1E2", 100 * NANO), (".5", NANO // 2),
        ("5.", 5 * NANO), ("+3", 3 * NANO), ("100E", (2**63 - 1) * NANO), ("-100E", -(2**63 - 1) * NANO),
        ("1e-999999999", 1), ("0e999999999", 0), ("1e999999999", (2**63 - 1) * NANO),
    ],
)  # fmt: skip
def test_a_quantity_is_exact_to_a_billionth(text: str, nanos: int) -> None:
    assert parse_quantity(text).nanos == nanos


@pytest.mark.parametrize("text", ["", ".", "1Zi", "1 Gi", "Gi", "1e", "--1", "0x1", "1ki", "1.2.3", "١", "9" * 1000])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_quantity(text)


def test_hostile_exponents_cost_nothing() -> None:
    started = time.process_time()
    for text in ("1e999999999", "-1e999999999", "1e-999999999", "9.9e2147483648"):
        parse_quantity(text)
    assert time.process_time() - started < 5, "written out, the numbers would take minutes"


def test_versions_are_ordered_as_the_standard_says() -> None:
    ordered = [
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
        "1.0.0-rc.1", "1.0.0", "1.0.1", "1.1.0", "2.0.0",
    ]  # fmt: skip
    versions = [parse_semver(text) for text in ordered]
    assert all(one < other for one, other in itertools.pairwise(versions))
    assert parse_semver("1.0.0+a") == parse_semver("1.0.0+b")


@pytest.mark.parametrize("text", ["1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.3-01", "1.2.3-", "", "a.b.c", " 1.2.3"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_semver(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [("v1.2", "1.2.0"), (" 1 ", "1.0.0"), ("v01.02.03", "1.2.3"), ("1.2.3-rc.1", "1.2.3-rc.1"), ("v0", "0.0.0")],
)
def test_normalising_fills_in_what_is_missing(text: str, same: str) -> None:
    assert parse_semver(text, normalize=True) == parse_semver(same)


@pytest.mark.parametrize("text", ["vv1.0.0", "1.2-rc.1", "1.2.3.4"])
def test_normalising_has_limits(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_semver(text, normalize=True)
