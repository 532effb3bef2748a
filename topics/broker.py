"""The embedded broker (`topics/embedded`) as a child process: one node on this machine, for development only.

`quota-ledger up` and the tests start it where `KAFKA_BOOTSTRAP_SERVERS` names no other. It may be killed at any time:
what it answered is in its files. A log that must outlive the machine's power or disk belongs on Apache Kafka.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
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
        if (self.data_directory / "kafka.json").exists():
            raise BrokerNotStarted(
                f"{self.data_directory} has the log of an older embedded broker, which this one does not read: "
                "move it away, and ingest again"
            )
        self.data_directory.mkdir(parents=True, exist_ok=True)
        log = self.data_directory / "broker.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "topics.embedded",
                    "--port",
                    str(self.port),
                    "--data",
                    str(self.data_directory),
                ],
                env=os.environ | {"PYTHONPATH": _python_path()},
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

    def kill(self) -> None:
        """SIGKILL, for the tests: `start` brings it back with all that it answered."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

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


def _python_path() -> str:
    """The child imports what this process runs, wherever it is started."""
    root = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH")) if path)
