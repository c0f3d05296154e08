"""Diffs on Spark: the same as in this process."""

from __future__ import annotations

import random
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.diff import DatasetDiff
from lancekit._pipeline.diff import row_values
from lancekit._pipeline.diff import row_values as tasks
from lancekit.errors import StorageError
from tests.spark.test_types import ALL, INSIDE, ROWS
from tests.support.row_stories import story

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_TASK_ROWS", 7)
    monkeypatch.setattr(row_values, "_THREADED_ROWS", 1)


def seen(diff: DatasetDiff) -> tuple[Any, ...]:
    return dict(diff.counts), diff.columns, diff.to_table().to_pylist(), diff.sample(5)


def both(ds: lk.LanceDataset, *sides: Any, **how: Any) -> DatasetDiff:
    """Return a diff that was worked out on Spark, and is the same as one worked out here."""
    here = ds.diff(*sides, **how)
    expected = seen(here)
    assert here.explain().engine == "local"
    with lk.options(engine="spark"):
        there = ds.diff(*sides, **how)
        assert there.explain().engine == "spark"
        assert repr(seen(there)) == repr(expected)
    return there


@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True])
def test_of_random_histories(spark: Any, tmp_path: Path, stable: bool, whole: bool) -> None:
    draw = random.Random(5)
    for seed in range(3 if whole else 1):
        told = story(tmp_path / f"t{seed}", seed, 10, stable=stable, clean=False)
        ds = lk.dataset(told.path)
        old, new = sorted(draw.sample(told.versions(), 2))
        both(ds, old, new)
        shared = told.names[old]["id"] == told.names[new]["id"]
        if shared:
            both(ds, old, new, on=told.names[new]["id"])


#: types that lie in each of the others in turn
NESTED = ("string", "float64", "decimal", "naive_ns", "bool", "uint8", "date32")


def every_type() -> dict[str, pa.Array]:
    """Return columns of two rows: each type, and some that lie in others."""
    nested = {
        f"{outer}_of_{name}": pa.chunked_array([INSIDE[outer](ALL[name])] * 2).combine_chunks()[:2]
        for outer, name in zip(cycle(INSIDE), NESTED, strict=False)
    }
    return ALL | {"extension": ROWS["extension"][0]} | nested


@pytest.mark.torture
def test_of_random_histories_with_every_type(spark: Any, tmp_path: Path, whole: bool) -> None:
    draw, columns = random.Random(7), every_type()
    rows = pa.table(columns)
    for seed in range(2 if whole else 1):
        how = draw.choice([{"primary_key": "key"}, {"enable_stable_row_ids": True}])

        def some(keys: list[int]) -> pa.Table:
            values = pa.concat_tables([rows.slice(draw.randrange(2), 1) for _ in keys])
            return values.append_column(
                pa.field("key", pa.int64(), False), pa.array(keys, pa.int64())
            )

        ds = lk.write_dataset(
            some(list(range(20))),
            tmp_path / f"t{seed}",
            data_storage_version="2.2",
            max_rows_per_file=6,
            **how,
        )
        for _ in range(6):
            step = draw.randrange(4)
            if step == 0:
                ds.delete(f"key % 7 = {draw.randrange(7)}")
            elif step == 1:
                ds.optimize.compact_files()
            else:
                merge = ds.merge_insert("key").when_matched_update_all()
                keys = draw.sample(range(30), 5)
                merge.when_not_matched_insert_all().execute(some(keys))
        old = draw.randrange(1, ds.version)
        both(ds, old)
        both(ds, old, on="key")


@pytest.mark.parametrize("how", [{"primary_key": "key"}, {"enable_stable_row_ids": True}, {}])
def test_of_every_type(spark: Any, tmp_path: Path, how: dict[str, Any]) -> None:
    columns = every_type()
    key = pa.array([0, 1], pa.int64())
    schema = pa.schema(
        [*(pa.field(n, a.type) for n, a in columns.items()), pa.field("key", key.type, False)]
    )
    rows = pa.table([*columns.values(), key], schema=schema)
    ds = lk.write_dataset(rows, tmp_path / "t", data_storage_version="2.2", **how)
    ds.insert(pa.table([*columns.values(), pa.array([2, 3], pa.int64())], schema=schema))
    turned = pa.array([1, 0], pa.int64())
    merge = ds.merge_insert("key").when_matched_update_all()
    merge.execute(pa.table([*columns.values(), turned], schema=schema))
    ds.delete("key = 2")
    diff = both(ds, 2)
    assert diff.counts.deleted == (1 if how else 3)
    frame = diff.to_spark()
    change = diff.to_table()["_change"].to_pylist()
    assert sorted(row["_change"] for row in frame.select("_change").collect()) == sorted(change)


def test_the_rows_as_a_frame(spark: Any, tmp_path: Path) -> None:
    rows = {"id": list(range(100)), "v": ["a"] * 100}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", max_rows_per_file=30)
    ds.update({"v": "'b'"}, where="id < 20")
    ds.delete("id >= 90")
    ds.add_columns({"w": "id"})
    ds.insert({"id": [200], "v": ["new"], "w": [1]})
    ds.drop_columns(["v"])
    diff = ds.diff(1, columns=None)
    for names in ("lance", "delta"):
        frame = diff.to_spark(names=names)  # type: ignore[arg-type]
        table = diff.to_table(names=names)  # type: ignore[arg-type]
        assert frame.columns == table.column_names
        found = [tuple(row) for row in frame.collect()]
        expected = [tuple(row.values()) for row in table.to_pylist()]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert ds.diff(ds.version).to_spark().count() == 0


def test_a_filter_and_columns(spark: Any, tmp_path: Path) -> None:
    rows = {"id": list(range(50)), "v": [1.0] * 50, "w": [2] * 50}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", max_rows_per_file=20)
    ds.update({"v": "v + id"}, where="id % 3 = 0")
    ds.update({"w": "5"}, where="id < 9")
    both(ds, 1, filter="id > 5")
    assert both(ds, 1, columns=["w"]).columns["w"] == 9


def test_what_no_executor_can_read(spark: Any) -> None:
    ds = lk.write_dataset({"id": [1, 2]}, "memory://diff-on-spark")
    ds.delete("id = 1")
    with pytest.raises(StorageError, match="memory"):
        ds.diff(1).to_spark()
