"""The five topics: their names, settings, and which partition a cluster's records are in."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiokafka.partitioner import murmur2

from topics.settings import Settings

MEBIBYTE = 1024 * 1024

#: The fold refuses a value above 16 MiB; the topic lets one through a little above, so that it becomes a dead letter.
MAX_RECORD_BYTES = 20 * MEBIBYTE
MAX_DEAD_LETTER_BYTES = 24 * MEBIBYTE


@dataclass(frozen=True)
class Topic:
    """A topic as it must be: created so where it is missing, verified where it is there."""

    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Topics:
    """All topics of one ledger: the same number of partitions everywhere, a cluster in the same one of each."""

    events: Topic
    decisions: Topic
    dead_letters: Topic
    quota: Topic
    checkpoints: Topic

    @staticmethod
    def of(settings: Settings) -> Topics:
        """The topics that the settings name (design section 2; retention and compaction: docs/architecture)."""

        def topic(name: str, config: dict[str, str]) -> Topic:
            return Topic(settings.topic_prefix + name, settings.partitions, settings.replication_factor, config)

        compacted = {
            "cleanup.policy": "compact",
            "segment.ms": "600000",
            "segment.bytes": str(64 * MEBIBYTE),
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": str(7 * 24 * 3600 * 1000),
            "max.message.bytes": str(MAX_RECORD_BYTES),
        }
        kept_for_ever = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        return Topics(
            events=topic("quota.events", kept_for_ever | {"max.message.bytes": str(MAX_RECORD_BYTES)}),
            decisions=topic("quota.decisions", kept_for_ever | {"max.message.bytes": str(MAX_RECORD_BYTES)}),
            dead_letters=topic("quota.deadletter", kept_for_ever | {"max.message.bytes": str(MAX_DEAD_LETTER_BYTES)}),
            quota=topic("quota-ledger-quota-changelog", compacted),
            checkpoints=topic("quota-ledger-checkpoints", compacted),
        )

    def all(self) -> tuple[Topic, ...]:
        return (self.events, self.decisions, self.dead_letters, self.quota, self.checkpoints)


def partition_of(cluster: str, partitions: int) -> int:
    """The partition of a cluster's records: the same as every Kafka client's default partitioner gives its key."""
    return int((murmur2(cluster.encode()) & 0x7FFFFFFF) % partitions)
