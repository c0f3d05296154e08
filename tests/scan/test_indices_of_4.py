"""Indices that pylance 4.0.0 made and kept: nothing that it loses is lost here."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.index_lookup import IndexLookup

KINDS = {
    "i": "BTREE",
    "f": "BITMAP",
    "g": "BITMAP",
    "s": "BTREE",
    "t": "NGRAM",
    "l": "LABEL_LIST",
    "j": "ZONEMAP",
    "k": "BLOOMFILTER",
}
MAKE = """
table = pa.ipc.open_file(arguments["table"]).read_all()
path, stable = arguments["path"], arguments["stable"]
ds = lance.write_dataset(table, path, max_rows_per_file=100, enable_stable_row_ids=stable)
for name, kind in arguments["kinds"].items():
    ds.create_scalar_index(name, kind)
ds.delete("key % 7 = 3")
ds.update({"i": "7"}, where="key % 11 = 5")
if arguments["merged"]:
    ds.optimize.optimize_indices()
lance.write_dataset(table.slice(0, 50), path, mode="append")
result = None
"""
FILTERS = [
    "i = 7",
    "i IS NULL",
    "NOT (i = 3)",
    "f > 1",
    "f = 0.0",
    "f IS NOT NULL",
    "g > 1",
    "g IS NOT NULL",
    "s LIKE 'ab%'",
    "contains(t, 'abc')",
    "array_has(l, 'y')",
    "j BETWEEN 10 AND 40",
    "j IS NULL",
    "k IN (3, 4, 250, 16)",
    "i = 7 AND j < 100",
    "j = 44 OR k = 16",
]


def _rows() -> pa.Table:
    chance, rows = random.Random(4), 300
    texts = ["", "a", "ab", "abc", "xabcx", None, "hello"]
    lists = [["x"], ["x", "y"], [], None, [None]]
    floats = [0.0, -0.0, 1.5, None, -2.0, math.nan]
    return pa.table(
        {
            "key": range(rows),
            "i": pa.array(chance.choices([1, 2, 3, 7, None], k=rows), pa.int32()),
            "f": pa.array(chance.choices([*floats, -math.nan], k=rows), pa.float64()),
            "g": pa.array(chance.choices(floats, k=rows), pa.float64()),
            "s": pa.array(chance.choices(texts, k=rows)),
            "t": pa.array(chance.choices(texts, k=rows)),
            "l": pa.array(chance.choices(lists, k=rows), pa.list_(pa.string())),
            "j": range(rows),
            "k": range(rows),
        }
    )


@pytest.mark.cover
@pytest.mark.parametrize("merged", [False, True], ids=["as made", "merged"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "ids"])
def test_filters_give_the_same_rows_with_its_indices_as_without(
    stable: bool, merged: bool, tmp_path: Path, pylance4: Callable[..., Any]
) -> None:
    table, path = _rows(), tmp_path / "d"
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    pylance4(
        MAKE,
        table=str(tmp_path / "rows.arrow"),
        path=str(path),
        stable=stable,
        kinds=KINDS,
        merged=merged,
    )
    ds, asked = lk.dataset(path), 0
    for text in FILTERS:
        with warnings.catch_warnings():
            # it gives the rows of one NaN to both, if it puts together what has NaNs of both signs
            warnings.filterwarnings("ignore", "Index 'f_idx' is not used.* two values")
            found = ds.to_table(["key"], text, with_row_id=True)
            lookup: IndexLookup | None = ds.scanner(filter=text)._scan.read.lookup
            asked += lookup is not None and bool(lookup.found.known)
        assert found.equals(ds.to_table(["key"], text, with_row_id=True, use_scalar_index=False)), (
            text
        )
    assert asked >= len(FILTERS) - 3
