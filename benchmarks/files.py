"""``python -m benchmarks.files``: data files, per type and encoding, as ratios pylance / lancekit.

Above 1 lancekit is faster.  Both libraries use their threads; the lower lines of the table, and
``cpu``, say what that costs.  Three readings of each case are compared with pylance reading the
file that pylance wrote: lancekit reads that file (*theirs*), lancekit reads the file that
lancekit wrote (*ours*), and pylance reads lancekit's (*swap*).

Compiled kernels are loaded before, if Numba is installed; with ``--numpy`` they are left out.
Nothing that was decoded is remembered: it is decoding that is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import lance.file
import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.markdown import ms, ratios, table
from benchmarks.plan import Plan
from benchmarks.tables import CASES, make
from lancekit._file.reader import FileReader
from lancekit._file.writer import FileWriter
from lancekit._storage.local import LocalStore
from lancekit._storage.places import open_store
from lancekit.errors import LancekitError

__all__ = ["Result", "document", "lines", "measure", "measure_case"]

#: Rows of a batch that pylance is asked for: one suits its threads, one its single columns.
_BATCHES = (8192, 1 << 20)

_ROUNDS = 9
_TAKEN = 1000

#: The cases whose peak of memory is measured, each in a process of its own.
_MEMORY = ("int64 20 bits", "short strings", "text", "vectors", "lists, nulls", "flights")

Run = Callable[[int], object]


@dataclass(slots=True)
class Timing:
    """The least wall and CPU seconds of some runs; not a number where it cannot be done."""

    wall: float = math.inf
    cpu: float = math.inf
    fault: str = ""

    def add(self, run: Run, number: int) -> None:
        """Run once."""
        if self.fault:
            return
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            made = run(number)
        except (LancekitError, OSError, ValueError, NotImplementedError) as error:
            self.fault = f"{type(error).__name__}: {error}"
            self.wall = self.cpu = math.nan
            return
        self.wall = min(self.wall, time.perf_counter() - wall)
        self.cpu = min(self.cpu, time.process_time() - cpu)
        del made


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one case, by what was done and by whom."""

    name: str
    version: str
    sizes: Mapping[str, float]
    timings: Mapping[str, Mapping[str, Timing]]
    memory: Mapping[str, float] = field(default_factory=dict)

    def ratio(self, what: str, side: str, kind: str = "wall") -> float:
        """Return pylance's time with its own file over that of ``side``."""
        sides = self.timings[what]
        return float(getattr(sides["reference"], kind) / getattr(sides[side], kind))


def rounds(sides: Mapping[str, Run], count: int) -> dict[str, Timing]:
    """Run all sides in turn, ``count`` times."""
    timings = {side: Timing() for side in sides}
    for number in range(count):
        for side, run in sides.items():
            timings[side].add(run, number)
    return timings


def write_theirs(table: pa.Table, path: Path, version: str) -> None:
    """Write a file with pylance."""
    with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)


def write_ours(table: pa.Table, path: Path, version: str) -> None:
    """Write a file with lancekit, as little durable as pylance's."""
    path.unlink(missing_ok=True)
    sink = LocalStore(path.parent, fsync=False).create(path.name)
    try:
        writer = FileWriter(sink, table.schema, version=version)
        for batch in table.to_batches():
            writer.write(batch)
        writer.finish()
    except LancekitError:
        sink.abort()
        raise


def read_theirs(path: Path, number: int) -> pa.Table:
    """Open and read a file with pylance."""
    batch_size = _BATCHES[number % len(_BATCHES)]
    return lance.file.LanceFileReader(str(path)).read_all(batch_size=batch_size).to_table()


def open_ours(path: Path) -> FileReader:
    """Open a file with lancekit."""
    return FileReader.open(open_store(str(path.parent)).open(path.name))


def read_ours(path: Path) -> pa.Table:
    """Open and read a file with lancekit."""
    reader = open_ours(path)
    return reader.read(reader.columns)


def scans(theirs: Path, ours: Path) -> dict[str, Run]:
    """Return how each side reads everything."""
    return {
        "reference": lambda number: read_theirs(theirs, number),
        "theirs": lambda _: read_ours(theirs),
        "ours": lambda _: read_ours(ours),
        "swap": lambda number: read_theirs(ours, number) if ours.exists() else _absent(ours),
    }


def takes(theirs: Path, ours: Path) -> dict[str, Run]:
    """Return how each side takes scattered rows from an opened file."""

    def by_reference(path: Path) -> Run:
        reader = lance.file.LanceFileReader(str(path))
        rows = _scattered(reader.num_rows()).tolist()
        return lambda _: reader.take_rows(rows).to_table()

    def by_lancekit(path: Path) -> Run:
        reader = open_ours(path)
        rows = _scattered(reader.num_rows)
        return lambda _: reader.read(reader.columns, rows)

    sides = {
        "reference": (by_reference, theirs),
        "theirs": (by_lancekit, theirs),
        "ours": (by_lancekit, ours),
    }
    return {
        side: open_(path) if path.exists() else lambda _: _absent(ours)
        for side, (open_, path) in sides.items()
    }


def _absent(path: Path) -> None:
    """Fail: the library that should have written the file cannot."""
    raise FileNotFoundError(path)


def _scattered(rows: int) -> Any:
    return np.sort(np.random.default_rng(3).choice(rows, min(_TAKEN, rows), replace=False))


def measure_case(
    name: str, folder: Path, *, version: str = "2.2", share: float = 1.0, count: int = _ROUNDS
) -> Result:
    """Measure one case.

    Parameters
    ----------
    name
        One of `benchmarks.tables.CASES`.
    folder
        Where the files go.
    share
        The share of the case's rows to use.
    count
        How often everything is run.
    """
    made = make(name, share)
    theirs, ours = folder / "theirs.lance", folder / "ours.lance"
    encode = rounds(
        {
            "reference": lambda _: write_theirs(made, theirs, version),
            "ours": lambda _: write_ours(made, ours, version),
        },
        max(3, count // 2),
    )
    timings = {
        "encode": encode,
        "scan": rounds(scans(theirs, ours), count),
        "take": rounds(takes(theirs, ours), count),
    }
    sizes = {
        side: math.nan if encode[timing].fault else float(path.stat().st_size)
        for side, timing, path in (("theirs", "reference", theirs), ("ours", "ours", ours))
    }
    memory = {}
    if name in _MEMORY and share == 1.0:
        memory = {
            side: _peak(reader, path)
            for side, reader, path in (
                ("reference", "theirs", theirs),
                ("theirs", "ours", theirs),
                ("ours", "ours", ours),
            )
        }
    theirs.unlink(missing_ok=True)
    ours.unlink(missing_ok=True)
    return Result(name, version, sizes, timings, memory)


#: Run in a process of its own: reads a small file first, so that all is loaded.
_PEAK = """
import sys
from pathlib import Path
from benchmarks import files, memory

read = {"theirs": lambda path: files.read_theirs(path, 0), "ours": files.read_ours}[sys.argv[1]]
read(Path(sys.argv[3]))
print(memory.rise(lambda: read(Path(sys.argv[2]))))
"""


def _peak(library: str, path: Path) -> float:
    """Return by how many KiB reading a file raises the peak of a new process; Linux only."""
    small = path.with_name("small.lance")
    write_theirs(pa.table({"c": [1, 2, 3]}), small, "2.2")
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, library, str(path), str(small)],
        capture_output=True,
        text=True,
        check=False,
    )
    return float(done.stdout) if done.returncode == 0 else math.nan


#: heading -> what it shows of a result
_TABLE: dict[str, Callable[[Result], float]] = {
    "scan theirs": lambda r: r.ratio("scan", "theirs"),
    "cpu": lambda r: r.ratio("scan", "theirs", "cpu"),
    "scan ours": lambda r: r.ratio("scan", "ours"),
    "cpu ": lambda r: r.ratio("scan", "ours", "cpu"),
    "scan swap": lambda r: r.ratio("scan", "swap"),
    "take theirs": lambda r: r.ratio("take", "theirs"),
    "cpu  ": lambda r: r.ratio("take", "theirs", "cpu"),
    "take ours": lambda r: r.ratio("take", "ours"),
    "cpu   ": lambda r: r.ratio("take", "ours", "cpu"),
    "encode": lambda r: r.ratio("encode", "ours"),
    "cpu    ": lambda r: r.ratio("encode", "ours", "cpu"),
    "size": lambda r: r.sizes["ours"] / r.sizes["theirs"],
    "memory": lambda r: (
        max(r.memory["theirs"], r.memory["ours"]) / r.memory["reference"] if r.memory else math.nan
    ),
    "ms: scan": lambda r: r.timings["scan"]["reference"].wall * 1e3,
    "take": lambda r: r.timings["take"]["reference"].wall * 1e3,
    "encode ": lambda r: r.timings["encode"]["reference"].wall * 1e3,
}


def lines(results: Iterable[Result]) -> Iterator[str]:
    """Yield a table: ratios pylance / lancekit, sizes and memory lancekit / pylance, then ms."""
    yield f"{'':<22}" + "".join(f"{heading.strip():>12}" for heading in _TABLE)
    for result in results:
        shown = (show(result) for show in _TABLE.values())
        cells = (f"{'-':>12}" if math.isnan(v) else f"{v:>12.2f}" for v in shown)
        yield f"{result.name:<22}" + "".join(cells)


# ---- the page of performance

#: kind of code -> how often all is run, what a scan or take may cost with files of ours, of theirs
_CODES = {"compiled": (7, (1.0, 1.0)), "NumPy": (4, (1.5, 3.0))}


def measure(plan: Plan) -> dict[str, Any]:
    """Return seconds by case, kind of code, what is done, and side; sizes and peaks of memory."""
    found: dict[str, Any] = {}
    share = 0.01 if plan.quick else 1.0
    lk.warm_up(spark=False)
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(plan.wants, CASES):
            found[name] = {}
            for code, (count, _) in _CODES.items():
                with lk.options(cache_bytes=0, kernels=code == "compiled"):
                    often = 2 if plan.quick else count
                    result = measure_case(name, Path(folder), share=share, count=often)
                found[name][code] = {
                    what: {side: timing.wall for side, timing in sides.items()}
                    for what, sides in result.timings.items()
                }
                found[name] |= {"size": result.sizes, "memory": result.memory}
    return found


def document(found: dict[str, Any]) -> dict[str, str]:
    """Return a table of ratios to pylance's time with files of its own; bold as in the others."""
    done = [("scan", "ours"), ("scan", "theirs"), ("take", "ours"), ("take", "theirs")]
    rows = []
    for name in filter(found.__contains__, CASES):
        row = [name]
        for code, (_, goals) in _CODES.items():
            taken = found[name][code]
            for what, side in done:
                sides, goal = taken[what], goals[side == "theirs"]
                row += ratios([sides[side]], [sides["reference"]], [goal])
            row += ratios([taken["encode"]["ours"]], [taken["encode"]["reference"]], [goals[0]])
        size, memory = found[name]["size"], found[name]["memory"]
        row += ratios([size["ours"]], [size["theirs"]])
        row += ratios([memory["ours"]], [memory["reference"]], [1.0]) if memory else [""]
        reference = found[name]["compiled"]
        row.append(ms([reference[what]["reference"] * 1e3 for what in ("scan", "take", "encode")]))
        rows.append(row)
    heads = ["scan", "scan, its file", "take", "take, its file", "write"]
    heading = ["", *heads, *(f"{head}, NumPy" for head in heads), "size", "peak"]
    goals = [f"{goal:g}" for _, (own, its) in _CODES.values() for goal in (own, its, own, its, own)]
    goals_row = ["goal", *goals, "", "1", ""]
    return {"files": table([*heading, "pylance, ms"], [goals_row, *rows])}


def main() -> None:
    """Measure what the command line asks for; print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, few runs")
    parser.add_argument("--only", action="append", help="cases whose name holds this word")
    parser.add_argument("--version", default="2.2", choices=["2.0", "2.1", "2.2"])
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    parser.add_argument("--numpy", action="store_true", help="without compiled kernels")
    chosen = parser.parse_args()
    lk.options.cache_bytes = 0
    lk.options.kernels = not chosen.numpy
    if not chosen.numpy:
        lk.warm_up(spark=False)
    names = [n for n in CASES if not chosen.only or any(word in n for word in chosen.only)]
    share, count = (0.1, 4) if chosen.quick else (1.0, _ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        results = (
            measure_case(name, Path(folder), version=chosen.version, share=share, count=count)
            for name in names
        )
        if chosen.json:
            json.dump([asdict(result) for result in results], sys.stdout, indent=1)
        else:
            for line in lines(results):
                print(line, flush=True)


if __name__ == "__main__":
    main()
