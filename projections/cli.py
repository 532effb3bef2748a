"""The command `quota-ledger`: one entry for everything that a person runs."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="quota-ledger",
    help="GPU quota as a fold over a log: Kueue's rules, decisions that can be replayed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def quota_ledger() -> None:
    """GPU quota as a fold over a log: Kueue's rules, decisions that can be replayed."""


def main() -> None:
    """Entry point of the command."""
    app()
