"""What is told of zones, against the files that pylance makes of the same rows."""

from __future__ import annotations

import math
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lancekit as lk
from lancekit._index.build.column import IndexedColumn
from lancekit._index.build.zones import BloomZones, ZoneMap, filter_bytes
from lancekit.file import LanceFileReader
from tests.support.indexed_columns import COLUMNS

OTHERS = ("half", "float", "double")  # pylance's bounds miss rows of values that are no number


def _theirs(path: Path, values: pa.Array, kind: str, parameters: dict[str, float]) -> pa.Table:
    ds = lance.write_dataset(pa.table({"x": values}), path, max_rows_per_file=7)
    ds.delete("_rowaddr IN (0, 1, 4294967299)")
    ds.create_scalar_index("x", IndexConfig(kind, parameters))
    (index,) = lk.dataset(str(path))._snapshot.indices
    (file,) = index.files
    stored = path / "_indices" / str(index.uuid) / file.path
    return LanceFileReader(str(stored)).read_all().to_table()


def _column(values: pa.Array) -> IndexedColumn:
    rows = np.array([place % 7 | place // 7 << 32 for place in range(len(values))], np.uint64)
    live = ~np.isin(rows, np.array([0, 1, (1 << 32) + 3], np.uint64))
    return IndexedColumn(values.type, values.filter(pa.array(live)), rows[live])


@pytest.mark.parametrize(
    "name", [name for name in COLUMNS if "labels" not in name and name not in (*OTHERS, "numbers")]
)
def test_zone_maps_are_pylances(name: str, tmp_path: Path) -> None:
    values = pa.concat_arrays([COLUMNS[name]] * 2)
    theirs = _theirs(tmp_path / "d.lance", values, "zonemap", {"rows_per_zone": 3})
    ours = ZoneMap.build(_column(values), 3)
    assert ours.table.to_pylist() == theirs.to_pylist()
    live = _column(values)
    assert ours.nulls.tolist() == live.rows[live.values.is_null().to_numpy(False)].tolist()


@pytest.mark.parametrize("name", ["int8", "int32", "uint64", "float", "double", "text", "bytes"])
def test_bloom_filters_are_pylances(name: str, tmp_path: Path) -> None:
    values = pa.concat_arrays([COLUMNS[name]] * 2)
    parameters = {"number_of_items": 3, "probability": 0.05}
    theirs = _theirs(tmp_path / "d.lance", values, "bloomfilter", parameters)
    ours = BloomZones.build(_column(values), 3, 0.05)
    assert ours.table.to_pylist() == theirs.to_pylist()


def test_bounds_of_floats() -> None:
    nan, inf = math.nan, math.inf
    zones = [
        [0.0, -0.0],
        [nan, 1.0],
        [-nan, 2.0],
        [nan, None],
        [-nan, None],
        [None, None],
        [inf, -1.0],
    ]
    values = pa.array([value for zone in zones for value in zone])
    rows = np.arange(len(values), dtype=np.uint64)
    table = ZoneMap.build(IndexedColumn(values.type, values, rows), 2).table
    found = [str((row["min"], row["max"], row["nan_count"])) for row in table.to_pylist()]
    assert found == [
        "(-0.0, 0.0, 0)",
        "(1.0, nan, 1)",
        "(-inf, nan, 1)",
        "(nan, nan, 1)",
        "(nan, nan, 1)",
        "(None, None, 0)",
        "(-1.0, inf, 0)",
    ]


@pytest.mark.parametrize(
    ("items", "probability", "size"),
    [(8192, 0.00057, 32_768), (8192, 0.01, 16_384), (64, 0.01, 128), (10, 0.0001, 64)],
)
def test_sizes_of_filters(items: int, probability: float, size: int) -> None:
    assert filter_bytes(items, probability) == size
