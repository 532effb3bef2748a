"""Appending to a file on a disk that may be full."""

from __future__ import annotations

import logging
import os
from pathlib import Path

logger = logging.getLogger("topics.embedded")


class DiskFull(OSError):
    """The file did not take it. Said in the log where it began; whoever asked tries again."""


class Appender:
    """All of an entry or nothing; a full disk is said when it begins and when it ends, not at every try."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._full = False

    def append(self, file: int, data: bytes, size: int) -> None:
        """Behind the `size` bytes that the open file has; raises DiskFull, the file as it was."""
        written = 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
        except OSError as problem:
            os.ftruncate(file, size)
            self.refused(problem)
            raise DiskFull(problem.errno, problem.strerror) from None
        if self._full:
            logger.info("there is room for %s again", self._path)
            self._full = False

    def refused(self, problem: OSError) -> None:
        if not self._full:
            logger.error("cannot write %s: %s; make room on its disk: producers wait", self._path, problem.strerror)
            self._full = True
