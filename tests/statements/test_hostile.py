"""Names and values that try to become SQL do no harm: they stay names and values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import LancekitError

NASTY = [
    'x"; DROP TABLE t; --',
    "x'; DELETE FROM t; --",
    "{t0}",
    "$p0",
    ":p0",
    "\\'); COPY (SELECT 1) TO '/tmp/x'; --",
    "c0",
    "r0.c0",
    "o0",
    "select",
    "a\nb",
    "\u202etxt",
    "日本",
    "*",
]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    columns = {name: [at, at + 1] for at, name in enumerate(NASTY)}
    struct = pa.array([dict.fromkeys([*NASTY, "`"], 1)] * 2)
    return pa.table({**columns, "st": struct, "text": pa.array([NASTY[0], None])})


def _check(rows: pa.Table) -> None:
    names = ", ".join(map(_quoted, NASTY))
    found = lk.sql(f"SELECT {names} FROM t WHERE {_quoted(NASTY[0])} >= 1", t=rows).to_table()
    assert found.column_names == NASTY
    assert [*found.to_pylist()[0].values()] == [at + 1 for at in range(len(NASTY))]
    for name in [*NASTY, "`"]:
        sql = f"SELECT max(st.{_quoted(name)}) AS {_quoted(name)} FROM t AS {_quoted(name)}"
        assert lk.sql(sql, t=rows).to_table().to_pylist() == [{name: 1}]
    for value in [*NASTY, "`", "'", '"', "\\", "''", "\0", "%"]:
        sql = "SELECT $v AS v, count(*) AS n FROM t WHERE text = $v OR text = concat($v, '')"
        found = lk.sql(sql, params={"v": value}, t=rows).to_table().to_pylist()
        assert found == [{"v": value, "n": int(value == NASTY[0])}]


def test_names_and_values_here(rows: pa.Table) -> None:
    _check(rows)


@pytest.mark.spark
def test_names_and_values_on_spark(spark: object, rows: pa.Table) -> None:
    with lk.options(engine="spark"):
        _check(rows)


@pytest.mark.torture
def test_changes(tmp_path: Path, whole: bool) -> None:
    names = [name for name in NASTY if "`" not in name and "." not in name]
    ds = lk.write_dataset({name: ["old", "other"] for name in names}, tmp_path / "d")
    for number, name in enumerate(names):
        for value in NASTY if whole else NASTY[number % 4 :: 4]:
            sql = f"UPDATE ds SET {_quoted(name)} = $v WHERE {_quoted(name)} <> 'other'"
            assert lk.sql(sql, ds=ds, params={"v": value}).num_rows_updated == 1
            assert sorted(ds.to_table()[name].to_pylist()) == sorted([value, "other"])
    assert ds.count_rows() == 2
    with pytest.raises(LancekitError):
        lk.sql(f"DELETE FROM ds@{_quoted('../../etc')} WHERE true", ds=ds)
    with pytest.raises(LancekitError):
        lk.sql("SELECT * FROM '/etc/passwd'")
    with pytest.raises(LancekitError):
        lk.sql(f"SELECT * FROM ds VERSION AS OF {chr(39)}../../x{chr(39)}", ds=ds)


def test_values_that_are_none(tmp_path: Path) -> None:
    for value in (object(), {"a": 1}, [1], float, 1 << 130, lambda: 1):
        with pytest.raises(LancekitError, match="not a SQL value"):
            lk.sql("SELECT $v", params={"v": value})
    found = lk.sql("SELECT id FROM t WHERE id IN ($v)", t={"id": [1, 2, 3]}, params={"v": [1, 3]})
    assert found.to_table()["id"].to_pylist() == [1, 3]
