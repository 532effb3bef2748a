"""How the garbage collector is set for a process that folds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (100_000, 20, 50)


def settle_garbage_collection() -> None:
    """A fold keeps what it keeps, and nothing in it refers back: looking through all of it for cycles after every few
    hundred objects only costs time. What lives already is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Millions of objects that all stay: looking through them for garbage again and again doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def keep_what_lives() -> None:
    """After a state was loaded: the collector does not look through it, until `look_at_everything`."""
    gc.freeze()


def look_at_everything() -> None:
    """Before a state is dropped: what refers to itself in circles would stay for ever otherwise."""
    gc.unfreeze()
