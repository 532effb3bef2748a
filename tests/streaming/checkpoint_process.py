"""A worker whose first checkpoint of several parts stops half-way, until a file says to go on.

python -m tests.streaming.checkpoint_process FOLDER: writes FOLDER/half-way when it is there, waits for FOLDER/go-on.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from topics import checkpoints, transaction
from topics.settings import Settings
from topics.topic import Topics
from topics.worker import run_worker

PART_BYTES = 1_500
"""So small that the checkpoint of a small world has many parts, each a batch of its own."""
HALF_WAY = 3


def _first(path: Path) -> bool:
    """Whether this process is the one that stops: it names itself in the file."""
    mine = path.with_name(str(os.getpid()))
    mine.write_text(str(os.getpid()))
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    return True


def main() -> int:
    folder = Path(sys.argv[1])
    settings = Settings.from_environment()
    topic = Topics.of(settings).checkpoints.name
    checkpoints.PART_BYTES = PART_BYTES  # type: ignore[misc]
    transaction.BATCH_BYTES = PART_BYTES
    new_producer = transaction.new_producer

    def stopping_producer(*arguments: Any) -> Any:
        producer = new_producer(*arguments)
        send, parts = producer.send_batch, 0

        async def send_batch(batch: Any, name: str, *, partition: int) -> Any:
            nonlocal parts
            sent = await send(batch, name, partition=partition)
            if name == topic:
                parts += 1
                if parts == HALF_WAY and _first(folder / "half-way"):
                    await sent
                    while not (folder / "go-on").exists():
                        await asyncio.sleep(0.02)
            return sent

        producer.send_batch = send_batch
        return producer

    import topics.partition

    topics.partition.new_producer = stopping_producer  # type: ignore[assignment]
    return run_worker(settings, log_level="INFO")


if __name__ == "__main__":
    sys.exit(main())
