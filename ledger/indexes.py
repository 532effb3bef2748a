"""Which workloads there are, by name, namespace, LocalQueue and WorkloadPriorityClass."""

from __future__ import annotations

from typing import Any

from ledger.objects.workload import Workload
from ledger.state import State
from ledger.workload_facts import priority_class_of
from ledger.workloads import WorkloadState


def enter(known: State, state: WorkloadState) -> None:
    known.workloads[state.key] = state
    known.uids.add(state.uid)
    known.by_namespace.setdefault(state.namespace, {})[state.uid] = state
    known.by_local_queue.setdefault(state.local_queue, {})[state.uid] = state
    follow_class_name(known, state, None)


def forget(known: State, state: WorkloadState) -> None:
    follow_class_name(known, state, state.workload, gone=True)
    _drop(known.by_local_queue, state.local_queue, state.uid)
    _drop(known.by_namespace, state.namespace, state.uid)
    del known.workloads[state.key]
    known.uids.discard(state.uid)
    known.devices.forget(state.key)


def move(known: State, state: WorkloadState, local_queue: tuple[str, str]) -> None:
    """Its LocalQueue is another one from now on."""
    _drop(known.by_local_queue, state.local_queue, state.uid)
    state.local_queue = local_queue
    known.by_local_queue.setdefault(local_queue, {})[state.uid] = state


def follow_class_name(known: State, state: WorkloadState, old: Workload | None, *, gone: bool = False) -> None:
    """Which workloads name a WorkloadPriorityClass (1.6.1)."""
    before = priority_class_of(old) if old is not None else ""
    now = "" if gone else priority_class_of(state.workload)
    if before == now:
        return
    if before:
        _drop(known.by_priority_class, before, state.uid)
    if now:
        known.by_priority_class.setdefault(now, {})[state.uid] = state


def _drop(index: dict[Any, dict[str, WorkloadState]], key: object, uid: str) -> None:
    peers = index[key]
    del peers[uid]
    if not peers:
        del index[key]
