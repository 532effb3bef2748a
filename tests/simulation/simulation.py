"""One seed, one history: clusters play, a flaky watcher reports, the fold decides, a worker dies again and again."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiokafka.errors import ProducerFenced

from ledger.checkpoint import hash_of_state, load, save
from ledger.fold import Fold, Outcome
from tests.simulation.broken import Broken
from tests.simulation.broker import Killed, Log, simulated
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import Controllers
from tests.simulation.invariants import Watch
from tests.simulation.ticking import Clock
from tests.simulation.watcher import Watcher
from topics.checkpoints import assembled
from topics.codec import APPLIED_KEY, encode_row, encode_row_key
from topics.folding import ledger_fold
from topics.garbage import look_at_everything
from topics.partition import Partition
from topics.settings import Settings
from topics.topic import Topics

TIMESTAMP = 1_767_225_600_000
STEPS = 60


@dataclass
class Tally:
    """What was simulated."""

    events: int = 0
    decisions: int = 0
    kills: int = 0
    fenced: int = 0
    checkpoints: int = 0
    recoveries: int = 0
    ticks: int = 0
    types: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def count(self, decision: bytes) -> None:
        kind = decision[9 : decision.index(b'"', 9)].decode()
        self.decisions += 1
        self.types[kind] = self.types.get(kind, 0) + 1
        if kind in ("Evicted", "Released", "Requeued"):
            found = f"{kind} {json.loads(decision)['reason']}"
            self.reasons[found] = self.reasons.get(found, 0) + 1

    def add(self, other: Tally) -> None:
        for name in ("events", "decisions", "kills", "fenced", "checkpoints", "recoveries", "ticks"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.types, other.types), (self.reasons, other.reasons)):
            for kind, count in theirs.items():
                mine[kind] = mine.get(kind, 0) + count


class Observer:
    """Folds every record once and looks at everything after each."""

    def __init__(self, tally: Tally, *, restarts: Random | None = None) -> None:
        self.fold = Fold("quota.events", 0)
        self.tally = tally
        self.decisions: list[bytes] = []
        self._watches: dict[str, Watch] = {}
        self._restarts = restarts
        self.offset = 0

    def take(self, record: bytes) -> list[bytes]:
        outcome = self._apply(record)
        values = [decision.value for decision in outcome.decisions]
        cluster = _cluster_of(record)
        rejected = frozenset(each.index for each in outcome.rejections)
        whole = bool(outcome.rejections) and b'"BATCH"' not in record
        if cluster in self.fold.clusters and not whole:
            watch = self._watches.setdefault(cluster, Watch())
            watch.after(self.fold.clusters[cluster], record, values, rejected)
        self.decisions += values
        self.tally.events += 1
        for value in values:
            self.tally.count(value)
        if self._restarts is not None and self._restarts.random() < 0.02:
            self._restart()
        return values

    def _apply(self, record: bytes) -> Outcome:
        try:
            outcome = self.fold.apply(record, offset=self.offset, key=None, timestamp=TIMESTAMP * 1000)
        except Exception as problem:
            raise Broken(f"the fold takes any event ({type(problem).__name__})", repr(problem)) from problem
        self.offset += 1
        return outcome

    def _restart(self) -> None:
        for name, ledger in self.fold.clusters.items():
            state = save(ledger)
            again = load(state)
            if save(again) != state:
                raise Broken("a checkpoint is the state", name)
            self.fold.restore(again)
        self.tally.recoveries += 1

    def states(self) -> dict[str, str]:
        return {name: hash_of_state(save(ledger)) for name, ledger in sorted(self.fold.clusters.items())}


def _cluster_of(record: bytes) -> str:
    try:
        found = json.loads(record)
    except ValueError:
        return ""
    return str(found.get("cluster") or "default") if isinstance(found, dict) else ""


def generate(seed: int, tally: Tally, steps: int = STEPS) -> list[bytes]:
    """A history, observed while it is made. Raises Broken, with the records so far."""
    random = Random(seed)
    clusters = [Cluster(f"c{number}", Random(f"{seed}/{number}")) for number in range(random.choice((1, 1, 2)))]
    watchers = [Watcher(cluster, Random(f"{seed}/watcher/{cluster.name}")) for cluster in clusters]
    controllers = [Controllers(cluster) for cluster in clusters]
    observer = Observer(tally, restarts=Random(f"{seed}/restarts"))
    clocks = [Clock(cluster, observer.fold, Random(f"{seed}/clock/{cluster.name}")) for cluster in clusters]
    records: list[bytes] = []

    def play(found: list[bytes], at: int) -> None:
        for record in found:
            records.append(record)
            for value in observer.take(record):
                controllers[at].observe(json.loads(value))

    try:
        for step in range(steps):
            at = random.randrange(len(clusters))
            clusters[at].happen()
            controllers[at].work()
            for _ in range(4 if step < 10 else 2):
                play(watchers[at].records(), at)
            ticks = clocks[at].ticks()
            tally.ticks += len(ticks)
            play(ticks, at)
        for at, watcher in enumerate(watchers):
            play(watcher.everything(), at)
    except Broken as problem:
        problem.records = records
        raise
    finally:
        # Workers that died dropped no state; here their process lives on.
        look_at_everything()
        gc.collect()
    return records


def observe(records: list[bytes]) -> Observer:
    """The same records again, for the shrinker."""
    observer = Observer(Tally())
    for record in records:
        observer.take(record)
    return observer


def run_worker(seed: int, records: list[bytes], tally: Tally) -> None:
    """The worker's real code against a simulated broker, killed at random steps; then the log must be the fold's."""
    asyncio.run(_work(Random(f"{seed}/worker"), records, tally))


async def _work(random: Random, records: list[bytes], tally: Tally) -> None:
    settings = Settings(partitions=1, checkpoint_events=random.choice((3, 10, 40)), metrics_port=0)
    topics = Topics.of(settings)
    log = Log(random)
    for record in records:
        log.append(topics.events.name, None, record)
    events = log.topics.get(topics.events.name, [])
    zombies: list[Partition] = []
    kills = random.randrange(3, 12)
    with simulated(log):
        while True:
            log.kill_in = random.randrange(1, 60) if kills > 0 else None
            partition = Partition(0, settings=settings, topics=topics, fold=ledger_fold)
            try:
                await partition.open()
                await _stir(zombies, random, events, tally)
                while partition.next_offset < len(events):
                    start = max(0, partition.next_offset - random.choice((0, 0, 2)))
                    await partition.apply(events[start : start + random.choice((1, 2, 7, 30))])
                await partition.close()
            except Killed:
                kills -= 1
                tally.kills += 1
                if random.random() < 0.3:
                    zombies.append(partition)
                continue
            break
        log.kill_in = None
        _verify(log, topics, records)
        again = Partition(0, settings=settings, topics=topics, fold=ledger_fold)
        await again.open()
        expected = observe_only(records)
        found = {name: hash_of_state(save(ledger)) for name, ledger in sorted(again.fold.clusters.items())}
        if again.stopped or found != expected.states():
            raise Broken("a worker that restarts has the fold's state", (again.stopped, found))
        tally.checkpoints += sum(1 for r in log.topics.get(topics.checkpoints.name, ()) if b"manifest" in r.key)


async def _stir(zombies: list[Partition], random: Random, events: list[Any], tally: Tally) -> None:
    """Old owners wake up and try to go on; their transactions must fail."""
    for zombie in zombies:
        try:
            await zombie.apply(events[zombie.next_offset : zombie.next_offset + 2] or events[-1:])
            await zombie.settle()
        except (ProducerFenced, Killed):
            tally.fenced += 1
    zombies.clear()


def observe_only(records: list[bytes]) -> Observer:
    """The fold alone, nothing looked at."""
    observer = Observer(Tally())
    for record in records:
        outcome = observer._apply(record)
        observer.decisions += [decision.value for decision in outcome.decisions]
    return observer


def _verify(log: Log, topics: Topics, records: list[bytes]) -> None:
    expected = observe_only(records)
    found = [record.value for record in log.topics.get(topics.decisions.name, ())]
    if found != expected.decisions:
        raise Broken("every decision is written once", (len(found), len(expected.decisions)))
    rows: dict[bytes, bytes] = {}
    for record in log.topics.get(topics.quota.name, ()):
        if record.value is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record.value
    rows.pop(APPLIED_KEY, None)
    folded = {encode_row_key(k): encode_row(v) for k, v in expected.fold.drain_rows().items() if v is not None}
    if rows != folded:
        raise Broken("the table is the fold's", None)
    newest = {record.key: record.value for record in log.topics.get(topics.checkpoints.name, ())}
    checkpoint = assembled({key: value for key, value in newest.items() if value is not None})
    if checkpoint is not None:
        before = observe_only(records[: checkpoint.manifest.next_offset])
        if before.states() != {name: entry.state_hash for name, entry in checkpoint.manifest.clusters.items()}:
            raise Broken("a checkpoint is the fold's state at its offset", checkpoint.manifest)


def simulate(seed: int, tally: Tally, steps: int = STEPS) -> list[bytes]:
    """One seed, whole. Raises Broken with `records` set."""
    records = generate(seed, tally, steps)
    try:
        run_worker(seed, records, tally)
    except Broken as problem:
        problem.records = records
        raise
    finally:
        # Workers that died dropped no state; here their process lives on.
        look_at_everything()
        gc.collect()
    return records
