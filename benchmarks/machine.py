"""What a figure was measured on, and its spread over runs."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path


def machine() -> str:
    """Processor, cores and interpreter, in one line."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    return f"{name}, {os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"


def spread(values: Sequence[float], unit: str) -> str:
    """Median and extremes of all runs."""
    return (
        f"median {statistics.median(values):,.1f} {unit}"
        f" (min {min(values):,.1f}, max {max(values):,.1f}, {len(values)} runs)"
    )
