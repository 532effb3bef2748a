"""The devices that the tests of expressions look at: one synthetic H100 and a partition of it."""

from __future__ import annotations

from ledger.cel import Device, compile_expression, parse_quantity, parse_semver
from ledger.cel.errors import CompileError, EvaluationError

DRIVER = "gpu.nvidia.com"

H100 = Device(
    DRIVER,
    {
        DRIVER: {
            "type": "gpu",
            "productName": "NVIDIA H100 80GB HBM3",
            "index": 3,
            "healthy": True,
            "models": ["h100", "hopper"],
            "driverVersion": parse_semver("580.126.20"),
            "cudaDriverVersion": parse_semver("13.0.0-rc.1"),
        },
        "resource.kubernetes.io": {"numaNode": 1, "pcieRoot": "pci0000:18"},
    },
    {DRIVER: {"memory": parse_quantity("80Gi"), "shares": parse_quantity("4"), "power": parse_quantity("1500m")}},
    True,
)
PARTITION = Device(
    DRIVER, {DRIVER: {"type": "mig", "profile": "1g.10gb"}}, {DRIVER: {"memory": parse_quantity("9984Mi")}}
)

COMPILE = "compile error"
RUNTIME = "run-time error"

A = "device.attributes['gpu.nvidia.com']"
C = "device.capacity['gpu.nvidia.com']"


def answer(expression: str, device: Device = H100) -> bool | str:
    """True, false, a compile error or a run-time error; abbreviations `A` and `C` are written out."""
    try:
        program = compile_expression(expression.replace("A.", f"{A}.").replace("C.", f"{C}."))
    except CompileError:
        return COMPILE
    try:
        return program.matches(device)
    except EvaluationError:
        return RUNTIME
