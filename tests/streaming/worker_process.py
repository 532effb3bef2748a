"""A worker in a process of its own, as the tests start, kill and stop it.

python -m tests.streaming.worker_process counting|ledger [seconds that a transaction sleeps, at most]
"""

from __future__ import annotations

import asyncio
import random
import sys

from tests.streaming.counting_fold import CountingFold
from topics.folding import FoldFactory, ledger_fold
from topics.settings import Settings
from topics.worker import run_worker


def main() -> int:
    fold: FoldFactory = CountingFold if sys.argv[1] == "counting" else ledger_fold
    longest = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0

    async def sleep_inside() -> None:
        await asyncio.sleep(random.random() * longest)

    return run_worker(
        Settings.from_environment(), fold=fold, inside_transaction=sleep_inside if longest else None, log_level="INFO"
    )


if __name__ == "__main__":
    sys.exit(main())
