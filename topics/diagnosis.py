"""Why a broker does not answer: one sentence that says what to do, from a connection of its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from aiokafka import errors
from aiokafka.conn import create_conn

from topics.settings import Settings

CONNECT_MS = 5_000


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong. `final`: trying again cannot help."""

    text: str
    final: bool = False


async def why_unreachable(settings: Settings) -> Diagnosis:
    """Connects to each server in turn and says what stands in the way at the first."""
    found = Diagnosis("no address is named")
    for server in settings.servers:
        host, _, port = server.rpartition(":")
        try:
            found = await _connect(settings, host or server, int(port) if host else 9092)
        except ValueError:
            return Diagnosis(f"{server!r} is no host:port; set KAFKA_BOOTSTRAP_SERVERS", final=True)
        if found.final:
            return found
    return found


async def _connect(settings: Settings, host: str, port: int) -> Diagnosis:
    security = settings.security
    try:
        connection = await create_conn(
            host,
            port,
            request_timeout_ms=CONNECT_MS,
            security_protocol=security.protocol,
            ssl_context=security.ssl_context(),
            sasl_mechanism=security.sasl_mechanism,
            sasl_plain_username=security.sasl_username,
            sasl_plain_password=security.sasl_password,
        )
    except Exception as problem:
        return _meaning(problem, settings)
    connection.close()
    return Diagnosis("it answers, but does not serve: it may still be starting")


def _meaning(problem: BaseException, settings: Settings) -> Diagnosis:
    security = settings.security
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Diagnosis(
                f"its certificate is not trusted ({cause.verify_message}); set KAFKA_SSL_CA_FILE to the authority's "
                "certificate",
                final=True,
            )
        if isinstance(cause, ssl.SSLError):
            return Diagnosis(
                f"it does not speak TLS as asked ({cause.reason}); see KAFKA_SECURITY_PROTOCOL", final=True
            )
        if isinstance(cause, errors.UnsupportedSaslMechanismError):
            return Diagnosis(
                f"it does not accept {security.sasl_mechanism}; set KAFKA_SASL_MECHANISM to one it enables", final=True
            )
        if isinstance(
            cause, errors.AuthenticationFailedError | errors.SaslAuthenticationFailed | errors.IllegalSaslStateError
        ):
            return Diagnosis(
                f"it refuses user {security.sasl_username!r}; check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
                final=True,
            )
        cause = cause.__cause__ or cause.__context__
    if isinstance(problem, ConnectionRefusedError) or "Connect call failed" in str(problem):
        return Diagnosis("nothing listens there; set KAFKA_BOOTSTRAP_SERVERS, or start one with `quota-ledger up`")
    if isinstance(problem, TimeoutError):
        return Diagnosis("it does not answer in time; see KAFKA_BOOTSTRAP_SERVERS and KAFKA_SECURITY_PROTOCOL")
    return Diagnosis(f"{type(problem).__name__}: {problem}; see KAFKA_BOOTSTRAP_SERVERS and KAFKA_SECURITY_PROTOCOL")
