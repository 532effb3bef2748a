"""Whether what fits into quota can also be had from devices (dra 17): asked before quota is reserved or taken back."""

from __future__ import annotations

from ledger.allocations import Allocations
from ledger.assignment import Assignment
from ledger.devices.charging import mappings_of
from ledger.devices.context import Charging
from ledger.devices.demand import Holder
from ledger.devices.extended import uses_devices
from ledger.devices.feasibility import NoDevices, feasible
from ledger.devices.nodes import nodes_with_labels
from ledger.ordering import Entry
from ledger.state import State
from ledger.workloads import Verdict, WorkloadState

NO_DEVICES = "NoDevices"


class DeviceRoom:
    """Answers for the cycles of one event. Within it devices only become fewer, so a refusal stands until it ends."""

    def __init__(self, state: State, allocations: Allocations) -> None:
        self._state = state
        self._allocations = allocations
        self._refusals: dict[object, Verdict] = {}
        self._nodes: dict[frozenset[str], frozenset[str] | None] = {}
        self._users: dict[str, bool] = {}

    def forget(self) -> None:
        """What was found out in one event is no part of the state."""
        self._refusals.clear()
        self._nodes.clear()
        self._users.clear()

    def lacking(self, entry: Entry) -> Verdict | None:
        """Why the entry's pods cannot have their devices, with its victims gone; None where they can, or may."""
        state, assignment = entry.state, entry.assignment
        assert assignment is not None
        if not self._uses_devices(state):
            return None
        subject = Holder(
            state.workload,
            {pod_set.name: pod_set.count for pod_set in assignment.pod_sets},
            self._nodes_of(flavors_of(assignment)),
        )
        victims = {target.state.uid: target.state for target in entry.targets}
        question = (
            state.namespace,
            state.shape,
            tuple(sorted(subject.pods.items())),
            tuple(sorted((name, tuple(sorted(nodes))) for name, nodes in subject.nodes.items())),
            frozenset(victims),
        )
        verdict = self._refusals.get(question)
        if verdict is None:
            verdict = self._ask(subject, assignment, victims)
            if verdict is None:
                return None
            self._refusals[question] = verdict
        state.no_devices = verdict
        self._state.short_of_devices[state.uid] = state
        return verdict

    def _ask(self, subject: Holder, assignment: Assignment, victims: dict[str, WorkloadState]) -> Verdict | None:
        index = self._state.devices
        leaving = frozenset(claim for victim in victims.values() for claim in self._allocations.of(victim))
        held = [
            self._holder(holder)
            for name in sorted(self._state.reserved_in)
            for uid, holder in self._state.reserved_in[name].items()
            if uid not in victims and self._uses_devices(holder)
        ]
        answer = feasible(index, mappings_of(index, self._state.configuration), subject, held, leaving)
        if not isinstance(answer, NoDevices):
            return None
        message = f"{answer.verdict}: {answer.message}"
        return Verdict(NO_DEVICES, message, passed_over=tuple(assignment.passed_over), in_the_way=answer.in_the_way)

    def _holder(self, state: WorkloadState) -> Holder:
        """The pods of a holder of quota that still need devices, on the nodes of its flavors."""
        assert state.reservation is not None
        served = self._allocations.pods_with_devices(state)
        live = self._state.live_pod_sets(state)
        return Holder(
            state.workload,
            {pod_set.name: pod_set.count - served.get(pod_set.name, 0) for pod_set in live},
            self._nodes_of({pod_set.name: frozenset(pod_set.flavors.values()) for pod_set in live}),
        )

    def _uses_devices(self, state: WorkloadState) -> bool:
        if state.charges is not None:
            return True
        known = self._users.get(state.uid)
        if known is None:
            index = self._state.devices
            charging = Charging(index, mappings_of(index, self._state.configuration), state.workload)
            known = self._users[state.uid] = uses_devices(charging, state.workload)
        return known

    def _nodes_of(self, flavors: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        found = {}
        for pod_set, names in flavors.items():
            nodes = self._nodes_with(names)
            if nodes is not None:
                found[pod_set] = nodes
        return found

    def _nodes_with(self, flavors: frozenset[str]) -> frozenset[str] | None:
        """None where the flavors restrict nothing. A node that only slices name may have any labels."""
        if flavors not in self._nodes:
            labels: dict[str, str] = {}
            for name in sorted(flavors):
                flavor = self._state.flavors.get(name)
                labels.update(flavor.spec.node_labels if flavor is not None else {})
            index = self._state.devices
            nodes = nodes_with_labels(index, labels)
            if nodes is not None:
                named = {node for driver in index.drivers.values() for node in driver.pools_on if node is not None}
                nodes |= named - index.nodes.keys()
            self._nodes[flavors] = nodes
        return self._nodes[flavors]


def flavors_of(assignment: Assignment) -> dict[str, frozenset[str]]:
    return {
        pod_set.name: frozenset(assigned.flavor for assigned in pod_set.flavors.values())
        for pod_set in assignment.pod_sets
    }
