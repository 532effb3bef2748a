"""The embedded broker: a small Kafka-protocol server on this machine, for development only.

`quota-ledger up` and the tests start it where `KAFKA_BOOTSTRAP_SERVERS` names no other. It keeps everything in memory
and saves one JSON file in its data directory, whole, every few seconds; it never expires a dead group member, so a
worker on it must have an instance id (static membership). A log that must last belongs on Apache Kafka.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

START_SECONDS = 20.0
STOP_SECONDS = 15.0
_PR_SET_PDEATHSIG = 1


class BrokerNotStarted(RuntimeError):
    """The embedded broker is not there or does not come up."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class EmbeddedBroker:
    """The broker as a child process."""

    def __init__(self, data_directory: Path, port: int | None = None) -> None:
        self.data_directory = data_directory
        self.port = free_port() if port is None else port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.data_directory.mkdir(parents=True, exist_ok=True)
        log = self.data_directory / "broker.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    _executable(),
                    "start",
                    "--only",
                    "kafka",
                    "--kafka-port",
                    str(self.port),
                    "--data-dir",
                    str(self.data_directory),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._wait_until_it_answers(log)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_it_answers(self, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.02)
        self.stop()
        last_words = log.read_text(errors="replace").strip().splitlines()[-5:]
        raise BrokerNotStarted("the embedded broker does not answer:\n" + "\n".join(last_words))


def end_with_parent() -> None:
    """In a child: get SIGTERM when the parent dies, however it dies. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _executable() -> str:
    """The server itself. The command of its package only starts it as a child, which would outlive the command."""
    package = find_spec("noida_db")
    if package is not None and package.origin is not None:
        server = Path(package.origin).with_name("noida-db")
        if server.exists():
            if not os.access(server, os.X_OK):
                server.chmod(0o755)
            return str(server)
    raise BrokerNotStarted("the embedded broker needs the package noida-db: pip install noida-db")
