"""The command `quota-ledger` against a broker, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.streaming.workers import MAIN
from topics.settings import Settings


def quota_ledger(settings: Settings, *arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """The finished command; its output is kept unless it is sent elsewhere."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        env=os.environ | settings.environment(),
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more),
        text=True,
        timeout=120,
        check=False,
    )
