"""What the broker knows besides records: topics, producers, open transactions, offsets of groups.

A file of JSON lines, written before anything is answered; the state is what its records amount to. At a start it is
written anew, short.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from topics.embedded.appending import Appender

#: Written anew while running, too, when so much was appended.
LONG = 64 * 1024 * 1024

Place = tuple[str, int]
#: (group, topic, partition) to (offset, metadata)
Offsets = list[tuple[str, str, int, int, str]]


class Cluster(msgspec.Struct, tag="cluster"):
    name: str


class Topic(msgspec.Struct, tag="topic"):
    name: str
    partitions: int
    config: dict[str, str]


class NoTopic(msgspec.Struct, tag="no-topic"):
    name: str


class NextProducer(msgspec.Struct, tag="next-producer"):
    number: int


class Transactional(msgspec.Struct, tag="transactional"):
    """A transactional id, its producer, and the transaction that it is in.

    `state`: open, commit or abort (decided, and being finished), committed or aborted, or empty before the first.
    """

    name: str
    producer: int
    epoch: int
    timeout_ms: int
    state: str = ""
    partitions: list[Place] = msgspec.field(default_factory=list)
    offsets: Offsets = msgspec.field(default_factory=list)


class Committed(msgspec.Struct, tag="offsets"):
    offsets: Offsets


class NoGroup(msgspec.Struct, tag="no-group"):
    name: str


Entry = Cluster | Topic | NoTopic | NextProducer | Transactional | Committed | NoGroup


@dataclass
class State:
    cluster: str = ""
    next_producer: int = 1
    topics: dict[str, Topic] = field(default_factory=dict)
    transactional: dict[str, Transactional] = field(default_factory=dict)
    offsets: dict[str, dict[Place, tuple[int, str]]] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        match entry:
            case Cluster(name):
                self.cluster = name
            case Topic(name):
                self.topics[name] = entry
            case NoTopic(name):
                self.topics.pop(name, None)
                for group in self.offsets.values():
                    for place in [place for place in group if place[0] == name]:
                        del group[place]
            case NextProducer(number):
                self.next_producer = number
            case Transactional(name):
                self.transactional[name] = entry
            case Committed(offsets):
                for group_name, topic, partition, offset, metadata in offsets:
                    self.offsets.setdefault(group_name, {})[topic, partition] = (offset, metadata)
            case NoGroup(name):
                self.offsets.pop(name, None)

    def entries(self) -> Iterator[Entry]:
        yield Cluster(self.cluster)
        yield NextProducer(self.next_producer)
        yield from self.topics.values()
        yield from self.transactional.values()
        for group, places in self.offsets.items():
            yield Committed([(group, *place, *committed) for place, committed in places.items()])


class Journal:
    """The state and its file."""

    def __init__(self, path: Path) -> None:
        self.state = State()
        self._path = path
        self._appender = Appender(path)
        self._long = LONG
        self._encoder = msgspec.json.Encoder()
        self._load()
        self._file = -1
        self._size = 0
        if not self.state.cluster:
            self.state.cluster = uuid.uuid4().hex
        self._write_anew()

    def add(self, entry: Entry) -> None:
        """First the file, then the state; raises DiskFull where the file does not take it."""
        line = self._encoder.encode(entry) + b"\n"
        self._appender.append(self._file, line, self._size)
        self._size += len(line)
        self.state.apply(entry)
        if self._size > self._long:
            try:
                self._write_anew()
            except OSError as problem:
                # It can wait, until as much again was added.
                self._appender.refused(problem)
                self._long = self._size + LONG

    def _load(self) -> None:
        """A last line that a kill cut short was never answered."""
        if not self._path.exists():
            return
        decoder = msgspec.json.Decoder(Entry)
        for line in self._path.read_bytes().split(b"\n")[:-1]:
            self.state.apply(decoder.decode(line))

    def _write_anew(self) -> None:
        new = self._path.with_suffix(".new")
        try:
            new.write_bytes(b"".join(self._encoder.encode(entry) + b"\n" for entry in self.state.entries()))
            new.replace(self._path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._size = os.fstat(self._file).st_size
        self._long = LONG
