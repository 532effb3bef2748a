"""The worked scenarios of the Configuration's device class mappings (dra 20.5), under their numbers."""

from __future__ import annotations

import pytest

from tests.objects.samples import Object, decode
from tests.objects.test_validation import (
    MAPPINGS,
    SOURCES,
    capacity,
    counter,
    mapped,
    mapping,
    priced,
    refused,
)

COUNTER = f"{SOURCES}[0].counter"
CAPACITY = f"{SOURCES}[0].capacity"


def of_class(name: str, resource: str, source: Object | None = None) -> Object:
    return mapping(resource, name, sources=None if source is None else [source])


def without_selector() -> Object:
    return {"counter": {"name": "memory", "driver": "gpu.example.com"}}


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(mapped(*[mapping(f"m{n}", f"c{n}") for n in range(17)]), MAPPINGS, id="V01"),
        pytest.param(mapped(mapping("gpu", *[f"c{n}" for n in range(9)])), f"{MAPPINGS}[0].deviceClassNames", id="V02"),
        pytest.param(
            mapped(of_class("gpu.nvidia.com", "gpu"), of_class("gpu.nvidia.com", "gpu.memory", counter())),
            f"{MAPPINGS}[1].deviceClassNames[0]",
            id="V03 sources second",
        ),
        pytest.param(
            mapped(of_class("gpu.nvidia.com", "gpu.memory", counter()), of_class("gpu.nvidia.com", "gpu")),
            f"{MAPPINGS}[1].deviceClassNames[0]",
            id="V03 sources first",
        ),
        pytest.param(
            mapped(*[of_class("mig.nvidia.com", name, counter("memory")) for name in ("a", "b")]),
            f"{MAPPINGS}[1].deviceClassNames[0]",
            id="V05",
        ),
        pytest.param(priced(counter("INVALID_NAME")), f"{COUNTER}.name", id="V06 invalid"),
        pytest.param(priced(counter("")), f"{COUNTER}.name", id="V06 required"),
        pytest.param(priced(counter(driver="NOT_VALID!!")), f"{COUNTER}.driver", id="V07"),
        pytest.param(priced(counter(driver="d" * 64)), f"{COUNTER}.driver", id="V07 long"),
        pytest.param(priced(counter(driver="Gpu.Example.Com")), f"{COUNTER}.driver", id="V07 upper case"),
        pytest.param(priced(without_selector()), f"{COUNTER}.deviceSelector.cel.expression", id="V08"),
        pytest.param(
            priced(counter(expression="device.nope == 1")), f"{COUNTER}.deviceSelector.cel.expression", id="V09 field"
        ),
        pytest.param(priced(counter(expression="1")), f"{COUNTER}.deviceSelector.cel.expression", id="V09 result"),
        pytest.param(
            priced(counter(expression="device.driver ==")), f"{COUNTER}.deviceSelector.cel.expression", id="V09 syntax"
        ),
        pytest.param(priced(counter() | capacity()), SOURCES, id="V10 both"),
        pytest.param(priced(counter(), {}), f"{SOURCES}[1]", id="V10 neither"),
        pytest.param(priced(counter(), capacity()), SOURCES, id="V11"),
        pytest.param(priced(capacity("/memory")), f"{CAPACITY}.name", id="V13 no domain"),
        pytest.param(priced(capacity("gpu.example.com/memory-bytes")), f"{CAPACITY}.name", id="V13 dash"),
        pytest.param(priced(capacity(f"{'d' * 64}/memory")), f"{CAPACITY}.name", id="V13 long domain"),
        pytest.param(priced(capacity("m" * 33)), f"{CAPACITY}.name", id="V13 long identifier"),
        pytest.param(mapped(mapping(f"{'a' * 240}/{'b' * 14}")), f"{MAPPINGS}[0].name", id="V14 255 characters"),
        pytest.param(priced(capacity(), consumable=False), CAPACITY, id="V15"),
        pytest.param(mapped(mapping("gpu", "x", "y", "x")), f"{MAPPINGS}[0].deviceClassNames[2]", id="V16"),
        pytest.param(priced(capacity("a/b/c")), f"{CAPACITY}.name", id="V17 ledger"),
    ],
)
def test_a_worked_configuration_is_refused_at_its_place(item: Object, path: str) -> None:
    assert refused(item) == path


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(
            mapped(*[of_class("mig.nvidia.com", name, counter(name)) for name in ("memory", "multiprocessors")]),
            id="V04",
        ),
        *[
            pytest.param(priced(capacity(name)), id=f"V12 {name}")
            for name in (
                "memory",
                "gpu.example.com/memory",
                "GPU.example.com/memory",
                "gpu.example.com/Memory_Bytes",
            )
        ],
        pytest.param(mapped(mapping(f"{'a' * 240}/{'b' * 12}")), id="V14 253 characters"),
        pytest.param(priced(capacity("a/b/c"), rules="kueue-0.19"), id="V17 kueue-0.19"),
    ],
)
def test_a_worked_configuration_is_accepted(item: Object) -> None:
    assert decode(item).resources.device_class_mappings
