"""The table `quota` as a reader sees it: the last row of every key of its changelog."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from topics.admin import partitions_of
from topics.codec import APPLIED_KEY, decode_row_key
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import Topics


class QuotaRow(NamedTuple):
    """One row: what a ClusterQueue has of a resource in a flavor."""

    cluster: str
    cluster_queue: str
    flavor: str
    resource: str
    value: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """The row as one JSON object."""
        return {
            "cluster": self.cluster,
            "clusterQueue": self.cluster_queue,
            "flavor": self.flavor,
            "resource": self.resource,
        } | self.value


async def quota_rows(
    settings: Settings, *, cluster: str | None = None, cluster_queue: str | None = None
) -> list[QuotaRow]:
    """All rows, ordered by key; those of one cluster or ClusterQueue if asked."""
    topics = Topics.of(settings)
    count = await partitions_of(settings, topics.quota)
    rows: dict[bytes, bytes] = {}
    for partition in range(count):
        async for records in read_to_end(settings, topics.quota.name, partition):
            for record in records:
                if record.value is None:
                    rows.pop(record.key, None)
                elif record.key != APPLIED_KEY:
                    rows[record.key] = record.value
    found = [QuotaRow(*decode_row_key(key), msgspec.json.decode(value)) for key, value in rows.items()]
    return sorted(
        (row for row in found if cluster in (None, row.cluster) and cluster_queue in (None, row.cluster_queue)),
        key=lambda row: row[:4],
    )
