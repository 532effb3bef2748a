"""Our evaluator against the library's own, on random expressions; the library runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ledger.cel import Device, compile_expression
from ledger.cel.errors import CompileError, EvaluationError
from tests.cel.expressions import Expressions
from tests.cel.native import ATTRIBUTES

DEVICE = Device("gpu.nvidia.com", ATTRIBUTES, {}, False)
ROOT = Path(__file__).resolve().parents[2]
HOW_MANY = 2500


def ours(expression: str) -> tuple[str, object]:
    try:
        return "value", compile_expression(expression).matches(DEVICE)
    except CompileError as error:
        return "compile", error.code
    except EvaluationError as error:
        return "error", error.code


def test_both_evaluators_answer_alike() -> None:
    made = Expressions(20261201)
    expressions = [made.truth(number % 4) for number in range(HOW_MANY)]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cel.native"],
        input="\n".join(map(json.dumps, expressions)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    theirs = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(theirs) == len(expressions)
    differences = []
    seen = {"value": 0, "error": 0, "compile": 0}
    for expression, (kind, value) in zip(expressions, theirs, strict=True):
        mine = ours(expression)
        seen[kind] += 1
        if mine[0] != kind or (kind == "value" and mine[1] != value):
            differences.append((expression, mine, (kind, value)))
    assert differences == []
    assert seen["value"] > 500
    assert seen["error"] > 300
