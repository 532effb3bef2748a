"""Whether a head may take part in a cycle at all (admission 5.2)."""

from __future__ import annotations

from ledger.cluster_queue import ClusterQueueNode
from ledger.cycle import GENERIC, NAMESPACE_MISMATCH, PENDING
from ledger.state import State
from ledger.workloads import Verdict, WorkloadState


def refusal(known: State, queue: ClusterQueueNode, state: WorkloadState) -> tuple[Verdict, str] | None:
    """5.2: the first check that the head does not pass, and its requeue reason."""
    for check in known.live_checks(state):
        if check.state in ("Retry", "Rejected"):
            return Verdict(PENDING, "the workload has failed admission checks"), GENERIC
    if queue.tree.cyclic:
        return Verdict("Suspended", f"ClusterQueue {queue.name} is inactive: its cohorts run in a circle"), GENERIC
    if state.namespace not in known.namespaces:
        return Verdict("Misconfigured", f"namespace {state.namespace} does not exist"), GENERIC
    if not known.namespace_matches(queue, state.namespace):
        message = f"namespace {state.namespace} does not match the selector of ClusterQueue {queue.name}"
        return Verdict("Misconfigured", message), NAMESPACE_MISMATCH
    if state.problems:
        message = "; ".join(f"{problem.path}: {problem.reason}" for problem in state.problems)
        return Verdict("Misconfigured", message), GENERIC
    return None
