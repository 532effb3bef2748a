"""YAML manifests: each document as JSON, read the way the Kubernetes tools read them.

Only plain data is made (the safe loader). Three readings differ from YAML 1.1 as Python has it and follow the
Kubernetes tools: a time stamp stays text, `1:30` stays text, and the keys of a mapping are text. References (`*name`)
may not make a document larger than a million nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

NODE_LIMIT = 1_000_000
DEPTH_LIMIT = 200

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_INTEGER = "tag:yaml.org,2002:int"


class _ManifestLoader(_Loader):  # type: ignore[misc]
    """The safe loader without time stamps and without numbers to the base sixty."""


_ManifestLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TIMESTAMP, _INTEGER)]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_ManifestLoader.add_implicit_resolver(
    _INTEGER,
    re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)


def yaml_documents(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Each document as JSON; a document that cannot be read comes as it was written, for the fold to reject."""
    for text in _split(lines):
        try:
            document = yaml.load(text, Loader=_ManifestLoader)  # noqa: S506  (derived from the safe loader)
            if document is None:
                continue
            if not isinstance(document, dict):
                raise ValueError("a manifest is a mapping")
            yield msgspec.json.encode(_plain(document, [NODE_LIMIT], 0))
        except (yaml.YAMLError, ValueError, RecursionError, msgspec.MsgspecError):
            yield text.strip()


def _split(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Documents are parted by lines that begin with three dashes, or ended by three dots."""
    held: list[bytes] = []
    for line in lines:
        marker = line[:3]
        if marker in (b"---", b"...") and (len(line) == 3 or line[3:4] in b" \t\r\n"):
            if not all(_says_nothing(each) for each in held):
                yield b"".join(held)
            held = [line[3:]] if marker == b"---" else []
        else:
            held.append(line)
    if not all(_says_nothing(each) for each in held):
        yield b"".join(held)


def _says_nothing(line: bytes) -> bool:
    """An empty line, a comment, or a directive, which stands before a document's dashes."""
    return line.lstrip()[:1] in (b"", b"#") or line[:1] == b"%"


def _plain(node: Any, budget: list[int], depth: int) -> Any:
    """The node as JSON holds it; raises ValueError where references unfold beyond the limits."""
    budget[0] -= 1
    if budget[0] < 0 or depth > DEPTH_LIMIT:
        raise ValueError("the document is too large or too deep")
    if isinstance(node, dict):
        return {_key(key): _plain(value, budget, depth + 1) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_plain(value, budget, depth + 1) for value in node]
    if isinstance(node, bool) or node is None or isinstance(node, str):
        return node
    if isinstance(node, int):
        return node if -(2**63) <= node < 2**64 else str(node)
    if isinstance(node, float):
        return node if math.isfinite(node) else str(node)
    raise ValueError(f"a value of type {type(node).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    raise ValueError(f"a key of type {type(key).__name__}")
