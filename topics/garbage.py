"""How the garbage collector is set for a process that folds."""

from __future__ import annotations

import gc

THRESHOLDS = (100_000, 20, 50)


def settle_garbage_collection() -> None:
    """A fold keeps what it keeps, and nothing in it refers back: looking through all of it for cycles after every few
    hundred objects only costs time. What lives already is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
