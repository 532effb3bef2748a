"""`docs/workload-lifecycle.md`: the states of a workload and the edges between them, written from the code.

python -m projections.lifecycle --write     write the page anew
python -m projections.lifecycle --check     exit with 1 where the page is not what the code says
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ledger.lifecycle import EDGES, HOLDING, STATES, WAITING, Edge

PAGE = Path(__file__).parents[1] / "docs" / "workload-lifecycle.md"

HEAD = """# The life of a workload

Between two events a workload is in exactly one of these states. An event may take it several edges further: a
Workload that arrives where there is room is admitted within its event, with the decisions of all edges on the way.
`tests/lifecycle` holds this page against every step of the recordings and of random worlds.

Written by `python -m projections.lifecycle --write` from `ledger/lifecycle.py`.
"""

NOTES = """## What time does

Timers belong to states: the end of a backoff to *held*, the timeouts of pods and the execution time to *admitted*,
the delay of a Retry to *reserved* and *admitted*. They come due before the event whose time passes them, in the order
of deadline and uid; `Ledger.next_deadline()` tells the earliest, and the worker writes a TICK when nothing else carries
time.

## What a reservation that ends leaves behind

| it ended by | back in the queue | order time |
| --- | --- | --- |
| preemption, node failure | at once | creation |
| PodsReadyTimeout | the n-th time after `base x 2^(n-1)` seconds, capped | the eviction, or `timestamp: Creation` |
| AdmissionCheck | after the longest `requeueAfterSeconds` of the checks that answered Retry | the eviction |
| ClusterQueueStopped, LocalQueueStopped | when the queue starts again | creation |
| Deactivated | when `spec.active` is true again | creation |
| Deactivated by the ledger itself | the same; never under `kueue-0.19` (admission 7.4.7) | creation |
| Suspended, Misconfigured | at once, into a queue that offers nothing | creation |

An eviction that an object shows counts like one that was decided here. What an object says of `Requeued`,
`requeueState` and past execution time counts from the moment it changes; what it merely repeats does not.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((HEAD, _states(), _picture(), _edges(), NOTES))


def _states() -> str:
    rows = [f"| {name} | {_group(name)} | {meaning} |" for name, meaning in STATES.items()]
    return "\n".join(("## States", "", "| state | | meaning |", "| --- | --- | --- |", *rows, ""))


def _group(state: str) -> str:
    return "waits" if state in WAITING else "holds quota" if state in HOLDING else ""


def _picture() -> str:
    drawn = [
        f"    {source} --> {target}"
        for source in STATES
        for target in STATES
        if source != target and any(source in edge.sources and target in edge.targets for edge in _main_edges())
    ]
    return "\n".join(("```mermaid", "stateDiagram-v2", *drawn, "```", ""))


def _main_edges() -> list[Edge]:
    """Those worth a line in a picture: decided ones, and the ways in and out of the queues."""
    return [edge for edge in EDGES if edge.decisions or edge.sources in (("parked",), ("queued",), ("unqueued",))]


def _edges() -> str:
    rows = [
        f"| {', '.join(edge.sources)} | {', '.join(edge.targets)} | {edge.because} | {_decisions(edge)} |"
        for edge in EDGES
    ]
    return "\n".join(("## Edges", "", "| from | to | because | decisions |", "| --- | --- | --- | --- |", *rows, ""))


def _decisions(edge: Edge) -> str:
    return ", ".join(f"`{decision}`" for decision in edge.decisions) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--check", action="store_true")
    choice.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != page():
        print(f"{PAGE.name} is not what the code says: python -m projections.lifecycle --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
