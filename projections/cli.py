"""The command `quota-ledger`: one entry for everything that a person runs.

Each command imports what it needs when it runs, so that none waits for libraries it does not use.
"""

from __future__ import annotations

import errno
import sys
from contextlib import suppress

import typer

from projections.commands.audit import audit_command
from projections.commands.dead_letters import dead_letters_app
from projections.commands.replay import replay_command
from projections.commands.status import status_command
from projections.commands.streaming import (
    decisions_command,
    ingest_command,
    quota_command,
    submit_command,
    up_command,
    worker_command,
)

app = typer.Typer(
    name="quota-ledger",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def quota_ledger() -> None:
    """GPU quota as a fold over a log: Kueue's rules, and decisions that can be replayed."""


app.command("up")(up_command)
app.command("worker")(worker_command)
app.command("ingest")(ingest_command)
app.command("submit")(submit_command)
app.command("decisions")(decisions_command)
app.command("quota")(quota_command)
app.command("replay")(replay_command)
app.command("status")(status_command)
app.command("audit")(audit_command)
app.add_typer(dead_letters_app)


def main() -> None:
    """Entry point of the command. What the system refuses on the way, such as a full disk, is told in one line."""
    try:
        app()
    except OSError as problem:
        with suppress(OSError):
            sys.stdout.close()
        where = f"{problem.filename}: " if problem.filename else ""
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "; make room and run it again, what it wrote is incomplete" if full else ""
        sys.exit(f"quota-ledger: {where}{problem.strerror or problem}{advice}")
