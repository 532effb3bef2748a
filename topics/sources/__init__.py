"""Sources of events: files and streams of what Kubernetes and people write, as values of `quota.events`.

Four forms are told apart by what the first line holds, not by the file's name:

- JSON lines of events (design section 4). They pass through byte for byte, broken lines included: the fold judges them.
- JSON lines of a recorded watch, `{"watch": {"cluster", "resource", "session"}, "type", "object"}` (kueue-objects 10).
  Initial lists become SYNC_BEGIN and SYNC_END, see `topics.sources.watch_stream`.
- JSON documents: `kubectl get -o json`, one List or one object, also `--watch --output-watch-events`.
- YAML manifests of one or many documents, as people write them for `kubectl apply -f`.

Gzip is recognised by its first bytes. `-` is standard input.
"""

from topics.sources.objects import ObjectReader
from topics.sources.packing import BATCH_BYTES, BATCH_EVENTS
from topics.sources.reader import DamagedSource, SourceEvent, numbered_events, open_source, read_events, unpacked

__all__ = [
    "BATCH_BYTES",
    "BATCH_EVENTS",
    "DamagedSource",
    "ObjectReader",
    "SourceEvent",
    "numbered_events",
    "open_source",
    "read_events",
    "unpacked",
]
