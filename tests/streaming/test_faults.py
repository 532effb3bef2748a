"""What somebody sees and can do when something is away, full or too large: one line, and afterwards all is right."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.streaming.apache_kafka import apache_kafka
from tests.streaming.conftest import Broker, new_settings
from tests.streaming.counting_fold import CountingFold
from tests.streaming.log import assert_written_once, events_of, wait_until_committed, write_events
from tests.streaming.workers import COMMAND, WorkerProcess
from topics.admin import ensure_topics
from topics.broker import EmbeddedBroker, free_port
from topics.settings import Settings

pytestmark = [pytest.mark.broker, pytest.mark.slow]

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
    return new_settings(Broker(broker.bootstrap_servers, static_members_only=False)).replaced(chunk_size=10)


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
