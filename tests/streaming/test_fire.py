"""Workers die under load, in small; `python -m tests.streaming.fire` or QUOTA_LEDGER_FIRE=1 run it in full."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.streaming import fire
from tests.streaming.apache_kafka import apache_kafka
from topics.broker import EmbeddedBroker

pytestmark = [pytest.mark.broker, pytest.mark.slow]

FULL = bool(os.environ.get("QUOTA_LEDGER_FIRE"))
SIZE = {"events": 50_000, "kills": 25, "restarts": 2} if FULL else {"events": 4_000, "kills": 4, "restarts": 1}
SEED = int(os.environ.get("QUOTA_LEDGER_FIRE_SEED", "1"))


@pytest.mark.parametrize("new_broker", [apache_kafka, EmbeddedBroker], ids=["kafka", "embedded"])
def test_nothing_is_lost_or_repeated(new_broker: Callable[[Path], Any], tmp_path: Path) -> None:
    broker = new_broker(tmp_path / "broker")
    broker.start()
    try:
        found = fire.run(broker, seed=SEED, folder=tmp_path, **SIZE)
    finally:
        broker.stop()
    assert found.kills >= SIZE["kills"] - 1
    assert found.checkpoints > 0
