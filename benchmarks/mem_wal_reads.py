"""``python -m benchmarks.mem_wal_reads [rows]``: a table read with its shards, beside pylance's.

With no, one, ten and fifty generations, half of whose rows replace rows of the table.  Both open
the generations that they are told; pylance does not look which of them are merged.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import lance.mem_wal
import numpy as np
import pyarrow as pa

import lancekit as lk
import lancekit.mem_wal
from benchmarks.timing import Comparison, compare

__all__ = ["CASES", "GENERATIONS", "made", "main", "measure", "opened"]

ROWS, ROWS_OF_A_GENERATION = 200_000, 2_000
GENERATIONS = (0, 1, 10, 50)
#: files that are younger than two seconds are not remembered
REST_SECONDS = 2.5
SHARD = "00000000-0000-0000-0000-000000000007"

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("name", pa.string()),
        pa.field("value", pa.float64()),
    ]
)

Scan = Callable[[Any], Any]
CASES: dict[str, Scan] = {
    "all": lambda scanner: scanner().to_table(),
    "one column": lambda scanner: scanner().project(["value"]).to_table(),
    "a filter": lambda scanner: scanner().filter("value < 0.01").to_table(),
    "one key, by a filter": lambda scanner: scanner().filter("id = 777").to_table(),
    "count": lambda scanner: scanner().count_rows(),
}


def _rows(ids: Any) -> pa.Table:
    values = np.random.default_rng(len(ids)).random(len(ids))
    return pa.table([ids, [f"name {n}" for n in ids], values], schema=SCHEMA)


def made(place: Path, rows: int, generations: int) -> list[tuple[int, str]]:
    """Make a table with generations; return their numbers and folders."""
    ds = lance.write_dataset(_rows(np.arange(rows)), str(place))
    ds.initialize_mem_wal(unsharded=True)
    drawn = np.random.default_rng(generations)
    for _ in range(generations):
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put(_rows(drawn.permutation(2 * rows)[:ROWS_OF_A_GENERATION]))
    folders = [path.name for path in place.glob(f"_mem_wal/{SHARD}/*_gen_*")]
    return [(int(name.rpartition("_")[2]), name) for name in folders]


def opened(module: Any, place: Path, found: list[tuple[int, str]]) -> tuple[Any, list[Any]]:
    """Return a handle, and the generations as it is told of them."""
    shard = module.mem_wal.ShardSnapshot(SHARD)
    for generation, folder in found:
        shard.with_sstable(generation, folder)
    return module.dataset(str(place)), [shard]


def measure(rows: int, place: Path, runs: int = 3) -> Iterator[Comparison]:
    """Yield what each case takes, by the number of generations."""
    for generations in GENERATIONS:
        at = place / str(generations)
        found = made(at, rows, generations)
        time.sleep(REST_SECONDS)
        sides = [(module, *opened(module, at, found)) for module in (lk, lance)]
        scanners = [partial(m.mem_wal.LsmScanner.from_snapshots, ds, s) for m, ds, s in sides]
        for name, scan in CASES.items():
            ours, theirs = (lambda _, scan=scan, of=of: scan(of) for of in scanners)
            yield compare(f"{generations} generations, {name}", ours, theirs, runs=runs)
        planners = [m.mem_wal.LsmPointLookupPlanner(ds, s) for m, ds, s in sides]
        keys = np.random.default_rng(1).permutation(2 * rows)
        ours, theirs = (partial(_look_up, planner, iter(keys.tolist())) for planner in planners)
        yield compare(f"{generations} generations, a look-up", ours, theirs, runs=20 * runs)


def _look_up(planner: Any, keys: Iterator[int], _side: str) -> None:
    planner.plan_lookup(pa.array([next(keys)])).to_table()


def main() -> None:
    """Print what each case takes."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(f"{rows:,} rows, and {ROWS_OF_A_GENERATION:,} of each generation")
    with tempfile.TemporaryDirectory() as place:
        for found in measure(rows, Path(place)):
            print(found, flush=True)


if __name__ == "__main__":
    main()
