"""Times and durations (objects 0.3, admission 1.8)."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.objects.durations import parse_duration
from ledger.timestamps import EARLIEST, LATEST, SECOND, as_datetime, format_seconds, format_timestamp, parse_timestamp


def test_a_time_is_counted_in_microseconds_of_utc() -> None:
    assert parse_timestamp("1970-01-01T00:00:01Z") == SECOND
    assert parse_timestamp("2026-12-01T13:20:45.715123999Z") == parse_timestamp("2026-12-01T13:20:45.715123Z")
    assert parse_timestamp("2026-12-01T13:20:45+05:30") == parse_timestamp("2026-12-01T07:50:45Z")
    assert parse_timestamp("0001-01-01T00:00:00Z") == EARLIEST


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-12-01",
        "2026-12-01T13:20:45",
        "2026-12-01 13:20:45Z",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-12-01T24:00:00Z",
        "2026-12-01T13:60:00Z",
        "2026-12-01T13:20:60Z",
        "2026-12-01T13:20:45.Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-00:01",
        "２026-12-01T13:20:45Z",
        "2026-12-01T13:20:45Z\n",
    ],
)
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is outside"):
        parse_timestamp(text)


def test_times_are_written_with_milliseconds_unless_they_are_finer() -> None:
    assert format_timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert format_timestamp(120_000) == "1970-01-01T00:00:00.120Z"
    assert format_timestamp(120_001) == "1970-01-01T00:00:00.120001Z"
    assert format_seconds(1_999_999) == "1970-01-01T00:00:01Z"


@given(st.integers(EARLIEST, LATEST))
def test_a_time_reads_back_from_its_text(instant: int) -> None:
    assert parse_timestamp(format_timestamp(instant)) == instant
    assert as_datetime(instant) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)


@given(st.datetimes(timezones=st.just(UTC)))
def test_reading_agrees_with_the_standard_library(moment: datetime) -> None:
    assert as_datetime(parse_timestamp(moment.isoformat())) == moment


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    for parse in (parse_timestamp, parse_duration):
        with contextlib.suppress(ValueError):
            assert isinstance(parse(text), int)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("20s", 20 * SECOND),
        ("5m", 300 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("300ms", 300_000),
        ("2us", 2),
        ("2µs", 2),
        ("1999ns", 1),
        ("-5m", -300 * SECOND),
    ],
)
def test_durations_are_read_as_the_configuration_writes_them(text: str, microseconds: int) -> None:
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "5x", "1h-30m", ".s", "9999999999999h", "1" * 100 + "s", "٣s"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is longer"):
        parse_duration(text)
