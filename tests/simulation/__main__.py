"""`quota-ledger-sim`: simulate seeds until told to stop; report what was simulated and what it found."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.simulation.broken import Broken
from tests.simulation.shrinking import saved
from tests.simulation.simulation import STEPS, Tally, simulate

SAY_SECONDS = 10.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="quota-ledger-sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds; 0: until time or events are over")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long; 0: without end")
    parser.add_argument("--events", type=int, default=0, help="how many events; 0: without end")
    parser.add_argument("--steps", type=int, default=STEPS, help="things that happen in one world")
    parser.add_argument("--failures", type=Path, default=Path("quota-ledger-sim-failures"), help="where logs go")
    asked = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    tally, failures = Tally(), 0
    began = told = time.monotonic()
    seed = asked.seed
    while True:
        done = (
            (asked.seeds and seed >= asked.seed + asked.seeds)
            or (asked.seconds and time.monotonic() - began >= asked.seconds)
            or (asked.events and tally.events >= asked.events)
        )
        if done:
            break
        try:
            simulate(seed, tally, asked.steps)
        except Broken as problem:
            failures += 1
            path = saved(problem.records, problem, seed, asked.failures)
            print(f"seed {seed}: {str(problem)[:600]}\n  minimal log: {path}", flush=True)
        seed += 1
        if time.monotonic() - told > SAY_SECONDS:
            told = time.monotonic()
            print(
                f"{seed - asked.seed} seeds, {tally.events:,} events, {failures} failures", file=sys.stderr, flush=True
            )
    print(
        f"seeds {asked.seed} to {seed - 1}: {tally.events:,} events, {tally.decisions:,} decisions, "
        f"{tally.kills:,} kills, {tally.fenced:,} zombies fenced, {tally.checkpoints:,} checkpoints, "
        f"{failures} failures in {time.monotonic() - began:.0f} s"
    )
    print(f"{tally.ticks:,} ticks; reasons: " + ", ".join(f"{of} {n:,}" for of, n in sorted(tally.reasons.items())))
    print("decisions: " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.types.items())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
