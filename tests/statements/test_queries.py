"""SELECT over handles, frames and paths: what comes out, of which version."""

from __future__ import annotations

import re
from datetime import date, datetime
from math import isnan

import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import EngineError, PredicateError, TagNotFoundError, VersionNotFoundError

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "k": pa.array([1, 1, 2, None], pa.int8()),
        "x": [1.5, float("nan"), -0.5, None],
        "s": ["a", "Bé", None, "d'e"],
        "d": [date(2020, 1, day) for day in (1, 2, 3, 4)],
        "t": pa.array([datetime(2020, 1, 1, hour) for hour in range(4)], pa.timestamp("ns")),
        "u": pa.array([1, 2, 3, 1 << 63], pa.uint64()),
        "st": [{"a": 1}, {"a": 2}, None, {"a": 4}],
        "Odd name": [10, 20, 30, 40],
    }
)
OTHER = {"id": [2, 3, 9], "n": ["two", "three", "nine"]}


@pytest.fixture(scope="module")
def ds(tmp_path_factory) -> lk.LanceDataset:
    ds = lk.write_dataset(ROWS, tmp_path_factory.mktemp("sql") / "d", max_rows_per_file=3)
    ds.tags.create("first", 1)
    ds.create_branch("try/out").delete("id > 1")
    ds.delete("id = 4")
    return ds


#: a query over `t`, the first version, and `o`; and its rows
QUERIES = {
    "SELECT id, x * 2 AS y FROM t WHERE id < 4 AND id <> 2 ORDER BY id DESC": [(3, -1.0), (1, 3.0)],
    'SELECT ID AS `q"u``o` FROM T WHERE ID = 1': [(1,)],
    "SELECT k, count(*) AS n, sum(id), min(s) FROM t GROUP BY k ORDER BY k": [
        (None, 1, 4, "d'e"),
        (1, 2, 3, "Bé"),
        (2, 1, 3, None),
    ],
    "SELECT count(*), count(k), count(DISTINCT k) FROM t": [(4, 3, 2)],
    "SELECT count(*) FROM t WHERE s LIKE '%é'": [(1,)],
    "SELECT t.id, n FROM t LEFT JOIN o ON t.id = o.id ORDER BY 1 LIMIT 3": [
        (1, None),
        (2, "two"),
        (3, "three"),
    ],
    "SELECT * FROM (SELECT id FROM t) a FULL JOIN o USING (id) ORDER BY id DESC LIMIT 2": [
        (9, "nine"),
        (4, None),
    ],
    "SELECT id FROM t LEFT ANTI JOIN o USING (id) ORDER BY id": [(1,), (4,)],
    "SELECT id / 2, id div 2, id % 2, 1 / 0, 1.0 / 0, -id % 3, id % 0 FROM t WHERE id = 3": [
        (1.5, 1, 1, None, None, 0, None)
    ],
    "SELECT upper(s), lower(s), length(s), s || '!', concat(s, k) FROM t WHERE id = 2": None,
    "SELECT upper(s), lower(s), length(s), s || '!' FROM t WHERE id = 2": [("BÉ", "bé", 2, "Bé!")],
    "SELECT id FROM t WHERE id IN (SELECT id FROM o) ORDER BY id": [(2,), (3,)],
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.id = t.id) ORDER BY id": [
        (1,),
        (4,),
    ],
    "WITH a AS (SELECT id, k FROM t), b(m) AS (SELECT max(id) FROM a) "
    "SELECT a.id FROM a JOIN b ON a.id = b.m": [(4,)],
    "SELECT id FROM t UNION SELECT id FROM o ORDER BY id DESC LIMIT 2": [(9,), (4,)],
    "SELECT id FROM t INTERSECT SELECT id FROM o ORDER BY 1": [(2,), (3,)],
    "SELECT k FROM t UNION ALL SELECT 1.5 ORDER BY k NULLS LAST LIMIT 1": [(1.0,)],
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t ORDER BY id": [
        (1, 1),
        (2, 2),
        (3, 1),
        (4, 1),
    ],
    "SELECT CASE WHEN id > 2 THEN 'big' ELSE s END AS c FROM t ORDER BY id LIMIT 2": [
        ("a",),
        ("Bé",),
    ],
    "SELECT id FROM t WHERE d > '2020-01-02' AND t < TIMESTAMP '2020-01-01 03:00:00'": [(3,)],
    "SELECT year(d), extract(month FROM d), date_trunc('month', d), datediff(d, DATE '2019-12-31') "
    "FROM t WHERE id = 2": [(2020, 1, datetime(2020, 1, 1), 2)],
    "SELECT round(2.675, 2), round(x), floor(x), ceil(x), abs(x) FROM t WHERE id = 3": [
        (2.68, -1.0, -1.0, 0.0, 0.5)
    ],
    "SELECT CAST(x AS int), CAST(id AS string), CAST(d AS timestamp) FROM t WHERE id = 1": [
        (1, "1", datetime(2020, 1, 1))
    ],
    "SELECT u FROM t WHERE u > 9223372036854775806": [(1 << 63,)],
    "SELECT st.a, `Odd name` FROM t WHERE st.a >= 2 ORDER BY 1": [(2, 20), (4, 40)],
    "SELECT id FROM t WHERE k > 300": [],
    "SELECT id FROM t WHERE x = CAST('NaN' AS double)": None,
    "SELECT k, count(*) AS n FROM t GROUP BY 1 HAVING n > 1": [(1, 2)],
    "SELECT k + 1 AS j, sum(id) + 1 FROM t WHERE k IS NOT NULL GROUP BY k + 1 ORDER BY j": [
        (2, 4),
        (3, 4),
    ],
    "SELECT (SELECT max(id) FROM o) AS m, 'text', X'00ff', TRUE": [(9, "text", b"\0\xff", True)],
    "SELECT p, q FROM (VALUES (1, 'a'), (2, NULL)) v(p, q) ORDER BY p": [(1, "a"), (2, None)],
    "SELECT coalesce(s, 'none'), nullif(id, 3), greatest(id, k), if(k = 2, 'y', 'n') FROM t "
    "WHERE id = 3": [("none", None, 3, "y")],
    "SELECT substring(s, 2), left(s, 1), trim('  a '), replace_ FROM t": None,
    "SELECT DISTINCT k FROM t WHERE k IS NOT NULL ORDER BY k": [(1,), (2,)],
    "SELECT sum(id) FILTER (WHERE id > 2), avg(id), median(id), stddev(id) FROM t WHERE id > 2": [
        (7, 3.5, 3.5, pytest.approx(0.5**0.5))
    ],
}


@pytest.mark.parametrize("sql", [sql for sql, rows in QUERIES.items() if rows is not None])
def test_queries(ds: lk.LanceDataset, sql: str) -> None:
    frames = {"t": ds.at(1), "o": OTHER}
    used = {name: frames[name] for name in re.findall(r"(?:from|join) ([to])\b", sql.lower())}
    found = lk.sql(sql, **used).to_table()
    assert [tuple(row.values()) for row in found.to_pylist()] == QUERIES[sql]


@pytest.mark.parametrize("sql", [sql for sql, rows in QUERIES.items() if rows is None])
def test_what_is_refused_has_a_place(ds: lk.LanceDataset, sql: str) -> None:
    with pytest.raises(PredicateError) as caught:
        lk.sql(sql, t=ds)
    assert caught.value.context["position"] > 0


@pytest.mark.parametrize(
    ("call", "ends"),
    [
        ("left('a', -1)", "0 to 2,147,483,647"),
        ("substr('a', 0)", "1 to"),
        ("round(x, 16)", "0 to 15"),
        ("round(id, -19)", "-18 to 15"),
        ("round(id, NULL)", "-18 to 15"),
    ],
)
def test_a_constant_out_of_range_names_the_range(ds: lk.LanceDataset, call: str, ends: str) -> None:
    with pytest.raises(PredicateError, match=f"must be a constant integer from {ends}"):
        lk.sql(f"SELECT {call} FROM t", t=ds)


def test_versions_tags_times_and_branches(ds: lk.LanceDataset) -> None:
    def count(table: str, **more: object) -> int:
        return (
            lk.sql(f"SELECT count(*) AS n FROM {table}", ds=ds, **more).to_table()["n"][0].as_py()
        )

    assert count("ds") == 3
    assert count("ds VERSION AS OF 1") == count("ds FOR VERSION AS OF 'first' AS f") == 4
    assert count("ds VERSION AS OF $v", v=1) == 4
    assert count("ds@`try/out`") == 1
    assert count("ds@`try/out` VERSION AS OF 1") == 4
    assert count("ds TIMESTAMP AS OF '2999-01-01 00:00:00+00:00'") == 3
    when = ds.versions()[0].timestamp
    assert count("ds FOR TIMESTAMP AS OF $when", when=when) == 4
    with pytest.raises(TagNotFoundError):
        count("ds VERSION AS OF 'nosuch'")
    with pytest.raises(VersionNotFoundError):
        count("ds VERSION AS OF 99")


def test_paths_names_and_frames(ds: lk.LanceDataset) -> None:
    lk.register("numbers", ds.uri)
    try:
        assert lk.sql("SELECT count(*) FROM Numbers").to_table()[0][0].as_py() == 3
    finally:
        lk.register("numbers", None)
    assert len(lk.sql(f"SELECT id FROM '{ds.uri}' ORDER BY id LIMIT 2")) == 2
    sources = [
        ROWS.to_pandas(),
        pl.from_arrow(ROWS.drop(["st"])),
        ROWS,
        lk.sql("SELECT * FROM r", r=ROWS),
    ]
    for source in sources:
        assert lk.sql("SELECT sum(id) AS n FROM f", f=source).to_table().to_pylist() == [{"n": 10}]
    with pytest.raises(PredicateError, match="'numbers'"):
        lk.sql("SELECT 1 FROM numbers")


def test_what_the_result_says(ds: lk.LanceDataset) -> None:
    found = lk.sql("SELECT id, k FROM ds WHERE id > 1 AND k * 2 > id LIMIT 9", ds=ds)
    (part,) = found.reads
    assert (part.table, part.columns, part.limit) == ("ds", ("id", "k"), 9)
    assert part.filter.startswith("(`id` > 1)")
    assert found.engine == "local"
    assert "fewer" in found.why
    assert found.schema.types == [pa.int64(), pa.int8()]
    assert (found.num_rows, found.head(1).num_rows) == (len(found), 1)
    assert pa.table(found) == found.to_table()
    merged = lk.write_dataset(found, "memory://result-of-sql", mode="overwrite")
    assert merged.count_rows() == found.num_rows


def test_nan_is_a_number_like_others(ds: lk.LanceDataset) -> None:
    found = lk.sql("SELECT max(x) AS m, count(DISTINCT x) AS n FROM ds VERSION AS OF 1", ds=ds)
    ((value, count),) = [row.values() for row in found.to_table().to_pylist()]
    assert isnan(value)
    assert count == 3


def test_overflow_is_an_error(ds: lk.LanceDataset) -> None:
    for sql in ("sum(9223372036854775807)", "9223372036854775807 + max(id)"):
        with pytest.raises(EngineError, match="cannot be computed"):
            lk.sql(f"SELECT {sql} FROM ds", ds=ds)


def test_an_error_of_a_scan_comes_through(tmp_path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    for file in (tmp_path / "d" / "data").iterdir():
        file.unlink()
    with pytest.raises(lk.errors.CorruptFileError):
        lk.sql("SELECT x FROM ds", ds=ds)


def test_a_function_of_filters_alone_is_said_to_be_one() -> None:
    t = pa.table({"x": ["[]"]})
    with pytest.raises(PredicateError, match=r"columns=\{'x': 'json_exists\(\.\.\.\)'\}"):
        lk.sql("SELECT json_exists(x, '$') FROM t", t=t)
