"""Settlements as decisions, and as charges that follow what was allocated (dra 16.4, 16.5)."""

from __future__ import annotations

from ledger.allocations import SETTLED, Allocations, reductions_of
from ledger.recorder import Recorder
from ledger.state import State
from ledger.workload_events import WorkloadEvents
from ledger.workloads import NO_REDUCTIONS, Reductions, WorkloadState


class Settlements:
    """Compares what holders of quota are charged with what their claims have, once an event."""

    def __init__(self, state: State, recorder: Recorder, workloads: WorkloadEvents, allocations: Allocations) -> None:
        self._state = state
        self._recorder = recorder
        self._workloads = workloads
        self._allocations = allocations

    def look(self) -> None:
        """Settle the workloads of which something changed, in the order of their names."""
        changed, self._allocations.changed = self._allocations.changed, {}
        for key in sorted(changed):
            state = self._state.workloads.get(key)
            if state is not None and state.reservation is not None:
                self._settle(state, new=changed[key])

    def _settle(self, state: WorkloadState, *, new: bool) -> None:
        reservation = state.reservation
        assert reservation is not None
        before, settled = reservation.settled, self._allocations.settled(state)
        if settled is None:
            return
        if settled != before:
            reservation.settled = settled
            self._recorder.settled(state, reservation, settled)
        reductions = NO_REDUCTIONS
        if self._state.configuration.ledger.settle:
            reductions = reductions_of(settled)
            if before is not None and not new and before.settlement.charged == settled.settlement.charged:
                reductions = lower_of(reductions, reservation.reductions)
        if reductions != reservation.reductions:
            reservation.reductions = reductions
            self._workloads.shrink(state, reservation, SETTLED)
        self._state.show_drift(state)


def lower_of(first: Reductions, second: Reductions) -> Reductions:
    """A claim that goes does not bring the charge back, or a retry between two pods would flap (16.4). The next
    allocation, or another number of pods, does."""
    found = {name: dict(amounts) for name, amounts in first.items()}
    for name, amounts in second.items():
        own = found.setdefault(name, {})
        for key, amount in amounts.items():
            own[key] = min(amount, own.get(key, 0))
    return found
