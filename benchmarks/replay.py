"""How fast the fold replays, and what an event costs in a small and in a large cluster.

    python -m benchmarks.replay [--corpus FILE.jsonl.gz] [--runs 5] [--events 4000]

The corpus is a file of conformance scenarios; each scenario is folded as a cluster of its own, from one file of events.
The generated clusters are folded until they are full; then, in turn, a running workload finishes and a new one is
submitted, and only the time inside the fold is counted.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import statistics
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
from ledger.fold import Fold

from benchmarks.generated import GeneratedCluster, Size
from benchmarks.machine import machine, spread
from projections.replay import replay
from topics.sources import SourceEvent

SMALL = Size(queues=10, waiting_per_queue=20)
LARGE = Size(queues=1_000, waiting_per_queue=20)
LIMIT = 1.3


def corpus_events(path: Path) -> list[SourceEvent]:
    """All events of all scenarios, a cluster a scenario."""
    events: list[SourceEvent] = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            scenario = json.loads(line)
            for event in scenario["events"]:
                value = msgspec.json.encode({**event, "cluster": scenario["name"]})
                events.append(SourceEvent(len(events), value))
    return events


def corpus_rate(events: list[SourceEvent]) -> float:
    """Events a second of one replay."""
    refused: list[SourceEvent] = []
    started = time.perf_counter()
    summary = replay(events, "corpus", lambda line: None, lambda event, reasons: refused.append(event))
    seconds = time.perf_counter() - started
    if refused:
        raise SystemExit(f"{len(refused)} records of the corpus were rejected")
    return summary.events / seconds


def event_costs(size: Size, count: int) -> list[float]:
    """Microseconds of each of `count` events in a full cluster of this size."""
    cluster = GeneratedCluster(size)
    fold = Fold("bench", 0)
    running: deque[dict[str, Any]] = deque()
    offset = 0

    def apply(value: bytes) -> float:
        nonlocal offset
        started = time.perf_counter()
        outcome = fold.apply(value, offset=offset)
        seconds = time.perf_counter() - started
        offset += 1
        if outcome.rejections:
            raise SystemExit(f"a generated event was rejected: {outcome.rejections[0].reason}")
        for decision in outcome.decisions:
            read = json.loads(decision.value)
            if read["type"] == "QuotaReserved":
                running.append(read)
        return seconds * 1e6

    for value in cluster.setup():
        apply(value)
    gc.collect()
    gc.freeze()
    costs: list[float] = []
    for _ in range(count // 2):
        costs.append(apply(cluster.finish(running.popleft())))
        costs.append(apply(cluster.submission()))
    gc.unfreeze()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--events", type=int, default=4_000)
    options = parser.parse_args()
    gc.set_threshold(100_000, 20, 50)
    print(machine())
    for path in options.corpus:
        events = corpus_events(path)
        rates = [corpus_rate(events) for _ in range(options.runs)]
        print(f"{path.name}: {len(events):,} events: {spread(rates, 'events/s')}")
    means: dict[Size, list[float]] = {SMALL: [], LARGE: []}
    for _ in range(options.runs):
        for size, found in means.items():
            costs = event_costs(size, options.events)
            found.append(statistics.mean(costs))
    for size, found in means.items():
        print(f"{size}: an event costs {spread(found, 'µs')}, {1e6 / statistics.median(found):,.0f} events/s")
    ratio = statistics.median(means[LARGE]) / statistics.median(means[SMALL])
    print(f"cost of an event, large to small: {ratio:.2f} (at most {LIMIT})")
    if ratio > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
