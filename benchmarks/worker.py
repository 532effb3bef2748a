"""How fast the worker folds through Kafka, against the bare fold of the same events in a process of its own.

    python -m benchmarks.worker [--runs 3] [--events 100000] [--broker embedded] [--broker kafka] [--fold trivial ...]

Folds: `trivial` gives one decision an event: the streaming alone (aim: 20,000 events/s or more); `ledger` is
the real one on recorded watch streams (aim: 80 % of the bare fold's rate). The events wait in the log before the worker
starts; counted is the time from the first event folded to the last transaction. Brokers: the embedded one and Apache
Kafka, both on this machine and taking their share of it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, spread
from tests.streaming.apache_kafka import apache_kafka
from tests.streaming.counting_fold import CountingFold
from topics.admin import ensure_topics
from topics.batching import Addressed
from topics.broker import EmbeddedBroker
from topics.folding import Fold, FoldFactory, ledger_fold
from topics.ingest import ingest
from topics.settings import Settings
from topics.topic import partition_of
from topics.worker import run_worker

FOLDS: dict[str, FoldFactory] = {"trivial": CountingFold, "ledger": ledger_fold}
CLUSTERS = [f"cluster-{number}" for number in range(8)]
EVENT_BYTES = 600
RECORDINGS = Path(__file__).resolve().parents[1] / "tests" / "recorded"
RECORDED = ("flavors", "shapes", "tree")
PARTITIONS = 4


def trivial_events(count: int) -> list[Addressed]:
    """Events of all clusters in turn, of the size of a small object."""
    filler = "x" * (EVENT_BYTES - 60)
    return [
        Addressed(cluster, f'{{"cluster":"{cluster}","type":"MODIFIED","n":{number},"f":"{filler}"}}'.encode())
        for number in range(count)
        for cluster in [CLUSTERS[number % len(CLUSTERS)]]
    ]


def ledger_events(count: int) -> list[Addressed]:
    """Watch streams of a real cluster, each under many names; at any time as many go on as there are CLUSTERS."""
    streams = [_recording(path) for path in sorted(RECORDINGS.glob("*.jsonl.gz")) if path.stem[:-6] in RECORDED]
    events: list[Addressed] = []
    lanes: list[Iterator[Addressed]] = [iter(()) for _ in CLUSTERS]
    started = 0
    while len(events) < count:
        for lane in range(len(lanes)):
            event = next(lanes[lane], None)
            while event is None:
                lanes[lane] = _renamed(streams[started % len(streams)], f"cluster-{started}")
                started += 1
                event = next(lanes[lane], None)
            events.append(event)
    return events[:count]


def _recording(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        return [json.loads(line) for line in file]


def _renamed(stream: list[dict[str, Any]], cluster: str) -> Iterator[Addressed]:
    for event in stream:
        yield Addressed(cluster, json.dumps(event | {"cluster": cluster}, separators=(",", ":")).encode())


def bare_rate(fold: str, events: list[Addressed]) -> float:
    """Events a second of the fold alone, a fold per partition as in the worker, rows drained every 1,000 events."""
    folds: list[Fold] = [FOLDS[fold]("quota.events", number) for number in range(PARTITIONS)]
    places = [partition_of(event.cluster, PARTITIONS) for event in events]
    offsets = [0] * PARTITIONS
    gc.collect()
    started = time.perf_counter()
    for number, (event, place) in enumerate(zip(events, places, strict=True)):
        folds[place].apply(event.value, offset=offsets[place], key=event.cluster.encode(), timestamp=0)
        offsets[place] += 1
        if number % 1_000 == 999:
            for each in folds:
                each.drain_rows()
    return len(events) / (time.perf_counter() - started)


def worker_rate(bootstrap_servers: str, fold: str, events: list[Addressed], directory: Path) -> float:
    """Events a second from the first event folded to the last transaction."""
    name = uuid.uuid4().hex[:8]
    settings = Settings(
        bootstrap_servers=bootstrap_servers,
        group_id=f"bench-{name}",
        instance_id=f"bench-{name}",
        topic_prefix=f"{name}.",
        partitions=PARTITIONS,
        metrics_port=0,
    )

    async def prepare() -> None:
        await ensure_topics(settings)
        await ingest(settings, events)

    asyncio.run(prepare())
    moments = directory / f"{name}.moments"
    moments.touch()
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", "--child", str(moments), fold],
            env=os.environ | settings.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        return len(events) / _seconds(moments, len(events), child, log)
    finally:
        child.terminate()
        child.wait()


def _seconds(moments: Path, count: int, child: subprocess.Popen[bytes], log: Path) -> float:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.25)
        lines = [json.loads(line) for line in moments.read_text().splitlines(keepends=True) if line.endswith("\n")]
        folded = sum(line["folded"] for line in lines)
        if folded >= count:
            time.sleep(0.5)  # the last transactions
            lines = [json.loads(line) for line in moments.read_text().splitlines()]
            seconds: float = lines[-1]["at"] - lines[0]["at"]
            return seconds
    raise SystemExit(f"the worker did not finish: {log.read_text()[-2000:]}")


def child_main(moments: Path, fold: str) -> int:
    """The worker. Writes down when its first event was folded, and when each transaction ended and with how many."""
    folded = 0
    reported = 0
    factory = FOLDS[fold]

    def counting(topic: str, partition: int) -> Fold:
        made = factory(topic, partition)
        apply = made.apply

        def counted(*arguments: Any, **names: Any) -> Any:
            nonlocal folded
            if folded == 0:
                note(0)
            folded += 1
            return apply(*arguments, **names)

        made.apply = counted  # type: ignore[method-assign]
        return made

    def note(count: int) -> None:
        with moments.open("a") as file:
            file.write(json.dumps({"at": time.monotonic(), "folded": count}) + "\n")

    async def inside() -> None:
        nonlocal reported
        note(folded - reported)
        reported = folded

    return run_worker(Settings.from_environment(), fold=counting, inside_transaction=inside, log_level="WARNING")


@contextmanager
def started(broker: str, directory: Path) -> Iterator[str]:
    if broker == "embedded":
        with EmbeddedBroker(directory / "embedded") as embedded:
            yield embedded.bootstrap_servers
        return
    kafka = apache_kafka(directory / "kafka")
    kafka.start()
    try:
        yield kafka.bootstrap_servers
    finally:
        kafka.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--broker", action="append", choices=["embedded", "kafka"], default=[])
    parser.add_argument("--fold", action="append", choices=list(FOLDS), default=[])
    options = parser.parse_args()
    makers: dict[str, Callable[[int], list[Addressed]]] = {"trivial": trivial_events, "ledger": ledger_events}
    print(machine())
    with tempfile.TemporaryDirectory(prefix="quota-ledger-bench-") as scratch:
        for fold in options.fold or list(FOLDS):
            events = makers[fold](options.events)
            size = statistics.mean(len(event.value) for event in events)
            print(f"{fold} fold, {len(events):,} events of {size:,.0f} bytes, {len(CLUSTERS)} clusters", flush=True)
            bare: list[float] = []
            for broker in options.broker or ["embedded", "kafka"]:
                rates: list[float] = []
                for _ in range(options.runs):
                    bare.append(bare_rate(fold, events))
                    with started(broker, Path(scratch) / uuid.uuid4().hex) as bootstrap_servers:
                        rates.append(worker_rate(bootstrap_servers, fold, events, Path(scratch)))
                share = statistics.median(rates) / statistics.median(bare)
                print(
                    f"  worker through {broker}: {spread(rates, 'events/s')}, {share:.0%} of the bare fold", flush=True
                )
            print(f"  bare fold: {spread(bare, 'events/s')}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child_main(Path(sys.argv[2]), sys.argv[3]))
    main()
