"""Runs the command as a person would: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def quota_ledger(
    *arguments: str | Path, stdin: bytes | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The finished command: exit code, standard output, standard error."""
    command = [sys.executable, "-c", "from projections.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, input=stdin or b"", capture_output=True, cwd=folder, timeout=120, check=False)
