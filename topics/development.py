"""`quota-ledger up`: broker and worker on this machine, for development and for a first look."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from topics.broker import EmbeddedBroker, end_with_parent, free_port, is_free
from topics.settings import DEFAULT_BOOTSTRAP_SERVERS, Settings

DEFAULT_PORT = int(DEFAULT_BOOTSTRAP_SERVERS.rpartition(":")[2])
STOP_SECONDS = 20.0


class WorkerStopped(RuntimeError):
    """The worker ended by itself; its last words are the message."""


class WorkerChild:
    """The worker as a child process, its log in a file."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from topics.development import worker_main; worker_main()"],
                env=os.environ | settings.environment() | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def check(self) -> None:
        """Raise if the worker is gone."""
        if self._process.poll() is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()[-15:]
            raise WorkerStopped(f"the worker stopped with exit code {self._process.returncode}:\n" + "\n".join(lines))

    def stop(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def worker_main() -> None:
    """Entry of the child process."""
    from topics.worker import run_worker

    sys.exit(run_worker(Settings.from_environment()))


@contextmanager
def running(
    settings: Settings, *, data_directory: Path | None, embedded: bool, port: int | None, passing: bool
) -> Iterator[tuple[Settings, WorkerChild]]:
    """Broker (where none is named) and worker, until the block ends.

    `passing`: a first look that leaves nothing behind: any free port, a directory that goes away.
    """
    with ExitStack() as stack:
        if data_directory is None:
            if passing:
                data_directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quota-ledger-")))
            else:
                data_directory = default_data_directory()
        data_directory.mkdir(parents=True, exist_ok=True)
        if embedded:
            if port is None:
                port = free_port() if passing or not is_free(DEFAULT_PORT) else DEFAULT_PORT
            broker = stack.enter_context(EmbeddedBroker(data_directory / "broker", port))
            settings = settings.replaced(
                bootstrap_servers=broker.bootstrap_servers, instance_id=settings.instance_id or "up"
            )
        if settings.metrics_port and not is_free(settings.metrics_port, settings.metrics_host):
            settings = settings.replaced(metrics_port=free_port(settings.metrics_host))
        worker = WorkerChild(settings, data_directory / "worker.log")
        stack.callback(worker.stop)
        yield settings, worker


def default_data_directory() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "quota-ledger"


@asynccontextmanager
async def until_signal() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, in place of ending the process."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def wait_until_folded(settings: Settings, ends: dict[int, int], worker: WorkerChild, seconds: float) -> None:
    """Until the worker has committed all records below the ends, and readers see what came of them."""
    from topics.admin import consumed_offsets
    from topics.reader import wait_until_readable
    from topics.topic import Topics

    topics = Topics.of(settings)
    deadline = time.monotonic() + seconds
    while True:
        worker.check()
        offsets = await consumed_offsets(settings, topics)
        if all(offsets.get(partition, 0) >= end for partition, end in ends.items()):
            return await wait_until_readable(settings, seconds)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the worker has not folded everything after {seconds:.0f} s; its log: {worker.log}")
        await asyncio.sleep(0.05)
