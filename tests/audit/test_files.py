"""`quota-ledger audit` of files and archives: every change of a record is found, named and located."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ledger.decisions import hash_of
from projections.archive import ArchiveReader, DamagedArchive
from tests.cli.running import quota_ledger
from tests.properties.random_worlds import RandomWorld

CLUSTERS = ("c0", "c1", "c2")


class Run(NamedTuple):
    code: int
    out: str
    err: str


def run(*arguments: object) -> Run:
    done = quota_ledger(*map(str, arguments))
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with events.jsonl and the decisions that a replay made of them."""
    folder = tmp_path_factory.mktemp("log")
    logs = [RandomWorld(seed, cluster=name).run(30).world.records for seed, name in enumerate(CLUSTERS)]
    with (folder / "events.jsonl").open("wb") as file:
        for number in range(max(map(len, logs))):
            file.writelines(log[number] + b"\n" for log in logs if number < len(log))
    run("replay", folder / "events.jsonl", "-o", folder / "decisions.jsonl", "--quiet")
    return folder


def decisions_of(log: Path) -> list[bytes]:
    return (log / "decisions.jsonl").read_bytes().splitlines()


def audit(log: Path, decisions: list[bytes], folder: Path, *more: object) -> Run:
    (folder / "changed.jsonl").write_bytes(b"".join(line + b"\n" for line in decisions))
    return run("audit", log / "events.jsonl", "--decisions", folder / "changed.jsonl", "-q", *more)


def test_an_untouched_log_passes(log: Path, tmp_path: Path) -> None:
    done = audit(log, decisions_of(log), tmp_path)
    assert done.code == 0
    assert f"{len(decisions_of(log)):,} decisions as recorded" in done.out


def changed_hash(values: list[bytes], at: int) -> None:
    """A forger who knows the format: the record is changed and its hash made anew."""
    forged = values[at].replace(b'"at":"2026', b'"at":"2027', 1)
    forged = forged.rpartition(b',"hash":"')[0] + b',"hash":"' + b"0" * 64 + b'"}'
    values[at] = forged.replace(b"0" * 64, hash_of(forged).encode())


def flipped(values: list[bytes], at: int) -> None:
    values[at] = values[at].replace(b'"at":"2026', b'"at":"2027', 1)


def repeated(values: list[bytes], at: int) -> None:
    values.insert(at, values[at - 1])


def left_out(values: list[bytes], at: int) -> None:
    del values[at]


def cut(values: list[bytes], at: int) -> None:
    del values[at:]


def invented(values: list[bytes], at: int) -> None:
    values.append(values[-1].replace(b'"seq":', b'"seq":9'))


def nonsense(values: list[bytes], at: int) -> None:
    values[at] = b"nonsense"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flipped, "was changed after it was written"),
        (changed_hash, "the rules decide otherwise"),
        (repeated, "is a repetition"),
        (left_out, "records are missing"),
        (cut, "the decision is missing"),
        (invented, "was changed after it was written"),
        (nonsense, "the record is no decision"),
    ],
)
def test_every_change_of_the_decisions_is_found_and_named(
    log: Path, tmp_path: Path, change: Callable[[list[bytes], int], None], words: str
) -> None:
    events = [line for line in (log / "events.jsonl").read_bytes().splitlines() if b'"cluster":"c1"' in line]
    (tmp_path / "events.jsonl").write_bytes(b"".join(line + b"\n" for line in events))
    run("replay", tmp_path / "events.jsonl", "-o", tmp_path / "decisions.jsonl", "--quiet")
    values = decisions_of(tmp_path)
    change(values, len(values) // 2)
    done = audit(tmp_path, values, tmp_path)
    assert done.code == 1
    assert words in done.out, done.out
    assert "cause: events.jsonl/0 offset" in done.out


def test_decisions_whose_events_were_cut_off_are_found(log: Path, tmp_path: Path) -> None:
    events = (log / "events.jsonl").read_bytes().splitlines(keepends=True)
    kept = len(events) // 2
    (tmp_path / "events.jsonl").write_bytes(b"".join(events[:kept]))
    done = audit(tmp_path, decisions_of(log), tmp_path)
    assert done.code == 1
    assert f"the event of this decision is missing: the events end before offset {kept}" in done.out, done.out


def test_a_record_whose_cause_is_nonsense_is_a_difference(log: Path, tmp_path: Path) -> None:
    foreign = b'{"type":"Admitted","seq":9999,"cluster":"c1","cause":{"offset":"one"}}'
    done = audit(log, [*decisions_of(log), foreign], tmp_path)
    assert (done.code, done.err) == (1, "")
    assert "9999" in done.out


def test_a_difference_in_one_cluster_leaves_the_others_audited(log: Path, tmp_path: Path) -> None:
    values = decisions_of(log)
    at = next(number for number, value in enumerate(values) if b'"cluster":"c1"' in value)
    flipped(values, at)
    done = audit(log, values, tmp_path, "-o", "json")
    found = json.loads(done.out)["partitions"][0]
    assert [difference["cluster"] for difference in found["differences"]] == ["c1"]
    assert found["decisions"] == sum(1 for value in values if b'"cluster":"c1"' not in value)


def test_a_changed_event_shows_in_the_decisions(log: Path, tmp_path: Path) -> None:
    events = (log / "events.jsonl").read_bytes()
    events = re.sub(rb'"nominalQuota":"\d+"', b'"nominalQuota":"77"', events, count=1)
    (tmp_path / "events.jsonl").write_bytes(events)
    done = audit(tmp_path, decisions_of(log), tmp_path)
    assert done.code == 1
    assert "the rules decide otherwise" in done.out


@pytest.fixture
def archive(log: Path, tmp_path: Path) -> Path:
    path = tmp_path / "audited.qla"
    done = run("audit", log / "events.jsonl", "--decisions", log / "decisions.jsonl", "-q", "--export", path)
    assert done.code == 0
    return path


def test_an_archive_is_audited_without_anything_else(archive: Path) -> None:
    done = run("audit", archive, "-q")
    assert done.code == 0
    assert "decisions as recorded" in done.out


def test_any_flipped_byte_of_an_archive_is_found_and_located(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    random = Random(0)
    for _ in range(200):
        place = random.randrange(len(whole))
        damaged = tmp_path / "damaged.qla"
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << random.randrange(8)]) + whole[place + 1 :])
        with damaged.open("rb") as file, pytest.raises(DamagedArchive) as caught:
            ArchiveReader(file).end()
        numbers = [int(word) for word in caught.value.place.replace(",", " ").split() if word.isdigit()]
        assert numbers[0] <= place, (place, caught.value.place)
        if "to" in caught.value.place.split():
            first_frames = 4096
            assert place <= numbers[1] + first_frames, (place, caught.value.place)
    for place in (0, whole.index(b"\n"), len(whole) // 2):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :])
        done = run("audit", damaged, "-q")
        first, last = map(int, re.findall(r"bytes (\d+) to (\d+)", done.err)[0])
        assert (done.code, done.out) == (1, "")
        assert first <= place <= last


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_archive_is_refused(archive: Path, tmp_path: Path, kept: float) -> None:
    whole = archive.read_bytes()
    path = tmp_path / "cut.qla"
    path.write_bytes(whole[: int(len(whole) * kept)])
    done = run("audit", path, "-q")
    assert done.code == 1
    assert "cut" in done.err


@pytest.mark.parametrize("what", ["events.jsonl", "decisions.jsonl"])
def test_a_packed_file_that_is_damaged_or_cut_is_one_line(log: Path, tmp_path: Path, what: str) -> None:
    packed = gzip.compress((log / what).read_bytes(), mtime=0)
    files = {name: log / name for name in ("events.jsonl", "decisions.jsonl")}
    files[what] = tmp_path / f"{what}.gz"
    middle = len(packed) // 2
    for damaged in (packed[:middle], packed[:middle] + b"damaged" + packed[middle + 7 :], packed[:-5] + b"12345"):
        files[what].write_bytes(damaged)
        done = run("audit", files["events.jsonl"], "--decisions", files["decisions.jsonl"], "-q")
        (line,) = done.err.splitlines()
        assert line.startswith(f"quota-ledger: {files[what]}: the gzip stream is damaged: ")
        assert done.code == 1
    files[what].write_bytes(packed)
    assert run("audit", files["events.jsonl"], "--decisions", files["decisions.jsonl"], "-q").code == 0


def test_the_same_rules_change_nothing_and_other_rules_show_exactly_what_changes(log: Path) -> None:
    arguments = ("audit", log / "events.jsonl", "--decisions", log / "decisions.jsonl", "-q", "--rules-diff")
    same = run(*arguments)
    assert (same.code, same.out.splitlines()[-1].endswith("the decisions of 0 of them change")) == (0, True)
    other = run(*arguments, "--rules", "kueue-0.19", "-o", "json")
    changes = json.loads(other.out)["changes"]
    assert other.code == (1 if changes else 0)
    for change in changes:
        assert change["removed"] or change["added"]
        assert change["removed"] != change["added"]


def test_wrong_use_is_told(log: Path) -> None:
    assert run("audit", log / "nothing.jsonl").code == 2
    assert run("audit", log / "events.jsonl", "--rules", "ledger").code == 2
    assert run("audit", log / "events.jsonl", "--rules-diff", "--rules", "mine").code == 2
