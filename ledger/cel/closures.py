"""From a checked tree to one Python closure per node: `f(device, slots, budget)`.

Variables of comprehensions live in numbered slots, assigned when the tree is compiled. A slot may hold a
`Failure`: an error that counts only if the value is really read, which is what makes `exists` absorb errors of
some elements and `cel.bind` lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ledger.cel import strings
from ledger.cel.cost import CONTAINER, Budget, exhausted, spend
from ledger.cel.errors import (
    COST,
    UNSUPPORTED,
    CompileError,
    EvaluationError,
    no_overload,
    no_such_key,
)
from ledger.cel.functions import FUNCTIONS, Function
from ledger.cel.quantity import parse_quantity
from ledger.cel.semver import parse_semver
from ledger.cel.tree import Call, Checked, Comprehension, Constant, Ident, ListOf, MapOf, Node, Select
from ledger.cel.values import (
    DEVICE_FIELDS,
    NONE,
    Device,
    Optional,
    TypeValue,
    device_field,
    from_key,
    is_list,
    is_map,
    to_key,
    type_name,
)

Slots = list[Any]
Closure = Callable[[Device, Slots, Budget], Any]
TYPES = ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type")


class Failure:
    """An error put aside until somebody reads the variable."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


class Closures:
    """Compiles one tree; `slots` is how many variables an evaluation needs."""

    def __init__(self, checked: Checked) -> None:
        self.references = checked.references
        self.slots = 0
        self.root = self.compile(checked.root, {})

    def compile(self, node: Node, scope: Mapping[str, int]) -> Closure:
        if isinstance(node, Constant):
            return _constant(node.value)
        if isinstance(node, Ident):
            return self._ident(node, scope)
        if isinstance(node, Select):
            return self._select(node, scope)
        if isinstance(node, Call):
            return self._call(node, scope)
        if isinstance(node, ListOf):
            return self._list(node, scope)
        if isinstance(node, MapOf):
            return self._map(node, scope)
        return self._comprehension(node, scope)

    # --- names and fields ------------------------------------------------------------------------------------

    def _ident(self, node: Ident, scope: Mapping[str, int]) -> Closure:
        if node.name in scope:
            return _variable(scope[node.name])
        name = self.references.get(node.id, node.name)
        if name == "device":
            return lambda device, slots, budget: device
        if name.startswith("device."):
            return _device_variable(name.removeprefix("device."))
        if name in TYPES or name.startswith("google.protobuf."):
            return _constant(TypeValue(name))
        raise CompileError(UNSUPPORTED, f"undeclared reference to '{name}'")

    def _select(self, node: Select, scope: Mapping[str, int]) -> Closure:
        reference = None if node.test_only else self.references.get(node.id)
        if reference is not None:
            return self._ident(Ident(node.id, reference), {})
        operand = self.compile(node.operand, scope)
        return _presence(operand, node.field) if node.test_only else _field(operand, node.field)

    # --- calls -----------------------------------------------------------------------------------------------

    def _call(self, node: Call, scope: Mapping[str, int]) -> Closure:
        name, target, arguments = node.function, node.target, list(node.arguments)
        if isinstance(target, Ident) and target.name in ("optional", "strings") and target.name not in scope:
            name, target = f"{target.name}.{name}", None
        if target is not None:
            arguments.insert(0, target)
        folded = _fold(name, arguments)
        if folded is not None:
            return folded
        operands = [self.compile(argument, scope) for argument in arguments]
        special = _SPECIAL.get((name, len(operands)))
        if special is not None:
            return special(*operands)
        known = FUNCTIONS.get(name)
        if known is None or not known[0] <= len(operands) <= known[1]:
            raise CompileError(UNSUPPORTED, f"undeclared reference to '{name}'")
        return _apply(known[2], operands)

    # --- containers ------------------------------------------------------------------------------------------

    def _list(self, node: ListOf, scope: Mapping[str, int]) -> Closure:
        elements = [self.compile(element, scope) for element in node.elements]
        optional = node.optional

        def build(device: Device, slots: Slots, budget: Budget) -> list[Any]:
            spend(budget, CONTAINER)
            result = []
            for position, element in enumerate(elements):
                value = element(device, slots, budget)
                if position in optional:
                    if type(value) is not Optional:
                        raise no_overload("optional list element", value)
                    if not value.present:
                        continue
                    value = value.value
                result.append(value)
            return result

        return build

    def _map(self, node: MapOf, scope: Mapping[str, int]) -> Closure:
        entries = [(self.compile(k, scope), self.compile(v, scope), optional) for k, v, optional in node.entries]

        def build(device: Device, slots: Slots, budget: Budget) -> dict[Any, Any]:
            spend(budget, CONTAINER)
            result: dict[Any, Any] = {}
            for key_of, value_of, optional in entries:
                key, value = key_of(device, slots, budget), value_of(device, slots, budget)
                if type(key) is float or to_key(key) is to_key(None):
                    raise EvaluationError("BAD_ARGUMENT", f"unsupported key type: {type_name(key)}")
                if optional:
                    if type(value) is not Optional:
                        raise no_overload("optional map entry", value)
                    if not value.present:
                        continue
                    value = value.value
                if to_key(key) in result:
                    raise EvaluationError("BAD_ARGUMENT", "duplicate key in map")
                result[to_key(key)] = value
            return result

        return build

    # --- comprehensions --------------------------------------------------------------------------------------

    def _comprehension(self, node: Comprehension, scope: Mapping[str, int]) -> Closure:
        if node.second_variable:
            raise CompileError(UNSUPPORTED, "comprehensions over two variables")
        source = self.compile(node.range, scope)
        initial = self.compile(node.initial, scope)
        accumulator, variable = self.slots, self.slots + 1
        self.slots += 2
        inner = {**scope, node.accumulator: accumulator}
        if isinstance(node.range, ListOf) and not node.range.elements:
            return _binding(initial, self.compile(node.result, inner), accumulator)
        result = self.compile(node.result, inner)
        inner = {**inner, node.variable: variable}
        condition, step = self.compile(node.condition, inner), self.compile(node.step, inner)

        def loop(device: Device, slots: Slots, budget: Budget) -> Any:
            spend(budget, CONTAINER)
            elements = source(device, slots, budget)
            if is_map(elements):
                elements = [from_key(key) for key in sorted(elements, key=_key_order)]
            elif not is_list(elements):
                raise no_overload("comprehension range", elements)
            slots[accumulator] = _attempt(initial, device, slots, budget)
            for element in elements:
                spend(budget, 1)
                slots[variable] = element
                if condition(device, slots, budget) is not True:
                    break
                slots[accumulator] = _attempt(step, device, slots, budget)
            return result(device, slots, budget)

        return loop


def _key_order(key: Any) -> tuple[str, Any]:
    value = from_key(key)
    return ("number" if type(value) is not str else "string", value)


def _attempt(closure: Closure, device: Device, slots: Slots, budget: Budget) -> Any:
    try:
        return closure(device, slots, budget)
    except EvaluationError as error:
        if error.code == COST:
            raise
        return Failure(error)


def _binding(initial: Closure, result: Closure, slot: int) -> Closure:
    def bind(device: Device, slots: Slots, budget: Budget) -> Any:
        spend(budget, 1)
        slots[slot] = _attempt(initial, device, slots, budget)
        return result(device, slots, budget)

    return bind


def _constant(value: Any) -> Closure:
    return lambda device, slots, budget: value


def _variable(slot: int) -> Closure:
    def read(device: Device, slots: Slots, budget: Budget) -> Any:
        spend(budget, 1)
        value = slots[slot]
        if type(value) is Failure:
            raise value.error
        return value

    return read


def _device_variable(name: str) -> Closure:
    if name == "driver":
        return lambda device, slots, budget: device.driver
    if name == "attributes":
        return lambda device, slots, budget: device.attributes
    if name == "capacity":
        return lambda device, slots, budget: device.capacity
    if name == "allowMultipleAllocations":
        return lambda device, slots, budget: device.allow_multiple_allocations
    raise CompileError(UNSUPPORTED, f"undeclared reference to 'device.{name}'")


def _field(operand: Closure, name: str) -> Closure:
    def select(device: Device, slots: Slots, budget: Budget) -> Any:
        budget[0] -= 1
        if budget[0] < 0:
            raise exhausted()
        holder = operand(device, slots, budget)
        if is_map(holder):
            try:
                return holder[name]
            except KeyError:
                raise no_such_key(name) from None
        if type(holder) is Device:
            return device_field(holder, name)
        if type(holder) is Optional:
            return _optional_field(holder, name)
        raise no_overload(f"select {name}", holder)

    return select


def _optional_field(holder: Any, name: str) -> Optional:
    """A chain that went through `.?` once stays optional to its end."""
    if type(holder) is Optional:
        if not holder.present:
            return NONE
        holder = holder.value
    if type(holder) is Device:
        return Optional(device_field(holder, name)) if name in DEVICE_FIELDS else NONE
    if is_map(holder):
        try:
            return Optional(holder[name])
        except KeyError:
            return NONE
    raise no_overload(f"select {name}", holder)


def _presence(operand: Closure, name: str) -> Closure:
    def test(device: Device, slots: Slots, budget: Budget) -> bool:
        spend(budget, 1)
        holder = operand(device, slots, budget)
        if type(holder) is Optional:
            if not holder.present:
                return False
            holder = holder.value
        if is_map(holder):
            return bool(name in holder)
        if type(holder) is Device:
            return name in DEVICE_FIELDS
        raise no_overload(f"has({name})", holder)

    return test


# --- logic: the side that decides wins over an error on the other (dra S6) --------------------------------------


def _logic(operator: str, deciding: bool) -> Callable[[Closure, Closure], Closure]:
    def build(left: Closure, right: Closure) -> Closure:
        def logic(device: Device, slots: Slots, budget: Budget) -> bool:
            failure: EvaluationError | None = None
            for side in (left, right):
                try:
                    value: object = side(device, slots, budget)
                except EvaluationError as error:
                    if error.code == COST:
                        raise
                    failure = failure or error
                    continue
                if value is deciding:
                    return deciding
                if value is not (not deciding):
                    failure = failure or no_overload(operator, value)
            if failure is not None:
                raise failure
            return not deciding

        return logic

    return build


def _not(operand: Closure) -> Closure:
    def negation(device: Device, slots: Slots, budget: Budget) -> bool:
        value = operand(device, slots, budget)
        if type(value) is not bool:
            raise no_overload("!_", value)
        return value is False

    return negation


def _ternary(condition: Closure, chosen: Closure, other: Closure) -> Closure:
    def choose(device: Device, slots: Slots, budget: Budget) -> Any:
        value = condition(device, slots, budget)
        if type(value) is not bool:
            raise no_overload("_?_:_", value)
        return chosen(device, slots, budget) if value else other(device, slots, budget)

    return choose


def _not_strictly_false(operand: Closure) -> Closure:
    def lenient(device: Device, slots: Slots, budget: Budget) -> bool:
        value = _attempt(operand, device, slots, budget)
        return value is not False

    return lenient


def _or_value(optional: Closure, otherwise: Closure) -> Closure:
    def either(device: Device, slots: Slots, budget: Budget) -> Any:
        value = optional(device, slots, budget)
        if type(value) is not Optional:
            raise no_overload("orValue", value)
        return value.value if value.present else otherwise(device, slots, budget)

    return either


def _or(optional: Closure, otherwise: Closure) -> Closure:
    def either(device: Device, slots: Slots, budget: Budget) -> Any:
        value = optional(device, slots, budget)
        if type(value) is not Optional:
            raise no_overload("or", value)
        if value.present:
            return value
        value = otherwise(device, slots, budget)
        if type(value) is not Optional:
            raise no_overload("or", value)
        return value

    return either


def _optional_select(operand: Closure, name: Closure) -> Closure:
    def select(device: Device, slots: Slots, budget: Budget) -> Any:
        spend(budget, 1)
        return _optional_field(operand(device, slots, budget), name(device, slots, budget))

    return select


_SPECIAL: dict[tuple[str, int], Callable[..., Closure]] = {
    ("_&&_", 2): _logic("_&&_", False),
    ("_||_", 2): _logic("_||_", True),
    ("!_", 1): _not,
    ("_?_:_", 3): _ternary,
    ("@not_strictly_false", 1): _not_strictly_false,
    ("__not_strictly_false__", 1): _not_strictly_false,
    ("orValue", 2): _or_value,
    ("or", 2): _or,
    ("_?._", 2): _optional_select,
}


def _apply(function: Function, operands: list[Closure]) -> Closure:
    if len(operands) == 1:
        (only,) = operands

        def unary(device: Device, slots: Slots, budget: Budget) -> Any:
            spend(budget, 1)
            return function(budget, only(device, slots, budget))

        return unary
    if len(operands) == 2:
        first, second = operands

        def binary(device: Device, slots: Slots, budget: Budget) -> Any:
            budget[0] -= 1
            if budget[0] < 0:
                raise exhausted()
            return function(budget, first(device, slots, budget), second(device, slots, budget))

        return binary

    def general(device: Device, slots: Slots, budget: Budget) -> Any:
        spend(budget, 1)
        return function(budget, *[operand(device, slots, budget) for operand in operands])

    return general


def _fold(name: str, arguments: list[Node]) -> Closure | None:
    """Constant quantities and versions are parsed once; a pattern that RE2 refuses is refused at once."""
    constants = [argument.value for argument in arguments if isinstance(argument, Constant)]
    if name == "matches" and len(arguments) == 2 and isinstance(arguments[1], Constant):
        if type(arguments[1].value) is str:
            try:
                strings.pattern(arguments[1].value)
            except EvaluationError as error:
                raise CompileError(UNSUPPORTED, error.text) from None
        return None
    if len(constants) != len(arguments) or name not in ("quantity", "semver"):
        return None
    try:
        return _constant(parse_quantity(constants[0]) if name == "quantity" else parse_semver(*constants))
    except EvaluationError:
        return None
