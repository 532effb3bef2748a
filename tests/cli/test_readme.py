"""The README shows what is seen."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ledger.decisions import DECISION_TYPES
from ledger.events import EventType
from tests.cli.running import quota_ledger

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = "examples/first-session.jsonl"


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def first_column(text: str) -> set[str]:
    """The words in the first column of a table."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return {word.strip() for row in rows[1:] for word in row.split(",")} - {"---"}


def test_every_type_of_event_is_listed() -> None:
    assert first_column(section("Events")) == {each.value for each in EventType}


def test_every_type_of_decision_is_listed() -> None:
    assert first_column(section("Decisions")) == {kind.__name__ for kind in DECISION_TYPES}


def test_the_decision_that_is_shown_is_the_one_that_is_made() -> None:
    ((number, shown),) = re.findall(
        r'^\$ sed -n (\d+)p decisions.jsonl\n(\{"type":"Preempted".*\})$', README, re.MULTILINE
    )
    decisions = quota_ledger("replay", EXAMPLE, "--quiet", folder=ROOT).stdout.decode().splitlines()
    assert decisions[int(number) - 1] == shown


def test_the_session_lists_the_decisions_of_the_example_in_their_order() -> None:
    lines = re.findall(r"^\d\d:\d\d:\d\d\.\d{3}  (\w+) ", section("A first session"), re.MULTILINE)
    decisions = quota_ledger("replay", EXAMPLE, "--quiet", folder=ROOT).stdout.decode().splitlines()
    assert lines == [re.findall(r'^\{"type":"(\w+)"', decision)[0] for decision in decisions]


def test_the_demo_is_the_first_session() -> None:
    assert (ROOT / "topics" / "demo.jsonl").read_bytes() == (ROOT / EXAMPLE).read_bytes()


def test_the_commands_that_are_named_exist() -> None:
    for line in re.findall(r"quota-ledger (\w+)[^\n|]*", README):
        assert quota_ledger(line, "--help").returncode == 0, line


def test_the_files_that_are_named_exist() -> None:
    for name in re.findall(r"(?:examples|docs|benchmarks)/[\w./-]*", README):
        assert (ROOT / name.rstrip(".")).exists(), name
    assert shlex.split(section("Two commands").split("```sh\n")[1].splitlines()[0])
