"""Speed of the audit beside that of the bare fold, over the same file: python -m benchmarks.audit [EVENTS]"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ledger.fold import Fold
from projections.auditing import Job, run_job
from tests.streaming.fire import load

ROUNDS = 3


def fold_seconds(values: list[bytes]) -> float:
    fold = Fold()
    began = time.process_time()
    for offset, value in enumerate(values):
        fold.apply(value, offset=offset)
    return time.process_time() - began


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    gc.set_threshold(100_000, 20, 50)
    values = [value for _, value in load(count, 1)]
    with tempfile.TemporaryDirectory() as name:
        events, decisions = Path(name) / "quota.events", Path(name) / "decisions.jsonl"
        events.write_bytes(b"".join(value + b"\n" for value in values))
        fold = Fold("quota.events")
        with decisions.open("wb") as file:
            for offset, value in enumerate(values):
                file.writelines(d.value + b"\n" for d in fold.apply(value, offset=offset).decisions)
        del fold
        bare, audited = [], []
        for _ in range(ROUNDS):
            gc.collect()
            bare.append(fold_seconds(values))
            gc.collect()  # what the bare fold left is not the audit's
            began = time.process_time()
            report = run_job(Job(0, events=events, decisions=decisions), lambda partition, events: None)
            audited.append(time.process_time() - began)
            assert not report.result.differences
    fastest, slowest = statistics.median(bare), statistics.median(audited)
    print(f"bare fold {count / fastest:,.0f} events/s, audit {count / slowest:,.0f} events/s of cpu time")
    print(f"the audit takes {100 * (slowest / fastest - 1):.0f} % longer; {report.result.decisions:,} decisions met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
