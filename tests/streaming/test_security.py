"""SASL/SCRAM over TLS on Apache Kafka, by environment variables; what is wrong is one line that says what to do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streaming.apache_kafka import KafkaOfJars
from tests.streaming.counting_fold import CountingFold
from tests.streaming.log import assert_written_once, events_of, wait_until_committed, write_events
from tests.streaming.workers import ROOT, WorkerProcess
from topics.admin import BrokerUnreachable, ensure_topics, start_admin
from topics.broker import free_port
from topics.settings import Settings

pytestmark = [pytest.mark.broker, pytest.mark.kafka, pytest.mark.slow]

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A broker that speaks TLS and wants SCRAM; the environment of somebody who may use it."""
    folder = tmp_path_factory.mktemp("secured")
    certificate, key = _certificate(folder)
    (folder / "keystore.pem").write_text(key.read_text() + certificate.read_text())
    broker = KafkaOfJars(folder / "broker")
    inside = free_port()
    broker.more_settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{broker.port},INSIDE://127.0.0.1:{inside},"
        f"CONTROLLER://127.0.0.1:{broker._controller_port}",
        "advertised.listeners": f"SASL_SSL://127.0.0.1:{broker.port},INSIDE://127.0.0.1:{inside}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
    }
    broker.format_options = ["--add-scram", f"SCRAM-SHA-256=[name=ledger,password={SECRET}]"]
    broker.start()
    try:
        yield {
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
            "KAFKA_SASL_USERNAME": "ledger",
            "KAFKA_SASL_PASSWORD": SECRET,
            "KAFKA_SSL_CA_FILE": str(certificate),
            "QUOTA_LEDGER_METRICS_PORT": "0",
            "QUOTA_LEDGER_GROUP_ID": "secured",
            "QUOTA_LEDGER_TOPIC_PREFIX": "secured.",
        }
    finally:
        broker.stop()


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "broker.crt", folder / "broker.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def test_a_worker_folds_over_tls_with_a_password(
    secured: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in secured.items():
        monkeypatch.setenv(name, value)
    settings = Settings.from_environment()

    async def prepare() -> None:
        await ensure_topics(settings)
        await write_events(settings, events_of(200))

    asyncio.run(prepare())
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_committed(settings, 200))
        assert worker.terminate() == 0
        assert SECRET not in worker.text()
    asyncio.run(assert_written_once(settings, CountingFold))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"KAFKA_SASL_PASSWORD": "wrong"}, "refuses user 'ledger'; check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"),
        ({"KAFKA_SASL_USERNAME": "nobody"}, "refuses user 'nobody'"),
        ({"KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}, "set KAFKA_SASL_MECHANISM to one it enables"),
        ({"KAFKA_SSL_CA_FILE": ""}, "its certificate is not trusted"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, "see KAFKA_BOOTSTRAP_SERVERS and KAFKA_SECURITY_PROTOCOL"),
    ],
)
def test_what_is_wrong_is_one_line(secured: dict[str, str], change: dict[str, str], words: str) -> None:
    settings = Settings.from_environment(secured | change)
    with pytest.raises(BrokerUnreachable) as caught:
        asyncio.run(start_admin(settings, patience_seconds=1.0))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_worker_says_it_in_one_line_and_leaves(secured: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from projections.cli import main; main()", "worker"],
        env=os.environ | secured | {"KAFKA_SASL_PASSWORD": "wrong"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
