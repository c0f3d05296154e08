"""Rows as Python objects and pandas frames through every operation: what came out goes back in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import lancekit as lk
from lancekit._api.fragment import write_fragments
from lancekit.errors import SchemaMismatchError, UnsupportedTypeError
from tests.support.argument_checks import place
from tests.support.arrow_columns import LEAVES, columns

Rows = Callable[[pa.Table], Any]

NS = 1577836800123456789
KEYS = {
    pa.timestamp("ns"): [NS, NS + 1, NS + 2],
    pa.timestamp("ns", "Europe/Berlin"): [NS, NS + 1, NS + 2],
    pa.duration("ns"): [-1, 0, 1],
    pa.timestamp("us"): [1, 2, 3],
    pa.date32(): [1, 2, 3],
    pa.binary(2): [b"ab", b"cd", b"ef"],
    pa.decimal128(10, 2): [1, 2, 3],
}


def of_kind(kind: pa.DataType) -> pa.Table:
    keys = pa.array(KEYS[kind], pa.int64() if pa.types.is_temporal(kind) else kind)
    if pa.types.is_date(kind):
        keys = keys.cast(pa.int32())
    return pa.table({"k": keys.cast(kind), "v": ["a", "b", "c"]})


def object_frame(table: pa.Table) -> pd.DataFrame:
    columns = {n: pd.Series(table[n].to_pylist(), dtype=object) for n in table.column_names}
    return pd.DataFrame(columns)


FORMS: dict[str, Rows] = {
    "rows": pa.Table.to_pylist,
    "columns": pa.Table.to_pydict,
    "frame of objects": object_frame,
}


@pytest.mark.cover
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_keys_are_not_cut(kind: pa.DataType, form: str) -> None:
    table, make = of_kind(kind), FORMS[form]
    ds = lk.write_dataset(make(table), place(), schema=table.schema)
    assert ds.to_table() == table
    changed = table.set_column(1, "v", pa.array(["A", "B", "C"]))
    merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    with merge.preview(make(changed)) as plan:
        assert (plan.num_updated_rows, plan.num_inserted_rows) == (3, 0)
    assert dict(merge.execute(make(changed.slice(1, 1)))) == {
        "num_inserted_rows": 0,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
    }
    assert ds.to_table().sort_by("k")["v"].to_pylist() == ["a", "B", "c"]
    _, counts = merge.execute_uncommitted(make(changed))
    assert counts["num_updated_rows"] == 3
    ds.merge(make(table.rename_columns(["k", "w"])), "k")
    assert ds.to_table().sort_by("k")["w"].to_pylist() == ["a", "b", "c"]
    ds.add_columns(make(table.rename_columns(["k", "x"])), on="k")
    assert ds.to_table().sort_by("k")["x"].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_type_come_back(form: str) -> None:
    nested = {
        "list": pa.list_(pa.timestamp("ns")),
        "struct": pa.struct({"a": pa.duration("ns"), "b": pa.decimal256(50, 2)}),
        "map": pa.map_(pa.string(), pa.timestamp("ns", "UTC")),
        "fixed": pa.list_(pa.float32(), 2),
        "dictionary": pa.dictionary(pa.int16(), pa.string()),
        "uuid": pa.uuid(),
        "json": pa.json_(),
    }
    values: dict[str, Any] = {
        "list": [pd.Timestamp(NS), None],
        "struct": {"a": pd.Timedelta(1), "b": None},
        "map": {"k": pd.Timestamp(NS, tz="UTC")},
        "fixed": [0.5, 1.5],
        "dictionary": "a",
        "uuid": b"0123456789abcdef",
        "json": '{"a":1}',
    }
    plain = {str(kind): pa.array([None, _example(kind)], kind) for kind in LEAVES}
    table = pa.table(plain | {n: pa.array([None, values[n]], kind) for n, kind in nested.items()})
    make = FORMS[form]
    ds = lk.write_dataset(make(table), place(), schema=table.schema)
    assert ds.to_table().to_pylist() == table.to_pylist()
    assert ds.schema.types == table.schema.types
    ds.insert(make(ds.to_table()))
    ds.insert(make(ds.to_table(limit=2)), schema=table.schema)
    fragments = write_fragments(make(table), ds)
    ds = lk.LanceDataset.commit(ds, lk.LanceOperation.Append(fragments), read_version=ds.version)
    assert ds.to_table().to_pylist() == 4 * table.to_pylist()
    if form != "columns":  # these are expressions to it
        ds.replace_columns(make(ds.to_table()))
        assert ds.to_table().to_pylist() == 4 * table.to_pylist()


def _example(kind: pa.DataType) -> Any:
    for value in (1, 0.5, "a", b"a", b"abc", True):
        try:
            return pa.array([value], kind)[0].as_py()
        except (pa.ArrowException, TypeError):
            continue
    return pa.array([0], pa.int32()).cast(kind)[0].as_py()


@given(columns(depth=1))
def test_any_column_survives_a_dataset(column: pa.Array) -> None:
    table = pa.table({"number": pa.array(range(len(column)), pa.int64()), "x": column})
    if not len(column):
        return
    try:
        ds = lk.write_dataset(
            table.to_pylist(), "memory://any-column", schema=table.schema, mode="overwrite"
        )
    except UnsupportedTypeError:
        return
    ds.insert(ds.to_table().to_pylist())
    assert ds.to_table().to_pylist() == 2 * table.to_pylist()


# ---- schema=

WIDE = pa.table({"x": [1.5, 2.5], "s": ["a", "b"]})
NARROW = pa.schema({"s": pa.large_string(), "x": pa.float32()})
SOURCES: dict[str, Rows] = {
    "table": lambda t: t,
    "batch": lambda t: t.to_batches()[0],
    "batches": lambda t: t.to_batches(max_chunksize=1),
    "iterator": lambda t: iter(t.to_batches(max_chunksize=1)),
    "reader": lambda t: t.to_reader(),
    "frame": lambda t: t.to_pandas(),
    "polars": pl.from_arrow,
    "dataset": lambda t: lk.write_dataset(t, place()),
    "rows": lambda t: t.to_pylist(),
    "columns": lambda t: t.to_pydict(),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_schema_is_honoured_by_every_operation(source: str) -> None:
    make = SOURCES[source]
    ds = lk.write_dataset(make(WIDE), place(), schema=NARROW)
    assert ds.schema == NARROW
    whole = pa.table({"s": ["a", "b"], "x": [1.5, 2.5]}, NARROW)
    assert ds.to_table() == whole
    # float16 cannot hold 70,000, which the dataset's own type can
    half = pa.schema({"s": pa.string(), "x": pa.float16()})
    lossy = WIDE.set_column(0, "x", pa.array([1.5, 70001.0]))
    merge = ds.merge_insert("s").when_matched_update_all()
    tries: list[Callable[[Any], Any]] = [
        lambda rows: ds.insert(rows, schema=half),
        lambda rows: write_fragments(rows, ds, schema=half),
        lambda rows: merge.execute(rows, schema=half),
        lambda rows: merge.execute_uncommitted(rows, schema=half),
        lambda rows: merge.preview(rows, schema=half),
        lambda rows: merge.explain(rows, schema=half),
        lambda rows: merge.analyze_plan(rows, schema=half),
        lambda rows: ds.get_fragments()[0].update_columns(rows, "s", schema=half),
    ]
    if source != "columns":  # these are expressions to it
        tries.append(lambda rows: ds.replace_columns(rows, reader_schema=half))
    for attempt in tries:
        with pytest.raises(SchemaMismatchError, match=r"70001\.0.* in row 1 "):
            attempt(make(lossy))
    renamed = pa.schema({"s": pa.string(), "y": pa.float16()})
    joins: list[Callable[[Any], Any]] = [
        lambda rows: ds.merge(rows, "s", schema=renamed),
        lambda rows: ds.add_columns(rows, reader_schema=renamed, on="s"),
        lambda rows: ds.get_fragments()[0].merge(rows, "s", schema=renamed),
    ]
    for attempt in joins:
        with pytest.raises(SchemaMismatchError, match=r"70001\.0.* in row 1 "):
            attempt(make(lossy.rename_columns(["y", "s"])))
    assert ds.version == 1
    assert merge.execute(make(WIDE), schema=half)["num_updated_rows"] == 2


def test_dates_and_times_together_do_not_become_midnights() -> None:
    ds = lk.write_dataset({"t": pa.array([0], pa.timestamp("us"))}, place())
    five = dt.datetime(2020, 1, 1, 5)
    ds.insert({"t": [dt.date(2020, 1, 1), five]})
    assert ds.to_table()["t"].to_pylist()[1:] == [dt.datetime(2020, 1, 1), five]
    days = lk.write_dataset({"t": [dt.date(2020, 1, 1)]}, place())
    with pytest.raises(SchemaMismatchError, match="in row 1 is not at midnight"):
        days.insert({"t": [dt.date(2020, 1, 1), five]})


def test_a_frame_says_which_of_its_rows_does_not_fit() -> None:
    ds = lk.write_dataset({"t": pa.array([0], pa.timestamp("us"))}, place())
    frame = pd.DataFrame({"t": pd.Series([None, pd.Timestamp(NS)], dtype=object)})
    with pytest.raises(SchemaMismatchError, match=r"t: the value .*789.* in row 1 does not fit"):
        ds.insert(frame)
    with pytest.raises(SchemaMismatchError, match="'a' in row 1 is of class str, and 1 of class"):
        ds.insert(pd.DataFrame({"t": pd.Series([1, "a"], dtype=object)}))


# ---- the index of pandas frames

LETTERED = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"]))


def test_index_levels_reach_every_operation() -> None:
    ds = lk.write_dataset(LETTERED, place())
    level = "__index_level_0__"
    assert ds.schema.names == ["x", level]
    ds.insert(LETTERED)
    assert write_fragments(LETTERED, ds)[0].physical_rows == 2
    merge = ds.merge_insert(level).when_matched_update_all()
    with merge.preview(LETTERED.assign(x=[3, 4])) as plan:
        assert plan.num_updated_rows == 4
    assert merge.execute(LETTERED.assign(x=[3, 4]))["num_updated_rows"] == 4
    ds.merge(LETTERED.rename(columns={"x": "y"}), level)
    ds.add_columns(LETTERED.rename(columns={"x": "z"}), on=level)
    assert sorted(ds.to_table()["z"].to_pylist()) == [1, 1, 2, 2]
    ds.replace_columns(pd.concat([LETTERED, LETTERED]))
    assert ds.to_table(columns=["x", level]).to_pylist() == 2 * [
        {"x": 1, level: "a"},
        {"x": 2, level: "b"},
    ]
    numbered = LETTERED.set_index(
        pd.MultiIndex.from_arrays([[1, 2], ["a", "b"]], names=["n", None])
    )
    with pytest.raises(SchemaMismatchError, match=r"\+ n: int64, not in the dataset"):
        ds.insert(numbered)
