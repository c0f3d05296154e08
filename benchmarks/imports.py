"""How long a new process imports each library, once it has NumPy and Arrow."""

from __future__ import annotations

import statistics
import subprocess
import sys
from importlib.util import find_spec

from benchmarks.markdown import ms, table
from benchmarks.plan import Plan

__all__ = ["document", "measure"]

ROUNDS = 7
#: what may be over NumPy and Arrow, in milliseconds
GOAL = 150.0

#: what is imported -> the module that has to be there, and the statement
_IMPORTS = {
    "lancekit": ("lancekit", "import lancekit"),
    "lancekit, up to `lk.dataset`": ("lancekit", "import lancekit as lk; lk.dataset"),
    "pylance": ("lance", "import lance"),
    "DuckDB": ("duckdb", "import duckdb"),
    "delta-rs": ("deltalake", "import deltalake"),
}

_PROGRAM = """
import sys, time
import numpy, pyarrow
started = time.perf_counter()
exec(sys.argv[1])
print(time.perf_counter() - started)
"""


def _seconds(statement: str) -> float:
    command = [sys.executable, "-c", _PROGRAM, statement]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(plan: Plan) -> dict[str, float]:
    """Return the median milliseconds of each import."""
    taken: dict[str, list[float]] = {}
    for _ in range(1 if plan.quick else ROUNDS):
        for name, (module, statement) in _IMPORTS.items():
            if find_spec(module) and plan.wants(name):
                taken.setdefault(name, []).append(_seconds(statement) * 1e3)
    return {name: round(statistics.median(of), 1) for name, of in taken.items()}


def document(found: dict[str, float]) -> dict[str, str]:
    """Return a table; lancekit's import is bold if it misses its goal."""
    lines = []
    for name, taken in found.items():
        goal = GOAL if name == "lancekit" else None
        shown = f"**{ms([taken])}**" if goal and taken > goal else ms([taken])
        lines.append([name, f"{goal:g}" if goal else "", shown])
    return {"imports": table(["", "goal", "ms"], lines)}
