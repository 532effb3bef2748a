"""Looks whether the broker is there, all the time, so that a worker that waits says for what and how long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from topics.admin import BrokerUnreachable
from topics.diagnosis import why_unreachable
from topics.settings import Settings

logger = logging.getLogger("topics.watch")

LOOK_SECONDS = 5.0
ANSWER_SECONDS = 10.0
REPEAT_SECONDS = 60.0


class BrokerWatch:
    """The clients wait for a broker that is away as long as it takes; this ends the wait when patience is over."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._patience = settings.broker_patience_seconds
        self._client: AIOKafkaClient | None = None

    async def run(self) -> None:
        """Until cancelled; raises BrokerUnreachable where no broker served for longer than the patience."""
        away: float | None = None
        told = 0.0
        try:
            while True:
                began = time.monotonic()
                if await self._answers():
                    if away is not None:
                        logger.warning(
                            "the broker at %s is back after %.0f s", self._settings.bootstrap_servers, began - away
                        )
                    away = None
                else:
                    away = began if away is None else away
                    gone = time.monotonic() - away
                    if gone >= self._patience or began - told >= REPEAT_SECONDS:
                        told = began
                        await self._say(gone)
                await asyncio.sleep(min(LOOK_SECONDS, self._patience / 4))
        finally:
            if self._client is not None:
                await self._client.close()

    async def _say(self, gone: float) -> None:
        servers, reason = self._settings.bootstrap_servers, (await why_unreachable(self._settings)).text
        if gone >= self._patience:
            raise BrokerUnreachable(
                f"no Kafka broker served at {servers} for {gone:.0f} s: {reason}. The worker stops; start it again "
                "when the broker is back: it goes on where the log says"
            )
        logger.error(
            "no Kafka broker serves at %s: %s. Waiting for it, %.0f s more (QUOTA_LEDGER_BROKER_PATIENCE_SECONDS)",
            servers,
            reason,
            self._patience - gone,
        )

    async def _answers(self) -> bool:
        with contextlib.suppress(KafkaError, OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._client is None:
                    client = AIOKafkaClient(**self._settings.client())
                    try:
                        await client.bootstrap()
                    except BaseException:
                        await client.close()
                        raise
                    self._client = client
                return bool(await self._client.force_metadata_update())
        return False
