"""What of a record is news: objects as a reader of the log should know them, kept apart from the ledger's own way."""

from __future__ import annotations

import json
from typing import Any

from tests.builders import Event, Object
from tests.simulation.cluster import Key, key_of


class News:
    """Drops repetitions and old versions; turns the end of a list into what is gone (design 4)."""

    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self._graves: dict[str, int] = {}
        self._seen: set[Key] | None = None

    def of(self, record: bytes, rejected: frozenset[int] = frozenset()) -> list[Event]:
        """The changes of a record, in order, without the members that were rejected."""
        try:
            event = json.loads(record)
        except ValueError:
            return []
        if not isinstance(event, dict) or not isinstance(event.get("cluster", ""), str):
            return []
        found: list[Event] = []
        for index, member in enumerate(event.get("events", [event])):
            if index not in rejected:
                self._take(member, found)
        return found

    def uid_of(self, kind: str, namespace: str, name: str) -> str | None:
        """Of the object that is there now under the name."""
        found = self._objects.get((kind, namespace, name))
        return None if found is None else found["metadata"]["uid"]

    def _take(self, event: Any, found: list[Event]) -> None:
        kind = event.get("type")
        if kind == "SYNC_BEGIN":
            self._seen = set()
        elif kind == "SYNC_END" and self._seen is not None:
            gone = sorted(key for key in self._objects if key not in self._seen and key[0] != "Configuration")
            found += [{"type": "DELETED", "object": self._objects.pop(key)} for key in gone]
            self._seen = None
        target = event.get("object")
        if not isinstance(target, dict) or "apiVersion" not in target:
            return
        key = key_of(target)
        uid, version = target.get("metadata", {}).get("uid", ""), _version(target)
        before = self._objects.get(key)
        if kind == "DELETED":
            self._graves[uid] = max(version, self._graves.get(uid, 0))
            if before is not None and not 0 < version < _version(before):
                del self._objects[key]
                found.append(event)
            return
        if self._seen is not None:
            self._seen.add(key)
        if 0 < version <= self._graves.get(uid, 0):
            return
        if before is not None and before.get("metadata", {}).get("uid") == uid and version <= _version(before):
            if version or before == target:
                return
        if before is not None and "metadata" in target and before["metadata"]["uid"] != uid:
            self._graves[before["metadata"]["uid"]] = version
            found.append({"type": "DELETED", "object": before})
        self._objects[key] = target
        found.append(event)


def _version(target: Object) -> int:
    return int(target.get("metadata", {}).get("resourceVersion") or 0)
