"""A failing log made minimal: records are left out as long as the same thing fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.simulation.broken import Broken
from tests.simulation.simulation import Tally, observe, run_worker


def failure_of(records: list[bytes], seed: int, *, worker: bool) -> str | None:
    """The name of what does not hold, if something does not."""
    try:
        observe(records)
        if worker:
            run_worker(seed, records, Tally())
    except Broken as problem:
        return problem.name
    return None


def shrink(records: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Halves, quarters and so on are left out, down to single records."""
    size = max(1, len(records) // 2)
    while True:
        at = 0
        while at < len(records):
            shorter = records[:at] + records[at + size :]
            if shorter and fails(shorter):
                records = shorter
            else:
                at += size
        if size == 1:
            return records
        size //= 2


def saved(records: list[bytes], problem: Broken, seed: int, folder: Path) -> Path:
    """The minimal log as a file that `quota-ledger replay` reads."""
    worker = failure_of(records, seed, worker=False) != problem.name
    if failure_of(records, seed, worker=worker) == problem.name:
        records = shrink(records, lambda some: failure_of(some, seed, worker=worker) == problem.name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}.jsonl"
    path.write_bytes(b"".join(record.replace(b"\n", b" ") + b"\n" for record in records))
    return path
