"""Brokers for the streaming tests: the embedded one and Apache Kafka itself, both always; or the one that is named."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.streaming.apache_kafka import KafkaOfDocker, KafkaOfJars, apache_kafka
from topics.broker import EmbeddedBroker
from topics.settings import Settings


class Broker(NamedTuple):
    bootstrap_servers: str


def _named() -> str | None:
    return os.environ.get("TEST_BOOTSTRAP_SERVERS") or None


def _say(request: pytest.FixtureRequest, text: str) -> None:
    """To the terminal, also from a worker of xdist."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nstreaming tests: {text}", file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("embedded")) as broker:
        _say(request, f"the embedded broker at {broker.bootstrap_servers}")
        yield Broker(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    servers = _named()
    if servers:
        _say(request, f"the broker named by TEST_BOOTSTRAP_SERVERS at {servers}")
        yield Broker(servers)
        return
    broker: KafkaOfJars | KafkaOfDocker = apache_kafka(Path(tmp_path_factory.mktemp("kafka")))
    broker.start()
    _say(request, f"{broker.description} at {broker.bootstrap_servers}")
    try:
        yield Broker(broker.bootstrap_servers)
    finally:
        broker.stop()


@pytest.fixture(params=["embedded", "kafka"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each test with it runs on both brokers."""
    found: Broker = request.getfixturevalue(request.param)
    return found


def new_settings(broker: Broker) -> Settings:
    """Topics and a group of their own."""
    name = uuid.uuid4().hex[:8]
    return Settings(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"ledger-{name}",
        instance_id=f"worker-{name}",
        topic_prefix=f"{name}.",
        session_timeout_seconds=10,
        metrics_port=0,
    )


@pytest.fixture
def settings(broker: Broker) -> Settings:
    return new_settings(broker)


@pytest.fixture
def embedded_settings(embedded: Broker) -> Settings:
    return new_settings(embedded)


@pytest.fixture
def kafka_settings(kafka: Broker) -> Settings:
    """On Apache Kafka members may come and go without an instance id."""
    return new_settings(kafka).replaced(instance_id=None)
