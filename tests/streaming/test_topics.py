"""Topics, settings, codecs and the Faust table: what everybody must agree on."""

from __future__ import annotations

import asyncio

import faust
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from tests.streaming.counting_fold import Rejection, Row, RowKey
from topics.admin import BrokerUnreachable, TopicMismatch, ensure_topics
from topics.broker import free_port
from topics.codec import (
    APPLIED_KEY,
    RejectedMember,
    dead_letter_headers,
    decode_applied,
    decode_dead_letter,
    decode_row_key,
    encode_applied,
    encode_row_key,
)
from topics.reader import wait_until_readable
from topics.settings import InvalidSettings, Settings
from topics.table import QuotaTable
from topics.topic import Topics, partition_of


def test_a_cluster_is_in_the_partition_that_every_default_partitioner_gives_its_key() -> None:
    # From the Java client: Utils.toPositive(Utils.murmur2(key)) % 4.
    assert {name: partition_of(name, 4) for name in ("21", "foobar", "a-little-bit-long-string")} == {
        "21": (-973932308 & 0x7FFFFFFF) % 4,
        "foobar": (-790332482 & 0x7FFFFFFF) % 4,
        "a-little-bit-long-string": (-985981536 & 0x7FFFFFFF) % 4,
    }


@given(st.text(max_size=60), st.integers(1, 64))
def test_the_partition_of_a_cluster_is_that_of_the_python_client(cluster: str, partitions: int) -> None:
    everything = list(range(partitions))
    assert partition_of(cluster, partitions) == DefaultPartitioner()(cluster.encode(), everything, everything)


@pytest.mark.broker
def test_topics_are_created_once_with_the_same_number_of_partitions(settings: Settings) -> None:
    async def run() -> None:
        await asyncio.gather(*(ensure_topics(settings) for _ in range(3)))
        admin = AIOKafkaAdminClient(**settings.client())
        await admin.start()
        try:
            names = [topic.name for topic in Topics.of(settings).all()]
            described = await admin.describe_topics(names)
            assert {topic["topic"]: len(topic["partitions"]) for topic in described} == dict.fromkeys(names, 4)
        finally:
            await admin.close()

    asyncio.run(run())


@pytest.mark.broker
def test_a_topic_with_another_number_of_partitions_is_refused(settings: Settings) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(**settings.client())
        await admin.start()
        try:
            await admin.create_topics([NewTopic(Topics.of(settings).decisions.name, 3, 1)])
        finally:
            await admin.close()
        with pytest.raises(TopicMismatch, match=r"quota\.decisions has 3 partitions, not 4"):
            await ensure_topics(settings)

    asyncio.run(run())


@pytest.mark.broker
def test_topics_on_apache_kafka_keep_events_for_ever_and_compact_the_table(kafka_settings: Settings) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    settings = kafka_settings

    async def run() -> None:
        topics = await ensure_topics(settings)
        admin = AIOKafkaAdminClient(**settings.client())
        await admin.start()
        try:
            for topic in topics.all():
                (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name)])
                found = {entry[0]: entry[1] for entry in answer.resources[0][4]}
                assert found.items() >= topic.config.items()
        finally:
            await admin.close()

    asyncio.run(run())


def test_a_missing_broker_is_named_with_what_to_do() -> None:
    settings = Settings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    with pytest.raises(BrokerUnreachable, match="set KAFKA_BOOTSTRAP_SERVERS, or start one with `quota-ledger up`"):
        asyncio.run(ensure_topics(settings, patience_seconds=0.5))


def test_settings_come_from_the_environment() -> None:
    settings = Settings.from_environment(
        {
            "KAFKA_BOOTSTRAP_SERVERS": "a:1, b:2",
            "KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KAFKA_SASL_USERNAME": "ledger",
            "KAFKA_SASL_PASSWORD": "secret",
            "QUOTA_LEDGER_CHUNK_SIZE": "500",
            "QUOTA_LEDGER_INSTANCE_ID": "ledger-0",
        }
    )
    assert settings.servers == ["a:1", "b:2"]
    assert (settings.chunk_size, settings.instance_id) == (500, "ledger-0")
    client = settings.client()
    assert client["sasl_mechanism"] == "SCRAM-SHA-512"
    assert client["ssl_context"] is not None
    assert "secret" not in repr(settings)


def test_settings_of_another_process_are_these_settings() -> None:
    settings = Settings(bootstrap_servers="a:1", group_id="g", instance_id="i", chunk_size=7, metrics_port=0)
    assert Settings.from_environment(settings.environment()) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA_SECURITY_PROTOCOL", "TLS"),
        ("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT"),
        ("KAFKA_SASL_MECHANISM", "GSSAPI"),
        ("QUOTA_LEDGER_CHUNK_SIZE", "0"),
        ("QUOTA_LEDGER_PARTITIONS", "four"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=r"KAFKA_S|QUOTA_LEDGER_"):
        Settings.from_environment({name: value})


@given(st.tuples(st.text(), st.text(), st.text(), st.text()))
def test_row_keys_go_there_and_back_and_are_never_the_applied_key(key: tuple[str, str, str, str]) -> None:
    assert decode_row_key(encode_row_key(key)) == key
    assert encode_row_key(key) != APPLIED_KEY


def test_the_applied_offset_goes_there_and_back() -> None:
    assert decode_applied(encode_applied(1_234_567)) == 1_234_567


def test_a_dead_letter_tells_where_it_was_and_every_reason_in_bounds() -> None:
    rejections = [
        Rejection("eu-1", 7, 3, "events[3].object", "no kind", b"x"),
        Rejection("eu-1", 7, 4, "p" * 5_000, "r" * 5_000, b"x"),
    ]
    letter = decode_dead_letter(b"x", dead_letter_headers("quota.events", 2, 7, rejections))
    assert (letter.cluster, letter.topic, letter.partition, letter.offset, letter.value) == (
        "eu-1",
        "quota.events",
        2,
        7,
        b"x",
    )
    assert letter.rejections == (
        RejectedMember(3, "events[3].object", "no kind"),
        RejectedMember(4, "p" * 1_000, "r" * 1_000),
    )


def test_the_faust_table_keeps_changes_for_the_transaction() -> None:
    table = QuotaTable(faust.App("table-of-a-test", store="memory://"), 0)
    first, second = RowKey("eu", "a", "f", "gpu"), RowKey("eu", "b", "f", "gpu")
    table.load({first: Row(1, 0)})
    assert table.take_changes() == []
    table[second] = Row(2, 1)
    del table[first]
    assert dict(table.data) == {second: Row(2, 1)}
    assert table.take_changes() == [
        (encode_row_key(second), b'{"events":2,"last_offset":1}'),
        (encode_row_key(first), None),
    ]
    assert table.take_changes() == []


@pytest.mark.broker
def test_readers_wait_for_a_transaction_that_is_not_over_and_say_where_it_stays_open(settings: Settings) -> None:
    async def run() -> None:
        await ensure_topics(settings)
        topic = Topics.of(settings).decisions.name
        producer = AIOKafkaProducer(**settings.client(), transactional_id=settings.group_id)
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"decision", partition=1)
            with pytest.raises(TimeoutError, match=f"a transaction stays open in {topic}"):
                await wait_until_readable(settings, 0.2)
            waiting = asyncio.create_task(wait_until_readable(settings, 60))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            await producer.commit_transaction()
            await waiting
        finally:
            await producer.stop()

    asyncio.run(run())
