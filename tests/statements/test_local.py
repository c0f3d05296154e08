"""Queries in this process: tables that are too large to be read first are streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError, LancekitError
from lancekit.statements import local


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_WHOLE", 0)


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
        patch.setattr(local, "_WHOLE", 1 << 30)
        assert streamed == lk.sql(sql, t=ds).to_table()


def test_the_error_of_a_scan_comes_through(tmp_path: Path, streams: None) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    for file in (tmp_path / "d" / "data").iterdir():
        file.unlink()
    with pytest.raises(CorruptFileError):
        lk.sql("SELECT x + 1 FROM ds WHERE x * 2 > 1", ds=ds)


def test_nothing_else_is_within_reach(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a\n1\n")
    for table in (f"'{tmp_path}/f.csv'", "pg_catalog.pg_tables", "duckdb_settings()", "lk"):
        with pytest.raises(LancekitError):
            lk.sql(f"SELECT * FROM {table}")
