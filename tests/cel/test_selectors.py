"""What selectors answer, as Kubernetes would: the table of expressions, each with its outcome."""

from __future__ import annotations

import pytest

from ledger.cel import EvaluationError, compile_expression
from ledger.cel.errors import (
    COST,
    NO_SUCH_KEY,
    NOT_BOOL,
    RESULT_TYPE,
    SYNTAX,
    TOO_DEEP,
    TOO_LONG,
    TYPE_CHECK,
    CompileError,
)
from tests.cel.devices import COMPILE, H100, PARTITION, RUNTIME, A, answer

NAMED = f"{A}['%s']"

TABLE: dict[str, bool | str] = {
    # identity
    "device.driver == 'gpu.nvidia.com'": True,
    "device.driver == 'gpu.nvidia.com' && A.type == 'gpu'": True,
    "device.driver != 'gpu.nvidia.com'": False,
    "A.type in ['gpu', 'mig']": True,
    "A.healthy": True,
    "!A.healthy": False,
    "device.allowMultipleAllocations": True,
    # missing
    "A.profile == '1g.10gb'": RUNTIME,
    "has(A.profile) && A.profile == '1g.10gb'": False,
    f"'profile' in {A} && A.profile == '1g.10gb'": False,
    "A.?profile.orValue('') == '1g.10gb'": False,
    "A.?type.orValue('') == 'gpu'": True,
    f"{A}[?'profile'].orValue('none') == 'none'": True,
    f"{A}[?'type'].hasValue()": True,
    "A.?profile.hasValue()": False,
    "device.attributes['nope'].x == 1": RUNTIME,
    "has(device.attributes['nope'].x)": False,
    "device.attributes['nope'].?x.hasValue()": False,
    "'nope' in device.attributes": False,
    "'gpu.nvidia.com' in device.attributes": True,
    "device.attributes[?'nope'].hasValue()": True,
    # the side that decides absorbs the error of the other
    "A.type == 'gpu' || A.profile == 'x'": True,
    "A.profile == 'x' || A.type == 'gpu'": True,
    "A.type == 'mig' || A.profile == 'x'": RUNTIME,
    "A.type == 'mig' && A.profile == 'x'": False,
    "A.profile == 'x' && A.type == 'mig'": False,
    "A.type == 'gpu' && A.profile == 'x'": RUNTIME,
    # quantities
    "C.memory.compareTo(quantity('80Gi')) == 0": True,
    "C.memory.compareTo(quantity('79Gi')) > 0": True,
    "C.memory.isGreaterThan(quantity('40Gi'))": True,
    "C.memory.isLessThan(quantity('40Gi'))": False,
    "C.memory == quantity('81920Mi')": True,
    "C.shares == quantity('4000m')": True,
    "C.shares.asInteger() == 4": True,
    "C.power.asInteger() == 1": RUNTIME,
    "C.power.isInteger()": False,
    "C.power.asApproximateFloat() > 1.4": True,
    "C.shares.sign() == 1": True,
    "C.shares.add(quantity('1')).asInteger() == 5": True,
    "C.shares.sub(2).asInteger() == 2": True,
    "isQuantity('1.5Gi') && !isQuantity('1.5Zi')": True,
    "C.memory > quantity('1Gi')": COMPILE,
    "C.memory > 5": COMPILE,
    "quantity('nonsense') == quantity('1')": RUNTIME,
    # versions
    "A.driverVersion.isGreaterThan(semver('570.0.0'))": True,
    "A.driverVersion.compareTo(semver('580.126.20')) == 0": True,
    "A.driverVersion.major() == 580 && A.driverVersion.minor() == 126 && A.driverVersion.patch() == 20": True,
    "A.cudaDriverVersion.isLessThan(semver('13.0.0'))": True,
    "semver('v570.1', true) == semver('570.1.0')": True,
    "isSemver('1.2.3') && !isSemver('1.2') && isSemver('v1.2', true)": True,
    "A.type.isGreaterThan(semver('1.0.0'))": RUNTIME,
    "C.memory.isGreaterThan(A.driverVersion)": RUNTIME,
    # bind
    f"cel.bind(d, {A}, d.type == 'gpu' && d.index > 2)": True,
    "cel.bind(a, device.attributes, a['gpu.nvidia.com'].type == 'gpu')": True,
    "cel.bind(a, device.attributes, has(a['nope'].x))": False,
    # strings
    "A.productName.lowerAscii().matches('h100')": True,
    "A.productName.matches('^H100')": False,
    "A.productName.split(' ')[1] == 'H100'": True,
    "A.productName.replace('NVIDIA ', '').startsWith('H100')": True,
    "A.productName.contains('80GB') && A.productName.endsWith('HBM3')": True,
    # lists
    "A.models.includes('h100')": True,
    "A.models.includes('a100')": False,
    "A.type.includes('gpu')": True,
    "A.models.exists(m, m.startsWith('hop'))": True,
    "'h100' in A.models": True,
    # macros
    "device.attributes.exists(k, k.endsWith('kubernetes.io'))": True,
    f"{A}.exists(k, k.startsWith('cuda'))": True,
    f"{A}.all(k, k != 'profile')": True,
    "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]": True,
    "[1, 2].exists_one(x, x == 2)": True,
    # types
    "A.index > '3'": RUNTIME,
    "A.index": RUNTIME,
    "A.index > 2.5": True,
    "A.index == '3'": False,
    "1": COMPILE,
    "'x'": COMPILE,
    "dyn(null)": RUNTIME,
    "A.healthy ? A.index == 3 : false": True,
    "A.index ? true : false": RUNTIME,
    # syntax and names
    "A.type ?! 'gpu'": COMPILE,
    "device.foo == 1": COMPILE,
    "undefinedVar == 1": COMPILE,
    "device.attributes.gpu.x": RUNTIME,
    "device.driver ==": COMPILE,
    "": COMPILE,
    "A.type.matches('(')": COMPILE,
}

WHOLE_DEVICE: dict[str, bool | str] = {
    "has(device.driver)": True,
    "has(device.attributes)": True,
    "has(device.capacity)": True,
    "has(device.allowMultipleAllocations)": True,
    "!has(device.driver)": False,
    "has( device . driver ) && A.type == 'gpu'": True,
    "has(device.foo)": COMPILE,
    "'has(device.driver)' == 'true'": False,
    "cel.bind(d, device, d.driver == 'gpu.nvidia.com')": True,
    "cel.bind(d, device, d.attributes['gpu.nvidia.com'].type == 'gpu')": True,
    "cel.bind(d, device, has(d.driver))": True,
    "cel.bind(d, device, d.allowMultipleAllocations)": True,
    "cel.bind(d, device, d.foo == 1)": RUNTIME,
    "cel.bind(d, device, device.foo == 1)": COMPILE,
    "[device].exists(d, d.driver == 'gpu.nvidia.com')": True,
    "[device].all(d, d.driver == 'other')": False,
    "device.?attributes.hasValue()": True,
    "device == device": True,
    "device": RUNTIME,
}


@pytest.mark.parametrize("expression", TABLE)
def test_a_selector_answers_as_kubernetes_would(expression: str) -> None:
    assert answer(expression) == TABLE[expression]


@pytest.mark.parametrize("expression", WHOLE_DEVICE)
def test_the_device_may_be_used_whole(expression: str) -> None:
    assert answer(expression) == WHOLE_DEVICE[expression]


def test_an_exclusive_device_says_so() -> None:
    assert answer("device.allowMultipleAllocations", PARTITION) is False
    assert answer("has(device.allowMultipleAllocations)", PARTITION) is True


@pytest.mark.parametrize(
    ("expression", "code", "line", "column"),
    [
        ("device.driver ==", SYNTAX, 1, 17),
        ("device.foo == 1", TYPE_CHECK, 1, 7),
        ("true &&\n device.bar == 1", TYPE_CHECK, 2, 8),
        ("has(device.driver) && device.foo == 1", TYPE_CHECK, 1, 29),
        ("cel.bind(d, device, d.driver == 'x' && device.foo == 1)", TYPE_CHECK, 1, 46),
        ("1 + 1", RESULT_TYPE, 1, 1),
    ],
)
def test_a_compile_error_says_what_and_where(expression: str, code: str, line: int, column: int) -> None:
    with pytest.raises(CompileError) as refused:
        compile_expression(expression)
    assert (refused.value.code, refused.value.line, refused.value.column) == (code, line, column)


def test_a_refusal_is_remembered_and_told_again() -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="undeclared reference"):
            compile_expression("device.nothing == 2")


def test_too_long_and_too_deep_are_told_apart() -> None:
    with pytest.raises(CompileError) as long:
        compile_expression("true || " * 2000 + "true")
    with pytest.raises(CompileError) as deep:
        compile_expression("(" * 40 + "true" + ")" * 40)
    assert (long.value.code, deep.value.code) == (TOO_LONG, TOO_DEEP)


def test_ten_kibibytes_of_alternatives_compile_and_answer() -> None:
    expression = " || ".join(["device.driver == 'someone.else.example'"] * 200 + ["device.driver == 'gpu.nvidia.com'"])
    assert answer(expression) is True


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(EvaluationError) as missing:
        compile_expression(f"{A}.profile == 'x'").matches(H100)
    assert (missing.value.code, missing.value.name, str(missing.value)) == (
        NO_SUCH_KEY,
        "profile",
        "no such key: profile",
    )


def test_a_result_that_is_no_truth_value_is_an_error() -> None:
    with pytest.raises(EvaluationError) as wrong:
        compile_expression(f"{A}.index").matches(H100)
    assert wrong.value.code == NOT_BOOL
    assert str(wrong.value) == "CEL result of type int could not be converted to bool"


def test_a_runaway_stops_at_the_cost_limit() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    nested = "true"
    for name in "abcdefg":
        nested = f"{ten}.all({name}, {nested})"
    with pytest.raises(EvaluationError) as stopped:
        compile_expression(nested).matches(H100)
    assert stopped.value.code == COST


def test_the_cost_limit_is_not_absorbed_by_logic() -> None:
    with pytest.raises(EvaluationError) as stopped:
        compile_expression("[1,2,3].exists(x, x > 5) || true").matches(H100, limit=5)
    assert stopped.value.code == COST


def test_a_list_of_more_than_48_values_is_not_searched() -> None:
    numbers = ",".join(map(str, range(49)))
    assert answer(f"[{numbers}].includes(1)") == RUNTIME
    assert answer(f"[{numbers.rsplit(',', 1)[0]}].includes(1)") is True


@pytest.mark.parametrize(
    "expression",
    ["'\ud800' == 'x'", "timestamp(-62135596801) == timestamp(0)", "timestamp(9223372036854775807).getFullYear() == 1",
     "timestamp('9999-12-31T23:59:59Z').getFullYear('+23:00') == 1",
     "duration('315576000000s') + duration('1s') == duration('0')",
     "'%d'.format([1.5]) == ''", "dyn({})[dyn([])] == 1", "timestamp('2024-01-01T00:00:00Z').getFullYear('Mars') == 1"],
)  # fmt: skip
def test_odd_expressions_fail_cleanly(expression: str) -> None:
    assert answer(expression) in (COMPILE, RUNTIME)


def test_truth_values_are_not_numbers() -> None:
    assert answer("dyn(true) == 1") is False
    assert answer("dyn(1) in [true]") is False
    assert answer("{true: 1, 1: 2}[1] == 2") is True
    assert answer("dyn(1) == 1.0 && dyn(1u) == 1 && {1: 'a'}[dyn(1.0)] == 'a'") is True


def test_overflow_and_division_by_zero_are_errors() -> None:
    assert answer("9223372036854775807 + A.index > 0") == RUNTIME
    assert answer("A.index / (A.index - 3) == 1") == RUNTIME
    assert answer("(0 - A.index) / 2 == -1 && (0 - A.index) % 2 == -1") is True
