"""How fast the fold replays, and what an event costs in a small and in a large cluster.

    python -m benchmarks.replay [--corpus FILE.jsonl.gz] [--runs 5] [--rounds 20]

The corpus is a file of conformance scenarios; each scenario is folded as a cluster of its own, from one file of events.

The generated clusters are compared on the same events: 100 cohorts of ten ClusterQueues with 20 workloads waiting in
each, once a cohort a cluster (10 ClusterQueues), once all in one cluster (1,000 ClusterQueues, 20,000 workloads
waiting). In each round of each cohort a running workload finishes and a new one is submitted, the cohorts of the large
cluster taking turns. The decisions are the same; only the processor time inside the fold is counted.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.generated import GeneratedCohort, setup
from benchmarks.machine import machine, spread
from ledger.fold import Fold
from projections.replay import replay
from topics.garbage import settle_garbage_collection
from topics.sources import SourceEvent

COHORTS = 100
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
    started = time.process_time()
    summary = replay(events, "corpus", lambda line: None, lambda event, reasons: refused.append(event))
    seconds = time.process_time() - started
    if refused:
        raise SystemExit(f"{len(refused)} records of the corpus were rejected")
    return summary.events / seconds


class Measured:
    """One cluster: its fold, and the seconds and decisions of the events that were measured."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.cohorts = {f"cohort-{number}": GeneratedCohort(number) for number in numbers}
        self.seconds = 0.0
        self.events = 0
        self.decisions = 0
        self._fold = Fold("bench", 0)
        self._offset = 0
        self._cohort_of = {f"queue-{number}": self.cohorts[f"cohort-{number}"] for number in numbers}
        for value in setup(self.cohorts.values()):
            self._apply(value)
        self.seconds = self.events = self.decisions = 0

    def round(self) -> None:
        """One end and one beginning in each cohort."""
        for cohort in self.cohorts.values():
            self._apply(cohort.finish())
            self._apply(cohort.submission())

    def _apply(self, value: bytes) -> None:
        started = time.process_time()
        outcome = self._fold.apply(value, offset=self._offset)
        self.seconds += time.process_time() - started
        self._offset += 1
        self.events += 1
        self.decisions += len(outcome.decisions)
        if outcome.rejections:
            raise SystemExit(f"a generated event was rejected: {outcome.rejections[0].reason}")
        for decision in outcome.decisions:
            if decision.value.startswith(b'{"type":"QuotaReserved"'):
                read = json.loads(decision.value)
                self._cohort_of[read["clusterQueue"].rpartition("-")[0]].observe(read)


def event_costs(rounds: int) -> tuple[float, float]:
    """Microseconds an event: each cohort in a cluster of its own, and all in one cluster."""
    small_seconds, small_events, small_decisions = 0.0, 0, 0
    for number in range(COHORTS):
        small = Measured([number])
        settled()
        for _ in range(rounds):
            small.round()
        small_seconds += small.seconds
        small_events += small.events
        small_decisions += small.decisions
    large = Measured(range(COHORTS))
    settled()
    for _ in range(rounds):
        large.round()
    if (small_events, small_decisions) != (large.events, large.decisions):
        raise SystemExit(f"not the same decisions: {small_decisions:,} and {large.decisions:,}")
    return 1e6 * small_seconds / small_events, 1e6 * large.seconds / large.events


def settled() -> None:
    """What was set up is no longer looked at by the garbage collector, as in `quota-ledger replay`."""
    gc.unfreeze()
    settle_garbage_collection()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(machine())
    for path in options.corpus:
        events = corpus_events(path)
        rates = [corpus_rate(events) for _ in range(options.runs)]
        print(f"{path.name}: {len(events):,} events: {spread(rates, 'events/s')}")
    costs = [event_costs(options.rounds) for _ in range(options.runs)]
    small, large = zip(*costs, strict=True)
    print(f"an event among 10 ClusterQueues: {spread(small, 'µs')}")
    print(f"the same event among 1,000 ClusterQueues: {spread(large, 'µs')}")
    ratio = statistics.median(after / before for before, after in costs)
    print(f"cost of an event, large to small: {ratio:.2f} (at most {LIMIT})")
    if ratio > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
