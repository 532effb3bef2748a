"""Folds a file of records and prints how many decisions came out and the digest of their bytes."""

from __future__ import annotations

import hashlib
import sys

from ledger.fold import Fold


def main(path: str) -> None:
    fold, digest, count = Fold(), hashlib.sha256(), 0
    with open(path, "rb") as file:
        for offset, line in enumerate(file):
            for decision in fold.apply(line.rstrip(b"\n"), offset=offset, key=b"default").decisions:
                digest.update(decision.value)
                count += 1
    for key, row in fold.drain_rows().items():
        digest.update(repr((key, row)).encode())
    print(count, digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1])
