"""Rows of arrays that Arrow's kernels get wrong are written and read as they are.

pylance reads what was written, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.remembering import all_remembered

PATCH = pa.list_(pa.list_(pa.int16(), 2), 3)
COUNT = 40


def _ids(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _patches(count: int = COUNT) -> pa.Array:
    return pa.array([[[at] * 2] * 3 for at in range(count)], PATCH)


def _within_struct(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], names=["x"])


COLUMNS = {"column": _patches(), "field of a struct": _within_struct(_patches())}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "batch": lambda rows: rows.to_batches()[0],
    "reader": lambda rows: rows.to_reader(),
}


def _rows(values: pa.Array) -> pa.Table:
    return pa.table({"id": _ids(len(values)), "g": _ids(len(values)), "v": values})


def _by_id(rows: pa.Table) -> dict[int, Any]:
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def _agree(uri: str, wanted: dict[int, Any]) -> None:
    assert _by_id(lk.dataset(uri).to_table()) == wanted
    assert _by_id(lance.dataset(uri).to_table()) == wanted


def _merge(ds: lk.LanceDataset, rows: Any) -> None:
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _update_columns(ds: lk.LanceDataset, rows: Any) -> None:
    fragment, fields = ds.get_fragments()[0].update_columns(pa.table(rows), "id")
    change = lk.LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=fields, update_mode="rewrite_columns"
    )
    lk.LanceDataset.commit(ds.uri, change, read_version=ds.version)


def _sql_merge(ds: lk.LanceDataset, rows: Any) -> None:
    lk.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", t=ds, s=rows)


def _upsert_to_shard(ds: lk.LanceDataset, rows: Any) -> None:
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert(rows)
    ds.merge_mem_wal()


UPDATES: dict[str, Callable[[lk.LanceDataset, Any], Any]] = {
    "merge_insert": _merge,
    "update_columns": _update_columns,
    "sql": _sql_merge,
    "mem_wal_upsert": _upsert_to_shard,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.cover(2)
def test_slices_of_nested_fixed_size_lists_update_the_right_rows(
    tmp_path: Path, update: str, column: str, form: str
) -> None:
    uri, rows = str(tmp_path / "d"), _rows(COLUMNS[column])
    ds = lk.write_dataset(rows, uri, primary_key="id")
    UPDATES[update](ds, FORMS[form](rows.slice(10, 20)))
    _agree(uri, _by_id(rows))


@pytest.mark.parametrize("column", COLUMNS)
def test_slices_of_nested_fixed_size_lists_are_inserted_and_joined(
    tmp_path: Path, column: str
) -> None:
    uri, rows = str(tmp_path / "d"), _rows(COLUMNS[column])
    ds = lk.write_dataset(rows.slice(0, 5), uri)
    ds.merge_insert("id").when_not_matched_insert_all().execute(rows.slice(3, 30))
    _agree(uri, _by_id(rows.slice(0, 33)))
    ds.drop_columns(["v"])
    ds.merge(rows.select(["id", "v"]).slice(3, 20), "id")
    wanted = _by_id(rows)
    _agree(uri, {at: wanted[at] if 3 <= at < 23 else None for at in range(33)})


@pytest.fixture
def remembered() -> Iterator[None]:
    with all_remembered():
        lk.clear_cache()
        yield
        lk.clear_cache()


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_slices_of_remembered_blocks_stay_with_their_rows(
    tmp_path: Path, column: str, version: str
) -> None:
    uri, rows = str(tmp_path / "d"), _rows(COLUMNS[column])
    ds = lk.write_dataset(rows, uri, data_storage_version=version)
    wanted = _by_id(rows)
    time.sleep(0.05)
    for _ in range(3):
        ds.to_table()
        assert _by_id(ds.to_table(filter="id % 7 = 3")) == {
            at: value for at, value in wanted.items() if at % 7 == 3
        }
    assert _by_id(ds.take([30, 3])) == {30: wanted[30], 3: wanted[3]}
    limited = ds.to_table(filter="v IS NOT NULL AND g > 2", limit=10, offset=20)
    assert _by_id(limited) == {at: wanted[at] for at in range(23, 33)}
    ordered = ds.scanner(filter="id > 9", order_by=["g"]).to_table()
    assert _by_id(ordered) == {at: wanted[at] for at in range(10, COUNT)}
    ds.update({"g": "g + 1"}, where="id % 3 = 1")
    _agree(uri, wanted)
