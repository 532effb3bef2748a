"""Records of every past version decode, keep their bytes and their hash, and events of then are events now."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from ledger.decisions import DECISION_TYPES, decode_decision, encode_decision, hash_of
from ledger.events import Rejection, decode_event

FILES = sorted(Path(__file__).parent.glob("*.json.gz"))


def read(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def test_there_are_records_of_every_release() -> None:
    assert [path.name for path in FILES][:1] == ["0.1.0.json.gz"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_decisions_of_a_past_version_decode_and_keep_their_bytes_and_hash(path: Path) -> None:
    for text in read(path)["decisions"]:
        value = text.encode()
        decision = decode_decision(value)
        assert decision.hash == hash_of(value)
        assert encode_decision(msgspec.structs.replace(decision, hash="")).value == value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_events_of_a_past_version_are_read_without_a_rejection(path: Path) -> None:
    for text in read(path)["events"]:
        event = decode_event(text.encode())
        assert not [member for member in event.members if isinstance(member, Rejection)]


def test_the_golden_records_show_most_types() -> None:
    seen = {json.loads(text)["type"] for path in FILES for text in read(path)["decisions"]}
    assert len(seen) >= len(DECISION_TYPES) - 1
