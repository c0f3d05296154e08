"""Queries in this process: tables that are too large to be read first are streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._statements import select
from lancekit._statements.run import run_statements
from lancekit._statements.tables import Names
from lancekit.errors import CorruptFileError, LancekitError, UnsupportedTypeError


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "_WHOLE", 0)


QUERIES = [
    "SELECT count(*) AS n, sum(x) AS s FROM t WHERE x % 2 = 0",
    "SELECT a.x FROM t a JOIN t b ON a.x = b.x + 1 ORDER BY 1 LIMIT 3",
    "WITH c AS (SELECT x, s FROM t WHERE x < 50) "
    "SELECT c.x, d.s FROM c JOIN c AS d USING (x) WHERE c.x IN (SELECT x FROM c) ORDER BY 1",
    "SELECT x FROM t o WHERE x = (SELECT max(x) FROM t i WHERE i.k = o.k) ORDER BY x",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_streams_are_read_as_often_as_needed(tmp_path: Path, streams: None, sql: str) -> None:
    rows = pa.table({"x": range(200), "k": [at % 7 for at in range(200)], "s": ["a"] * 200})
    ds = lk.write_dataset(rows, tmp_path / "d", max_rows_per_file=60)
    streamed = lk.sql(sql, t=ds).to_table()
    assert streamed.num_rows
    assert streamed == lk.sql(sql, t=rows).to_table()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "_WHOLE", 1 << 30)
        assert streamed == lk.sql(sql, t=ds).to_table()


def test_the_error_of_a_scan_comes_through(tmp_path: Path, streams: None) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    for file in (tmp_path / "d" / "data").iterdir():
        file.unlink()
    with pytest.raises(CorruptFileError):
        lk.sql("SELECT x + 1 FROM ds WHERE x * 2 > 1", ds=ds)


def test_an_interrupt_of_a_query_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: self

        def sql(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("Query interrupted")

    monkeypatch.setattr(select, "_session", Stopped)
    for run in (lk.sql, lambda text, **given: run_statements(text, Names(given))):
        with pytest.raises(KeyboardInterrupt) as caught:
            run("SELECT x + 1 FROM t WHERE x > 0", t={"x": [1]}).to_table()
        assert caught.value.__cause__ is None
    with pytest.raises(KeyboardInterrupt) as caught:
        run_statements("UPDATE t SET x = CASE WHEN x > 0 THEN 1 END", Names({"t": _written()}))
    assert "nothing was committed" in caught.value.__notes__[0]


def test_an_interrupt_of_a_scan_stays_one(monkeypatch: pytest.MonkeyPatch, streams: None) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    ds = _written()
    monkeypatch.setattr(lk.LanceScanner, "to_batches", stop)
    with pytest.raises(KeyboardInterrupt):
        lk.sql("SELECT x + 1 FROM ds WHERE x * 2 > 1", ds=ds).to_table()


def _written() -> lk.LanceDataset:
    return lk.write_dataset({"x": [1]}, "memory://stopped")


def test_nothing_else_is_within_reach(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a\n1\n")
    for table in (f"'{tmp_path}/f.csv'", "pg_catalog.pg_tables", "duckdb_settings()", "lk"):
        with pytest.raises(LancekitError):
            lk.sql(f"SELECT * FROM {table}")


@pytest.mark.parametrize("bytes_read_first", [0, 1 << 30])
def test_durations_come_through(monkeypatch: pytest.MonkeyPatch, bytes_read_first: int) -> None:
    monkeypatch.setattr(select, "_WHOLE", bytes_read_first)
    span = pa.duration("us")
    parts = pa.struct([("d", span), ("l", pa.list_(span))])
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "d": pa.array([2**63 - 1, None, -(2**63) + 1], span),
            "s": pa.array([{"d": 1, "l": [2, None]}, None, {"d": None, "l": None}], parts),
            "m": pa.array([[("k", 5)], None, []], pa.map_(pa.string(), span)),
        }
    )
    ds = lk.write_dataset(rows, "memory://durations")
    assert lk.sql("SELECT * FROM ds WHERE id * 2 > 1 ORDER BY id", ds=ds).to_table() == rows
    found = lk.sql("SELECT CASE WHEN id > 1 THEN d END AS d, s.d AS e FROM ds", ds=ds).to_table()
    assert found["d"].cast(pa.int64()).to_pylist() == [None, None, -(2**63) + 1]
    assert found["e"].cast(pa.int64()).to_pylist() == [1, None, None]
    merge = (
        "MERGE INTO ds USING s ON ds.id = s.id WHEN MATCHED AND s.id > 1 THEN UPDATE SET d = s.d "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET d = NULL"
    )
    lk.sql(merge, ds=ds, s=pa.table({"id": [2], "d": pa.array([7], pa.duration("ms"))}))
    changed = ds.to_table(["id", "d"]).sort_by("id")["d"].cast(pa.int64())
    assert changed.to_pylist() == [None, 7000, None]


UUIDS = pa.array([b"0123456789abcdef", None, b"a" * 16], pa.uuid())


@pytest.mark.parametrize("bytes_read_first", [0, 1 << 30])
def test_uuids_come_out_at_any_depth(
    monkeypatch: pytest.MonkeyPatch, bytes_read_first: int
) -> None:
    monkeypatch.setattr(select, "_WHOLE", bytes_read_first)
    parts = {
        "s": pa.StructArray.from_arrays([UUIDS, pa.array([1, 2, 3])], names=["x", "n"]),
        "l": pa.ListArray.from_arrays([0, 2, 2, 3], UUIDS),
        "m": pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["a", "b", "c"]), UUIDS),
    }
    rows = pa.table({"id": [1, 2, 3], "u": UUIDS, **parts})
    ds = lk.write_dataset(rows, "memory://uuids")
    texts: list[bytes | None] = UUIDS.storage.to_pylist()
    for source in (ds, rows):
        found = lk.sql("SELECT s, s.x, u, l, m FROM t WHERE id * 2 > 1 ORDER BY id", t=source)
        table = found.to_table()
        assert table["x"].to_pylist() == table["u"].to_pylist() == texts
        assert [row["x"] for row in table["s"].to_pylist()] == texts
        assert table["l"].to_pylist() == [texts[:2], [], texts[2:]]
        assert [dict(row) for row in table["m"].to_pylist()] == [
            {"a": texts[0]},
            {"b": None},
            {"c": texts[2]},
        ]
    lk.sql("INSERT INTO ds SELECT id, u, s, l, m FROM rows", ds=ds, rows=rows)
    assert ds.to_table().equals(pa.concat_tables([rows, rows]))


@pytest.mark.parametrize(
    "values",
    [pa.array([1001], pa.timestamp("ns")), pa.array([1], pa.decimal256(50, 2))],
    ids=["a value", "a type"],
)
def test_what_statements_cannot_hold_can_be_read_here(values: pa.Array) -> None:
    ds = lk.write_dataset(pa.table({"id": [1], "x": values}), "memory://too-fine")
    with pytest.raises(UnsupportedTypeError) as caught:
        lk.sql("SELECT x FROM ds", ds=ds).to_table()
    assert caught.value.hint == "Leave the column out, or read it by to_table() of the dataset."
    assert ds.to_table(["x"])["x"].combine_chunks() == values
