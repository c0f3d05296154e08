"""``python -m benchmarks.indices [rows]``: indices built and asked, beside pylance's.

Each library builds its own; both then ask, on a new handle each time, the indices that pylance
built, and merge into a table with their own.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.tables import text
from benchmarks.timing import Comparison, compare

__all__ = ["ASKED", "BUILT", "main", "measure"]

ROWS, DIMENSION = 1_000_000, 32

#: columns, and the kind of index that is built of each
BUILT = {
    "BTREE, integers": ("id", "BTREE"),
    "BTREE, texts": ("name", "BTREE"),
    "BITMAP, 1,000 values": ("code", "BITMAP"),
    "ZONEMAP": ("id", "ZONEMAP"),
    "BLOOMFILTER": ("id", "BLOOMFILTER"),
    "LABEL_LIST": ("labels", "LABEL_LIST"),
    "NGRAM": ("name", "NGRAM"),
    "IVF_FLAT": ("vector", "IVF_FLAT"),
}
#: the kinds that questions are asked of
_ASKED_OF = ("BTREE, integers", "BITMAP, 1,000 values", "LABEL_LIST", "IVF_FLAT")

Ask = Callable[[Any, int], object]

#: what is asked of a handle of a table of so many rows
ASKED: dict[str, Ask] = {
    "one row": lambda ds, rows: ds.to_table(filter=f"id = {rows // 3}"),
    "one row, counted": lambda ds, rows: ds.count_rows(f"id = {rows // 3}"),
    "1,000 keys": lambda ds, rows: ds.to_table(
        filter=f"id IN ({', '.join(map(str, range(0, rows, max(rows // 1000, 1))))})"
    ),
    "a range of 1 %": lambda ds, rows: ds.to_table(
        filter=f"id >= {rows // 2} AND id < {rows // 2 + rows // 100}"
    ),
    "a value of 1,000": lambda ds, _: ds.to_table(filter="code = 7"),
    "two values, counted": lambda ds, _: ds.count_rows("code IN (7, 900)"),
    "two indices": lambda ds, rows: ds.to_table(filter=f"code = 7 AND id < {rows // 2}"),
    "a label": lambda ds, _: ds.to_table(["id"], filter="array_has(labels, 'label-77')"),
    "the nearest 10": lambda ds, _: ds.to_table(
        ["id", "_distance"],
        nearest={"column": "vector", "q": np.linspace(-1, 1, DIMENSION), "nprobes": 8},
    ),
}


def _rows(rows: int) -> pa.Table:
    drawn = np.random.default_rng(7)
    labels = pa.array([f"label-{number}" for number in range(500)])
    borders = np.concatenate(([0], np.cumsum(drawn.integers(0, 4, rows)))).astype(np.int32)
    vectors = pa.array(drawn.standard_normal(rows * DIMENSION, np.float32))
    return pa.table(
        {
            "id": drawn.permutation(rows),
            "code": drawn.integers(0, 1000, rows, np.int32),
            "name": text(2)(drawn, rows),
            "labels": pa.ListArray.from_arrays(
                borders, labels.take(pa.array(drawn.integers(0, 500, int(borders[-1]))))
            ),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
        }
    )


def _build(ds: Any, case: str) -> None:
    column, kind = BUILT[case]
    if kind.startswith("IVF"):
        ds.create_index(column, kind, replace=True, num_partitions=64)
    else:
        ds.create_scalar_index(column, kind)


def measure(rows: int, place: Path, runs: int = 5) -> Iterator[Comparison]:
    """Yield what each case takes with a table of so many rows."""
    at, table = str(place / "asked"), _rows(rows)
    lance.write_dataset(table, at)
    copies = {module: str(place / module.__name__) for module in (lk, lance)}
    for copy in copies.values():
        shutil.copytree(at, copy)
    for case in BUILT:
        works = [partial(_built, module, copy, case) for module, copy in copies.items()]
        yield compare(f"build {case}", *works, runs=runs)
    for case in _ASKED_OF:
        _build(lance.dataset(at), case)
    for name, ask in ASKED.items():
        asks = [partial(_asked, module, at, ask, rows) for module in (lk, lance)]
        yield compare(name, *asks, runs=runs)
    some = table.take(np.random.default_rng(8).choice(rows, 1000, replace=False))
    works = [partial(_merged, module, copy, some) for module, copy in copies.items()]
    yield compare("merge of 1,000 rows by a key", *works, runs=runs)


def _built(module: Any, at: str, case: str, _side: str) -> None:
    with lk.options(oldest_reader="14.0.2"):
        _build(module.dataset(at), case)


def _merged(module: Any, at: str, rows: pa.Table, _side: str) -> object:
    return module.dataset(at).merge_insert("id").when_matched_update_all().execute(rows)


def _asked(module: Any, at: str, ask: Ask, rows: int, _side: str) -> object:
    return ask(module.dataset(at), rows)


def main() -> None:
    """Measure all cases, and print a line for each."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory(prefix="lancekit-indices-") as place:
        for line in measure(rows, Path(place)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
