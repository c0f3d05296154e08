"""How long a new process takes to import each library and for its first call, once it has NumPy
and Arrow."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec

import pyarrow as pa

import lancekit as lk
from benchmarks.markdown import ms, table
from benchmarks.plan import Plan

__all__ = ["document", "measure"]

ROUNDS = 7
#: what may be over NumPy and Arrow, in milliseconds
GOAL = 150.0

#: what is imported or called -> the module that has to be there, and the statement
_IMPORTS = {
    "lancekit": ("lancekit", "import lancekit"),
    "lancekit, up to `lk.dataset`": ("lancekit", "import lancekit as lk; lk.dataset"),
    "lancekit, first count": ("lancekit", "import lancekit as lk; lk.dataset(at).count_rows()"),
    "lancekit, first filter": (
        "lancekit",
        "import lancekit as lk; lk.dataset(at).to_table(filter='id = 5')",
    ),
    "pylance": ("lance", "import lance"),
    "pylance, first count": ("lance", "import lance; lance.dataset(at).count_rows()"),
    "pylance, first filter": ("lance", "import lance; lance.dataset(at).to_table(filter='id = 5')"),
    "DuckDB": ("duckdb", "import duckdb"),
    "delta-rs": ("deltalake", "import deltalake"),
}

_PROGRAM = """
import sys, time
import numpy, pyarrow
at = sys.argv[2]
started = time.perf_counter()
exec(sys.argv[1])
print(time.perf_counter() - started)
"""


def _seconds(statement: str, at: str) -> float:
    command = [sys.executable, "-c", _PROGRAM, statement, at]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(plan: Plan) -> dict[str, float]:
    """Return the median milliseconds of each import and first call."""
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        at = f"{folder}/table"
        lk.write_dataset(pa.table({"id": pa.array(range(1000), pa.int64())}), at)
        for _ in range(1 if plan.quick else ROUNDS):
            for name, (module, statement) in _IMPORTS.items():
                if find_spec(module) and plan.wants(name):
                    taken.setdefault(name, []).append(_seconds(statement, at) * 1e3)
    return {name: round(statistics.median(of), 1) for name, of in taken.items()}


def document(found: dict[str, float]) -> dict[str, str]:
    """Return a table; lancekit's import is bold if it misses its goal."""
    lines = []
    for name, taken in found.items():
        goal = GOAL if name == "lancekit" else None
        shown = f"**{ms([taken])}**" if goal and taken > goal else ms([taken])
        lines.append([name, f"{goal:g}" if goal else "", shown])
    return {"imports": table(["", "goal", "ms"], lines)}
