"""Records decisions and events of the present version as a golden file: python -m tests.golden.record

Run it once for a release; the files of earlier versions are never changed.
"""

from __future__ import annotations

import gzip
import json
import sys
from importlib.metadata import version
from pathlib import Path

from tests.simulation.simulation import Tally, generate, observe_only

HERE = Path(__file__).parent
SEEDS = range(30)
EACH = 12


def recorded() -> dict[str, list[str]]:
    """Some decisions of every type, and some events of every kind."""
    decisions: dict[str, list[str]] = {}
    events: dict[str, list[str]] = {}
    for seed in SEEDS:
        records = generate(seed, Tally())
        for value in observe_only(records).decisions:
            examples = decisions.setdefault(json.loads(value)["type"], [])
            if len(examples) < EACH:
                examples.append(value.decode())
        for record in records:
            if not record.startswith(b'{"cluster":"'):
                continue
            event = json.loads(record)
            examples = events.setdefault(f"{event['type']} {event.get('object', {}).get('kind', '')}", [])
            if len(examples) < 3:
                examples.append(record.decode())
    return {
        "decisions": [value for kind in sorted(decisions) for value in decisions[kind]],
        "events": [value for kind in sorted(events) for value in events[kind]],
    }


def main() -> int:
    path = HERE / f"{version('quota-ledger')}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(recorded(), indent=0).encode(), mtime=0))
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
