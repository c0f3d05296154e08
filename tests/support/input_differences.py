"""Where rows that are handed over become something else than in pylance, on purpose."""

from __future__ import annotations

import datetime as dt
import warnings
from types import ModuleType
from typing import Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa

from tests.support.difference import REFUSED, Difference, tried

__all__ = ["OF_INPUTS"]


def _written(library: ModuleType, uri: str, rows: Any, schema: pa.Schema | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tried(lambda: library.write_dataset(rows, uri, schema=schema))
    return REFUSED if made == REFUSED else library.dataset(uri).to_table().to_pydict()


def _frame(index: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": [1, 2, 3]}, index=index)


def _named_range(library: ModuleType, uri: str) -> Any:
    return _written(library, uri, _frame(pd.RangeIndex(3, name="k")))


def _numbers_without_a_name(library: ModuleType, uri: str) -> Any:
    return _written(library, uri, _frame(pd.Index([7, 9, 4])))


def _notes_of_a_frame(library: ModuleType, uri: str) -> Any:
    frame = _frame(None)
    frame.attrs["unit"] = "m"
    library.write_dataset(frame, uri)
    return library.dataset(uri).to_table().to_pandas().attrs


def _notes_of_polars(library: ModuleType, uri: str) -> Any:
    frame = pl.DataFrame({"k": pl.Series(["a"], dtype=pl.Enum(["a"]))})
    dataset = lance.write_dataset(frame.to_arrow(), uri)
    dataset.update({"k": "'new'"})
    return pl.from_arrow(library.dataset(uri).to_table())["k"].to_list()


def _nanoseconds_of_rows(library: ModuleType, uri: str) -> Any:
    return getattr(_written(library, uri, [{"t": pd.Timestamp(1)}])["t"][0], "nanosecond", 0)


def _date_first(library: ModuleType, uri: str) -> Any:
    five = dt.datetime(2020, 1, 1, 5)
    return _written(library, uri, [{"t": dt.date(2020, 1, 1)}, {"t": five}])["t"][1]


def _fraction(library: ModuleType, uri: str) -> Any:
    return _written(library, uri, [{"x": 1.5}], pa.schema({"x": pa.int64()}))


def _column_more(library: ModuleType, uri: str) -> Any:
    return _written(library, uri, [{"x": 1, "y": 2}], pa.schema({"x": pa.int8()}))


def _schema_of_a_table(library: ModuleType, uri: str) -> Any:
    schema = pa.schema({"x": pa.int8()})
    library.write_dataset(pa.table({"x": [1]}), uri, schema=schema)
    return str(library.dataset(uri).schema.field("x").type)


def _rounded_frame(library: ModuleType, uri: str) -> Any:
    made = _written(library, uri, pd.DataFrame({"x": [0.1]}), pa.schema({"x": pa.float32()}))
    return made if made == REFUSED else "rounded"


def _structs_with_less(library: ModuleType, uri: str) -> Any:
    library.write_dataset(pa.table({"s": [{"a": 1, "b": 2}]}), uri)
    made = tried(lambda: library.write_dataset(pa.table({"s": [{"a": 3}]}), uri, mode="append"))
    return REFUSED if made == REFUSED else library.dataset(uri).to_table()["s"].to_pylist()


def _other_width(library: ModuleType, uri: str) -> Any:
    library.write_dataset(pa.table({"x": [1]}), uri)
    rows = pa.table({"x": pa.array([2], pa.int32())})
    made = tried(lambda: library.write_dataset(rows, uri, mode="append"))
    return REFUSED if made == REFUSED else library.dataset(uri).to_table()["x"].to_pylist()


OF_INPUTS = (
    Difference(
        "an append of structs that lack fields of the table's structs",
        "raises an error that names the fields",
        "makes the fields null",
        "A struct is one value, and a missing field is more often a mistake. Whole columns may be "
        "left out.",
        _structs_with_less,
        REFUSED,
        [{"a": 1, "b": 2}, {"a": 3, "b": None}],
    ),
    Difference(
        "an append of other types, such as `int32` to `int64`",
        "casts, if no value changes ([casts](casts.md))",
        "raises an error",
        "Rows come from pandas, Spark and files, whose types are seldom exactly the table's.",
        _other_width,
        [1, 2],
        REFUSED,
    ),
    Difference(
        "a pandas frame whose index is a range with a name",
        "makes the index a column, as every named level",
        "leaves it out, and keeps it in the schema's metadata for pandas alone",
        "A user who names an index wants its values.",
        _named_range,
        {"x": [1, 2, 3], "k": [0, 1, 2]},
        {"x": [1, 2, 3]},
    ),
    Difference(
        "a pandas frame whose index has whole numbers without a name, and is no range",
        "leaves the index out, with a warning, unless the table or `schema=` has "
        "`__index_level_0__`",
        "makes a column `__index_level_0__`",
        "A filter or a sort leaves such row numbers. Rows of filtered frames must fit the table "
        "that they are appended to.",
        _numbers_without_a_name,
        {"x": [1, 2, 3]},
        {"x": [1, 2, 3], "__index_level_0__": [7, 9, 4]},
    ),
    Difference(
        "`attrs` of a pandas frame, and pandas' notes about its index",
        "are dropped",
        "are kept in the schema's metadata",
        "They describe one frame, not the rows that come later.",
        _notes_of_a_frame,
        {},
        {"unit": "m"},
    ),
    Difference(
        "Polars' notes about the categories of a frame, in a column's metadata",
        "are dropped; if a table has them, neither reads nor `schema` return them",
        "are kept, and returned",
        "Polars shows null for values that came later.",
        _notes_of_polars,
        ["new"],
        [None],
    ),
    Difference(
        "rows as Python objects: nanoseconds of pandas' timestamps and spans",
        "are kept",
        "are cut to microseconds",
        "[Python's values](casts.md) stay exact, or are refused.",
        _nanoseconds_of_rows,
        1,
        0,
    ),
    Difference(
        "rows as Python objects: a datetime after a date",
        "makes the date its midnight, and keeps the datetime",
        "loses the time of day",
        "Same as above.",
        _date_first,
        dt.datetime(2020, 1, 1, 5),
        dt.date(2020, 1, 1),
    ),
    Difference(
        "rows as Python objects: `1.5` if `schema=` has `int64`",
        "raises an error",
        "stores 1",
        "Same as above.",
        _fraction,
        REFUSED,
        {"x": [1]},
    ),
    Difference(
        "rows with a column that `schema=` does not have",
        "raises an error that names it",
        "leaves the column out",
        "Nothing is lost silently.",
        _column_more,
        REFUSED,
        {"x": [1]},
    ),
    Difference(
        "`schema=` with an Arrow table",
        "casts the table to it",
        "ignores the argument",
        "No argument is ignored.",
        _schema_of_a_table,
        "int8",
        "int64",
    ),
    Difference(
        "`schema=` with a type that cannot hold a value, such as `float32` for a frame's 0.1",
        "raises an error that names the value; rounds floats of Python rows, which have only one "
        "width",
        "rounds the value",
        "[Casts](casts.md) lose nothing.",
        _rounded_frame,
        REFUSED,
        "rounded",
    ),
)
