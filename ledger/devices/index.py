"""`DeviceIndex`: all that is known about devices in one cluster, and what follows for workloads.

The ledger hands in changes of the four kinds with `apply` and asks `charges` for the price of a workload. The index
remembers which inputs each answer read, so that a later change names exactly the workloads to ask about again
(dra 15); it forgets a workload when it is told to.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ledger.cel import CompileError, Program, compile_expression
from ledger.devices.census import Census, Deciding, Grouping, Pricing
from ledger.devices.charges import DeviceCharges
from ledger.devices.inventory import DeviceRecord, Inventory, SliceRecord, device_path
from ledger.devices.mappings import REFERENCE_RULES, Mappings
from ledger.devices.objects import (
    DeviceClass,
    DeviceObject,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from ledger.devices.pools import COMPLETE, VALID, PoolState
from ledger.devices.rejection import DeviceRejection
from ledger.devices.verdicts import MATCH, Verdicts
from ledger.objects.configuration import Configuration
from ledger.objects.node import Node
from ledger.objects.taint import Toleration
from ledger.objects.workload import Workload

WorkloadKey = tuple[str, str]
"""(namespace, name)."""
Input = tuple[str, ...]
"""What an answer read: ("slices", driver), ("class", name), ("extended", name), ("template", namespace, name)..."""

ANY_DEVICE_OBJECT: Input = ("any",)
"""Read by every rejection under the rules of the reference, which tries again whenever anything changes."""

_MOST_QUESTIONS = 512


class Question(NamedTuple):
    """What a census answers; equal questions share it."""

    scope: str
    nodes: frozenset[str] | None
    fences: tuple[str, ...]
    class_selectors: tuple[str, ...]
    request_selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...] | None
    pricing: tuple[Any, ...]
    reference: bool


class DriverDevices:
    """The pools of one driver, by node, and grouped by content on demand."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 0
        self.pools: dict[str, PoolState] = {}
        self.pools_on: dict[str | None, set[str]] = {}
        """Pool names by node; those that are not bound to a node by name are under None."""
        self._groupings: dict[tuple[str, frozenset[str] | None], Grouping] = {(VALID, None): Grouping()}
        self._verdicts: OrderedDict[Any, Verdicts] = OrderedDict()
        self._censuses: OrderedDict[Question, Census] = OrderedDict()

    def replace(self, old: SliceRecord | None, new: SliceRecord | None) -> None:
        self.version += 1
        for name in sorted({record.pool for record in (old, new) if record is not None}):
            pool = self.pools.setdefault(name, PoolState())
            before = {key: on_nodes(pool.contribution(key[0]), key[1]) for key in self._groupings}
            self._place(name, pool, present=False)
            if old is not None and old.pool == name:
                del pool.slices[old.name]
            if new is not None and new.pool == name:
                pool.slices[new.name] = new
            pool.settle(self.version)
            self._place(name, pool, present=True)
            for key, grouping in self._groupings.items():
                grouping.change(*_difference(before[key], on_nodes(pool.contribution(key[0]), key[1])))
            if not pool.slices:
                del self.pools[name]

    def _place(self, name: str, pool: PoolState, *, present: bool) -> None:
        for node in {node for record in pool.slices.values() for node in record.nodes}:
            names = self.pools_on.setdefault(node, set())
            if present:
                names.add(name)
            else:
                names.discard(name)
                if not names:
                    del self.pools_on[node]

    def grouping(self, scope: str, nodes: frozenset[str] | None) -> Grouping:
        found = self._groupings.get((scope, nodes))
        if found is None:
            found = self._groupings[scope, nodes] = Grouping()
            for _, pool in sorted(self.pools.items()):
                found.change((), on_nodes(pool.contribution(scope), nodes))
            found.start += len(found.log)
            found.log = []
        return found

    def verdicts(
        self,
        fences: tuple[str, ...],
        class_selectors: tuple[str, ...],
        request_selectors: tuple[str, ...],
        *,
        reference: bool,
    ) -> Verdicts:
        key = (fences, class_selectors, request_selectors, reference)
        found = self._verdicts.get(key)
        if found is None:
            found = Verdicts(
                self.name,
                _programs(fences),
                _programs(class_selectors),
                _programs(request_selectors),
                reference=reference,
            )
            self._verdicts[key] = found
            if len(self._verdicts) > _MOST_QUESTIONS:
                self._verdicts.popitem(last=False)
        else:
            self._verdicts.move_to_end(key)
        return found

    def census(self, question: Question, pricing: Pricing) -> Census:
        found = self._censuses.get(question)
        if found is None:
            verdicts = self.verdicts(
                question.fences, question.class_selectors, question.request_selectors, reference=question.reference
            )
            found = Census(
                self.grouping(question.scope, question.nodes),
                verdicts,
                pricing,
                question.tolerations,
                (question.scope, question.nodes),
            )
            self._censuses[question] = found
            if len(self._censuses) > _MOST_QUESTIONS:
                self._censuses.popitem(last=False)
        else:
            self._censuses.move_to_end(question)
        return found.up_to_date()

    def first_at(self, census: Census, price: int) -> Deciding:
        """The first device at a price, by pool name and order in its slices: the one an explanation names."""
        key = (self.version, price)
        if census.deciding is None or census.deciding[0] != key:
            census.deciding = (key, self._find(census, price))
        return census.deciding[1]

    def _find(self, census: Census, price: int) -> Deciding:
        for name, pool in sorted(self.pools.items()):
            for record in on_nodes(pool.contribution(census.scope), census.nodes):
                for device in record.devices:
                    if census.verdict_of(device.readable) is MATCH:
                        if census.pricing(device.readable, device.costs) == price:
                            return Deciding(device_path(self.name, name, device.name), device.readable)
        return Deciding("", None)


def _programs(expressions: tuple[str, ...]) -> tuple[Program, ...]:
    return tuple(compile_expression(expression) for expression in expressions)


def on_nodes(records: tuple[SliceRecord, ...], nodes: frozenset[str] | None) -> tuple[SliceRecord, ...]:
    """The slices with devices for one of the nodes; those not bound to a node by name are for all (dra P8)."""
    if nodes is None:
        return records
    return tuple(record for record in records if None in record.nodes or not nodes.isdisjoint(record.nodes))


def _difference(
    before: tuple[SliceRecord, ...], after: tuple[SliceRecord, ...]
) -> tuple[tuple[SliceRecord, ...], tuple[SliceRecord, ...]]:
    kept = {record.name: record for record in after}
    removed = tuple(record for record in before if kept.get(record.name) is not record)
    known = {record.name: record for record in before}
    added = tuple(record for record in after if known.get(record.name) is not record)
    return removed, added


class Memory:
    """Tables of answers by question, the least recently used forgotten."""

    def __init__(self) -> None:
        self._tables: OrderedDict[Any, dict[Any, Any]] = OrderedDict()

    def get(self, question: Any) -> dict[Any, Any]:
        found = self._tables.setdefault(question, {})
        self._tables.move_to_end(question)
        if len(self._tables) > _MOST_QUESTIONS:
            self._tables.popitem(last=False)
        return found


class DeviceIndex:
    """Pure: the answers depend on the objects applied and on nothing else."""

    def __init__(self) -> None:
        self.classes: dict[str, DeviceClass] = {}
        self.templates: dict[tuple[str, str], ResourceClaimTemplate] = {}
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.nodes: dict[str, dict[str, str]] = {}
        self.plugins: dict[str, frozenset[str]] = {}
        """By node, the extended resources that a device plugin serves there."""
        self.drivers: dict[str, DriverDevices] = {}
        self.slices: dict[str, SliceRecord] = {}
        self.slice_names: list[str] = []
        self.extended: dict[str, list[str]] = {}
        self.nodes_version = 0
        self.existence = Memory()
        self.best_nodes = Memory()
        self.version = 0
        """Grows with every change that can change an answer."""
        self.remembered_places: dict[str, object] = {}
        """What feasibility has worked out for a version; can be worked out again."""
        self.compiled: tuple[Configuration, Mappings] | None = None
        self.inventory = Inventory()
        self._readers: dict[Input, set[WorkloadKey]] = {}
        self._inputs: dict[WorkloadKey, frozenset[Input]] = {}

    # --- changes -----------------------------------------------------------------------------------------------

    def apply(self, old: DeviceObject | None, new: DeviceObject | None) -> tuple[WorkloadKey, ...]:
        """Take in a change: `old` None is an addition, `new` None a deletion.

        Of `old` only kind and name are looked at, so a caller need not keep slices. Returns the workloads, sorted,
        whose last charges or rejection read something that has changed: charge them again.
        """
        subject = new if new is not None else old
        if isinstance(subject, DeviceClass):
            inputs = self._apply_class(subject, new is None)
        elif isinstance(subject, ResourceSlice):
            inputs = self._apply_slice(subject, new is None)
        elif isinstance(subject, ResourceClaimTemplate):
            inputs = self._apply_template(subject, new is None)
        elif isinstance(subject, ResourceClaim):
            inputs = self._apply_claim(subject, new is None)
        else:
            inputs = set()
        self.version += bool(inputs)
        return self.touched(inputs)

    def apply_node(self, old: Node | None, new: Node | None) -> tuple[WorkloadKey, ...]:
        """Labels of nodes decide which devices a node can use (dra P8), allocatable which plugins serve (X16)."""
        subject = new if new is not None else old
        if subject is None:
            return ()
        name = subject.metadata.name
        before = self.nodes.get(name), self.plugins.get(name, frozenset())
        labels = dict(subject.metadata.labels) if new is not None else None
        served = (
            frozenset(each for each in subject.status.allocatable if "/" in each) if new is not None else frozenset()
        )
        if before == (labels, served):
            return ()
        self.version += 1
        self.nodes_version += 1
        self.nodes.pop(name, None)
        self.plugins.pop(name, None)
        if labels is not None:
            self.nodes[name] = labels
        if served:
            self.plugins[name] = served
        return self.touched({("nodes",)})

    def charges(
        self,
        workload: Workload,
        configuration: Configuration,
        flavor_labels: Mapping[str, str] | None = None,
    ) -> DeviceCharges | DeviceRejection | None:
        """The device charges of a pending workload, why there are none, or None where it uses no devices.

        With the labels of a flavor only devices on the nodes it names decide the prices (G9), as far as Node objects
        are known and the rules are the ledger's. The inputs of the answer are remembered for `apply`.
        """
        from ledger.devices.charging import charge_workload
        from ledger.devices.nodes import nodes_with_labels

        restricted = flavor_labels and configuration.ledger.rules != REFERENCE_RULES
        nodes = nodes_with_labels(self, flavor_labels) if restricted and flavor_labels else None
        return charge_workload(self, workload, configuration, nodes)

    def touched(self, inputs: Iterable[Input]) -> tuple[WorkloadKey, ...]:
        """The workloads whose last answer read one of the inputs, sorted."""
        found: set[WorkloadKey] = set()
        for each in inputs:
            found |= self._readers.get(each, set())
        return tuple(sorted(found))

    def readers(self) -> tuple[WorkloadKey, ...]:
        """Every workload with a remembered answer: those to ask about again after a new configuration."""
        return tuple(sorted(self._inputs))

    def remembered(self) -> list[tuple[WorkloadKey, frozenset[Input]]]:
        """The remembered answers' inputs, by workload."""
        return sorted(self._inputs.items(), key=lambda each: each[0])

    def remember(self, workload: WorkloadKey, inputs: frozenset[Input]) -> None:
        """What the last answer about a workload read; replaces what an earlier one did."""
        if self._inputs.get(workload) == inputs:
            return
        self.forget(workload)
        if inputs:
            self._inputs[workload] = inputs
        for each in inputs:
            self._readers.setdefault(each, set()).add(workload)

    def forget(self, workload: WorkloadKey) -> None:
        """The workload is gone, or holds quota: changes no longer concern its price (dra Q3)."""
        for each in self._inputs.pop(workload, frozenset()):
            readers = self._readers[each]
            readers.discard(workload)
            if not readers:
                del self._readers[each]

    def _apply_class(self, device_class: DeviceClass, deleted: bool) -> set[Input]:
        name = device_class.metadata.name
        before = self.classes.pop(name, None)
        if not deleted:
            self.classes[name] = device_class
        if before is not None and not deleted and before.spec == device_class.spec:
            if before.metadata.creation_timestamp == device_class.metadata.creation_timestamp:
                return set()
        self._prepare(None if deleted else device_class)
        changed: set[Input] = {("class", name), ANY_DEVICE_OBJECT}
        for each, gone in ((before, True), (None if deleted else device_class, False)):
            extended = each.spec.extended_resource_name if each is not None else None
            if not extended:
                continue
            changed.add(("extended", extended))
            names = self.extended.setdefault(extended, [])
            if gone:
                names.remove(name)
                if not names:
                    del self.extended[extended]
            else:
                insort(names, name)
        changed.add(("extended", IMPLICIT_PREFIX + name))
        return changed

    @staticmethod
    def _prepare(device_class: DeviceClass | None) -> None:
        """Compile the selectors before the first workload waits for it; what is wrong is said when it matters."""
        for selector in device_class.spec.selectors if device_class is not None else ():
            with suppress(CompileError):
                compile_expression(selector.text)

    def _apply_template(self, template: ResourceClaimTemplate, deleted: bool) -> set[Input]:
        key = (template.metadata.namespace, template.metadata.name)
        before = self.templates.pop(key, None)
        if not deleted:
            self.templates[key] = template
            if before is not None and before.spec == template.spec:
                return set()
        return {("template", *key), ANY_DEVICE_OBJECT}

    def _apply_claim(self, claim: ResourceClaim, deleted: bool) -> set[Input]:
        key = (claim.metadata.namespace, claim.metadata.name)
        before = self.claims.pop(key, None)
        if not deleted:
            self.claims[key] = claim
            if before is not None and before.spec == claim.spec and before.status == claim.status:
                return set()
        return {("claims",), ("claim", *key)}

    def _apply_slice(self, slice_: ResourceSlice, deleted: bool) -> set[Input]:
        if not deleted:
            return self.put_slice(self.inventory.record(slice_))
        before = self.slices.pop(slice_.metadata.name, None)
        if before is None:
            return set()
        del self.slice_names[bisect_left(self.slice_names, before.name)]
        self.drivers[before.driver].replace(before, None)
        self.inventory.release(before)
        return {("slices", before.driver), ("slices",), ANY_DEVICE_OBJECT}

    def put_slice(self, record: SliceRecord) -> set[Input]:
        before = self.slices.get(record.name)
        self.slices[record.name] = record
        if before is None:
            insort(self.slice_names, record.name)
        drivers = sorted({each.driver for each in (before, record) if each is not None})
        for driver in drivers:
            self.drivers.setdefault(driver, DriverDevices(driver)).replace(
                before if before is not None and before.driver == driver else None,
                record if record.driver == driver else None,
            )
        if before is not None:
            self.inventory.release(before)
        return {("slices", driver) for driver in drivers} | {("slices",), ANY_DEVICE_OBJECT}

    # --- reading -----------------------------------------------------------------------------------------------

    def device(self, driver: str, pool: str, name: str) -> DeviceRecord | None:
        """The published device, from the newest generation of its pool, complete or not."""
        state = self.drivers[driver].pools.get(pool) if driver in self.drivers else None
        if state is None:
            return None
        newest = max(record.generation for record in state.slices.values())
        for _, record in sorted(state.slices.items()):
            if record.generation == newest:
                for device in record.devices:
                    if device.name == name:
                        return device
        return None

    def class_of_extended(self, name: str) -> DeviceClass | None:
        """The newest class with the name, the smallest of equally old ones (dra X3)."""
        names = self.extended.get(name)
        if not names:
            return None
        candidates = [self.classes[each] for each in names]
        newest = max(each.metadata.creation_timestamp or 0 for each in candidates)
        return next(each for each in candidates if (each.metadata.creation_timestamp or 0) == newest)


IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
SCOPES = {True: COMPLETE, False: VALID}
"""Which reading of pools a rule set uses, by whether it is the reference's."""
