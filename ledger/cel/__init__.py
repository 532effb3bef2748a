"""Expressions that select devices: the Common Expression Language with the environment of Kubernetes DRA.

    program = compile_expression("device.driver == 'gpu.example.com' && device.capacity['gpu.example.com'].memory"
                                 ".compareTo(quantity('40Gi')) >= 0")
    program.matches(Device("gpu.example.com", {}, {"gpu.example.com": {"memory": parse_quantity("80Gi")}}))

This package depends on nothing else of the project. Parsing and type checking are those of `cel-expr-python`;
evaluation is its own, in plain Python: exact, bounded in cost, without side effects.
"""

from __future__ import annotations

from ledger.cel.errors import CompileError, EvaluationError
from ledger.cel.program import Program, compile_expression
from ledger.cel.quantity import Quantity, parse_quantity
from ledger.cel.reads import Reads
from ledger.cel.semver import Semver, parse_semver
from ledger.cel.values import Device

__all__ = [
    "CompileError",
    "Device",
    "EvaluationError",
    "Program",
    "Quantity",
    "Reads",
    "Semver",
    "compile_expression",
    "parse_quantity",
    "parse_semver",
]
