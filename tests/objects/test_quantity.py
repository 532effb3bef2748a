"""Quantities: exact, bounded, and written as Kueue writes them (admission 0.4, 7.1.2, objects 0.2)."""

from __future__ import annotations

import contextlib
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.amounts import MAXIMUM, MINIMUM, UNLIMITED
from ledger.quantity import (
    LARGEST_QUANTITY,
    NANO,
    Quantity,
    canonical,
    canonical_quantity,
    parse_quantity,
    quota_amount,
    request_amount,
)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("0", 0),
        ("1", 1),
        ("+5", 5),
        ("-5", -5),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1500m", Fraction(3, 2)),
        ("100u", Fraction(1, 10_000)),
        ("1n", Fraction(1, 10**9)),
        ("1k", 1000),
        ("1M", 10**6),
        ("1Ki", 1024),
        ("0.1Ki", Fraction(1024, 10)),
        ("1.5Gi", 3 * 2**29),
        ("5Ei", 5 * 2**60),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        (7, 7),
        (1.5, Fraction(3, 2)),
        (1e-7, Fraction(1, 10**7)),
    ],
)
def test_a_quantity_is_read_exactly(text: str | int | float, whole: Fraction) -> None:
    assert Fraction(parse_quantity(text), NANO) == whole


@pytest.mark.parametrize("text", ["0.1n", "1e-999999999", "1e-10", "0." + "0" * 100_000 + "1"])
def test_what_is_finer_than_nano_rounds_away_from_zero(text: str) -> None:
    assert parse_quantity(text) == 1
    assert parse_quantity(f"-{text}") == -1


@pytest.mark.parametrize("text", ["9223372036854775807", "8Ei", "10E", "1e999999999", "1e" + "9" * 5000, "9" * 100_000])
def test_no_quantity_is_larger_than_64_bits_of_whole_units(text: str) -> None:
    assert parse_quantity(text) == LARGEST_QUANTITY
    assert parse_quantity(f"-{text}") == -LARGEST_QUANTITY


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "1K", "1e", "1 ", "e5", "1mm", "--1", "1e5Ki", "1Kib", "٣", "1_0", "NaN", "Infinity", "0x10", "1,5"],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf")])
def test_other_json_values_are_no_quantities(value: object) -> None:
    with pytest.raises(ValueError, match="a quantity is"):
        parse_quantity(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "1e999999999",
        "1e-999999999",
        "9" * 1_000_000,
        "0" * 1_000_000 + "1",
        "0." + "3" * 1_000_000 + "Ei",
        "0." + "0" * 1_000_000 + "1e1000001",
        "1" + "0" * 1_000_000 + "e-1000000",
        "1" * 1_000_000 + "x",
    ],
)
def test_hostile_text_costs_nothing(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(ValueError):
        parse_quantity(text)
    assert time.process_time() - start < 5, "written out, the number would take minutes"


def test_long_text_is_as_exact_as_short_text() -> None:
    assert parse_quantity("0." + "0" * 1_000_000 + "1e1000001") == NANO
    assert parse_quantity("1" + "0" * 1_000_000 + "e-1000000") == NANO
    third = parse_quantity("0." + "3" * 500 + "Ei")
    assert third == -(-(2**60) * NANO // 3)


@given(
    st.integers(-(10**25), 10**25),
    st.integers(-30, 12),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
)
def test_parsing_equals_rational_arithmetic(digits: int, point: int, suffix: str) -> None:
    text = f"{digits}" if point >= 0 else f"{'-' * (digits < 0)}{str(abs(digits)).zfill(1 - point)}"
    if point < 0:
        text = f"{text[:point]}.{text[point:]}"
    decimals = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    factor = Fraction(10) ** decimals[suffix] if suffix in decimals else 1024 ** ("KMGTPE".index(suffix[0]) + 1)
    exact = Fraction(digits) * Fraction(10) ** min(point, 0) * factor * NANO
    rounded = -(-abs(exact).numerator // abs(exact).denominator)
    expected = min(rounded, LARGEST_QUANTITY) * (-1 if exact < 0 else 1)
    assert parse_quantity(text + suffix) == expected


@given(st.integers(-LARGEST_QUANTITY, LARGEST_QUANTITY), st.booleans())
def test_canonical_text_reads_back_as_the_same_quantity(nano: int, binary: bool) -> None:
    assert parse_quantity(canonical_quantity(nano, binary=binary)) == nano


@given(st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]), st.integers(0, MAXIMUM - 1))
def test_canonical_text_reads_back_as_the_same_amount(resource: str, amount: int) -> None:
    assert request_amount(parse_quantity(canonical(resource, amount)), resource) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 1_000_000, "1k"),
        ("cpu", 0, "0"),
        ("memory", 68719476736, "64Gi"),
        ("memory", 1536, "1536"),
        ("memory", 1000, "1k"),
        ("memory", 0, "0"),
        ("ephemeral-storage", 2**30, "1Gi"),
        ("hugepages-2Mi", 2**29, "512Mi"),
        ("nvidia.com/gpu", 5000, "5k"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_an_amount_is_written_as_kueue_writes_it(resource: str, amount: int, text: str) -> None:
    assert canonical(resource, amount) == text


def test_the_keys_of_device_sources_print_in_binary_units() -> None:
    assert canonical("gpu-memory", 10200547328, {"gpu-memory"}) == "9728Mi"
    assert canonical("gpu-memory", 10200547328) == "10200547328"


def test_amounts_round_up_in_their_own_unit() -> None:
    assert request_amount(parse_quantity("0.5m"), "cpu") == 1
    assert request_amount(parse_quantity("1.2"), "memory") == 2
    assert request_amount(parse_quantity("-500m"), "memory") == -1
    assert quota_amount(parse_quantity("100.25m"), "cpu") == 101


def test_a_quota_out_of_range_is_unlimited_and_a_request_is_clamped() -> None:
    assert quota_amount(parse_quantity("9223372036854775"), "cpu") is UNLIMITED
    assert quota_amount(parse_quantity("9223372036854774"), "cpu") == 9223372036854774000
    assert quota_amount(parse_quantity("10E"), "memory") is UNLIMITED
    assert request_amount(parse_quantity("10E"), "cpu") == MAXIMUM
    assert request_amount(parse_quantity("-10E"), "cpu") == MINIMUM


@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_quantity(text), Quantity)


def test_a_message_stays_short_however_long_the_text() -> None:
    with pytest.raises(ValueError, match="characters") as caught:
        parse_quantity("1" * 1_000_000 + "x")
    assert len(str(caught.value)) < 200
