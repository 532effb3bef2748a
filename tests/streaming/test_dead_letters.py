"""`quota-ledger deadletters`: a rejected record is listed, explained, corrected, and put back once."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests import builders as build
from tests.streaming.commands import quota_ledger
from tests.streaming.log import write_events
from tests.streaming.test_checkpoints import events, opened, values
from topics.admin import ensure_topics
from topics.settings import Settings
from topics.topic import Topics

pytestmark = pytest.mark.broker

WITHOUT_NAME = {**build.flavor("f1"), "metadata": {"uid": "x"}}
BATCH = build.batch(
    build.event("ADDED", build.flavor("good-1")),
    build.event("ADDED", WITHOUT_NAME),
    build.event("ADDED", build.flavor("good-2")),
    at=5,
)


def deadletters(settings: Settings, *arguments: object) -> subprocess.CompletedProcess[str]:
    return quota_ledger(settings, "deadletters", *arguments)


async def fold(settings: Settings) -> None:
    partition = await opened(settings)
    await partition.apply(await events(settings))
    await partition.close()


@pytest.fixture
def log(settings: Settings) -> Settings:
    used = settings.replaced(partitions=1)

    async def prepare() -> None:
        await ensure_topics(used)
        await write_events(used, [(b"test", b'{"cluster":"test","type":'), (b"test", build.encode(BATCH))])
        await fold(used)

    asyncio.run(prepare())
    return used


def test_letters_are_listed_and_explained(log: Settings) -> None:
    listed = [json.loads(line) for line in deadletters(log, "list").stdout.splitlines()]
    assert [(each["place"], each["cluster"], each["resubmitted"]) for each in listed] == [
        ("0/0", "default", False),
        ("0/1", "test", False),
    ]
    assert listed[0]["value"] == '{"cluster":"test","type":'
    assert listed[1]["rejections"] == [{"index": 1, "path": "object.metadata.name", "reason": "is required"}]
    text = deadletters(log, "explain", "0/1").stdout
    assert "member 1, object.metadata.name: is required" in text
    assert "resubmit 0/1 --with FILE" in text
    assert deadletters(log, "explain", "0/77").returncode == 1


def test_a_record_that_would_be_rejected_again_is_not_put_back(log: Settings) -> None:
    done = deadletters(log, "resubmit", "0/1")
    assert done.returncode == 1
    assert "would be rejected again: object.metadata.name: is required" in done.stderr
    assert deadletters(log, "resubmit", "--all").stdout.startswith("0 put back")
    assert len(asyncio.run(events(log))) == 2


def test_a_corrected_record_is_put_back_once_and_folded(log: Settings, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.json"
    fixed.write_bytes(build.encode(build.event("ADDED", build.flavor("mended"), at=9)))
    done = deadletters(log, "resubmit", "0/1", "--with", fixed)
    assert (done.returncode, done.stdout.strip()) == (0, "1 put back: 0/1"), done.stderr
    again = deadletters(log, "resubmit", "0/1", "--with", fixed)
    assert again.returncode == 1
    assert "put back already" in again.stderr
    asyncio.run(fold(log))
    waiting = deadletters(log, "list", "--waiting").stdout.splitlines()
    assert [json.loads(line)["place"] for line in waiting] == ["0/0"]

    async def flavors() -> list[str]:
        partition = await opened(log)
        await partition.close()
        return sorted(partition.fold.clusters["test"].state.flavors)

    assert asyncio.run(flavors()) == ["good-1", "good-2", "mended"]


def test_after_a_fix_in_the_ledger_all_that_it_accepts_now_is_put_back(
    embedded_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older version refused flavors; this one does not. Of a batch only the refused member goes back."""
    used = embedded_settings.replaced(partitions=1)
    from ledger.objects import kinds
    from ledger.objects.errors import InvalidObject

    def refuse(target: object) -> None:
        raise InvalidObject("spec", "is not known yet")

    good = build.batch(build.event("ADDED", build.namespace()), build.event("ADDED", build.flavor("late")), at=5)

    async def prepare() -> None:
        await ensure_topics(used)
        await write_events(used, [(b"test", build.encode(good))])
        known = kinds.kinds()
        place = ("kueue.x-k8s.io/v1beta2", "ResourceFlavor")
        with monkeypatch.context() as patch:
            patch.setitem(known, place, kinds.Kind("ResourceFlavor", known[place].type, refuse))
            await fold(used)

    asyncio.run(prepare())
    assert "this version accepts it" in deadletters(used, "explain", "0/0").stdout
    assert deadletters(used, "resubmit", "--all").stdout.strip() == "1 put back: 0/0"
    written = asyncio.run(events(used))
    members = json.loads(written[-1].value)["events"]
    assert [member["object"]["metadata"]["name"] for member in members] == ["late"]
    assert len(asyncio.run(values(used, Topics.of(used).dead_letters.name))) == 2
