"""Generations are merged by Spark's tasks as they are in this process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.mem_wal.newest_rows import NewestRows
from tests.support.mem_wal_model import History, table_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("match", ["auto", "closure", "shuffle"])
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.cover
def test_on_spark(spark: Any, tmp_path: Path, match: str, stable: bool) -> None:
    history = History(tmp_path / "t", random.Random(7), stable)
    history.begin()
    if match != "shuffle":  # an append does not look for keys
        twice = {key: history.base[key] for key in list(history.base)[:10]}
        lance.write_dataset(table_of(twice), str(tmp_path / "t"), mode="append")
    for _ in range(5):
        history.write()
    seen = {key for made in history.waiting.values() for one in made for key in one}
    if match != "shuffle":
        history.write_all(sorted(twice.keys() - seen))
    with lk.options(engine="spark", merge_match=match):
        done = history.merge()
    assert done.engine == "spark"
    assert done["num_deleted_rows"] > 0
    assert done["num_merged_generations"] >= 5


def test_without_a_key(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the rows do not come to this process
    monkeypatch.setattr(NewestRows, "reader", lambda _: pytest.fail("rows are read here"))
    rows = table_of({1: (1.0, "a"), 2: (2.0, None)})
    plain = rows.cast(rows.schema.remove(0).insert(0, rows.schema.field(0).remove_metadata()))
    ds = lance.write_dataset(plain, str(tmp_path / "t"))
    ds.initialize_mem_wal(unsharded=True)
    with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        writer.put(plain)
    with lk.options(engine="spark"):
        assert lk.dataset(ds.uri).merge_mem_wal()["num_inserted_rows"] == 2
    assert sorted(lance.dataset(ds.uri).to_table()["id"].to_pylist()) == [1, 1, 2, 2]


def test_rows_that_the_table_refuses(spark: Any, tmp_path: Path) -> None:
    ds = lance.write_dataset(table_of({1: (1.0, "a")}), str(tmp_path / "t"))
    ds.initialize_mem_wal()
    rows = table_of({1: (-1.0, "bad"), 2: (2.0, None), 3: (-3.0, "bad")})
    with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        writer.put(rows)
    mine = lk.dataset(ds.uri)
    mine.constraints.add("positive", "v >= 0")
    with lk.options(engine="spark"):
        done = mine.merge_mem_wal(on_error="quarantine")
    assert (done.engine, done["num_quarantined_rows"], done["num_inserted_rows"]) == ("spark", 2, 1)
    assert sorted(lance.dataset(ds.uri).to_table()["v"].to_pylist()) == [1.0, 2.0]
    assert mine.mem_wal_quarantine().to_table()["id"].to_pylist() == [1, 3]


def test_rows_from_before_a_column_leave_its_values_alone(spark: Any, tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [0, 1], "v": [0, 1]}, tmp_path / "t", primary_key="id")
    ds.mem_wal_upsert({"id": [1, 2], "v": [11, 12]}, flush=True)
    ds.add_columns(pa.field("x", pa.int64()))
    ds.update({"x": "id + 70"})
    with lk.options(engine="spark"):
        shown = ds.to_spark(include_mem_wal=True).sort("id").toArrow()
        assert ds.merge_mem_wal().engine == "spark"
    assert ds.to_table().sort_by("id").to_pydict() == shown.to_pydict()
    assert shown.to_pydict() == {"id": [0, 1, 2], "v": [0, 11, 12], "x": [70, 71, None]}
