"""Memory and time: nothing grows, nothing runs away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ledger.cel import Device, EvaluationError, compile_expression
from ledger.cel import program as programs

GPU = "gpu.nvidia.com"
ROOT = Path(__file__).resolve().parents[2]

GROWTH = """
import gc, resource
from ledger.cel import Device, compile_expression, parse_quantity
device = Device("d", {}, {"d": {"memory": parse_quantity("80Gi")}})
text = "device.capacity['d'].memory.compareTo(quantity('79Gi')) >= 0 && device.capacity['d'].memory == quantity('80Gi')"
program = compile_expression(text)
def resident():
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(20_000):
    assert program.matches(device)
before = resident()
for _ in range(100_000):
    assert program.matches(device)
print(resident() - before)
"""


def test_a_hundred_thousand_evaluations_leave_no_memory_behind() -> None:
    ran = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(ran.stdout) < 1024, "KiB"


def test_a_runaway_stops() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    nested = "true"
    for name in "abcdefg":
        nested = f"{ten}.all({name}, {nested})"
    program = compile_expression(nested)
    with pytest.raises(EvaluationError, match="cost"):
        program.matches(Device(GPU, {}, {}))


def test_a_text_that_doubles_itself_is_stopped_before_it_is_large() -> None:
    doubled = "device.driver"
    for name in "abcdefghijklmnopqrst":
        doubled = f"cel.bind({name}, {doubled}, {name} + {name})"
    program = compile_expression(f"({doubled}).size() > 0 && {doubled} == ''")
    with pytest.raises(EvaluationError) as stopped:
        program.matches(Device("d" * 1000, {}, {}))
    assert stopped.value.code == "COST"


def test_the_cache_of_programs_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LARGEST_CACHE", 100_000)
    for number in range(50):
        compile_expression(f"device.driver == 'driver-{number}.example'")
    assert len(programs._cache) <= 12
    assert compile_expression("device.driver == 'driver-0.example'").matches(Device("driver-0.example", {}, {}))
