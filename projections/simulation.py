"""`quota-ledger-sim`: the simulation of the test suite, for hours; it is there in a checkout only."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import cast


def main() -> int:
    """Entry point of the command."""
    if find_spec("tests") is None or find_spec("tests.simulation") is None:
        print("quota-ledger-sim: the simulation is part of the repository, not of the package", file=sys.stderr)
        return 2
    return cast(int, import_module("tests.simulation.__main__").main())
