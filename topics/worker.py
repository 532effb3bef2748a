"""Running the worker: topics verified, metrics answered, signals obeyed."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

from topics import metrics
from topics.admin import ensure_topics
from topics.app import EXIT_FAILURE, leave, new_app
from topics.folding import FoldFactory, ledger_fold
from topics.garbage import settle_garbage_collection
from topics.settings import Settings
from topics.transaction import InsideTransaction
from topics.watch import BrokerWatch

logger = logging.getLogger("topics.worker")

CONNECT_SECONDS = 60.0
STOP_SECONDS = 30.0
REPEAT_SECONDS = 10.0


def run_worker(
    settings: Settings,
    *,
    fold: FoldFactory = ledger_fold,
    inside_transaction: InsideTransaction | None = None,
    log_level: str = "INFO",
) -> int:
    """Fold until SIGTERM or SIGINT. Does not return to the caller where something unexpected happens: it exits."""
    set_up_logging(log_level)
    settle_garbage_collection()
    return asyncio.run(_run(settings, fold, inside_transaction))


async def _run(settings: Settings, fold: FoldFactory, inside_transaction: InsideTransaction | None) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    topics = await ensure_topics(settings, min(CONNECT_SECONDS, settings.broker_patience_seconds))
    if settings.metrics_port:
        metrics.serve(settings.metrics_host, settings.metrics_port)
        logger.info("metrics on http://%s:%d/metrics", settings.metrics_host, settings.metrics_port)
    app = new_app(settings, topics, fold=fold, inside_transaction=inside_transaction)
    app.in_worker = True
    starting = asyncio.ensure_future(app.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is not None:
        leave(starting.exception() or RuntimeError("the worker did not start"))
    logger.info("worker of group %s on %s", settings.group_id, settings.bootstrap_servers)
    watching = asyncio.ensure_future(BrokerWatch(settings).run())
    await asyncio.wait({stopping, watching}, return_when=asyncio.FIRST_COMPLETED)
    if watching.done():
        leave(watching.exception() or RuntimeError("the watch over the broker ended"))
    watching.cancel()
    logger.info("stopping")
    app.leaving = True
    try:
        await asyncio.wait_for(app.partitions.close(), STOP_SECONDS)
        await asyncio.wait_for(app.stop(), STOP_SECONDS)
    except Exception:
        logger.exception("did not stop cleanly; the log is what counts")
        return _exit(EXIT_FAILURE)
    logger.info("stopped")
    return _exit(0)


def _exit(code: int) -> int:
    """All is committed: what Faust still has running is not worth waiting for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Repeats:
    """Lets a client's complaint through once in a while: without a broker each client makes it ten times a second."""

    def __init__(self, seconds: float = REPEAT_SECONDS) -> None:
        self._seconds = seconds
        self._last: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("aiokafka"):
            return True
        key = (record.name, str(record.msg))
        now = time.monotonic()
        if now - self._last.get(key, -self._seconds) < self._seconds:
            return False
        self._last[key] = now
        return True


def set_up_logging(level: str) -> None:
    """One line a record on standard error. Debug records are not even built: they cost a quarter of the throughput."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-8s %(name)s: %(message)s", stream=sys.stderr)
    logging.disable(logging.DEBUG)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeats())
    for noisy in ("faust", "mode", "aiokafka"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
