"""`quota-ledger replay`: what goes in, what comes out, and with which exit code."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from projections.replay import replay
from tests import builders as build
from tests.cli.running import quota_ledger
from topics.sources import SourceEvent, numbered_events

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "first-session.jsonl"
BAD_QUOTA = (
    b'{"type":"ADDED","object":{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue",'
    b'"metadata":{"name":"bad","uid":"bad"},"spec":{"namespaceSelector":{},"resourceGroups":[{"coveredResources":["cpu"],'
    b'"flavors":[{"name":"a100","resources":[{"name":"cpu","nominalQuota":"-3"}]}]}]}}}'
)
CONFIG_MAP = b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"c"}}}'


def decisions(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_decisions_are_lines_of_json_each_with_its_cause() -> None:
    done = quota_ledger("replay", EXAMPLE)
    assert done.returncode == 0, done.stderr
    found = decisions(done.stdout)
    lines = len(EXAMPLE.read_bytes().splitlines())
    assert [each["seq"] for each in found] == list(range(found[0]["seq"], found[0]["seq"] + len(found)))
    for each in found:
        assert each["cluster"] == "eu-1"
        assert each["cause"].keys() == {"topic", "partition", "offset", "index"}
        assert each["cause"]["topic"] == "first-session.jsonl"
        assert each["cause"]["partition"] == 0
        assert 0 <= each["cause"]["offset"] < lines
    offsets = [each["cause"]["offset"] for each in found]
    assert offsets == sorted(offsets)


def test_each_decision_carries_the_hash_of_the_one_before_it() -> None:
    found = quota_ledger("replay", EXAMPLE).stdout.splitlines()
    before = json.loads(found[0])["prev"]
    for line in found:
        decision = json.loads(line)
        assert decision["prev"] == before
        without = line.replace(f',"hash":"{decision["hash"]}"'.encode(), b"")
        assert decision["hash"] == hashlib.blake2b(without, digest_size=32).hexdigest()
        before = decision["hash"]


def test_the_first_session_of_the_readme_ends_as_it_says() -> None:
    found = decisions(quota_ledger("replay", EXAMPLE).stdout)
    steps = [
        (each["type"], each["workload"]["name"])
        for each in found
        if each["type"] in ("QuotaReserved", "Admitted", "Preempted", "Released")
    ]
    assert steps == [
        ("QuotaReserved", "tune-1"),
        ("Admitted", "tune-1"),
        ("QuotaReserved", "train-7"),
        ("Admitted", "train-7"),
        ("Preempted", "train-7"),
        ("Released", "train-7"),
        ("QuotaReserved", "serve-2"),
        ("Admitted", "serve-2"),
        ("Released", "tune-1"),
        ("QuotaReserved", "train-7"),
        ("Admitted", "train-7"),
    ]


def test_gzip_standard_input_and_a_file_give_the_same_decisions(tmp_path: Path) -> None:
    events = EXAMPLE.read_bytes()
    (tmp_path / "events.gz").write_bytes(gzip.compress(events))
    plain = quota_ledger("replay", EXAMPLE).stdout.replace(b"first-session.jsonl", b"NAME")
    packed = quota_ledger("replay", tmp_path / "events.gz").stdout
    piped = quota_ledger("replay", "-", stdin=events).stdout
    shorn = [
        [{k: v for k, v in each.items() if k not in ("cause", "prev", "hash")} for each in decisions(output)]
        for output in (plain, packed, piped)
    ]
    assert shorn[0] == shorn[1] == shorn[2]
    assert {each["cause"]["topic"] for each in decisions(packed)} == {"events.gz"}
    assert {each["cause"]["topic"] for each in decisions(piped)} == {"-"}


def test_output_goes_to_a_file_packed_where_its_name_says_so(tmp_path: Path) -> None:
    for name in ("out.jsonl", "out.jsonl.gz", "again.gz"):
        done = quota_ledger("replay", EXAMPLE, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (0, b"")
    plain = (tmp_path / "out.jsonl").read_bytes()
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()) == plain
    assert (tmp_path / "out.jsonl.gz").read_bytes() == (tmp_path / "again.gz").read_bytes()
    assert plain == quota_ledger("replay", EXAMPLE).stdout


def test_the_same_file_in_another_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    copy = tmp_path / EXAMPLE.name
    copy.write_bytes(EXAMPLE.read_bytes())
    assert quota_ledger("replay", copy).stdout == quota_ledger("replay", EXAMPLE).stdout


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type":"TI', b""),
        (b"\xff\xfe\x00", b""),
        (b"[]", b""),
        (b'{"type":"MADE"}', b"type"),
        (b'{"type":"TICK","at":"yesterday"}', b"at"),
        (BAD_QUOTA, b"object.spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"),
        (b'{"type":"ADDED","object":{"kind":' + b"[" * 5_000 + b"]" * 5_000 + b"}}", b""),
    ],
)
def test_a_rejected_record_is_named_and_the_rest_goes_on(tmp_path: Path, line: bytes, reason: bytes) -> None:
    good = EXAMPLE.read_bytes().splitlines(keepends=True)
    file = tmp_path / EXAMPLE.name
    file.write_bytes(b"".join([*good[:3], line + b"\n", *good[3:]]))
    letters = tmp_path / "letters.jsonl"
    done = quota_ledger("replay", file, "--dead-letters", letters)
    assert done.returncode == 0
    assert b"rejected: first-session.jsonl offset 3: " + reason in done.stderr
    assert b" 1 rejected" in done.stderr
    (letter,) = (json.loads(text) for text in letters.read_text().splitlines())
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("first-session.jsonl", 0, 3)
    assert len(letter["rejections"]) == 1
    if "value" in letter:
        assert letter["value"].encode() == line
    types = [each["type"] for each in decisions(done.stdout)]
    assert types == [each["type"] for each in decisions(quota_ledger("replay", EXAMPLE).stdout)]
    assert quota_ledger("replay", file, "--strict").returncode == 1
    assert quota_ledger("replay", EXAMPLE, "--strict").returncode == 0


def test_a_bad_member_of_a_batch_is_rejected_alone(tmp_path: Path) -> None:
    members = [*EXAMPLE.read_bytes().splitlines()[1:8], BAD_QUOTA]
    members = [member for member in members if b"SYNC" not in member]
    file = tmp_path / "batch.jsonl"
    file.write_bytes(b'{"cluster":"eu-1","type":"BATCH","events":[' + b",".join(members) + b"]}\n")
    done = quota_ledger("replay", file, "--dead-letters", tmp_path / "letters")
    (letter,) = (json.loads(text) for text in (tmp_path / "letters").read_text().splitlines())
    assert [each["index"] for each in letter["rejections"]] == [len(members) - 1]
    assert b"batch.jsonl offset 0 index %d: object.spec" % (len(members) - 1) in done.stderr
    assert decisions(done.stdout)


def test_kinds_that_are_not_known_are_counted_and_named(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(
        b"\n".join([CONFIG_MAP, CONFIG_MAP.replace(b'"v1"', b'"apps/v1"').replace(b"ConfigMap", b"Deployment")])
    )
    done = quota_ledger("replay", file, "--strict")
    assert done.returncode == 0
    assert b"ConfigMap" in done.stderr
    assert b"Deployment" in done.stderr


def test_signs_that_move_a_terminal_are_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b'{"type":"TICK","at":"\\u001b[2J\\u0007"}\n')
    done = quota_ledger("replay", file)
    assert b"rejected: events.jsonl offset 0: at: " in done.stderr
    assert b"\x1b" not in done.stderr
    assert b"\x07" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay",),
        ("replay", "missing.jsonl"),
        ("replay", "."),
        ("replay", str(EXAMPLE), "-o", "missing/out.jsonl"),
        ("replay", str(EXAMPLE), "--no-such-option"),
        ("no-such-command",),
    ],
)
def test_wrong_use_ends_with_two(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = quota_ledger(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr
    assert b"Traceback" not in done.stderr


def test_a_cut_off_gzip_file_is_an_error_and_what_could_be_read_was_decided(tmp_path: Path) -> None:
    file = tmp_path / "events.gz"
    file.write_bytes(gzip.compress(EXAMPLE.read_bytes())[:-30])
    done = quota_ledger("replay", file)
    assert done.returncode == 1
    assert b"damaged" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["/dev/full", "-"])
def test_a_full_disk_is_told_in_one_line(output: str) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", "from projections.cli import main; main()", "replay", EXAMPLE, "-o", output]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "quota-ledger: No space left on device; make room and run it again, what it wrote is incomplete\n",
    )


def test_quiet_says_nothing() -> None:
    assert quota_ledger("replay", EXAMPLE, "--quiet").stderr == b""


def test_manifests_are_replayed_as_they_are() -> None:
    folder = EXAMPLE.parent
    done = quota_ledger("replay", folder / "cluster.yaml", "--strict", "--cluster", "eu-2")
    assert done.returncode == 0, done.stderr
    assert {each["cluster"] for each in decisions(done.stdout)} <= {"eu-2"}


def test_a_time_that_is_missing_is_the_previous_events_whatever_its_cluster(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield build.encode(build.event("TICK", at=50, cluster="a"))
        for thing in (
            build.namespace(),
            build.flavor("default"),
            build.cluster_queue("q", build.group(default=[build.quota("cpu", 4)])),
            build.local_queue("q"),
            build.workload("w", "q", requests={"cpu": 1}),
        ):
            yield build.encode(build.event("ADDED", thing, cluster="b"))

    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(lines()))
    found = decisions(quota_ledger("replay", file, "--strict").stdout)
    assert {(each["cluster"], each["at"]) for each in found} == {("b", build.moment(50))}


def test_memory_does_not_grow_with_the_length_of_the_file() -> None:
    class Endless(io.RawIOBase):
        """Ticks and one flavor that is written again and again."""

        def __init__(self, count: int) -> None:
            self.left = count
            self.number = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if not self.left:
                return 0
            self.left -= 1
            self.number += 1
            flavor = build.flavor("default")
            flavor["metadata"]["resourceVersion"] = str(self.number)
            flavor["metadata"]["annotations"] = {"note": "x" * 2_000}
            line = build.encode(build.event("MODIFIED", flavor, at=1)) + b"\n"
            buffer[: len(line)] = line
            return len(line)

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            source = io.BufferedReader(Endless(count), 4096)
            summary = replay(numbered_events(source), "endless", lambda line: None, _no_rejection)
            assert (summary.events, summary.rejected) == (count, 0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    assert peak(5_000) < peak(500) + 500_000


def _no_rejection(event: SourceEvent, reasons: list[Any]) -> None:
    raise AssertionError(f"{event.offset}: {reasons}")
