"""Apache Kafka itself, one KRaft node: from Docker where an engine answers, else from its jars and Java."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from topics.broker import end_with_parent, free_port

VERSION = os.environ.get("APACHE_KAFKA_VERSION", "4.3.1")
LOGGER_VERSION = "1.7.36"
IMAGE = os.environ.get("APACHE_KAFKA_IMAGE", f"apache/kafka:{VERSION}")
JAVA_VERSION = 17
START_SECONDS = 60.0

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>quota.ledger</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>{LOGGER_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

#: One node is all replicas; without these a single broker never finishes InitProducerId.
SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "16777216",
}


class KafkaOfJars:
    """The broker as a Java process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.description = f"Apache Kafka {VERSION} (KRaft, one node) from its jars"
        self._controller_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.more_settings: dict[str, str] = {}
        self.format_options: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        java = _java()
        classpath = f"{_jars()}/*"
        if not (self.directory / "log").exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / "server.properties").write_text(self._properties())
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            arguments = ["format", f"--cluster-id={cluster}", "-c", str(self.directory / "server.properties")]
            arguments += self.format_options
            _run([java, "-cp", classpath, "kafka.tools.StorageTool", *arguments])
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self.directory / "broker.log").open("ab") as output:
            self._process = subprocess.Popen(
                [java, *options, "-cp", classpath, "kafka.Kafka", str(self.directory / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        _wait_for_port(self.port, self._process, self.directory / "broker.log")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """The broker dies without a word."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _properties(self) -> str:
        settings = (
            SINGLE_NODE
            | {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.directory / "log"),
            }
            | self.more_settings
        )
        return "".join(f"{name}={value}\n" for name, value in settings.items())


class KafkaOfDocker:
    """The broker as a container."""

    def __init__(self) -> None:
        from testcontainers.core.container import DockerContainer

        self.port = free_port()
        self.description = f"Apache Kafka (KRaft, one node) from the image {IMAGE}"
        settings = SINGLE_NODE | {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
        }
        self._container: Any = DockerContainer(IMAGE).with_bind_ports(9092, self.port)
        for name, value in settings.items():
            self._container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if self._container.get_wrapped_container() is None:
            self._container.start()
        else:
            self._container.get_wrapped_container().start()
        _wait_for_port(self.port)

    def kill(self) -> None:
        """The broker dies without a word; `start` brings it back with its log."""
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        self._container.stop()


def apache_kafka(directory: Path) -> KafkaOfJars | KafkaOfDocker:
    """The broker, not started yet."""
    return KafkaOfDocker() if _docker_answers() else KafkaOfJars(directory)


def _docker_answers() -> bool:
    with contextlib.suppress(Exception):
        import docker

        return bool(docker.from_env(timeout=3).ping())
    return False


def _java() -> str:
    java = shutil.which("java")
    if java is None or _java_version(java) < JAVA_VERSION:
        _install("openjdk-17-jre-headless")
        java = shutil.which("java")
    if java is None:
        raise RuntimeError("Apache Kafka needs Java 17 or later, or a Docker engine")
    return java


def _java_version(java: str) -> int:
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    return int(found.group(1)) if found else 0


def _install(package: str) -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise RuntimeError(f"Apache Kafka without a Docker engine needs {package}: install it")
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package])


def _jars() -> Path:
    """The broker's jars in the user's cache, resolved by Maven once per version, whoever else does it at the time."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quota-ledger"
    jars = base / f"kafka-{VERSION}-libs"
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            with tempfile.TemporaryDirectory(dir=base) as scratch:
                _resolve(Path(scratch))
                (Path(scratch) / "libs").rename(jars)
    return jars


def _resolve(scratch: Path) -> None:
    if shutil.which("mvn") is None:
        _install("maven")
    (scratch / "pom.xml").write_text(POM)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={scratch / 'libs'}", "-DincludeScope=runtime"]
    _run(["mvn", "-q", "-B", "-f", str(scratch / "pom.xml"), *goal])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _wait_for_port(port: int, process: subprocess.Popen[bytes] | None = None, log: Path | None = None) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    last_words = log.read_text(errors="replace")[-3000:] if log else ""
    raise RuntimeError(f"Apache Kafka does not answer on port {port}\n{last_words}")
