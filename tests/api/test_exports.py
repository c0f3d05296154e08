"""Rows as Polars frames and DuckDB relations, and files that Arrow reads."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import lancekit as lk
from lancekit._api import exports
from lancekit.errors import (
    InvalidArgumentError,
    NotOfferedError,
    SchemaMismatchError,
    UnsupportedTypeError,
)

DAYS = [dt.date(2024, 1, day) for day in range(1, 7)]
ROWS = pa.table(
    {
        "i": pa.array([0, 1, 2, None, -4, 5], pa.int8()),
        "u": pa.array([0, 2**64 - 1, None, 3, 4, 5], pa.uint64()),
        "f": pa.array([0.0, float("nan"), None, -3.5, float("inf"), 5.0], pa.float32()),
        "s": pa.array(["", "a", "b", None, "ä", "z"]),
        "b": pa.array([True, False, None, True, False, True]),
        "d": pa.array(DAYS, pa.date32()),
        "t": pa.array([dt.datetime(2024, 1, day) for day in range(1, 7)], pa.timestamp("us")),
        "l": pa.array([[1], [], None, [2, 3], [4], [5]]),
    }
)


@pytest.fixture(scope="module")
def table() -> lk.LanceDataset:
    ds = lk.write_dataset(ROWS, "memory://exports", max_rows_per_file=2)
    ds.create_scalar_index("i", "BTREE")
    return ds


def test_a_polars_frame(table: lk.LanceDataset) -> None:
    assert_frame_equal(table.to_polars(), pl.from_arrow(ROWS))
    found = table.to_polars(columns=["i"], filter="i > 0", limit=2)
    assert found["i"].to_list() == [1, 2]


def test_a_type_that_polars_lacks() -> None:
    wide = pa.array([Decimal(1)], pa.decimal256(50, 2))
    ds = lk.write_dataset({"x": [1], "wide": wide}, "memory://exports-wide")
    with pytest.raises(UnsupportedTypeError, match="column 'wide' \\(decimal256"):
        ds.to_polars()
    assert ds.to_polars(columns=["x"]).height == 1


def test_a_missing_package(table: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("polars", "polars.io.plugins", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (table.to_polars, lambda: lk.scan_polars(table)):
        with pytest.raises(NotOfferedError, match=r"pip install .polars>=1\.20"):
            call()
    with pytest.raises(NotOfferedError, match="needs the package duckdb"):
        table.to_duckdb()


DAY = dt.datetime(2024, 1, 5)
VALUES = {
    "i": st.integers(-128, 127),
    "u": st.integers(0, 2**64 - 1),
    "f": st.floats(width=32),
    "s": st.sampled_from(["", "a", "ä", "zz"]),
    "b": st.booleans(),
    "d": st.sampled_from(DAYS),
    "t": st.sampled_from([dt.datetime(2024, 1, day) for day in range(1, 7)]),
}


@st.composite
def _comparisons(draw: st.DrawFn) -> pl.Expr:
    name = draw(st.sampled_from(sorted(VALUES)))
    column, value = pl.col(name), draw(VALUES[name])
    return draw(
        st.sampled_from(
            [
                *(column > value, column >= value, column < value, column <= value),
                *(column == value, column != value, column.is_null(), column.is_not_null()),
                *(column.is_in([value]), pl.lit(value) < column, ~(column == value)),
            ]
        )
    )


PREDICATES = st.recursive(
    _comparisons(), lambda part: st.tuples(part, part).flatmap(
        lambda both: st.sampled_from([both[0] & both[1], both[0] | both[1], ~both[0]])
    ), max_leaves=4,
)  # fmt: skip


@given(PREDICATES, st.none() | st.integers(0, 7))
def test_a_lazy_frame_has_the_rows_of_polars(predicate: pl.Expr, most: int | None) -> None:
    lazy, frame = lk.scan_polars("memory://exports"), pl.from_arrow(ROWS).lazy()
    plans = [one.filter(predicate).select("s", "i") for one in (lazy, frame)]
    found, expected = (
        plan.head(most).collect() if most is not None else plan.collect() for plan in plans
    )
    assert_frame_equal(found, expected)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[lk.LanceScanner]:
    made: list[lk.LanceScanner] = []
    scan_of = exports.scan_of

    def recorded(*args: object) -> lk.LanceScanner:
        made.append(scan_of(*args))
        return made[-1]

    monkeypatch.setattr(exports, "scan_of", recorded)
    return made


def test_what_polars_passes_to_the_scan(
    table: lk.LanceDataset, scans: list[lk.LanceScanner]
) -> None:
    lazy = lk.scan_polars(table)
    for plan, rows, kept in (
        (
            lazy.filter(pl.col("i") > 1, pl.col("s").is_not_null()).select("u"),
            2,
            "(`s` IS NOT NULL)",
        ),
        (lazy.filter(pl.col("i").is_in([1, 5, None])).select("i"), 2, "IndexLookup  i_idx"),
        (lazy.filter((pl.col("f") < 1) | (pl.col("t") > DAY) | ~pl.col("b")), 5, "all rows"),
        (lazy.filter((pl.col("d") > DAYS[3]) & (pl.col("s") + "x" != "y")), 2, "`d` > DATE"),
        (lazy.filter((pl.col("t") == DAY) | pl.col("s").is_in(["b"])), 2, "`s` IN ('b')"),
    ):
        assert plan.collect().height == rows
        assert kept in str(scans[-1].explain()) + repr(scans[-1])
    assert lazy.select("u").head(2).collect().height == 2
    assert scans[-1]._scan.limit == 2
    assert scans[-1].projected_schema.names == ["u"]


def test_a_duckdb_relation(table: lk.LanceDataset) -> None:
    found = table.to_duckdb(columns=["i"], filter="i > 0")
    assert found.fetchall() == [(1,), (2,), (5,)]
    assert found.aggregate("sum(i)").fetchall() == found.aggregate("sum(i)").fetchall() == [(8,)]
    own = duckdb.connect()
    own.register("other", pa.table({"i": [5, 7]}))
    rows = table.to_duckdb(own, columns=["i", "s"])
    assert rows.join(own.table("other"), "i").fetchall() == [(5, "z")]
    with pytest.raises(InvalidArgumentError, match="must be a DuckDB connection, got str"):
        table.to_duckdb("x.db")


# ---- files


def test_a_parquet_file_a_folder_and_a_pattern(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "in" / f"k={number % 2}").mkdir(parents=True, exist_ok=True)
        rows = pa.table({"x": [number]})
        pq.write_table(rows, tmp_path / "in" / f"k={number % 2}" / f"{number}.parquet")
    file = lk.read_parquet(tmp_path / "in" / "k=0" / "0.parquet")
    assert lk.write_dataset(file, "memory://in-file").to_table()["x"].to_pylist() == [0]
    ds = lk.write_dataset(lk.read_parquet(tmp_path / "in"), "memory://in-folder")
    assert sorted(map(tuple, (row.values() for row in ds.to_table().to_pylist()))) == [
        (0, 0), (1, 1), (2, 0),
    ]  # fmt: skip
    found = lk.read_parquet(str(tmp_path / "in" / "**" / "[12].parquet"))
    ds.insert(found.to_table().select(["x", "k"]))
    assert ds.count_rows() == 5


def test_a_source_can_be_read_twice(tmp_path: Path) -> None:
    pc.write_csv(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "x.csv")
    rows = lk.read_csv(tmp_path / "x.csv")
    ds = lk.write_dataset(rows, "memory://twice", primary_key="id")
    ds.merge_insert("id").when_not_matched_insert_all().execute(rows)
    assert ds.to_table().to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_columns_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("c,a\n2.5,2.5\n")
    found = lk.read_csv(str(tmp_path / "*.csv")).to_table().to_pydict()
    assert found == {"a": [1.0, 2.5], "b": ["x", None], "c": [None, 2.5]}
    given_types = pa.schema([("a", pa.float32())])
    assert lk.read_csv(tmp_path, schema=given_types).to_table().schema == given_types


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [[1]]}), tmp_path / "2.parquet")
    with pytest.raises(SchemaMismatchError, match="columns of different types"):
        lk.read_parquet(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(InvalidArgumentError, match="cannot be read as parquet"):
        lk.read_parquet(tmp_path / "x.parquet")
    for missing in ("none.csv", "none/*.csv"):
        with pytest.raises(InvalidArgumentError, match="There is no file at"):
            lk.read_csv(tmp_path / missing)


# ---- lists as frames, and results of SQL


def test_every_list_is_a_frame(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "x.lance")
    assert ds.tags.to_pandas().empty
    assert list(ds.branches.to_pandas()) == ["name", "parent_branch", "parent_version", *BRANCH]
    ds.create_scalar_index("x", "BTREE")
    ds.insert({"x": [3]})
    ds.tags.create("first", 1)
    ds.tags.create("now")
    ds.create_branch("trial", 2)
    assert ds.versions().to_pandas()["num_rows"].tolist() == [2, 2, 3]
    assert ds.versions()[1:].to_pandas()["version"].tolist() == [2, 3]
    assert ds.tags.to_pandas()[["name", "version"]].values.tolist() == [["now", 3], ["first", 1]]
    assert ds.branches.to_pandas()["parent_version"].tolist() == [2]
    assert ds.list_indices().to_pandas()["fields"].tolist() == [["x"]]
    assert ds.describe_indices().to_pandas()["num_rows_indexed"].tolist() == [2]
    assert ds.indices.to_pandas()["share"].tolist() == [2 / 3]
    fragments = ds.get_fragments()
    assert isinstance(fragments, list)
    assert fragments.to_pandas()["physical_rows"].tolist() == [2, 1]


BRANCH = ("create_at", "metadata")


def test_a_result_of_sql_in_other_forms() -> None:
    found = lk.sql(
        "SELECT x, y FROM rows WHERE x > 1", rows=pa.table({"x": [1, 2], "y": ["a", "b"]})
    )
    assert found.fetchall() == [(2, "b")]
    assert found.columns == ["x", "y"]
    assert len(found) == 1
    assert_frame_equal(found.pl(), pl.DataFrame({"x": [2], "y": ["b"]}))
    assert found.to_polars().equals(found.pl())
    assert found.df().equals(found.to_pandas())
    assert lk.sql("SELECT 1 AS x WHERE 1 = 0").fetchall() == []


flights = {"x": [1, 2, 3]}


def test_variables_of_the_caller_are_tables() -> None:
    arrow = pa.table({"x": [1, 2]})
    frame, pandas = pl.DataFrame(arrow), arrow.to_pandas()
    handle = lk.write_dataset(arrow, "memory://caller")
    for name in ("arrow", "frame", "pandas", "handle", "flights"):
        assert lk.sql(f"SELECT count(*) AS n FROM {name}").fetchall() == [
            (2 + (name == "flights"),)
        ]
    assert frame is not None
    assert pandas is not None
    lk.register("number", handle)
    number = 3  # no table, so the registered name is found
    text = "SELECT max(x) AS most FROM number WHERE x < $number"
    assert lk.sql(text).fetchall() == [(number - 1,)]
    lk.register("number", None)

    def inner() -> object:
        return lk.sql("SELECT * FROM handle")

    with pytest.raises(lk.errors.PredicateError, match="no table 'handle'"):
        inner()


def test_a_csv_file_keeps_nulls_and_empty_texts(tmp_path: Path) -> None:
    rows = pa.table({"t": ["a", None, ""], "f": [1.5, None, float("nan")]})
    lk.write_dataset(rows, tmp_path / "d").export(tmp_path / "x.csv")
    found = lk.read_csv(tmp_path / "x.csv").to_table()
    assert found["t"].to_pylist() == ["a", None, ""]
    assert [str(value) for value in found["f"].to_pylist()] == ["1.5", "None", "nan"]
    one = pa.table({"i": [1, None, 3]})
    path = tmp_path / "y.csv"
    with pytest.warns(UserWarning, match=r"^1 null of the only column became empty lines, which"):
        lk.write_dataset(one, tmp_path / "e").export(path)
    assert lk.read_csv(path).to_table().equals(one)
    assert pl.read_csv(path)["i"].to_list() == [1, None, 3]
    assert duckdb.read_csv(str(path)).fetchall() == [(1,), (None,), (3,)]
    assert pd.read_csv(path, skip_blank_lines=False)["i"].isna().tolist() == [False, True, False]
    lines = pc.ParseOptions(ignore_empty_lines=False)
    assert pc.read_csv(path, parse_options=lines).equals(one)


@pytest.mark.parametrize(("name", "folder"), [("x.csv", ""), ("x.parquet", ""), ("x.csv", "in")])
def test_an_error_says_how_the_rows_of_other_files_become_a_dataset(
    tmp_path, monkeypatch, name, folder
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / folder
    path.mkdir(exist_ok=True)
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "a.lance")
    ds.export(path / name)
    with pytest.raises(lk.errors.DatasetNotFoundError) as caught:
        lk.dataset(path if folder else path / name)
    line = caught.value.hint.removeprefix("To copy its rows: ").removesuffix(".")
    assert eval(line, {"lk": lk}).to_table() == ds.to_table()


def test_the_files_of_a_delta_table_are_not_its_rows(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "part-0.parquet").touch()
    with pytest.raises(lk.errors.DatasetNotFoundError, match=r"deltalake\.DeltaTable"):
        lk.dataset(tmp_path)


def test_vectors_with_nulls_in_several_batches(tmp_path: Path) -> None:
    """Polars refuses slices of such a column."""
    vectors = [None if n % 5 == 0 else [float(n), 0.5] for n in range(40)]
    rows = pa.table({"v": pa.array(vectors, pa.list_(pa.float32(), 2))})
    ds = lk.write_dataset(rows, tmp_path / "d", max_rows_per_file=17)
    found = lk.scan_polars(ds).collect()["v"].to_list()
    assert [one if one is None else list(one) for one in found] == vectors
