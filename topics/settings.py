"""Settings of everything that talks to Kafka, read from the environment once."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

DEFAULT_BOOTSTRAP_SERVERS = "127.0.0.1:9092"
DEFAULT_GROUP_ID = "quota-ledger"
DEFAULT_PARTITIONS = 4
DEFAULT_CHUNK_SIZE = 1_000
DEFAULT_SESSION_TIMEOUT_SECONDS = 60.0
DEFAULT_METRICS_PORT = 9464
DEFAULT_CHECKPOINT_EVENTS = 50_000
DEFAULT_CHECKPOINT_SECONDS = 900
DEFAULT_BROKER_PATIENCE_SECONDS = 900

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class InvalidSettings(ValueError):
    """An environment variable holds what cannot be used; the message names the variable."""


@dataclass(frozen=True, kw_only=True)
class Security:
    """How to reach the brokers: protocol, certificates, credentials."""

    protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)

    @property
    def encrypted(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def authenticated(self) -> bool:
        return self.protocol.startswith("SASL_")

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context of a protocol that encrypts, with the client's certificate where there is one."""
        if not self.encrypted:
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        return context


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One worker's, producer's or reader's view of Kafka."""

    bootstrap_servers: str = DEFAULT_BOOTSTRAP_SERVERS
    security: Security = field(default_factory=Security)
    group_id: str = DEFAULT_GROUP_ID
    instance_id: str | None = None
    topic_prefix: str = ""
    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int = 1
    chunk_size: int = DEFAULT_CHUNK_SIZE
    session_timeout_seconds: float = DEFAULT_SESSION_TIMEOUT_SECONDS
    metrics_port: int = DEFAULT_METRICS_PORT
    metrics_host: str = "127.0.0.1"
    checkpoint_events: int = DEFAULT_CHECKPOINT_EVENTS
    checkpoint_seconds: int = DEFAULT_CHECKPOINT_SECONDS
    broker_patience_seconds: int = DEFAULT_BROKER_PATIENCE_SECONDS
    """How long a worker waits for a broker that went away."""
    rebuild: bool = False
    """Whether partitions are folded from the start of the log, whatever checkpoints there are."""

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
        """Settings named by `KAFKA_*` and `QUOTA_LEDGER_*` variables, defaults for the rest."""
        variables = os.environ if environment is None else environment
        return Settings(
            bootstrap_servers=variables.get("KAFKA_BOOTSTRAP_SERVERS") or DEFAULT_BOOTSTRAP_SERVERS,
            security=_security(variables),
            group_id=variables.get("QUOTA_LEDGER_GROUP_ID") or DEFAULT_GROUP_ID,
            instance_id=variables.get("QUOTA_LEDGER_INSTANCE_ID") or None,
            topic_prefix=variables.get("QUOTA_LEDGER_TOPIC_PREFIX", ""),
            partitions=_whole_number(variables, "QUOTA_LEDGER_PARTITIONS", DEFAULT_PARTITIONS, 1, 10_000),
            replication_factor=_whole_number(variables, "QUOTA_LEDGER_REPLICATION_FACTOR", 1, 1, 100),
            chunk_size=_whole_number(variables, "QUOTA_LEDGER_CHUNK_SIZE", DEFAULT_CHUNK_SIZE, 1, 100_000),
            session_timeout_seconds=float(
                _whole_number(
                    variables, "QUOTA_LEDGER_SESSION_TIMEOUT_SECONDS", int(DEFAULT_SESSION_TIMEOUT_SECONDS), 1, 1_800
                )
            ),
            metrics_port=_whole_number(variables, "QUOTA_LEDGER_METRICS_PORT", DEFAULT_METRICS_PORT, 0, 65_535),
            metrics_host=variables.get("QUOTA_LEDGER_METRICS_HOST") or "127.0.0.1",
            checkpoint_events=_whole_number(
                variables, "QUOTA_LEDGER_CHECKPOINT_EVENTS", DEFAULT_CHECKPOINT_EVENTS, 0, 10**9
            ),
            checkpoint_seconds=_whole_number(
                variables, "QUOTA_LEDGER_CHECKPOINT_SECONDS", DEFAULT_CHECKPOINT_SECONDS, 0, 10**9
            ),
            broker_patience_seconds=_whole_number(
                variables, "QUOTA_LEDGER_BROKER_PATIENCE_SECONDS", DEFAULT_BROKER_PATIENCE_SECONDS, 1, 7 * 24 * 3600
            ),
            rebuild=bool(_whole_number(variables, "QUOTA_LEDGER_REBUILD", 0, 0, 1)),
        )

    @property
    def servers(self) -> list[str]:
        return [server.strip() for server in self.bootstrap_servers.split(",") if server.strip()]

    def replaced(self, **changes: Any) -> Settings:
        return replace(self, **changes)

    def client(self) -> dict[str, Any]:
        """Keyword arguments common to every aiokafka client."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.servers,
            "client_id": "quota-ledger",
            "security_protocol": self.security.protocol,
            "ssl_context": self.security.ssl_context(),
        }
        if self.security.authenticated:
            arguments["sasl_mechanism"] = self.security.sasl_mechanism
            arguments["sasl_plain_username"] = self.security.sasl_username
            arguments["sasl_plain_password"] = self.security.sasl_password
        return arguments

    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings (secrets and files are passed on as they are)."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "QUOTA_LEDGER_GROUP_ID": self.group_id,
            "QUOTA_LEDGER_INSTANCE_ID": self.instance_id or "",
            "QUOTA_LEDGER_TOPIC_PREFIX": self.topic_prefix,
            "QUOTA_LEDGER_PARTITIONS": str(self.partitions),
            "QUOTA_LEDGER_REPLICATION_FACTOR": str(self.replication_factor),
            "QUOTA_LEDGER_CHUNK_SIZE": str(self.chunk_size),
            "QUOTA_LEDGER_SESSION_TIMEOUT_SECONDS": str(int(self.session_timeout_seconds)),
            "QUOTA_LEDGER_METRICS_PORT": str(self.metrics_port),
            "QUOTA_LEDGER_METRICS_HOST": self.metrics_host,
            "QUOTA_LEDGER_CHECKPOINT_EVENTS": str(self.checkpoint_events),
            "QUOTA_LEDGER_CHECKPOINT_SECONDS": str(self.checkpoint_seconds),
            "QUOTA_LEDGER_BROKER_PATIENCE_SECONDS": str(self.broker_patience_seconds),
            "QUOTA_LEDGER_REBUILD": str(int(self.rebuild)),
        }


def _security(variables: Mapping[str, str]) -> Security:
    protocol = (variables.get("KAFKA_SECURITY_PROTOCOL") or "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise InvalidSettings(f"KAFKA_SECURITY_PROTOCOL is {protocol!r}, not one of {', '.join(SECURITY_PROTOCOLS)}")
    mechanism = (variables.get("KAFKA_SASL_MECHANISM") or "PLAIN").upper()
    if mechanism not in SASL_MECHANISMS:
        raise InvalidSettings(f"KAFKA_SASL_MECHANISM is {mechanism!r}, not one of {', '.join(SASL_MECHANISMS)}")
    security = Security(
        protocol=protocol,
        sasl_mechanism=mechanism,
        sasl_username=variables.get("KAFKA_SASL_USERNAME") or None,
        sasl_password=variables.get("KAFKA_SASL_PASSWORD") or None,
        ca_file=variables.get("KAFKA_SSL_CA_FILE") or None,
        certificate_file=variables.get("KAFKA_SSL_CERTIFICATE_FILE") or None,
        key_file=variables.get("KAFKA_SSL_KEY_FILE") or None,
        key_password=variables.get("KAFKA_SSL_KEY_PASSWORD") or None,
    )
    if security.authenticated and (security.sasl_username is None or security.sasl_password is None):
        raise InvalidSettings(f"KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD must be set with {protocol}")
    return security


def _whole_number(variables: Mapping[str, str], name: str, default: int, least: int, greatest: int) -> int:
    text = variables.get(name, "").strip()
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        raise InvalidSettings(f"{name} is {text!r}, not a whole number") from None
    if not least <= number <= greatest:
        raise InvalidSettings(f"{name} is {number}, not between {least} and {greatest}")
    return number
