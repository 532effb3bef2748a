"""Topics with their logs, and transactions over them: decided in the journal, then finished in the logs."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import msgspec
from aiokafka import errors

from topics.embedded.appending import DiskFull
from topics.embedded.batches import header
from topics.embedded.journal import (
    Committed,
    Journal,
    NextProducer,
    NoGroup,
    NoTopic,
    Offsets,
    Place,
    Topic,
    Transactional,
)
from topics.embedded.log import PartitionLog, Refused

LARGEST = 1_048_588
_LAST_EPOCH = 32_000
_DONE = {"commit": "committed", "abort": "aborted"}


class Storage:
    """Everything that outlives the process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._journal = Journal(folder / "journal.jsonl")
        self._logs: dict[Place, PartitionLog] = {}
        self._of_producer: dict[int, str] = {}
        self._began: dict[str, float] = {}
        self._unfinished: set[str] = set()
        for topic in self.topics.values():
            self._open(topic)
        for transactional in list(self._journal.state.transactional.values()):
            self._of_producer[transactional.producer] = transactional.name
            if transactional.state == "open":
                self._began[transactional.name] = time.monotonic()
            elif transactional.state in _DONE:
                self._finish(transactional.name)

    @property
    def cluster(self) -> str:
        return self._journal.state.cluster

    @property
    def topics(self) -> dict[str, Topic]:
        return self._journal.state.topics

    @property
    def offsets(self) -> dict[str, dict[Place, tuple[int, str]]]:
        return self._journal.state.offsets

    def log(self, topic: str, partition: int) -> PartitionLog:
        found = self._logs.get((topic, partition))
        if found is None:
            raise Refused(errors.UnknownTopicOrPartitionError)
        return found

    def create(self, name: str, partitions: int, config: dict[str, str]) -> None:
        topic = Topic(name, partitions, config)
        self._journal.add(topic)
        self._open(topic)

    def alter(self, name: str, config: dict[str, str]) -> None:
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(errors.UnknownTopicOrPartitionError)
        self._journal.add(Topic(name, topic.partitions, config))

    def delete(self, name: str) -> None:
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(errors.UnknownTopicOrPartitionError)
        self._journal.add(NoTopic(name))
        for partition in range(topic.partitions):
            self._logs.pop((name, partition)).delete()

    def produce(self, topic: str, partition: int, data: bytes) -> int:
        """Write what a producer sent; the offset of its first record."""
        log = self.log(topic, partition)
        largest = int(self.topics[topic].config.get("max.message.bytes", LARGEST))
        first = header(data)
        if first.transactional:
            self._check_transaction(first.producer, first.epoch, (topic, partition))
        return log.append(data, largest=largest)

    def commit_offsets(self, offsets: Offsets) -> None:
        self._journal.add(Committed(offsets))

    def forget_group(self, name: str) -> None:
        self._journal.add(NoGroup(name))

    def new_producer(self) -> int:
        number = self._journal.state.next_producer
        self._journal.add(NextProducer(number + 1))
        return number

    def start_producer(self, name: str, timeout_ms: int) -> tuple[int, int]:
        """The producer of a transactional id and its next epoch: that fences whoever had it. Ends what it left open."""
        known = self._journal.state.transactional.get(name)
        if known is not None and known.state == "open":
            self._decide(msgspec.structs.replace(known, epoch=known.epoch + 1), "abort")
        self._require_finished(name)
        known = self._journal.state.transactional.get(name)
        if known is None or known.epoch >= _LAST_EPOCH:
            entry = Transactional(name, self.new_producer(), 0, timeout_ms)
        else:
            entry = Transactional(name, known.producer, known.epoch + 1, timeout_ms)
        self._journal.add(entry)
        self._of_producer[entry.producer] = name
        return entry.producer, entry.epoch

    def add_to_transaction(
        self, name: str, producer: int, epoch: int, *, places: list[Place] | None = None, offsets: Offsets | None = None
    ) -> None:
        """Partitions that the transaction writes to, and offsets that it consumes; begins it where it is not open."""
        self._valid(name, producer, epoch)
        self._require_finished(name)
        entry = self._journal.state.transactional[name]
        for place in places or ():
            self.log(*place)
        if entry.state != "open":
            entry = msgspec.structs.replace(entry, state="open", partitions=[], offsets=[])
            self._began[name] = time.monotonic()
        self._journal.add(
            msgspec.structs.replace(
                entry,
                partitions=[*entry.partitions, *(place for place in places or () if place not in entry.partitions)],
                offsets=[*entry.offsets, *(offsets or ())],
            )
        )

    def end_transaction(self, name: str, producer: int, epoch: int, *, committed: bool) -> None:
        """Decide it; it counts from then on, and where a log has no room it is finished later.

        The same decision again is answered again: the answer may have been lost.
        """
        entry = self._valid(name, producer, epoch)
        decision = "commit" if committed else "abort"
        if entry.state in (decision, _DONE[decision]):
            return
        if entry.state != "open":
            raise Refused(errors.InvalidTxnState)
        self._decide(entry, decision)

    def tick(self) -> None:
        """Finish what was decided; abort what is open for longer than its producer asked for, who is fenced."""
        for name in sorted(self._unfinished):
            self._finish(name)
        now = time.monotonic()
        for name, began in list(self._began.items()):
            entry = self._journal.state.transactional[name]
            if now - began > entry.timeout_ms / 1000:
                self._decide(msgspec.structs.replace(entry, epoch=entry.epoch + 1), "abort")

    def _open(self, topic: Topic) -> None:
        for partition in range(topic.partitions):
            path = self._folder / "topics" / topic.name / f"{partition}.log"
            compacted = "compact" in topic.config.get("cleanup.policy", "")
            self._logs[topic.name, partition] = PartitionLog(path, compacted=compacted)

    def _valid(self, name: str, producer: int, epoch: int) -> Transactional:
        entry = self._journal.state.transactional.get(name)
        if entry is None or entry.producer != producer:
            raise Refused(errors.InvalidProducerIdMapping)
        if entry.epoch != epoch:
            raise Refused(errors.InvalidProducerEpoch)
        return entry

    def _check_transaction(self, producer: int, epoch: int, place: Place) -> None:
        name = self._of_producer.get(producer)
        if name is None:
            raise Refused(errors.InvalidProducerIdMapping)
        entry = self._valid(name, producer, epoch)
        if entry.state != "open" or place not in entry.partitions:
            raise Refused(errors.InvalidTxnState)

    def _decide(self, entry: Transactional, decision: str) -> None:
        """From here on it is finished, be it after a restart."""
        self._journal.add(msgspec.structs.replace(entry, state=decision))
        self._began.pop(entry.name, None)
        self._finish(entry.name)

    def _require_finished(self, name: str) -> None:
        """Nothing new begins under a transactional id before what was decided is in the logs, as in Kafka."""
        if name in self._unfinished:
            self._finish(name)
            if name in self._unfinished:
                raise Refused(errors.ConcurrentTransactions)

    def _finish(self, name: str) -> None:
        """Markers, offsets, done; where the disk is full, the rest of it at the next try."""
        self._unfinished.add(name)
        with contextlib.suppress(Refused, DiskFull):
            entry = self._journal.state.transactional[name]
            committed = entry.state == "commit"
            for topic, partition in entry.partitions:
                log = self._logs.get((topic, partition))
                if log is not None:
                    log.end_transaction(entry.producer, entry.epoch, committed=committed)
            if committed and entry.offsets:
                self._journal.add(Committed(entry.offsets))
            self._journal.add(msgspec.structs.replace(entry, state=_DONE[entry.state], partitions=[], offsets=[]))
            self._unfinished.discard(name)
