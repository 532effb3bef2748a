"""`quota-ledger status`: the status that Kubernetes would show, from decisions alone."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projections.status import Board


class StatusOutput(StrEnum):
    """How a status is written."""

    YAML = "yaml"
    JSON = "json"


def status_command(
    target: Annotated[
        str,
        typer.Argument(metavar="OBJECT", help="ClusterQueue/NAME, Cohort/NAME, LocalQueue/NS/NAME, Workload/NS/NAME."),
    ],
    decisions: Annotated[
        Path | None,
        typer.Option("--decisions", metavar="FILE", help="Decisions as JSON lines, .gz is unpacked; else from Kafka."),
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The cluster, where there are several.")] = None,
    output: Annotated[StatusOutput, typer.Option("--output", "-o", help="yaml or json.")] = StatusOutput.YAML,
) -> None:
    """Show the status of a queue or a workload as Kubernetes would.

    Exit codes: 0 done, 1 decisions say nothing of that object, 2 wrong use.
    """
    from projections.status import Board, InvalidTarget
    from topics.commands import guarded

    try:
        Board().status(target)
    except InvalidTarget as problem:
        print(f"quota-ledger: {problem}", file=sys.stderr)
        raise typer.Exit(2) from None

    def run() -> int:
        boards = _boards_of_file(decisions, cluster) if decisions is not None else _boards_of_log(cluster)
        if len(boards) > 1:
            print(f"quota-ledger: name one with --cluster: {', '.join(sorted(boards))}", file=sys.stderr)
            return 2
        document = next((board.status(target) for board in boards.values()), None)
        if document is None:
            print(f"quota-ledger: decisions say nothing of {target}", file=sys.stderr)
            return 1
        sys.stdout.write(_written(document, output))
        return 0

    raise typer.Exit(guarded(run))


def _written(document: dict[str, object], output: StatusOutput) -> str:
    if output is StatusOutput.JSON:
        import json

        return json.dumps(document, indent=2) + "\n"
    import yaml

    return yaml.safe_dump(document, sort_keys=False)


def _boards_of_file(path: Path, cluster: str | None) -> dict[str, Board]:
    boards: dict[str, Board] = {}
    _take(boards, _lines(path), cluster)
    return boards


def _lines(path: Path) -> Iterator[bytes]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    from topics.sources import open_source

    with open_source(path) as file:
        for line in file:
            if line.strip():
                yield line


def _boards_of_log(cluster: str | None) -> dict[str, Board]:
    from topics.decision_stream import decisions
    from topics.settings import Settings

    boards: dict[str, Board] = {}

    async def read() -> None:
        async for values in decisions(Settings.from_environment(), cluster=cluster):
            _take(boards, iter(values), cluster)

    asyncio.run(read())
    return boards


def _take(boards: dict[str, Board], values: Iterator[bytes], cluster: str | None) -> None:
    from ledger.decisions import decode_decision
    from projections.status import Board

    for value in values:
        decision = decode_decision(value)
        if cluster is None or decision.cluster == cluster:
            boards.setdefault(decision.cluster, Board()).apply(decision)
