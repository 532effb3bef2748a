"""What is raised when an object cannot be accepted."""

from __future__ import annotations


class InvalidObject(Exception):
    """An object that cannot be decoded or that an API server would have refused, with the place in its JSON."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason
