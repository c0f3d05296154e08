"""What is written after reads from the cache equals what is written after reads of files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.called_kernels import COLUMNS
from tests.support.remembering import all_remembered

COPIES = 6
#: columns that no dataset holds
NOT_STORED = {"fixed-size list of texts", "fixed-size list of nulls"}


def _rows() -> pa.Table:
    """Return 48 rows with a column of every type."""
    columns = {
        name: pa.concat_arrays([values] * COPIES)
        for name, values in COLUMNS.items()
        if name not in NOT_STORED
    }
    ids = pa.array(range(8 * COPIES), pa.int64())
    return pa.table({"id": ids, "g": ids, **columns})


def _merge(ds: lk.LanceDataset) -> None:
    source = ds.to_table(filter="id % 5 = 2")
    source = source.set_column(0, "id", pa.array(range(44, 44 + len(source)), pa.int64()))
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)


def _merge_columns(ds: lk.LanceDataset) -> None:
    source = pa.table({"id": [3, 20, 40], "g": pa.array([7, 8, 9], pa.int64())})
    ds.merge_insert("id").when_matched_update_all().execute(source)


def _compact(ds: lk.LanceDataset) -> None:
    ds.delete("id % 11 = 3")
    ds.optimize.compact_files(target_rows_per_fragment=10_000)


def _sql(ds: lk.LanceDataset) -> None:
    lk.sql("UPDATE t SET g = g + 1 WHERE id % 4 = 3", t=ds)


WRITES: dict[str, Callable[[lk.LanceDataset], Any]] = {
    "update": lambda ds: ds.update({"g": "g + 1"}, where="id % 3 = 1"),
    "delete": lambda ds: ds.delete("g % 7 = 2"),
    "merge_insert": _merge,
    "merge_insert of a column": _merge_columns,
    "append of read rows": lambda ds: ds.insert(ds.to_table(filter="id % 9 = 4")),
    "add_columns": lambda ds: ds.add_columns({"h": "g * 2"}),
    "replace_columns": lambda ds: ds.replace_columns({"g": "g + 5"}),
    "compaction": _compact,
    "sql": _sql,
}


def _warm(ds: lk.LanceDataset) -> None:
    for _ in range(3):
        ds.to_table()
        ds.to_table(filter="id % 3 = 1")


def _after(write: Callable[[lk.LanceDataset], Any], uri: str) -> list[Any]:
    """Return the rows after a write that follows some reads, with what the writer reads of them."""
    ds = lk.write_dataset(_rows(), uri, data_storage_version="2.2", max_rows_per_file=30)
    time.sleep(0.05)
    _warm(ds)
    write(ds)
    return [ds.to_table(filter="id % 2 = 1").to_pylist(), lk.dataset(uri).to_table().to_pylist()]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.sample(3)
def test_the_cache_changes_no_write(tmp_path: Path, write: str) -> None:
    with lk.options(cache_bytes=0):
        wanted = _after(WRITES[write], str(tmp_path / "plain"))
    with all_remembered():
        lk.clear_cache()
        found = _after(WRITES[write], str(tmp_path / "remembered"))
    lk.clear_cache()
    assert repr(found) == repr(wanted)
