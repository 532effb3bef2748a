"""Jobs: context of a Workload, never charged by themselves (design 4)."""

from __future__ import annotations

import msgspec

from ledger.objects.metadata import ObjectMeta


class JobSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False


class JobCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class JobStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    conditions: tuple[JobCondition, ...] = ()


class Job(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
