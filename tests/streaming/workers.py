"""Workers as processes: started, killed, frozen, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from topics.broker import end_with_parent
from topics.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
#: In place of a fold: the command that people start.
COMMAND = "quota-ledger"
MAIN = "from projections.cli import main; main()"


class WorkerProcess:
    """A worker that the test may treat as it likes."""

    def __init__(
        self,
        settings: Settings,
        log: Path,
        *,
        fold: str = "counting",
        sleep: float = 0.0,
        module: Sequence[str] = (),
    ) -> None:
        self.log = log
        arguments = ["-m", *(module or ("tests.streaming.worker_process", fold, str(sleep)))]
        if fold == COMMAND:
            arguments = ["-c", MAIN, "worker"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=os.environ | settings.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def terminate(self, seconds: float = 60.0) -> int:
        """SIGTERM; the exit code."""
        self._process.terminate()
        return self._process.wait(seconds)

    def wait(self, seconds: float = 60.0) -> int:
        return self._process.wait(seconds)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for_text(self, text: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.text():
            if time.monotonic() > deadline or not self.alive:
                raise AssertionError(f"{text!r} is not in the worker's log:\n{self.text()[-3000:]}")
            time.sleep(0.02)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.alive:
            self.thaw()
            self.kill()
