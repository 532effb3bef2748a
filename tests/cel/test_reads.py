"""What an expression can depend on: the drivers it can match, and the names it reads."""

from __future__ import annotations

import pytest

from ledger.cel import compile_expression
from tests.cel.devices import A, C

GPU = "gpu.nvidia.com"


@pytest.mark.parametrize(
    ("expression", "drivers"),
    [
        (f"device.driver == '{GPU}'", {GPU}),
        (f"'{GPU}' == device.driver && {A}.type == 'gpu'", {GPU}),
        ("device.driver == 'a' || device.driver == 'b'", {"a", "b"}),
        ("device.driver in ['a', 'b'] && device.driver == 'b'", {"b"}),
        ("device.driver == 'a' && device.driver == 'b'", set()),
        ("device.driver == 'a' || true", None),
        ("device.driver != 'a'", None),
        ("device.driver.startsWith('a')", None),
    ],
)
def test_the_drivers_that_can_match(expression: str, drivers: set[str] | None) -> None:
    found = compile_expression(expression).reads.drivers
    assert found == (None if drivers is None else frozenset(drivers))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (f"{A}.type == 'gpu'", {("attributes", GPU, "type")}),
        (f"has({A}.x) || 'y' in {A} || {A}.?z.hasValue() || {A}[?'w'].hasValue()",
         {("attributes", GPU, name) for name in "wxyz"}),
        (f"{C}.memory.isInteger()", {("capacity", GPU, "memory")}),
        (f"cel.bind(d, {A}, d.type == d['kind'])", {("attributes", GPU, "type"), ("attributes", GPU, "kind")}),
        ("cel.bind(a, device.attributes, a['d'].x == 1)", {("attributes", "d", "x")}),
    ],
)  # fmt: skip
def test_names_that_are_read(expression: str, names: set[tuple[str, str, str]]) -> None:
    reads = compile_expression(expression).reads
    assert (set(reads.names), reads.whole, set(reads.keys)) == (names, False, set())


def test_sharing_is_noted() -> None:
    assert compile_expression("device.allowMultipleAllocations").reads.sharing
    assert not compile_expression("device.driver == 'a'").reads.sharing


@pytest.mark.parametrize("expression", [f"{A}.exists(k, k == 'x')", f"size({A}) > 1", "'d' in device.attributes"])
def test_going_through_names_depends_on_the_names_only(expression: str) -> None:
    reads = compile_expression(expression).reads
    assert (reads.keys, reads.whole) == ({"attributes"}, False)


@pytest.mark.parametrize(
    "expression",
    [f"{A}.exists(k, {A}[k] == 'x')", f"{A} == {A}", f"[{A}].exists(m, m.type == 'gpu')", "[device].size() == 1"],
)
def test_what_may_read_anything_is_noted(expression: str) -> None:
    assert compile_expression(expression).reads.whole
