"""The embedded broker: what it answered survives a kill, a transaction is whole or nothing, groups move on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, ProducerFenced
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from topics.broker import BrokerNotStarted, EmbeddedBroker
from topics.embedded.batches import Damaged, header, marker
from topics.embedded.journal import Journal, Transactional
from topics.embedded.log import PartitionLog, Refused
from topics.embedded.storage import Storage

NOBODY = -1


def batch_of(
    *records: tuple[bytes | None, bytes], producer: int = NOBODY, epoch: int = 0, sequence: int = 0, open_: bool = False
) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=int(open_),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for number, (key, value) in enumerate(records):
        builder.append(number, timestamp=1_000 + number, key=key, value=value, headers=[])
    return bytes(builder.build())


def values(log: PartitionLog, *, committed: bool = True) -> list[int]:
    """Base offsets of the batches that a reader gets, control batches left out."""
    found, offset = [], 0
    while data := log.read(offset, 1, committed=committed).data:
        batch = header(data)
        if not batch.control:
            found.append(batch.base_offset)
        offset = batch.last_offset + 1
    return found


LARGE = 1 << 20


def test_a_batch_that_a_kill_cut_short_is_cut_off_and_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = PartitionLog(path)
    for number in range(3):
        log.append(batch_of((b"k", b"%d" % number)), largest=LARGE)
    log.close()
    whole = path.read_bytes()
    for cut in (1, 30, 70):
        path.write_bytes(whole[:-cut])
        again = PartitionLog(path)
        assert (again.end, values(again)) == (2, [0, 1])
        assert again.append(batch_of((b"k", b"new")), largest=LARGE) == 2
        again.close()
        assert len(path.read_bytes()) > len(whole)


def test_a_last_batch_with_a_flipped_byte_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = PartitionLog(path)
    log.append(batch_of((b"k", b"first")) + batch_of((b"k", b"second")), largest=LARGE)
    log.close()
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert PartitionLog(path).end == 1


def test_what_is_no_batch_or_too_large_or_out_of_order_is_refused(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0.log")
    body = batch_of((b"k", b"value"), producer=7)
    for wrong in (b"", b"x" * 100, body[:-1], body[:70] + b"\x00" + body[71:]):
        with pytest.raises(Damaged):
            log.append(wrong, largest=LARGE)
    with pytest.raises(Refused, match="MessageSizeTooLarge"):
        log.append(body, largest=10)
    assert log.append(body, largest=LARGE) == 0
    assert log.append(body, largest=LARGE) == 0, "sent again, written once"
    with pytest.raises(Refused, match="OutOfOrder"):
        log.append(batch_of((b"k", b"value"), producer=7, sequence=5), largest=LARGE)
    assert log.end == 1


def test_readers_of_committed_records_stop_before_an_open_transaction_and_are_told_of_aborted_ones(
    tmp_path: Path,
) -> None:
    log = PartitionLog(tmp_path / "0.log")
    log.append(batch_of((b"k", b"plain")), largest=LARGE)
    log.append(batch_of((b"k", b"gone"), producer=1, open_=True), largest=LARGE)
    log.append(batch_of((b"k", b"kept"), producer=2, open_=True), largest=LARGE)
    assert (log.stable_end, values(log), values(log, committed=False)) == (1, [0], [0, 1, 2])
    log.end_transaction(1, 0, committed=False)
    assert log.stable_end == 2
    log.end_transaction(2, 0, committed=True)
    log.end_transaction(2, 0, committed=True)
    assert (log.stable_end, log.end) == (5, 5), "ended once"
    reloaded = PartitionLog(log.path)
    for each in (log, reloaded):
        assert [(gone.producer, gone.first_offset) for gone in each.read(0, LARGE, committed=True).aborted] == [(1, 1)]
        assert each.read(4, LARGE, committed=True).aborted == []


def test_a_compacted_log_has_the_newest_of_every_key_and_the_same_offsets(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0.log", compacted=True)
    for turn in range(5):
        records = [(b"part-%d" % part, b"%d" % turn) for part in range(3)]
        log.append(batch_of(*records, producer=1, sequence=turn * 3, open_=True), largest=LARGE)
        log.end_transaction(1, 0, committed=True)
    log.append(batch_of((b"part-0", b"aborted"), producer=2, open_=True), largest=LARGE)
    log.end_transaction(2, 0, committed=False)
    end, size = log.end, log.size
    log.compact()
    for each in (log, PartitionLog(log.path, compacted=True)):
        assert (each.end, each.stable_end) == (end, end)
        assert each.size < size
        assert values(each) == [16, 20]
        assert [gone.producer for gone in each.read(0, LARGE, committed=True).aborted] == [2]
        assert each.append(batch_of((b"part-1", b"9"), producer=1, sequence=15, open_=True), largest=LARGE) >= end
        each.end_transaction(1, 0, committed=False)


@pytest.mark.parametrize("state", ["commit", "abort"])
def test_a_transaction_that_was_decided_before_the_kill_is_finished_at_the_start(tmp_path: Path, state: str) -> None:
    storage = Storage(tmp_path)
    storage.create("a", 1, {})
    storage.create("b", 1, {})
    producer, epoch = storage.start_producer("me", 60_000)
    storage.add_to_transaction("me", producer, epoch, places=[("a", 0), ("b", 0)])
    storage.add_to_transaction("me", producer, epoch, offsets=[("group", "a", 0, 42, "")])
    for topic in ("a", "b"):
        storage.produce(topic, 0, batch_of((b"k", b"v"), producer=producer, epoch=epoch, open_=True))
    # Killed between the decision and the second marker.
    storage.log("a", 0).end_transaction(producer, epoch, committed=state == "commit")
    journal = Journal(tmp_path / "journal.jsonl")
    entry = journal.state.transactional["me"]
    journal.add(Transactional("me", producer, epoch, 60_000, state, entry.partitions, entry.offsets))
    again = Storage(tmp_path)
    for topic in ("a", "b"):
        log = again.log(topic, 0)
        assert (log.end, log.stable_end) == (2, 2)
        assert bool(log.read(0, LARGE, committed=True).aborted) == (state == "abort")
    assert again.offsets == ({"group": {("a", 0): (42, "")}} if state == "commit" else {})
    again.end_transaction("me", producer, epoch, committed=state == "commit")
    with pytest.raises(Refused, match="InvalidTxnState"):
        again.end_transaction("me", producer, epoch, committed=state != "commit")


@pytest.mark.parametrize("full", ["a/0.log", "b/0.log", "journal.jsonl"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_what_was_decided_on_a_full_disk_counts_and_is_finished_before_anything_else_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, full: str, committed: bool
) -> None:
    storage = Storage(tmp_path)
    for topic in ("a", "b"):
        storage.create(topic, 1, {})
    me = storage.start_producer("me", 60_000)
    storage.add_to_transaction("me", *me, places=[("a", 0), ("b", 0)], offsets=[("group", "a", 0, 42, "")])
    for topic in ("a", "b"):
        storage.produce(topic, 0, batch_of((b"k", b"v"), producer=me[0], epoch=me[1], open_=True))
    write = os.write
    decided = False

    def write_where_there_is_room(file: int, data: bytes) -> int:
        # The decision itself still found room in the journal.
        nonlocal decided
        last, decided = decided, True
        if last and Path(os.readlink(f"/proc/self/fd/{file}")).match(full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(os, "write", write_where_there_is_room)
    for _ in range(3):
        storage.end_transaction("me", *me, committed=committed)
        storage.tick()
        with pytest.raises(Refused, match="ConcurrentTransactions"):
            storage.add_to_transaction("me", *me, places=[("a", 0)])
        with pytest.raises(Refused, match="ConcurrentTransactions"):
            storage.start_producer("me", 60_000)
    with pytest.raises(Refused, match="InvalidTxnState"):
        storage.end_transaction("me", *me, committed=not committed)
    assert caplog.text.count("make room on its disk") == 1
    monkeypatch.undo()
    storage.tick()
    for again in (storage, Storage(tmp_path)):
        for topic in ("a", "b"):
            assert (again.log(topic, 0).end, again.log(topic, 0).stable_end) == (2, 2)
            assert bool(again.log(topic, 0).read(0, LARGE, committed=True).aborted) != committed
        assert again.offsets == ({"group": {("a", 0): (42, "")}} if committed else {})
    storage.add_to_transaction("me", *me, places=[("a", 0)])


def test_a_transaction_that_nobody_ends_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.create("a", 1, {})
    producer, epoch = storage.start_producer("me", 0)
    storage.add_to_transaction("me", producer, epoch, places=[("a", 0)])
    storage.produce("a", 0, batch_of((b"k", b"v"), producer=producer, epoch=epoch, open_=True))
    again = Storage(tmp_path)
    assert again.log("a", 0).stable_end == 0
    again.tick()
    assert again.log("a", 0).stable_end == 2
    with pytest.raises(Refused, match="InvalidProducerEpoch"):
        again.add_to_transaction("me", producer, epoch, places=[("a", 0)])


def test_a_journal_that_a_kill_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.create("a", 2, {"cleanup.policy": "compact"})
    cluster = storage.cluster
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"type":"topic","name":"b","parti')
    again = Storage(tmp_path)
    assert (list(again.topics), again.cluster) == (["a"], cluster)
    again.delete("a")
    assert list(Storage(tmp_path).topics) == []


def test_the_marker_is_what_clients_take_for_one() -> None:
    from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
    from aiokafka.record.default_records import DefaultRecordBatch

    for committed, expected in ((True, COMMIT_MARKER), (False, ABORT_MARKER)):
        batch = DefaultRecordBatch(marker(5, 7, 3, committed=committed, now_ms=1))
        assert batch.validate_crc()
        assert (batch.is_control_batch, batch.is_transactional, batch.producer_id) == (True, True, 7)
        (record,) = list(batch)
        assert (record.offset, ControlRecord.parse(record.key)) == (5, expected)


# -- over the wire -----------------------------------------------------------------------------------------------------

broker_test = pytest.mark.broker


@contextlib.asynccontextmanager
async def producing(servers: str, **more: object) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=servers, **more)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def create(servers: str, name: str, partitions: int = 1, **config: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
    finally:
        await admin.close()


async def committed_values(servers: str, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        found: list[bytes] = []
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [record.value for record in records]
        return found
    finally:
        await consumer.stop()


@broker_test
def test_what_a_producer_was_told_is_there_after_every_kill(tmp_path: Path) -> None:
    """The broker dies again and again while it is written to; what was acknowledged is there once, in order."""
    broker = EmbeddedBroker(tmp_path)
    told: list[bytes] = []

    async def write(stop: threading.Event) -> None:
        async with producing(broker.bootstrap_servers, enable_idempotence=True, retry_backoff_ms=20) as producer:
            while not stop.is_set():
                value = b"%d" % len(told)
                await producer.send_and_wait("t", value, key=b"k")
                told.append(value)

    with broker:
        asyncio.run(create(broker.bootstrap_servers, "t"))
        stop = threading.Event()
        writer = threading.Thread(target=lambda: asyncio.run(write(stop)))
        writer.start()
        for _ in range(5):
            seen = len(told)
            while len(told) < seen + 20:
                stop.wait(0.01)
            broker.kill()
            broker.start()
        stop.set()
        writer.join()
        assert asyncio.run(committed_values(broker.bootstrap_servers, "t")) == told
    assert len(told) > 100


@broker_test
def test_a_producer_that_starts_fences_the_one_before_and_ends_its_transaction(tmp_path: Path) -> None:
    async def run(servers: str) -> None:
        await create(servers, "t")
        async with producing(servers, transactional_id="me") as first, producing(servers) as plain:
            await first.begin_transaction()
            await first.send_and_wait("t", b"of the first", key=b"k")
            async with producing(servers, transactional_id="me") as second:
                async with second.transaction():
                    await second.send_and_wait("t", b"of the second", key=b"k")
                await plain.send_and_wait("t", b"plain", key=b"k")
                assert await committed_values(servers, "t") == [b"of the second", b"plain"]
                with pytest.raises(ProducerFenced):
                    await first.commit_transaction()

    with EmbeddedBroker(tmp_path) as broker:
        asyncio.run(run(broker.bootstrap_servers))


@broker_test
def test_a_batch_larger_than_the_topic_takes_is_refused_by_name(tmp_path: Path) -> None:
    async def run(servers: str) -> None:
        await create(servers, "t", **{"max.message.bytes": "1000"})
        async with producing(servers) as producer:
            await producer.send_and_wait("t", b"x" * 800)
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait("t", b"x" * 1_200)

    with EmbeddedBroker(tmp_path) as broker:
        asyncio.run(run(broker.bootstrap_servers))


@broker_test
def test_a_member_that_died_is_dropped_after_its_session_and_its_partitions_go_to_the_others(tmp_path: Path) -> None:
    def member(servers: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            "t",
            bootstrap_servers=servers,
            group_id="g",
            session_timeout_ms=1_500,
            heartbeat_interval_ms=200,
            rebalance_timeout_ms=3_000,
        )

    async def until(consumer: AIOKafkaConsumer, count: int) -> None:
        while len(consumer.assignment()) != count:
            await consumer.getmany(timeout_ms=50)

    async def run(servers: str) -> None:
        await create(servers, "t", 4)
        first, second = member(servers), member(servers)
        await first.start()
        await asyncio.wait_for(until(first, 4), 20)
        joining = asyncio.ensure_future(second.start())
        await asyncio.wait_for(until(first, 2), 20)
        await joining
        assert not first.assignment() & second.assignment()
        # It stops without a word: its coordinator says nothing any more.
        await second._coordinator._stop_heartbeat_task()
        second._coordinator._coordination_task.cancel()
        await asyncio.wait_for(until(first, 4), 20)
        await second._client.close()
        await first.stop()

    with EmbeddedBroker(tmp_path) as broker:
        asyncio.run(run(broker.bootstrap_servers))


@broker_test
def test_requests_that_are_none_close_their_connection_and_nothing_else(tmp_path: Path) -> None:
    async def run(broker: EmbeddedBroker) -> None:
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x0a" + bytes(10), b"\x00\x00\x00\x08" + b"\xff" * 8):
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(nonsense)
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        await create(broker.bootstrap_servers, "t")

    with EmbeddedBroker(tmp_path) as broker:
        asyncio.run(run(broker))


@broker_test
def test_a_newer_client_that_asks_for_a_newer_protocol_is_told_the_versions(tmp_path: Path) -> None:
    async def run(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes.fromhex("0000000c") + bytes.fromhex("0012000400000009ffff0000"))
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = await reader.readexactly(size)
        assert answer[:6] == bytes.fromhex("00000009") + (35).to_bytes(2, "big")
        assert bytes.fromhex("001200000002") in answer
        writer.close()

    with EmbeddedBroker(tmp_path) as broker:
        asyncio.run(run(broker.port))


def test_the_log_of_the_broker_before_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    (tmp_path / "kafka.json").write_bytes(b"{}")
    with pytest.raises(BrokerNotStarted, match="move it away"):
        EmbeddedBroker(tmp_path).start()
    assert os.listdir(tmp_path) == ["kafka.json"]
