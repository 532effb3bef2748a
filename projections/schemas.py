"""JSON Schema for the records of both topics, and an AsyncAPI document: generated, written to `docs/schemas`, checked.

python -m projections.schemas --write     write them anew
python -m projections.schemas --check     exit with 1 where what is written is not what the code accepts
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ledger.decisions import DECISION_TYPES
from ledger.events import EventType
from ledger.objects.durations import Duration
from ledger.objects.kinds import kinds
from ledger.objects.scalars import ResourceVersion
from ledger.quantity import NonNegativeQuantity, Quantity
from ledger.timestamps import Timestamp
from projections.json_schema import Schema, SchemaWriter

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

EVENTS = "quota.events.schema.json"
DECISIONS = "quota.decisions.schema.json"
ASYNCAPI = "asyncapi.json"

_SCALARS: dict[type, Schema] = {
    Quantity: {
        "type": ["string", "number"],
        "description": "A Kubernetes quantity: 2, 500m, 64Gi, 1e3.",
        "examples": ["500m", "64Gi"],
    },
    NonNegativeQuantity: {"type": ["string", "number"], "description": "A Kubernetes quantity that is not negative."},
    Timestamp: {"type": "string", "format": "date-time", "description": "RFC 3339."},
    Duration: {"type": "string", "description": "A duration as Go writes it: 20s, 5m, 1h30m.", "examples": ["1h30m"]},
    ResourceVersion: {"type": "string", "pattern": "^[0-9]{0,20}$"},
}
_TIMESTAMP = _SCALARS[Timestamp]
_CLUSTER: Schema = {"type": "string", "description": "The cluster; absent: the record's key, else `default`."}
_AT: Schema = {**_TIMESTAMP, "description": "When it happened; absent: the record's Kafka timestamp."}
_MEMBER_TYPES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "SYNC_BEGIN", "SYNC_END", "TICK")


def _scalar(kind: type) -> Schema:
    return dict(_SCALARS[kind])


def events_schema() -> Schema:
    """What `quota.events` takes. Objects of other kinds than these are counted and skipped."""
    writer = SchemaWriter(_scalar)
    known: list[Schema] = []
    versions: dict[str, set[str]] = {}
    for (version, name), kind in sorted(kinds().items()):
        versions.setdefault(name, set()).add(version)
        if kind.convert is not None:
            continue  # an old version that is rewritten before it is read
        this = {"properties": {"apiVersion": {"const": version}, "kind": {"const": name}}}
        known.append({"if": this, "then": writer.reference(kind.type)})
    with_object: Schema = {
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}},
        "allOf": known,
    }
    writer.definitions["KubernetesObject"] = with_object
    writer.definitions["Event"] = {
        "type": "object",
        "required": ["type"],
        "properties": {
            "cluster": _CLUSTER,
            "at": _AT,
            "type": {"enum": list(_MEMBER_TYPES)},
            "object": {"type": "object"},
            "kinds": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The kinds that SYNC_BEGIN and SYNC_END are about; absent: all, empty: none.",
            },
        },
        "if": {"properties": {"type": {"enum": ["ADDED", "MODIFIED"]}}},
        "then": {"required": ["object"], "properties": {"object": {"$ref": "#/$defs/KubernetesObject"}}},
        "else": {
            "if": {"properties": {"type": {"const": "DELETED"}}},
            "then": {"required": ["object"]},
        },
    }
    writer.definitions["Batch"] = {
        "type": "object",
        "required": ["type", "events"],
        "properties": {
            "cluster": _CLUSTER,
            "at": _AT,
            "type": {"const": "BATCH"},
            "events": {"type": "array", "items": {"$ref": "#/$defs/Event"}},
        },
    }
    assert {*_MEMBER_TYPES, "BATCH"} == {each.value for each in EventType}
    return {
        "$schema": DIALECT,
        "title": "A record of quota.events",
        "description": "A Kubernetes watch event of one cluster. The record's key is the cluster's name.",
        "if": {"properties": {"type": {"const": "BATCH"}}},
        "then": {"$ref": "#/$defs/Batch"},
        "else": {"$ref": "#/$defs/Event"},
        "$defs": dict(sorted(writer.definitions.items())),
    }


def decisions_schema() -> Schema:
    """What `quota.decisions` holds: one of a closed list of types."""
    writer = SchemaWriter(_scalar)
    references = [writer.reference(kind) for kind in DECISION_TYPES]
    for kind in DECISION_TYPES:
        # empty only until it is computed
        writer.definitions[kind.__name__]["required"].append("hash")
        properties = writer.definitions[kind.__name__]["properties"]
        properties["at"] = _TIMESTAMP
        properties["prev"] = properties["hash"] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    return {
        "$schema": DIALECT,
        "title": "A record of quota.decisions",
        "description": (
            "A decision about the quota of one cluster. The record's key is the cluster's name; (cluster, seq) is the "
            "decision's id. hash is BLAKE2b-256 over the record's bytes without the field hash; prev is the hash of "
            "the cluster's decision before."
        ),
        "oneOf": references,
        "$defs": dict(sorted(writer.definitions.items())),
    }


def asyncapi() -> Schema:
    """Both topics with who writes and who reads them."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "quota-ledger",
            "version": "1",
            "description": "Events of GPU clusters in, decisions about their quota out, by Kueue's rules.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "events": _channel("quota.events", "Event", "Everything of one cluster is in one partition, in its order."),
            "decisions": _channel("quota.decisions", "Decision", "Written in transactions: read with read_committed."),
        },
        "operations": {
            "foldEvents": _operation("receive", "events", "The worker folds every event."),
            "writeDecisions": _operation("send", "decisions", "The worker writes what it decided."),
        },
        "components": {
            "messages": {
                "Event": _message("Event", EVENTS),
                "Decision": _message("Decision", DECISIONS),
            }
        },
    }


def _channel(address: str, message: str, description: str) -> Schema:
    return {
        "address": address,
        "description": description,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {"kafka": {"bindingVersion": "0.5.0"}},
    }


def _operation(action: str, channel: str, summary: str) -> Schema:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def _message(name: str, file: str) -> Schema:
    return {
        "name": name,
        "contentType": "application/json",
        "payload": {"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": {"$ref": f"./{file}"}},
        "bindings": {
            "kafka": {"key": {"type": "string", "description": "The cluster's name."}, "bindingVersion": "0.5.0"}
        },
    }


def documents() -> dict[str, str]:
    """Every file of `docs/schemas` as it must be."""
    made = {EVENTS: events_schema(), DECISIONS: decisions_schema(), ASYNCAPI: asyncapi()}
    return {name: json.dumps(document, indent=2, ensure_ascii=False) + "\n" for name, document in made.items()}


def behind(folder: Path = FOLDER) -> list[str]:
    """The files that are missing or not as they must be."""
    return [
        name
        for name, text in documents().items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    if options.write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, text in documents().items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    wrong = behind()
    for name in wrong:
        print(f"docs/schemas/{name} is behind: run python -m projections.schemas --write", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
