"""``python -m benchmarks.nearest [rows]``: exact search for the nearest vectors, beside pylance's.

Both open the dataset anew for each search, and pylance is told to use no index.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.timing import Comparison, compare

__all__ = ["CASES", "main", "measure"]

ROWS, DIMENSION = 200_000, 128

#: the type of the values, and what is asked beside the column and the query
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "l2": ("float", {"metric": "l2"}, {}),
    "cosine": ("float", {"metric": "cosine"}, {}),
    "dot": ("float", {"metric": "dot"}, {}),
    "l2, the nearest 1,000": ("float", {"k": 1000}, {}),
    "l2, filter before": ("float", {}, {"filter": "id % 100 = 7", "prefilter": True}),
    "l2, float16": ("halffloat", {}, {}),
    "l2, float64": ("double", {}, {}),
    "hamming, uint8": ("uint8", {}, {}),
}


def _vectors(kind: str, rows: int) -> pa.Table:
    drawn = np.random.default_rng(7)
    if kind == "uint8":
        values = drawn.integers(0, 256, rows * DIMENSION).astype(np.uint8)
    else:
        values = drawn.standard_normal(rows * DIMENSION)
    column = pa.array(values.astype(pa.type_for_alias(kind).to_pandas_dtype()))
    return pa.table(
        {"id": np.arange(rows), "v": pa.FixedSizeListArray.from_arrays(column, DIMENSION)}
    )


def measure(rows: int, place: Path, runs: int = 7) -> Iterator[Comparison]:
    """Yield what each case takes with tables of so many rows."""
    for name, (kind, asked, beside) in CASES.items():
        at = place / kind
        if not at.exists():
            lance.write_dataset(_vectors(kind, rows), str(at))
        q = [*range(DIMENSION)] if kind == "uint8" else np.linspace(-1, 1, DIMENSION)
        nearest = {"column": "v", "q": q, "use_index": False, **asked}
        searches = [partial(_search, module, str(at), nearest, beside) for module in (lk, lance)]
        yield compare(name, *searches, runs=runs)


def _search(module: Any, at: str, nearest: Any, beside: Any, _side: str) -> pa.Table:
    return module.dataset(at).to_table(["id", "_distance"], nearest=nearest, **beside)


def main() -> None:
    """Measure all cases, and print a line for each."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as place:
        for line in measure(rows, Path(place)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
