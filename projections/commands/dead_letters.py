"""`quota-ledger deadletters`: what was rejected, why, and how it gets back into the log."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from projections.commands.streaming import Format, OnlyCluster

dead_letters_app = typer.Typer(
    name="deadletters",
    no_args_is_help=True,
    help="Rejected records: list them, explain them, put them back.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Place = Annotated[str, typer.Argument(metavar="PARTITION/OFFSET", help="Where the record is in quota.events.")]


@dead_letters_app.command("list")
def list_command(
    cluster: OnlyCluster = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that were not put back.")] = False,
    output: Format = None,
) -> None:
    """Every rejected record with its reasons."""
    import msgspec

    from topics import dead_letters
    from topics.commands import guarded
    from topics.settings import Settings

    as_json = output.value == "json" if output else not sys.stdout.isatty()

    def run() -> int:
        letters = asyncio.run(dead_letters.dead_letters(Settings.from_environment(), cluster=cluster))
        for letter in letters:
            if waiting and letter.resubmitted:
                continue
            if as_json:
                sys.stdout.buffer.write(msgspec.json.encode(letter.document()) + b"\n")
                continue
            first = letter.letter.rejections[0]
            more = f" (and {len(letter.letter.rejections) - 1} more)" if len(letter.letter.rejections) > 1 else ""
            state = "put back" if letter.resubmitted else ""
            typer.echo(
                f"{letter.place:<12} {letter.letter.cluster:<12} {first.path}: {first.reason}{more}  {state}".rstrip()
            )
        sys.stdout.flush()
        if not letters:
            typer.echo("no record was rejected", err=True)
        return 0

    raise typer.Exit(guarded(run))


@dead_letters_app.command("explain")
def explain_command(place: Place) -> None:
    """One rejected record: every reason, what stands there, what this version would say."""
    from topics import dead_letters
    from topics.commands import guarded
    from topics.settings import Settings

    def run() -> int:
        letters = asyncio.run(dead_letters.dead_letters(Settings.from_environment()))
        for line in dead_letters.explanation(dead_letters.letter_at(letters, place)):
            typer.echo("".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line))
        return 0

    raise typer.Exit(guarded(run))


@dead_letters_app.command("resubmit")
def resubmit_command(
    places: Annotated[list[str] | None, typer.Argument(metavar="[PARTITION/OFFSET]...")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that this version accepts and nobody put back.")
    ] = False,
    replacement: Annotated[
        Path | None, typer.Option("--with", metavar="FILE", help="The corrected record, instead of the original.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Even what was put back before.")] = False,
    cluster: OnlyCluster = None,
) -> None:
    """Put rejected records back into quota.events, as they were or corrected."""
    from topics import dead_letters
    from topics.commands import guarded
    from topics.settings import Settings

    if bool(places) == everything or (replacement is not None and len(places or ()) != 1):
        typer.echo(
            "quota-ledger deadletters resubmit: name places, or --all; --with FILE goes with one place", err=True
        )
        raise typer.Exit(2)

    def run() -> int:
        settings = Settings.from_environment()
        letters = asyncio.run(dead_letters.dead_letters(settings, cluster=cluster))
        if everything:
            chosen = [each for each in letters if not each.resubmitted and not dead_letters.rejections_now(each)]
        else:
            chosen = [dead_letters.letter_at(letters, place) for place in places or ()]
        for letter in chosen:
            if letter.resubmitted and not again:
                raise dead_letters.CannotResubmit(f"{letter.place} was put back already; --again does it again")
        value = replacement.read_bytes().strip() if replacement is not None else None
        records = [(letter, dead_letters.corrected(letter, value)) for letter in chosen]
        if records:
            asyncio.run(dead_letters.resubmit(settings, records))
        typer.echo(
            f"{len(records)} put back" + (f": {', '.join(letter.place for letter, _ in records)}" if records else "")
        )
        return 0

    raise typer.Exit(guarded(run))
