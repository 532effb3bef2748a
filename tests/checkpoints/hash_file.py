"""Prints the hash of the state of each cluster of a file of events; with a number, restarts that often on the way."""

from __future__ import annotations

import sys
from pathlib import Path

from ledger.checkpoint import hash_of_state, load, save
from ledger.fold import Fold

if __name__ == "__main__":
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    fold = Fold()
    for offset, record in enumerate(Path(sys.argv[1]).read_bytes().splitlines()):
        fold.apply(record, offset=offset)
        if every and offset % every == every - 1:
            fold.clusters = {name: load(save(ledger)) for name, ledger in fold.clusters.items()}
    for _, ledger in sorted(fold.clusters.items()):
        print(hash_of_state(save(ledger)))
