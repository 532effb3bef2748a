"""Names Kubernetes accepts: DNS subdomains and labels, label keys and values, resource names (objects 1.0)."""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUALIFIED_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_dns_label(name: str) -> bool:
    """Lower-case letters, digits and dashes, up to 63."""
    return len(name) <= 63 and _DNS_LABEL.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """DNS labels joined by dots, up to 253."""
    return len(name) <= 253 and _DNS_SUBDOMAIN.fullmatch(name) is not None


def is_qualified_name(name: str) -> bool:
    """A label key or resource name: an optional DNS subdomain and a slash, then up to 63 characters."""
    prefix, slash, part = name.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(part) <= 63 and _QUALIFIED_PART.fullmatch(part) is not None


def is_label_value(value: str) -> bool:
    """Empty, or up to 63 characters that start and end with a letter or digit."""
    return not value or (len(value) <= 63 and _QUALIFIED_PART.fullmatch(value) is not None)


@lru_cache(maxsize=4096)
def is_resource_name(name: str) -> bool:
    return len(name) <= 317 and is_qualified_name(name)
