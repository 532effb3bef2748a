"""Creation and verification of the topics; what a reader must know about the brokers before it starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from topics.diagnosis import why_unreachable
from topics.settings import Settings
from topics.topic import Topic, Topics

logger = logging.getLogger("topics.admin")

PATIENCE_SECONDS = 30.0
#: A person who forgot to start a broker is told soon; a worker waits longer for one that starts at the same time.
CONNECT_SECONDS = 5.0
PAUSE_SECONDS = 0.2


class BrokerUnreachable(RuntimeError):
    """No broker answered in time."""


class TopicMismatch(RuntimeError):
    """A topic is there but not as it must be: the ledger refuses to run on it."""


class MissingTopics(RuntimeError):
    """A reader finds no topics: no worker has ever started against these brokers."""


async def start_admin(settings: Settings, patience_seconds: float = CONNECT_SECONDS) -> AIOKafkaAdminClient:
    """An admin client, once the brokers answer."""
    deadline = asyncio.get_running_loop().time() + patience_seconds
    while True:
        admin = AIOKafkaAdminClient(**settings.client())
        try:
            await admin.start()
            await admin.list_topics()
            return admin
        except (KafkaError, OSError) as problem:
            await admin.close()
            diagnosis = await why_unreachable(settings)
            if diagnosis.final or asyncio.get_running_loop().time() >= deadline:
                raise BrokerUnreachable(
                    f"no Kafka broker serves at {settings.bootstrap_servers}: {diagnosis.text}"
                ) from problem
            await asyncio.sleep(PAUSE_SECONDS)


async def ensure_topics(settings: Settings, patience_seconds: float = CONNECT_SECONDS) -> Topics:
    """Create the topics that are missing and verify all; raise `TopicMismatch` rather than run on wrong ones."""
    topics = Topics.of(settings)
    admin = await start_admin(settings, patience_seconds)
    try:
        there = set(await admin.list_topics())
        await _create(admin, [topic for topic in topics.all() if topic.name not in there])
        await _verify(admin, topics.all())
    finally:
        await admin.close()
    return topics


async def partitions_of(settings: Settings, topic: Topic, patience_seconds: float = CONNECT_SECONDS) -> int:
    """The number of partitions that a topic really has."""
    admin = await start_admin(settings, patience_seconds)
    try:
        counts = await _partition_counts(admin, [topic.name])
    finally:
        await admin.close()
    if topic.name not in counts:
        raise MissingTopics(
            f"there is no topic {topic.name} at {settings.bootstrap_servers}: start a worker or ingest first"
        )
    return counts[topic.name]


async def _create(admin: AIOKafkaAdminClient, topics: list[Topic]) -> None:
    for topic in topics:
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, topic_configs=topic.config)
        response = await admin.create_topics([new])
        error = for_code(response.topic_errors[0][1])
        if error is TopicAlreadyExistsError:
            continue
        if response.topic_errors[0][1]:
            raise TopicMismatch(f"topic {topic.name} could not be created: {error.__name__}: {error.description}")
        logger.info("created topic %s with %d partitions", topic.name, topic.partitions)


async def _verify(admin: AIOKafkaAdminClient, topics: Iterable[Topic]) -> None:
    wanted = {topic.name: topic.partitions for topic in topics}
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        counts = await _partition_counts(admin, list(wanted))
        if len(counts) == len(wanted) or asyncio.get_running_loop().time() >= deadline:
            break
        await asyncio.sleep(PAUSE_SECONDS)
    problems = [
        f"{name} has {counts.get(name, 'no')} partitions, not {partitions}"
        for name, partitions in wanted.items()
        if counts.get(name) != partitions
    ]
    if problems:
        raise TopicMismatch(
            "; ".join(problems) + ". A cluster's records must be in the same partition of every topic, for ever: "
            "set QUOTA_LEDGER_PARTITIONS to what the topics have, or choose other topics with "
            "QUOTA_LEDGER_TOPIC_PREFIX"
        )


async def _partition_counts(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, int]:
    """Partitions of each topic that is there. Asks for all topics, so that no broker creates a missing one."""
    known = [name for name in await admin.list_topics() if name in names]
    if not known:
        return {}
    described = await admin.describe_topics(known)
    return {topic["topic"]: len(topic["partitions"]) for topic in described if not topic["error_code"]}


async def consumed_offsets(settings: Settings, topics: Topics) -> dict[int, int]:
    """Per partition of `quota.events` the offset that the group has committed; a partition without is left out."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        admin = await start_admin(settings)
        try:
            offsets = await admin.list_consumer_group_offsets(settings.group_id)
            return {
                place.partition: committed.offset
                for place, committed in offsets.items()
                if place.topic == topics.events.name and committed.offset >= 0
            }
        except (KafkaError, OSError):
            # The first group of a new cluster has no coordinator for a moment.
            if asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await admin.close()
