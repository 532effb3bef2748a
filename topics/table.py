"""The Faust table `quota`, one instance per partition, whose changelog is part of the worker's transaction.

Faust's own tables write their changelog outside the transaction of their cause. This one is not registered with the
app's table manager (Faust neither recovers nor writes it): a set or delete becomes a record that the partition takes
into its transaction, together with the decisions and the consumed offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import faust
from faust.tables.table import Table

from topics.codec import encode_row, encode_row_key
from topics.folding import RowKey


class QuotaTable(Table):  # type: ignore[misc]
    """Rows of the ClusterQueues of one partition: (cluster, ClusterQueue, flavor, resource) to what is held there."""

    def __init__(self, app: faust.App, partition: int) -> None:
        super().__init__(app, name="quota", store="memory://", help=f"rows of partition {partition}")
        self._changes: list[tuple[bytes, bytes | None]] = []

    def load(self, rows: Mapping[RowKey, Any]) -> None:
        """Rows (None: gone) as the log has them: no changes."""
        for key, row in rows.items():
            if row is None:
                self.data.pop(key, None)
            else:
                self.data[key] = row

    def on_key_set(self, key: RowKey, value: Any) -> None:
        self._changes.append((encode_row_key(key), encode_row(value)))
        self._sensor_on_set(self, key, value)

    def on_key_del(self, key: RowKey) -> None:
        self._changes.append((encode_row_key(key), None))
        self._sensor_on_del(self, key)

    def __delitem__(self, key: RowKey) -> None:
        self.on_key_del(key)
        self.data.pop(key, None)

    def take_changes(self) -> list[tuple[bytes, bytes | None]]:
        """The changes since the last call, for the transaction."""
        changes, self._changes = self._changes, []
        return changes
