"""Requests and answers: what aiokafka's structures say, read on the broker's side."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import struct
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka import errors
from aiokafka.protocol import admin, commit, coordination, fetch, group, metadata, offset, produce, transaction
from aiokafka.protocol.api import RequestStruct

from topics.embedded.appending import DiskFull
from topics.embedded.batches import Damaged
from topics.embedded.groups import Asks, Group
from topics.embedded.journal import Offsets
from topics.embedded.log import Found, PartitionLog, Refused
from topics.embedded.storage import LARGEST, Storage

logger = logging.getLogger("topics.embedded")

NODE = 0
TICK_SECONDS = 0.2
LARGEST_REQUEST = 128 * 1024 * 1024
_LATEST, _EARLIEST = -1, -2
_API_VERSIONS = 18
_FROM_TOPIC, _FROM_DEFAULT = 1, 5

#: Versions of each request that are answered: all in which aiokafka's structures are right.
VERSIONS = {
    0: (3, 8),  # Produce
    1: (4, 11),  # Fetch
    2: (1, 3),  # ListOffsets
    3: (1, 5),  # Metadata
    8: (2, 3),  # OffsetCommit
    9: (1, 3),  # OffsetFetch
    10: (0, 1),  # FindCoordinator
    11: (0, 5),  # JoinGroup
    12: (0, 1),  # Heartbeat
    13: (0, 1),  # LeaveGroup
    14: (0, 3),  # SyncGroup
    15: (0, 2),  # DescribeGroups
    16: (0, 1),  # ListGroups
    18: (0, 2),  # ApiVersions
    19: (0, 3),  # CreateTopics
    20: (0, 3),  # DeleteTopics
    22: (0, 0),  # InitProducerId
    24: (0, 0),  # AddPartitionsToTxn
    25: (0, 0),  # AddOffsetsToTxn
    26: (0, 0),  # EndTxn
    28: (0, 0),  # TxnOffsetCommit
    32: (0, 2),  # DescribeConfigs
    33: (0, 1),  # AlterConfigs
    42: (0, 1),  # DeleteGroups
}


def _structures() -> dict[tuple[int, int], type[RequestStruct]]:
    modules = (admin, commit, coordination, fetch, group, metadata, offset, produce, transaction)
    found: dict[tuple[int, int], type[RequestStruct]] = {}
    for module in modules:
        for _, each in inspect.getmembers(module, inspect.isclass):
            structure: Any = each
            if issubclass(structure, RequestStruct) and hasattr(structure, "API_KEY"):
                found.setdefault((structure.API_KEY, structure.API_VERSION), structure)
    return found


class Client(NamedTuple):
    name: str
    host: str


class Server:
    """One node that is everything: leader, coordinator, controller."""

    def __init__(self, storage: Storage, host: str, port: int) -> None:
        self._storage = storage
        self._host = host
        self._port = port
        self._groups: dict[str, Group] = {}
        self._structures = _structures()
        self._handlers: dict[int, Callable[[Any, int, Client], Awaitable[tuple[Any, ...] | None]]] = {
            0: self._produce,
            1: self._fetch,
            2: self._list_offsets,
            3: self._metadata,
            8: self._offset_commit,
            9: self._offset_fetch,
            10: self._find_coordinator,
            11: self._join_group,
            12: self._heartbeat,
            13: self._leave_group,
            14: self._sync_group,
            15: self._describe_groups,
            16: self._list_groups,
            18: self._api_versions,
            19: self._create_topics,
            20: self._delete_topics,
            22: self._init_producer,
            24: self._add_partitions,
            25: self._add_offsets,
            26: self._end_transaction,
            28: self._transaction_offsets,
            32: self._describe_configs,
            33: self._alter_configs,
            42: self._delete_groups,
        }

    async def serve(self) -> None:
        """Until the process ends: nothing needs to be saved then."""
        server = await asyncio.start_server(self._connection, self._host, self._port, limit=1024 * 1024)
        logger.info("listening on %s:%d", self._host, self._port)
        async with server:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                for each in self._groups.values():
                    each.tick()
                with contextlib.suppress(DiskFull):
                    self._storage.tick()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after the other, as Kafka does it."""
        peer = writer.get_extra_info("peername")
        host = str(peer[0]) if peer else ""
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    if not 8 <= size <= LARGEST_REQUEST:
                        logger.warning("a request of %d bytes is none: closing the connection", size)
                        return
                    answer = await self._answer(await reader.readexactly(size), host)
                    if answer is not None:
                        writer.write(struct.pack(">i", len(answer)) + answer)
                        await writer.drain()
        except DiskFull:
            pass  # The log says so. The client sends it again.
        except OSError as problem:
            logger.error("cannot write: %s; make room on the disk of the data directory", problem)
        except Exception:
            logger.exception("a request failed: closing its connection")
        finally:
            writer.close()

    async def _answer(self, data: bytes, host: str) -> bytes | None:
        key, version, correlation = struct.unpack_from(">hhi", data)
        lowest, highest = VERSIONS.get(key, (0, -1))
        structure = self._structures.get((key, version))
        if structure is None or not lowest <= version <= highest:
            if key != _API_VERSIONS:
                raise ValueError(f"request {key} in version {version} is not known here")
            unsupported = admin.ApiVersionResponse_v0(errors.UnsupportedVersionError.errno, _versions())
            return bytes(struct.pack(">i", correlation) + unsupported.encode())
        body = BytesIO(data)
        body.seek(8)
        (length,) = struct.unpack(">h", body.read(2))
        client = Client(body.read(length).decode() if length > 0 else "", host)
        arguments = await self._handlers[key](structure.decode(body), version, client)
        if arguments is None:
            return None
        return bytes(struct.pack(">i", correlation) + structure.RESPONSE_TYPE(*arguments).encode())

    # -- records -----------------------------------------------------------------------------------------------------

    async def _produce(self, request: Any, version: int, client: Client) -> tuple[Any, ...] | None:
        topics = []
        for topic, partitions in request.topics:
            answers: list[tuple[Any, ...]] = []
            for partition, data in partitions:
                base, error = -1, 0
                try:
                    base = self._storage.produce(topic, partition, data)
                except Refused as refused:
                    error = refused.code
                except Damaged:
                    error = errors.CorruptRecordException.errno
                answer: tuple[Any, ...] = (partition, error, base, -1)
                if version >= 5:
                    answer += (0,)
                if version >= 8:
                    answer += ([], None)
                answers.append(answer)
            topics.append((topic, answers))
        return (topics, 0) if request.required_acks else None

    async def _fetch(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        """Waits for records where there are not enough, as long as the client allows."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_time / 1000
        while True:
            topics, size, failed, logs = self._fetched(request, version)
            wait = deadline - loop.time()
            if failed or size >= request.min_bytes or wait <= 0 or not logs:
                break
            changed = loop.create_future()
            for log in logs:
                log.waiting.add(changed)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed, wait)
            for log in logs:
                log.waiting.discard(changed)
        return (0, 0, 0, topics) if version >= 7 else (0, topics)

    def _fetched(self, request: Any, version: int) -> tuple[list[Any], int, bool, list[PartitionLog]]:
        room, size, failed = request.max_bytes, 0, False
        logs: list[PartitionLog] = []
        topics = []
        for topic, partitions in request.topics:
            answers = []
            for asked in partitions:
                partition, position, largest = asked[0], asked[2 if version >= 9 else 1], asked[-1]
                found, error, end, stable = Found(b"", []), 0, -1, -1
                try:
                    log = self._storage.log(topic, partition)
                    logs.append(log)
                    end, stable = log.end, log.stable_end
                    if room > 0 or not size:
                        found = log.read(position, min(largest, max(room, 1)), committed=bool(request.isolation_level))
                except Refused as refused:
                    error, failed = refused.code, True
                size += len(found.data)
                room -= len(found.data)
                aborted = [(each.producer, each.first_offset) for each in found.aborted]
                answer: tuple[Any, ...] = (partition, error, end, stable)
                if version >= 5:
                    answer += (0,)
                answer += (aborted,)
                if version >= 11:
                    answer += (-1,)
                answers.append((*answer, found.data))
            topics.append((topic, answers))
        return topics, size, failed, logs

    async def _list_offsets(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        committed = version >= 2 and bool(request.isolation_level)
        topics = []
        for topic, partitions in request.topics:
            answers = []
            for partition, timestamp in partitions:
                try:
                    log = self._storage.log(topic, partition)
                except Refused as refused:
                    answers.append((partition, refused.code, -1, -1))
                    continue
                if timestamp == _LATEST:
                    answers.append((partition, 0, -1, log.stable_end if committed else log.end))
                elif timestamp == _EARLIEST:
                    answers.append((partition, 0, -1, 0))
                else:
                    found, time = log.first_at(timestamp) or (-1, -1)
                    answers.append((partition, 0, time, found))
            topics.append((topic, answers))
        return (0, topics) if version >= 2 else (topics,)

    # -- topics ------------------------------------------------------------------------------------------------------

    async def _api_versions(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        return (0, _versions(), 0) if version >= 1 else (0, _versions())

    async def _metadata(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        """Never creates a topic: a missing one is told."""
        names = list(self._storage.topics) if request.topics is None else request.topics
        topics: list[tuple[Any, ...]] = []
        for name in names:
            topic = self._storage.topics.get(name)
            if topic is None:
                topics.append((errors.UnknownTopicOrPartitionError.errno, name, False, []))
                continue
            offline: tuple[Any, ...] = ([],) if version >= 5 else ()
            partitions = [(0, number, NODE, [NODE], [NODE], *offline) for number in range(topic.partitions)]
            topics.append((0, name, False, partitions))
        answer: tuple[Any, ...] = ([(NODE, self._host, self._port, None)],)
        if version >= 2:
            answer += (self._storage.cluster,)
        answer += (NODE, topics)
        return (0, *answer) if version >= 3 else answer

    async def _create_topics(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        answers = []
        for name, partitions, replication, _, configs in request.create_topic_requests:
            error, message = 0, None
            if name in self._storage.topics:
                error, message = errors.TopicAlreadyExistsError.errno, f"topic {name} is there already"
            elif not name or name in (".", "..") or "/" in name or len(name) > 249:
                error, message = errors.InvalidTopicError.errno, "not the name of a topic"
            elif partitions == 0 or partitions < -1:
                error, message = errors.InvalidPartitionsError.errno, "a topic has partitions"
            elif replication not in (-1, 1):
                error, message = errors.InvalidReplicationFactorError.errno, "there is one broker"
            elif not getattr(request, "validate_only", False):
                self._storage.create(name, max(partitions, 1), dict(configs or ()))
            answers.append((name, error, message) if version >= 1 else (name, error))
        return (0, answers) if version >= 2 else (answers,)

    async def _delete_topics(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        answers = []
        for name in request.topics:
            try:
                self._storage.delete(name)
                answers.append((name, 0))
            except Refused as refused:
                answers.append((name, refused.code))
        return (0, answers) if version >= 1 else (answers,)

    async def _describe_configs(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        """What a topic was created with; of the defaults those that mean something here."""
        defaults = {"cleanup.policy": "delete", "max.message.bytes": str(LARGEST), "retention.ms": "-1"}
        answers: list[tuple[Any, ...]] = []
        for kind, name, wanted in request.resources:
            topic = self._storage.topics.get(name)
            if topic is None:
                answers.append((errors.UnknownTopicOrPartitionError.errno, None, kind, name, []))
                continue
            entries: list[tuple[Any, ...]] = []
            for key, value in (defaults | topic.config).items():
                if wanted and key not in wanted:
                    continue
                own = key in topic.config
                if version == 0:
                    entries.append((key, value, False, not own, False))
                else:
                    entries.append((key, value, False, _FROM_TOPIC if own else _FROM_DEFAULT, False, []))
            answers.append((0, None, kind, name, entries))
        return (0, answers)

    async def _alter_configs(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        answers = []
        for kind, name, configs in request.resources:
            error = self._refusal(partial(self._storage.alter, name, dict(configs)))
            answers.append((error, None, kind, name))
        return (0, answers)

    # -- groups ------------------------------------------------------------------------------------------------------

    async def _find_coordinator(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        if version == 0:
            return (0, NODE, self._host, self._port)
        return (0, 0, None, NODE, self._host, self._port)

    async def _join_group(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        session = request.session_timeout / 1000
        asks = Asks(
            request.member_id,
            request.group_instance_id if version >= 5 else None,
            client.name,
            client.host,
            session,
            request.rebalance_timeout / 1000 if version >= 1 else session,
            request.protocol_type,
            dict(request.group_protocols),
        )
        joined = await self._groups.setdefault(request.group, Group(request.group)).join(asks)
        members: list[tuple[Any, ...]] = list(joined.members)
        if version < 5:
            members = [(name, data) for name, _, data in joined.members]
        answer = (joined.error, joined.generation, joined.protocol, joined.leader, joined.member, members)
        return (0, *answer) if version >= 2 else answer

    async def _sync_group(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        instance = request.group_instance_id if version >= 3 else None
        assignments = dict(request.group_assignment)
        synced = await self._group(request.group).sync(request.generation_id, request.member_id, instance, assignments)
        return (0, *synced) if version >= 1 else tuple(synced)

    async def _heartbeat(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        error = self._group(request.group).heartbeat(request.generation_id, request.member_id)
        return (0, error) if version >= 1 else (error,)

    async def _leave_group(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        error = self._group(request.group).leave(request.member_id)
        return (0, error) if version >= 1 else (error,)

    async def _describe_groups(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        answers = []
        for name in request.groups:
            found = self._group(name)
            state = found.state if found.members or name in self._storage.offsets else "Dead"
            members = [
                (m.name, m.asks.client, m.asks.host, m.asks.protocols.get(found.protocol, b""), m.assignment)
                for m in found.members.values()
            ]
            answers.append((0, name, state, found.protocol_type, found.protocol, members))
        return (0, answers) if version >= 1 else (answers,)

    async def _list_groups(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        names = self._storage.offsets.keys() | {each.name for each in self._groups.values() if each.members}
        answers = [(name, self._group(name).protocol_type) for name in sorted(names)]
        return (0, 0, answers) if version >= 1 else (0, answers)

    async def _delete_groups(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        answers = []
        for name in request.groups_names:
            if self._group(name).members:
                answers.append((name, errors.NonEmptyGroup.errno))
            elif name not in self._storage.offsets:
                answers.append((name, errors.GroupIdNotFound.errno))
            else:
                self._storage.forget_group(name)
                answers.append((name, 0))
        return (0, answers)

    async def _offset_commit(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        found = self._group(request.consumer_group)
        error = 0
        if found.members or request.consumer_group_generation_id >= 0:
            error = found.error_of(request.consumer_group_generation_id, request.consumer_id, None)
        if not error:
            self._storage.commit_offsets(_offsets(request.consumer_group, request.topics))
        answers = [(topic, [(each[0], error) for each in partitions]) for topic, partitions in request.topics]
        return (0, answers) if version >= 3 else (answers,)

    async def _offset_fetch(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        committed = self._storage.offsets.get(request.consumer_group, {})
        asked: Iterable[tuple[str, list[int]]] = request.topics or ()
        if request.topics is None:
            names = sorted({topic for topic, _ in committed})
            asked = [(name, sorted(number for topic, number in committed if topic == name)) for name in names]
        topics = [
            (topic, [(number, *committed.get((topic, number), (-1, "")), 0) for number in partitions])
            for topic, partitions in asked
        ]
        if version >= 3:
            return (0, topics, 0)
        return (topics, 0) if version >= 2 else (topics,)

    def _group(self, name: str) -> Group:
        """A group that nobody is in is not kept."""
        return self._groups.get(name) or Group(name)

    # -- transactions ------------------------------------------------------------------------------------------------

    async def _init_producer(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        if request.transactional_id is None:
            return (0, 0, self._storage.new_producer(), 0)
        try:
            return (0, 0, *self._storage.start_producer(request.transactional_id, request.transaction_timeout_ms))
        except Refused as refused:
            return (0, refused.code, -1, -1)

    async def _add_partitions(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        places = [(topic, partition) for topic, partitions in request.topics for partition in partitions]
        error = self._refusal(
            lambda: self._storage.add_to_transaction(
                request.transactional_id, request.producer_id, request.producer_epoch, places=places
            )
        )
        return (0, [(topic, [(each, error) for each in partitions]) for topic, partitions in request.topics])

    async def _add_offsets(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        error = self._refusal(
            lambda: self._storage.add_to_transaction(
                request.transactional_id, request.producer_id, request.producer_epoch
            )
        )
        return (0, error)

    async def _transaction_offsets(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        offsets = _offsets(request.group_id, request.topics)
        error = self._refusal(
            lambda: self._storage.add_to_transaction(
                request.transactional_id, request.producer_id, request.producer_epoch, offsets=offsets
            )
        )
        return (0, [(topic, [(each[0], error) for each in partitions]) for topic, partitions in request.topics])

    async def _end_transaction(self, request: Any, version: int, client: Client) -> tuple[Any, ...]:
        error = self._refusal(
            lambda: self._storage.end_transaction(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                committed=request.transaction_result,
            )
        )
        return (0, error)

    @staticmethod
    def _refusal(action: Callable[[], None]) -> int:
        try:
            action()
        except Refused as refused:
            return refused.code
        return 0


def _versions() -> list[tuple[int, int, int]]:
    return [(key, lowest, highest) for key, (lowest, highest) in VERSIONS.items()]


def _offsets(group_id: str, topics: Iterable[tuple[str, Iterable[tuple[int, int, str]]]]) -> Offsets:
    return [
        (group_id, topic, partition, offset_, metadata_ or "")
        for topic, partitions in topics
        for partition, offset_, metadata_ in partitions
    ]
