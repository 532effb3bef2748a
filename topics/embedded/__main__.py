"""python -m topics.embedded --port PORT --data FOLDER"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import resource
import sys
from pathlib import Path

from topics.embedded.server import Server
from topics.embedded.storage import Storage

HOST = "127.0.0.1"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m topics.embedded", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-8s %(message)s", stream=sys.stderr)
    _allow_many_files()
    storage = Storage(asked.data)
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Server(storage, HOST, asked.port).serve())
    return 0


def _allow_many_files() -> None:
    """A file for each partition that is written to, a connection for each client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


if __name__ == "__main__":
    sys.exit(main())
