"""Why the devices of a workload cannot be charged (dra 14)."""

from __future__ import annotations

import msgspec

DRA_DISABLED = "DraDisabled"
DIRECT_RESOURCE_CLAIM = "DirectResourceClaim"
TEMPLATE_NOT_FOUND = "TemplateNotFound"
FIRST_AVAILABLE_UNSUPPORTED = "FirstAvailableUnsupported"
ALL_MODE_UNSUPPORTED = "AllModeUnsupported"
REQUEST_EMPTY = "RequestEmpty"
MODE_UNKNOWN = "ModeUnknown"
COUNT_INVALID = "CountInvalid"
SELECTOR_COMPILE = "SelectorCompile"
SELECTOR_EVAL = "SelectorEval"
CLASS_NOT_FOUND = "ClassNotFound"
CLASS_NOT_MAPPED = "ClassNotMapped"
INSUFFICIENT_DEVICES = "InsufficientDevices"
COUNTER_MISSING = "CounterMissing"
CAPACITY_MISSING = "CapacityMissing"
CAPACITY_UNSATISFIABLE = "CapacityUnsatisfiable"
EXTENDED_RESOURCE_NOT_INTEGER = "ExtendedResourceNotInteger"
EXTENDED_RESOURCE_OVERFLOW = "ExtendedResourceOverflow"
EXTENDED_RESOURCE_WITH_SOURCES = "ExtendedResourceWithSources"

PERMANENT = "permanent"
RETRYABLE = "retryable"

INVALID = "Invalid value"
INTERNAL = "Internal error"
NOT_FOUND = "Not found"


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """One reason, with the JSON path of what it is about and how the reference classes it."""

    code: str
    verdict: str
    path: str
    kind: str
    detail: str

    @property
    def message(self) -> str:
        if not self.path:
            return self.detail
        return f"{self.path}: {self.kind}: {self.detail}"


class DeviceRejection(msgspec.Struct, frozen=True, rename="camel"):
    """The workload is not queued until one of the inputs the verdict read has changed (dra 14, 15 Q4)."""

    problems: tuple[Problem, ...]

    @property
    def code(self) -> str:
        return self.problems[0].code

    @property
    def verdict(self) -> str:
        """`retryable` as soon as one problem is: the reference tries again while any part may cure itself."""
        return RETRYABLE if any(p.verdict == RETRYABLE for p in self.problems) else PERMANENT

    @property
    def message(self) -> str:
        messages = [problem.message for problem in self.problems]
        return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"


class Unchargeable(Exception):
    """Raised inside the charging of one request; never leaves `ledger.devices`."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[0].message)
        self.problems = problems
