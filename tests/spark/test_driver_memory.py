"""What a merge takes of the driver's memory for each row: bytes are counted, not pages."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

import lancekit as lk

pytestmark = [pytest.mark.spark, pytest.mark.classic]

#: rows of the smaller merge: from some on, keys are sorted or hashed
_ROWS = 120_000
#: bytes for each updated row, at most
_MOST = 40

_TEXT = "rpad(cast(id * 7919 as string), cast(16 + id % 25 as int), 'abcdefgh')"

_CLAUSES = {
    "update": lambda merge: merge.when_matched_update_all(),
    "delete": lambda merge: merge.when_matched_delete(),
    "condition": lambda merge: merge.when_matched_update_all("source.v >= target.v"),
    "upsert": lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
}


@pytest.mark.parametrize(
    ("strategy", "clause", "key", "stable"),
    [
        ("driver", "update", "id", False),
        ("file", "update", "id", True),
        *(
            pytest.param(*case, marks=pytest.mark.torture)
            for case in (
                ("closure", "update", "id", False),
                ("shuffle", "update", _TEXT, False),
                ("driver", "update", "id", True),
                ("file", "update", "id", False),
                ("file", "delete", "id", False),
                ("file", "condition", "id", False),
                ("file", "upsert", "id", False),
                ("broadcast", "update", "id", False),
                ("shuffle", "update", "id", True),
                ("shuffle", "condition", "id", False),
                ("shuffle", "upsert", _TEXT, True),
                ("broadcast", "delete", _TEXT, False),
            )
        ),
    ],
)
def test_bytes_for_each_row(spark, tmp_path, strategy, clause, key, stable) -> None:
    counts = [_ROWS, 2 * _ROWS]
    tables = [_table(spark, tmp_path / str(rows), rows, key, stable) for rows in counts]
    few = _table(spark, tmp_path / "few", 500, key, stable)
    # small files would be joined here, up to so many bytes, whatever the number of rows
    with lk.options(merge_match=strategy, target_file_bytes=0):
        _peak(spark, few, 500, key, clause)  # what modules take, once
        peaks = [
            _peak(spark, ds, rows, key, clause) for ds, rows in zip(tables, counts, strict=True)
        ]
    assert (peaks[1] - peaks[0]) / _ROWS <= _MOST


def _table(spark, path, rows: int, key: str, stable: bool) -> lk.LanceDataset:
    frame = spark.range(0, 2 * rows, 1, 2).selectExpr(f"{key} as k", "0 as v")
    return lk.write_dataset(frame, path, enable_stable_row_ids=stable, max_rows_per_file=rows)


def _peak(spark, ds: lk.LanceDataset, rows: int, key: str, clause: str) -> int:
    """Merge so many rows; return the bytes of Python, NumPy and Arrow together at their peaks."""
    first = rows if clause == "upsert" else 0  # half of them are new
    rows_of = spark.range(first, first + 2 * rows, 2, 4).selectExpr("id", "id % 9 as v")
    frame = rows_of.selectExpr(f"{key} as k", "cast(v as int) as v")
    merge = _CLAUSES[clause](ds.merge_insert("k"))
    pool, proxy = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(proxy)
    tracemalloc.start()
    try:
        result = merge.execute(frame)
        peak = tracemalloc.get_traced_memory()[1] + (proxy.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(pool)
    assert sum(dict(result).values()) == rows
    return peak
