"""The Faust app: one group, one agent per partition of `quota.events`, chunks of records into the fold."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import Any, NoReturn

import faust
from aiokafka.errors import KafkaError, ProducerFenced
from faust.types.tuples import TP
from yarl import URL

from topics.admin import BrokerUnreachable
from topics.checkpoints import UnusableCheckpoint
from topics.folding import FoldFactory, ledger_fold
from topics.partition import Partition
from topics.partitions import Partitions
from topics.recovery import LogMismatch
from topics.settings import Settings
from topics.table import QuotaTable
from topics.ticks import TickProducer
from topics.topic import Topics
from topics.transaction import BatchTooLarge, InsideTransaction
from topics.transport import ChunkTransport

logger = logging.getLogger("topics.app")

EXIT_REASON = 1
EXIT_FAILURE = 3

#: Records of one poll. Larger than a chunk: a poll is of several partitions.
POLL_RECORDS = 4_000
#: Faust's queue of a partition counts chunks here; the consumer itself waits much earlier.
QUEUED_CHUNKS = 512
FETCH_BYTES = 8 * 1024 * 1024
A_YEAR = 365 * 24 * 3600.0

#: What is not mended by starting again.
_REASONS = LogMismatch | UnusableCheckpoint | BrokerUnreachable | BatchTooLarge


class _Untouched(faust.Schema):  # type: ignore[misc]
    """Key and value of a message as they are: decoding is the fold's business."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        return message.value


class LedgerApp(faust.App):  # type: ignore[misc]
    """A Faust app whose partitions own their transactions."""

    logger = logging.getLogger("faust.app")
    chunk_size: int
    partitions: Partitions
    leaving: bool = False

    def _new_transport(self) -> ChunkTransport:
        return ChunkTransport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """None: the worker writes nothing to a disk, so a full or read-only one does not stop it."""

    def _crash(self, reason: BaseException) -> None:
        """Any service that crashes ends the process: the next start recovers from the log."""
        if isinstance(reason, asyncio.CancelledError) or self.leaving:
            super()._crash(reason)
            return
        leave(reason)

    async def wait_for_chunk(self, seconds: float) -> None:
        """Until some chunk is folded, or the time is over."""
        event = self.partitions.chunk_done
        event.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


def leave(problem: BaseException) -> NoReturn:
    """Exit at once, without cleanup: what is in memory may be ahead of the log and must not survive."""
    if isinstance(problem, LogMismatch):
        logger.critical("the log and the fold differ; nothing was written\n%s", problem)
    elif isinstance(problem, UnusableCheckpoint | BrokerUnreachable | BatchTooLarge):
        logger.critical("%s", problem)
    elif isinstance(problem, ProducerFenced):
        logger.critical(
            "another worker has this partition by now, or a transaction was open for longer than the broker allows; "
            "nothing of it was written. Start the worker again: it goes on where the log says"
        )
    elif isinstance(problem, KafkaError) and problem.retriable:
        logger.critical(
            "a broker went away at a moment when the worker cannot wait for it (%s: %s). Start the worker again: it "
            "goes on where the log says",
            type(problem).__name__,
            problem,
        )
    else:
        logger.critical("stopping at once: %s: %s", type(problem).__name__, problem, exc_info=problem)
    logging.shutdown()
    os._exit(EXIT_REASON if isinstance(problem, _REASONS) else EXIT_FAILURE)


def new_app(
    settings: Settings,
    topics: Topics,
    *,
    fold: FoldFactory = ledger_fold,
    inside_transaction: InsideTransaction | None = None,
) -> LedgerApp:
    """The worker's app against verified topics."""
    app = LedgerApp(
        settings.group_id,
        broker=[URL(f"kafka://{server}") for server in settings.servers],
        broker_credentials=_credentials(settings),
        processing_guarantee="exactly_once",
        consumer_group_instance_id=settings.instance_id,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=FETCH_BYTES,
        broker_max_poll_records=POLL_RECORDS,
        broker_max_poll_interval=A_YEAR,
        broker_session_timeout=settings.session_timeout_seconds,
        broker_heartbeat_interval=min(3.0, settings.session_timeout_seconds / 3),
        broker_request_timeout=max(90.0, settings.session_timeout_seconds + 1),
        broker_commit_livelock_soft_timeout=A_YEAR,
        stream_processing_timeout=A_YEAR,
        stream_buffer_maxsize=QUEUED_CHUNKS,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        store="memory://",
        autodiscover=False,
    )
    app.chunk_size = settings.chunk_size

    def new_partition(number: int) -> Partition:
        return Partition(
            number,
            settings=settings,
            topics=topics,
            fold=fold,
            table=QuotaTable(app, number),
            on_failure=leave,
            inside_transaction=inside_transaction,
        )

    app.partitions = Partitions(new_partition, leave)
    events = app.topic(topics.events.name, schema=_Untouched(), partitions=topics.events.partitions)

    async def ledger(stream: Any) -> None:
        async for event in stream.events():
            place: TP = event.message.tp
            await app.partitions.apply(place.partition, event.value)

    app.agent(events, name="ledger", concurrency=1, isolated_partitions=True)(ledger)
    app.task(TickProducer(settings, topics, app.partitions.opened).run)
    return app


def _credentials(settings: Settings) -> Any:
    security = settings.security
    context = security.ssl_context()
    if security.authenticated:
        return faust.SASLCredentials(
            username=security.sasl_username,
            password=security.sasl_password,
            mechanism=security.sasl_mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None
