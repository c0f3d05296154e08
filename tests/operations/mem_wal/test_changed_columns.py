"""Columns of a table change while rows are put, wait in shards, and are merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ConstraintViolationError, SchemaMismatchError
from tests.support.shards import SHARD

NEW = pa.field("x", pa.int64())


def made(path: Path, **spec: Any) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [0, 1], "v": [0, 10]}, path, primary_key="id")
    ds.initialize_mem_wal(**spec or {"unsharded": True})
    return ds


def row(key: int, v: int, **more: int) -> dict[str, list[int]]:
    return {"id": [key], "v": [v], **{name: [value] for name, value in more.items()}}


def add(path: Path) -> None:
    """Add a column, and give the rows of the table values of it."""
    lk.dataset(path).add_columns(NEW)
    lk.dataset(path).update({"x": "id + 70"})


def add_by_pylance(path: Path) -> None:
    lance.dataset(str(path)).add_columns(NEW)
    lance.dataset(str(path)).update({"x": "id + 70"})


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "new": (add, "'x' is new"),
    "new by pylance": (add_by_pylance, "'x' is new"),
    "gone": (lambda path: lk.dataset(path).drop_columns(["v"]), "'v' was dropped"),
    "gone by pylance": (
        lambda path: lance.dataset(str(path)).drop_columns(["v"]),
        "'v' was dropped",
    ),
    "renamed": (
        lambda path: lk.dataset(path).alter_columns({"path": "v", "name": "w"}),
        "'v' was renamed to 'w'",
    ),
    "renamed by pylance": (
        lambda path: lance.dataset(str(path)).alter_columns({"path": "v", "name": "w"}),
        "'v' was renamed to 'w'",
    ),
}


def both(path: Path) -> list[dict[str, Any]]:
    """Return what is read with shards, and check that a merge leaves the same."""
    ds = lk.dataset(path)
    shown = ds.to_table(include_mem_wal=True).sort_by("id").to_pylist()
    ds.merge_mem_wal(flush=True)
    assert lance.dataset(str(path)).to_table().sort_by("id").to_pylist() == shown
    return shown


@pytest.mark.cover
@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("durable", [True, False])
def test_a_writer_sees_that_the_columns_changed(
    tmp_path: Path, change: Callable[[Path], object], said: str, durable: bool
) -> None:
    ds = made(tmp_path)
    writer = ds.mem_wal_writer(SHARD, durable_write=durable, max_wal_flush_interval_ms=1)
    writer.put(row(2, 20))
    while not writer.memory().entries:
        pass
    change(tmp_path)
    if not durable:  # rows that were acknowledged before are written
        writer.put(row(3, 30))
        while writer.memory().entries < 2:
            pass
    for columns in (["id", "v"], lk.dataset(tmp_path).schema.names, ["id", "v"]):
        with pytest.raises(SchemaMismatchError, match=said) as caught:
            writer.put({name: [1] for name in columns})
        assert "ds.mem_wal_writer(shard)" in str(caught.value.hint)
        with pytest.raises(SchemaMismatchError, match=said):
            writer.delete({"id": [1]})
    assert writer.state == "open"
    writer.close()
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as again:
        columns = lk.dataset(tmp_path).schema.names
        again.put({name: [5] for name in columns})
    found = {one["id"]: one for one in both(tmp_path)}
    assert found.keys() == {0, 1, 2, 5} | (set() if durable else {3})
    name = "w" if "w" in columns else "v"
    if name in columns:
        assert [found[key][name] for key in (0, 1, 2)] == [0, 10, 20]
    if "x" in columns:
        assert [found[key]["x"] for key in (0, 1, 2, 5)] == [70, 71, None, 5]


@pytest.mark.cover
@pytest.mark.parametrize("library", ["lancekit", "pylance"])
@pytest.mark.parametrize("shards", [1, 3])
def test_an_upsert_takes_the_new_columns(tmp_path: Path, shards: int, library: str) -> None:
    spec = {} if shards == 1 else {"bucket_column": "id", "num_buckets": shards}
    ds = made(tmp_path, **spec)
    ds.mem_wal_upsert(row(2, 20))
    (add if library == "lancekit" else add_by_pylance)(tmp_path)
    for _ in range(2):
        with pytest.raises(SchemaMismatchError, match="'x'"):
            ds.mem_wal_upsert(row(1, 11))
    ds.mem_wal_upsert(row(1, 12, x=13))
    assert both(tmp_path) == [
        {"id": 0, "v": 0, "x": 70},
        {"id": 1, "v": 12, "x": 13},
        {"id": 2, "v": 20, "x": None},
    ]
    ds.mem_wal_upsert(row(1, 14, x=15))
    lk.dataset(tmp_path).drop_columns(["x"])
    with pytest.raises(SchemaMismatchError, match="'x'"):
        ds.mem_wal_upsert(row(1, 15, x=16))
    ds.mem_wal_upsert(row(1, 16))
    assert both(tmp_path)[1] == {"id": 1, "v": 16}


@pytest.mark.cover
@pytest.mark.parametrize("library", ["lancekit", "pylance"])
@pytest.mark.parametrize("where", ["generation", "log", "open writer", "two of both"])
def test_rows_that_wait_leave_later_columns_alone(tmp_path: Path, where: str, library: str) -> None:
    ds = made(tmp_path)
    library_ds = ds if library == "lancekit" else lance.dataset(str(tmp_path))
    writer = library_ds.mem_wal_writer(SHARD)
    for key, v in ((1, 11), (2, 20)):
        writer.put(pa.table(row(key, v)))
    if where in {"generation", "two of both"}:
        writer.close()
    if where == "two of both":
        writer = library_ds.mem_wal_writer(SHARD)
        writer.put(pa.table(row(1, 12)))
    (add if library == "lancekit" else add_by_pylance)(tmp_path)
    expected = [
        {"id": 0, "v": 0, "x": 70},
        {"id": 1, "v": 12 if where == "two of both" else 11, "x": 71},
        {"id": 2, "v": 20, "x": None},
    ]
    if where == "open writer" and library == "pylance":  # which does not look
        writer.put(pa.table(row(1, 13)))
        expected[1]["v"] = 13
    if where == "two of both":
        newer = lk.dataset(tmp_path).mem_wal_writer(SHARD)
        newer.put(row(0, 1, x=2))
        expected[0] = {"id": 0, "v": 1, "x": 2}
        own = newer.lsm_scanner().to_table().sort_by("id").to_pylist()
        assert own == expected
    assert both(tmp_path) == expected


def test_a_column_that_another_one_replaced_is_named(tmp_path: Path) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert(row(1, 11), flush=True)
    ds.drop_columns(["v"])
    ds.add_columns(pa.field("v", pa.string()))
    ds.update({"v": "'new'"})
    shown = ds.to_table(include_mem_wal=True).sort_by("id").to_pylist()
    with pytest.warns(UserWarning, match="'v' in generation 1 .* were not merged"):
        ds.merge_mem_wal()
    assert ds.to_table().sort_by("id").to_pylist() == shown
    assert shown[1] == {"id": 1, "v": "new"}


def test_many_rows_and_keys_of_two_columns(tmp_path: Path) -> None:
    rows = {"a": list(range(40)) * 2, "b": [0] * 40 + [1] * 40, "v": list(range(80))}
    ds = lk.write_dataset(rows, tmp_path, primary_key=["a", "b"], max_rows_per_file=15)
    ds.mem_wal_upsert({"a": [3, 3, 99, 5], "b": [0, 1, 0, 1], "v": [-1, -2, -3, -4]})
    with ds.mem_wal_writer(ds.mem_wal_shards()[0].shard_id) as writer:
        writer.put({"a": [3, 7], "b": [1, 1], "v": [-5, -6]})
        writer.delete({"a": [5], "b": [1]})
    ds.add_columns(pa.schema([NEW, pa.field("s", pa.struct({"t": pa.string()}))]))
    ds.update({"x": "v + 1000"})
    shown = ds.to_table(include_mem_wal=True).sort_by([("a", "ascending"), ("b", "ascending")])
    some = ds.to_table(filter="x > 1000 and v < 0", include_mem_wal=True).num_rows
    ds.merge_mem_wal(flush=True)
    after = ds.to_table().sort_by([("a", "ascending"), ("b", "ascending")])
    assert after.to_pylist() == shown.to_pylist()
    changed = {(r["a"], r["b"]): (r["v"], r["x"]) for r in after.to_pylist() if r["v"] < 0}
    assert changed == {
        (3, 0): (-1, 1003),
        (3, 1): (-5, 1043),
        (7, 1): (-6, 1047),
        (99, 0): (-3, None),
    }
    assert some == 3


@pytest.mark.parametrize("way", ["writer", "upsert", "sink"])
def test_a_constraint_that_comes_later_is_tried(tmp_path: Path, way: str) -> None:
    ds = made(tmp_path, unsharded=True)
    writer = ds.mem_wal_writer(SHARD)
    sink = lk.mem_wal_sink(tmp_path, query="q")
    put: Any = {"writer": writer.put, "upsert": ds.mem_wal_upsert, "sink": sink}[way]
    put(row(1, 10))
    lk.dataset(tmp_path).constraints.add("positive", "v >= 0")
    refused: tuple[type[Exception], str] = (
        SchemaMismatchError,
        r"'positive' is new: v >= 0.*not written",
    )
    if way != "writer":
        refused = (ConstraintViolationError, "positive")
    for _ in range(2):
        with pytest.raises(refused[0], match=refused[1]):
            put(row(2, -1))
    if way == "writer":
        writer.close()
        put = lk.dataset(tmp_path).mem_wal_writer(SHARD).put
        with pytest.raises(ConstraintViolationError, match="positive"):
            put(row(2, -1))
    put(row(3, 30))
    lk.dataset(tmp_path).constraints.drop("positive")
    put(row(4, 40))
    lk.dataset(tmp_path).merge_mem_wal(flush=True)
    found = lk.dataset(tmp_path).to_table().sort_by("id").to_pylist()
    assert found == [{"id": key, "v": 10 * key} for key in (0, 1, 3, 4)]
