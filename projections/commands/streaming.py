"""The commands that speak Kafka: what they take from the command line; what they do is in `topics.commands`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


Source = Annotated[
    str,
    typer.Argument(metavar="FILE", help="JSON lines of events, a kubectl list or YAML manifests; - is standard input."),
]
Cluster = Annotated[str | None, typer.Option(help="The cluster of events that name none.")]
OnlyCluster = Annotated[str | None, typer.Option("--cluster", help="Only this cluster.")]
Format = Annotated[
    Output | None,
    typer.Option("--output", "-o", help="text, or JSON lines; by default text on a terminal."),
]


def up_command(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Fold this first, show its decisions and the table."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Fold a small cluster that comes with the ledger.")] = False,
    stay: Annotated[
        bool | None, typer.Option("--stay/--end", help="Go on until Ctrl-C; by default only without FILE.")
    ] = None,
    cluster: Cluster = None,
    data: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The embedded broker's log.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="The embedded broker's port.")] = None,
) -> None:
    """Run everything on this machine: a broker and a worker.

    The broker is the one KAFKA_BOOTSTRAP_SERVERS names; without it an embedded one, for development only.
    """
    from topics import commands

    raise typer.Exit(commands.up(file, demo=demo, stay=stay, cluster=cluster, data_directory=data, port=port))


def worker_command(
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Fold the log from its start, whatever checkpoints there are.")
    ] = False,
) -> None:
    """Run the worker against KAFKA_BOOTSTRAP_SERVERS."""
    from topics import commands

    raise typer.Exit(commands.worker(log_level=log_level, rebuild=rebuild))


def ingest_command(
    file: Source,
    cluster: Cluster = None,
    pack: Annotated[bool, typer.Option("--pack", help="Pack neighbours: cycles run once a batch.")] = False,
) -> None:
    """Put watch events, lists or manifests into quota.events."""
    from topics import commands

    raise typer.Exit(commands.ingest(file, cluster=cluster, pack=pack))


def submit_command(file: Source, cluster: Cluster = None) -> None:
    """Submit Workloads or Jobs."""
    from topics import commands

    raise typer.Exit(commands.submit(file, cluster=cluster))


def decisions_command(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as decisions are made.")] = False,
    cluster: OnlyCluster = None,
    output: Format = None,
) -> None:
    """Read decisions."""
    from topics import commands

    raise typer.Exit(commands.decisions(follow=follow, cluster=cluster, output=output.value if output else None))


def quota_command(
    cluster_queue: Annotated[str | None, typer.Option("--cluster-queue", help="Only this ClusterQueue.")] = None,
    cluster: OnlyCluster = None,
    output: Format = None,
) -> None:
    """Show the table: who holds how much of what, and how much of it is borrowed."""
    from topics import commands

    raise typer.Exit(
        commands.quota(cluster_queue=cluster_queue, cluster=cluster, output=output.value if output else None)
    )
