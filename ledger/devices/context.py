"""What charging one workload carries from step to step: the objects it looks up, and a note of each look."""

from __future__ import annotations

from ledger.cel import CompileError, Program, compile_expression
from ledger.devices.census import Census, Pricing
from ledger.devices.charges import RequestCharge
from ledger.devices.index import SCOPES, DeviceIndex, Input, Question
from ledger.devices.mappings import Mappings
from ledger.devices.objects import ClaimSpec, DeviceClass, DeviceRequest, Selector
from ledger.devices.rejection import (
    CLASS_NOT_FOUND,
    INTERNAL,
    INVALID,
    PERMANENT,
    RETRYABLE,
    SELECTOR_COMPILE,
    TEMPLATE_NOT_FOUND,
    Problem,
    Unchargeable,
)
from ledger.devices.rounding import plus
from ledger.objects.workload import PodSet, Workload


class Place:
    """A claim entry of a pod set, or one request in it; knows its JSON path."""

    __slots__ = ("claim", "claim_name", "pod_set", "pod_set_name", "request", "template")

    def __init__(
        self, pod_set: int, pod_set_name: str, claim: int, claim_name: str, template: str, request: int | None = None
    ) -> None:
        self.pod_set = pod_set
        self.pod_set_name = pod_set_name
        self.claim = claim
        self.claim_name = claim_name
        self.template = template
        self.request = request

    def at(self, request: int) -> Place:
        return Place(self.pod_set, self.pod_set_name, self.claim, self.claim_name, self.template, request)

    @property
    def path(self) -> str:
        claim = f"spec.podSets[{self.pod_set}].template.spec.resourceClaims[{self.claim}]"
        return claim if self.request is None else f"{claim}.devices.requests[{self.request}]"

    @property
    def order(self) -> tuple[int, int, int]:
        return (self.pod_set, self.claim, -1 if self.request is None else self.request)


class Charging:
    """One evaluation: reads go through here, so that the index knows what the answer depends on."""

    def __init__(
        self, index: DeviceIndex, mappings: Mappings, workload: Workload, nodes: frozenset[str] | None = None
    ) -> None:
        self.index = index
        self.mappings = mappings
        self.reference = mappings.reference
        self.workload = workload
        self.nodes = nodes
        self.inputs: set[Input] = set()
        self.diagnostics: list[str] = []
        self.requests: list[RequestCharge] = []
        self.added: list[dict[str, int]] = [{} for _ in workload.spec.pod_sets]
        self.replaced: list[set[str]] = [set() for _ in workload.spec.pod_sets]

    @property
    def namespace(self) -> str:
        return self.workload.metadata.namespace

    def add(self, pod_set: int, key: str, amount: int) -> None:
        self.added[pod_set][key] = plus(self.added[pod_set].get(key, 0), amount)

    # --- objects -----------------------------------------------------------------------------------------------

    def claim_spec(self, place: Place) -> ClaimSpec:
        key = (self.namespace, place.template)
        self.inputs.add(("template", *key))
        found = self.index.templates.get(key)
        if found is None:
            raise Unchargeable(
                Problem(
                    TEMPLATE_NOT_FOUND,
                    RETRYABLE,
                    place.path,
                    INTERNAL,
                    f"failed to get claim spec for ResourceClaimTemplate {place.template} in podset "
                    f'{place.pod_set_name}: resourceclaimtemplates.resource.k8s.io "{place.template}" not found',
                )
            )
        return found.spec.spec

    def device_class(self, name: str, place: Place) -> DeviceClass:
        self.inputs.add(("class", name))
        found = self.index.classes.get(name)
        if found is None:
            detail = f'failed to get DeviceClass {name}: deviceclasses.resource.k8s.io "{name}" not found'
            raise Unchargeable(Problem(CLASS_NOT_FOUND, RETRYABLE, place.path, INTERNAL, detail))
        return found

    # --- selectors ---------------------------------------------------------------------------------------------

    def compile_request(self, request: DeviceRequest, place: Place, field: str = "exactly") -> None:
        """Every selector of a request must compile, of one with admin access too (dra W2.3)."""
        for number, selector in enumerate(request.selectors):
            path = f"{place.path}.{field}.selectors[{number}].cel.expression"
            self._compile(selector, path, f"ResourceClaimTemplate {place.template}: ")

    def compile_class(self, device_class: DeviceClass, place: Place) -> None:
        for selector in device_class.spec.selectors:
            self._compile(selector, place.path, f"DeviceClass {device_class.metadata.name}: ")

    def _compile(self, selector: Selector, path: str, owner: str) -> Program:
        try:
            return compile_expression(selector.text)
        except CompileError as error:
            where = f" at {error.line}:{error.column}" if error.line else ""
            detail = f"{selector.text!r}: {owner}invalid CEL expression{where}: {error.text}"
            raise Unchargeable(Problem(SELECTOR_COMPILE, PERMANENT, path, INVALID, detail)) from None

    # --- devices -----------------------------------------------------------------------------------------------

    def drivers(self, selectors: tuple[str, ...]) -> list[str]:
        """The drivers whose devices can satisfy all selectors; notes that their slices were read."""
        allowed: frozenset[str] | None = None
        for text in selectors:
            only = compile_expression(text).reads.drivers
            if only is not None:
                allowed = only if allowed is None else allowed & only
        if allowed is None:
            self.inputs.add(("slices",))
            return sorted(self.index.drivers)
        self.inputs.update(("slices", driver) for driver in allowed)
        return sorted(allowed & self.index.drivers.keys())

    def census(
        self,
        driver: str,
        fences: tuple[str, ...],
        device_class: DeviceClass,
        request: DeviceRequest,
        pricing_key: tuple[object, ...],
        pricing: Pricing,
    ) -> Census | None:
        """None where the driver publishes nothing."""
        self.inputs.add(("slices", driver))
        if self.nodes is not None:
            self.inputs.add(("nodes",))
        devices = self.index.drivers.get(driver)
        if devices is None:
            return None
        question = Question(
            SCOPES[self.reference],
            self.nodes,
            fences,
            texts(device_class.spec.selectors),
            texts(request.selectors),
            None if self.reference else request.tolerations,
            pricing_key,
            self.reference,
        )
        return devices.census(question, pricing)


def texts(selectors: tuple[Selector, ...]) -> tuple[str, ...]:
    return tuple(selector.text for selector in selectors)


def template_claims(number: int, pod_set: PodSet) -> list[Place]:
    """The claims of a pod that are made from templates, in order (dra 1.5)."""
    return [
        Place(number, pod_set.name, position, entry.name, entry.resource_claim_template_name)
        for position, entry in enumerate(pod_set.template.spec.resource_claims)
        if entry.resource_claim_template_name
    ]
