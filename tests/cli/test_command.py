"""The command itself: its help, its start."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.running import quota_ledger


def test_help_names_every_command() -> None:
    done = quota_ledger("--help")
    assert done.returncode == 0
    assert b"replay" in done.stdout


def test_replay_does_not_load_what_only_streaming_needs() -> None:
    program = (
        "import sys; from projections.cli import main; sys.argv = ['quota-ledger', 'replay', '-']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'faust', 'mode', 'aiokafka', 'aiohttp', 'prometheus_client', 'rich'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b"[]"
