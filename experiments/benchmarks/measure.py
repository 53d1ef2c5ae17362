"""CPU time and memory of this process (Linux)."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from experiments.benchmarks.report import Row
from experiments.code_version import code_version, library_versions

Result = TypeVar("Result")

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
# A piece that takes this long is not repeated.
_ENOUGH = 10.0  # CPU seconds


@dataclass(frozen=True)
class Cost:
    """What a piece of work took."""

    cpu: float  # seconds of all threads
    wall: float  # seconds
    growth: int  # bytes: peak of resident memory less what was resident before
    peak: int  # bytes of resident memory


def measured(work: Callable[[], Result], *, repeats: int = 1) -> tuple[Result, Cost]:
    """Return what ``work`` returns and its cost: the shortest times, the largest memory.

    Repeats end early where the work is long enough to be measured once.
    """
    costs: list[Cost] = []
    while True:
        before = _reset_peak()
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        peak = _status("VmHWM")
        costs.append(Cost(cpu, wall, peak - before, peak))
        if len(costs) >= repeats or sum(cost.cpu for cost in costs) > _ENOUGH:
            break
        del result  # or the next repeat would run beside it
    shortest = min(costs, key=lambda cost: cost.cpu)
    return result, Cost(
        shortest.cpu,
        min(cost.wall for cost in costs),
        max(cost.growth for cost in costs),
        max(cost.peak for cost in costs),
    )


def peak_bytes() -> int:
    """Return the largest resident memory of this process since its start or last measurement."""
    return _status("VmHWM")


def machine() -> Row:
    """Return what the numbers depend on besides the code."""
    memory = round(psutil.virtual_memory().total / 2**30, 1)
    facts: Row = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "load": round(os.getloadavg()[0], 2),  # over the minute before
        "system": platform.system(),
    }
    return facts | dict(library_versions()) | dict(code_version())


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _reset_peak() -> int:
    """Make the peak the memory that is resident now, and return that."""
    _CLEAR.write_text("5")
    return _status("VmRSS")


def _status(key: str) -> int:
    """Return a size of /proc/self/status in bytes.

    Not ``getrusage``: a child's largest size begins with that of its parent.
    """
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)
