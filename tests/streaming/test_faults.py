"""What somebody sees and can do when something is away, full or too large: one line, and afterwards all is right."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.streaming.apache_kafka import apache_kafka
from tests.streaming.commands import quota_ledger
from tests.streaming.conftest import Broker, new_settings
from tests.streaming.counting_fold import CountingFold
from tests.streaming.log import (
    assert_written_once,
    committed,
    event_of,
    events_of,
    wait_until_committed,
    write_events,
)
from tests.streaming.test_audit import folded
from tests.streaming.test_checkpoints import worlds
from tests.streaming.workers import COMMAND, MAIN, WorkerProcess
from topics.admin import ensure_topics
from topics.batching import Addressed
from topics.broker import EmbeddedBroker, free_port
from topics.folding import FoldFactory, ledger_fold
from topics.ingest import RecordTooLarge, ingest
from topics.settings import Settings
from topics.topic import MAX_RECORD_BYTES, Topics
from topics.transaction import MAX_REQUEST_BYTES

pytestmark = [pytest.mark.broker, pytest.mark.slow]

FULL_SECONDS = 3.0
#: Longer by hand: QUOTA_LEDGER_AWAY_SECONDS=610 is ten minutes (docs/faults.md).
AWAY_SECONDS = float(os.environ.get("QUOTA_LEDGER_AWAY_SECONDS", "8"))


def lines_with(text: str, *parts: str) -> list[str]:
    return [line for line in text.splitlines() if all(part in line for part in parts)]


def prepare(settings: Settings, count: int) -> None:
    async def run() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(count))

    asyncio.run(run())


def settings_of(broker: Any) -> Settings:
    return new_settings(Broker(broker.bootstrap_servers)).replaced(chunk_size=10)


@pytest.fixture(params=[apache_kafka, EmbeddedBroker], ids=["kafka", "embedded"])
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A broker that the test may kill."""
    new_broker: Callable[[Path], Any] = request.param
    broker = new_broker(tmp_path / "broker")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def test_a_broker_that_is_away_at_the_start_is_one_line(tmp_path: Path) -> None:
    settings = Settings(bootstrap_servers=f"127.0.0.1:{free_port()}", metrics_port=0, broker_patience_seconds=2)
    with WorkerProcess(settings, tmp_path / "worker.log", fold=COMMAND) as worker:
        assert worker.wait() == 1
        text = worker.text()
    (line,) = lines_with(text, "set KAFKA_BOOTSTRAP_SERVERS, or start one with `quota-ledger up`")
    assert settings.bootstrap_servers in line
    assert text.splitlines()[-1] == line
    assert "Traceback" not in text


def test_a_worker_outlives_a_broker_that_dies_and_comes_back(own_broker: Any, tmp_path: Path) -> None:
    """It dies in the middle of transactions, and stays away for AWAY_SECONDS."""
    settings = settings_of(own_broker)
    prepare(settings, 1_500)
    with WorkerProcess(settings, tmp_path / "worker.log", sleep=0.05) as worker:
        asyncio.run(wait_until_committed(settings, 200))
        own_broker.kill()
        time.sleep(AWAY_SECONDS)
        assert worker.alive, worker.text()[-2000:]
        waiting = lines_with(worker.text(), "no Kafka broker serves at", "Waiting for it")
        assert 1 <= len(waiting) <= 1 + AWAY_SECONDS / 60
        assert "nothing listens there" in waiting[0]
        own_broker.start()
        asyncio.run(wait_until_committed(settings, 1_500))
        worker.wait_for_text("is back after")
        asyncio.run(write_events(settings, events_of(30)))
        asyncio.run(wait_until_committed(settings, 1_530))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(settings, CountingFold))


def test_a_worker_whose_patience_is_over_ends_with_one_line_and_the_next_goes_on(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        settings = settings_of(broker).replaced(broker_patience_seconds=3)
        prepare(settings, 600)
        with WorkerProcess(settings, tmp_path / "worker.log", sleep=0.05) as worker:
            asyncio.run(wait_until_committed(settings, 100))
            broker.kill()
            assert worker.wait(30) == 1
            (line,) = lines_with(worker.text(), "CRITICAL")
            assert "start it again when the broker is back: it goes on where the log says" in line
            assert "Traceback" not in worker.text()
        broker.start()
        with WorkerProcess(settings, tmp_path / "worker.log") as worker:
            asyncio.run(wait_until_committed(settings, 600))
            assert worker.terminate() == 0
        asyncio.run(assert_written_once(settings, CountingFold))


# -- too large ---------------------------------------------------------------------------------------------------------


def configure(settings: Settings, topic: str, limit: int, *, create: bool = False) -> None:
    """What an operator does: a topic made by hand with a limit, or the limit set anew."""

    async def run() -> None:
        admin = AIOKafkaAdminClient(**settings.client())
        await admin.start()
        config = {"max.message.bytes": str(limit)}
        try:
            if create:
                await admin.create_topics([NewTopic(topic, settings.partitions, 1, topic_configs=config)])
            else:
                await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
        finally:
            await admin.close()

    asyncio.run(run())


def file_of(folder: Path, values: Iterable[bytes]) -> Path:
    path = folder / "events.jsonl"
    path.write_bytes(b"".join(value + b"\n" for value in values))
    return path


def test_an_event_larger_than_the_log_takes_is_named_with_what_to_do(embedded_settings: Settings) -> None:
    """Of a file's lines none comes that far: a longer one is cut, and becomes a dead letter."""
    values = [Addressed("eu-1", event_of("eu-1", 1)), Addressed("eu-1", b"x" * (MAX_RECORD_BYTES + 1))]
    with pytest.raises(RecordTooLarge, match=r"cluster eu-1 has 20,971,521 bytes.*split it .a BATCH.*ingest again"):
        asyncio.run(ingest(embedded_settings, values))


def test_a_topic_that_takes_less_than_the_ledger_needs_is_named_by_ingest(settings: Settings, tmp_path: Path) -> None:
    topic = Topics.of(settings).events.name
    configure(settings, topic, 1_000, create=True)
    file = file_of(tmp_path, [event_of("eu-1", 1, filler='"' + "y" * 2_000 + '"')])
    done = quota_ledger(settings, "ingest", file)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"set max.message.bytes of that topic to {MAX_RECORD_BYTES}, and ingest again" in line
    assert topic in line
    configure(settings, topic, MAX_RECORD_BYTES)
    assert quota_ledger(settings, "ingest", file).returncode == 0


@pytest.mark.parametrize(("what", "fold"), [("decisions", CountingFold), ("checkpoints", ledger_fold)])
def test_a_topic_that_takes_less_than_the_worker_writes_is_named_and_nothing_is_lost(
    settings: Settings, tmp_path: Path, what: str, fold: FoldFactory
) -> None:
    used = settings.replaced(partitions=1, checkpoint_events=20, chunk_size=20)
    topic = getattr(Topics.of(used), what).name
    configure(used, topic, 900, create=True)
    records = list(events_of(100) if what == "decisions" else worlds())

    async def prepare_events() -> None:
        await ensure_topics(used)
        await write_events(used, records)

    asyncio.run(prepare_events())
    name = "counting" if what == "decisions" else "ledger"
    with WorkerProcess(used, tmp_path / "worker.log", fold=name) as worker:
        assert worker.wait() == 1
        (line,) = lines_with(worker.text(), "CRITICAL")
        assert f"for {topic}: set max.message.bytes of that topic to {MAX_REQUEST_BYTES}" in line
        assert "Traceback" not in worker.text()
    assert asyncio.run(committed(used)) < len(records)
    configure(used, topic, MAX_REQUEST_BYTES)
    with WorkerProcess(used, tmp_path / "worker.log", fold=name) as worker:
        asyncio.run(wait_until_committed(used, len(records)))
        assert worker.terminate() == 0
    asyncio.run(assert_written_once(used, fold))


# -- full disks --------------------------------------------------------------------------------------------------------


def test_a_worker_needs_no_disk(embedded_settings: Settings, tmp_path: Path) -> None:
    """It may write no byte to any file, and its log goes to a full disk: it folds all the same."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def forbid() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    records = list(worlds())
    used = embedded_settings.replaced(checkpoint_events=20)

    async def prepare_events() -> None:
        await ensure_topics(used)
        await write_events(used, records)

    asyncio.run(prepare_events())
    worker = subprocess.Popen(
        [sys.executable, "-c", MAIN, "worker"],
        cwd=folder,
        env=os.environ | used.environment(),
        stdout=subprocess.DEVNULL,
        stderr=os.open("/dev/full", os.O_WRONLY),
        preexec_fn=forbid,
    )
    try:
        asyncio.run(wait_until_committed(used, len(records)))
        worker.terminate()
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
    asyncio.run(assert_written_once(used, ledger_fold))
    assert list(folder.iterdir()) == []


def test_a_broker_whose_disk_is_full_says_so_and_the_worker_waits_until_there_is_room(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        settings = settings_of(broker)
        prepare(settings, 1_000)
        with WorkerProcess(settings, tmp_path / "worker.log", sleep=0.02) as worker:
            asyncio.run(wait_until_committed(settings, 100))
            decisions = tmp_path / "broker" / "topics" / Topics.of(settings).decisions.name
            limit_files(broker, max(path.stat().st_size for path in decisions.iterdir()))
            wait_for_line(tmp_path / "broker" / "broker.log", "make room on its disk: producers wait")
            time.sleep(FULL_SECONDS)
            assert asyncio.run(committed(settings)) < 1_000
            assert worker.alive, worker.text()[-3000:]
            limit_files(broker, resource.RLIM_INFINITY)
            asyncio.run(wait_until_committed(settings, 1_000))
            assert worker.terminate() == 0
        asyncio.run(assert_written_once(settings, CountingFold))


def wait_for_line(path: Path, text: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text()[-3000:]
        time.sleep(0.05)


def limit_files(broker: EmbeddedBroker, size: int) -> None:
    """No file of the broker may grow beyond this: what a full disk does, without one."""
    assert broker._process is not None
    resource.prlimit(broker._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture(scope="module")
def folded_log(embedded: Broker) -> Settings:
    settings = new_settings(embedded).replaced(partitions=2, checkpoint_events=20)
    asyncio.run(folded(settings, [(b"eu-1", b"no event")]))
    return settings


@pytest.mark.parametrize(
    "arguments",
    [
        ("decisions", "-o", "json"),
        ("quota", "-o", "json"),
        ("deadletters", "list", "-o", "json"),
        ("audit", "-o", "json"),
        ("audit", "--export", "/dev/full"),
    ],
    ids=" ".join,
)
def test_a_command_whose_output_has_no_room_says_so_in_one_line(
    folded_log: Settings, arguments: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = quota_ledger(folded_log, *arguments, stdout=full)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = lines_with(done.stderr, "No space left on device")
    assert "make room and run it again, what it wrote is incomplete" in line
