import subprocess
import sys
import warnings
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from lancekit._pipeline.inputs import as_reader, is_replayable, is_spark_dataframe
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SchemaMismatchError,
    UnsupportedTypeError,
)

TABLE = pa.table({"x": [1, 2, 3], "s": ["a", None, "c"]})
BATCHES = TABLE.to_batches(max_chunksize=2)


class Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema=None):
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


INPUTS = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "list of batches": BATCHES,
    "tuple of batches": tuple(BATCHES),
    "list of tables": [TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)],
    "dataset": pads.dataset(TABLE),
    "pandas": TABLE.to_pandas(),
    "polars": pl.from_arrow(TABLE),
    "lazy polars": pl.from_arrow(TABLE).lazy(),
    "dict": TABLE.to_pydict(),
    "dict of arrays": {"x": np.array([1, 2, 3]), "s": TABLE["s"]},
    "list of dicts": TABLE.to_pylist(),
}
ONE_SHOT = {
    "reader": TABLE.to_reader,
    "generator": lambda: (batch for batch in BATCHES),
    "scanner": lambda: pads.dataset(TABLE).scanner(),
    "stream": Stream,
    "array": Array,
}


@pytest.mark.parametrize("data", INPUTS.values(), ids=INPUTS)
def test_inputs_that_can_be_read_again(data):
    assert is_replayable(data)
    for _ in range(2):
        assert as_reader(data).read_all().to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=ONE_SHOT)
def test_inputs_of_one_pass(make):
    assert as_reader(make()).read_all().to_pydict() == TABLE.to_pydict()
    assert not is_replayable(make())


def test_rows_stream():
    read = []

    def batches():
        for batch in BATCHES:
            read.append(batch)
            yield batch

    reader = as_reader(batches())
    assert len(read) == 1  # the first says what the schema is
    reader.read_next_batch()
    assert len(read) == 1


def test_dicts_with_other_keys():
    rows = [{"x": 1}, {"y": "b"}]
    gaps = r"missing in some of 2 rows, .*: 'x' in 1 \(first: row 1\), 'y' in 1 \(first: row 0\)\."
    with pytest.warns(UserWarning, match=gaps):
        assert as_reader(rows).read_all().to_pydict() == {"x": [1, None], "y": [None, "b"]}
    with pytest.warns(UserWarning, match=r"'c' in 3 \(first: row 0\) and 1 more keys\."):
        as_reader([{one: 1} for one in "abcd"])
    schema = pa.schema({"x": pa.int64(), "y": pa.string()})
    assert as_reader(rows, schema).read_all().num_rows == 2  # the columns are named: no warning


def test_a_schema_gives_python_values_their_types():
    schema = pa.schema({"x": pa.int8(), "other": pa.string()})
    assert as_reader({"x": [1], "other": [None]}, schema).schema == schema
    assert as_reader([{"x": 1}], schema).read_all().to_pylist() == [{"x": 1, "other": None}]
    assert as_reader([], schema).read_all() == schema.empty_table()
    assert as_reader(iter([]), schema).schema == schema


ASKED = pa.schema(
    [pa.field("s", pa.large_string(), metadata={"a": "b"}), pa.field("x", pa.float32(), False)],
    metadata={"of": "the table"},
)


@pytest.mark.parametrize(
    "make",
    [*(lambda d=d: d for d in INPUTS.values()), *ONE_SHOT.values()],
    ids=[*INPUTS, *ONE_SHOT],
)
def test_a_schema_is_honoured_whatever_the_rows_are(make):
    made = as_reader(make(), ASKED).read_all()
    assert made.schema.equals(ASKED, check_metadata=True)
    assert made.select(TABLE.schema.names).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize(
    "make",
    [*(lambda d=d: d for d in INPUTS.values()), *ONE_SHOT.values()],
    ids=[*INPUTS, *ONE_SHOT],
)
def test_rows_that_do_not_fit_their_schema_are_refused(make):
    with pytest.raises(SchemaMismatchError, match=r"fit schema=:\n  \+ s: .*, not in schema="):
        as_reader(make(), pa.schema({"x": pa.int64()}))
    with pytest.raises(SchemaMismatchError, match=r"x: .* in row 1 does not fit bool|~ x: "):
        as_reader(make(), pa.schema({"x": pa.bool_(), "s": pa.string()}))
    never_null = pa.schema([("x", pa.int64()), pa.field("s", pa.string(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match=r"s: row 1 is null"):
        as_reader(make(), never_null).read_all()
    more = pa.schema({"x": pa.int64(), "s": pa.string(), "y": pa.int8()})
    data = make()
    if isinstance(data, list) and isinstance(data[0], dict):
        assert as_reader(data, more).read_all()["y"].null_count == 3
        return
    with pytest.raises(SchemaMismatchError, match=r"- y: int8, missing in the rows"):
        as_reader(data, more)


@pytest.mark.parametrize("data", [TABLE, {"x": [1]}, [{"x": 1}]])
def test_what_is_no_schema(data):
    with pytest.raises(InvalidTypeError, match=r"schema must be .* got .'x': 'int64'"):
        as_reader(data, {"x": "int64"})
    with pytest.raises(InvalidArgumentError, match="'x' occurs several times in schema"):
        as_reader(data, pa.schema([("x", pa.int8()), ("x", pa.int8())]))


def test_a_value_that_a_schema_would_change_is_refused():
    narrow = pa.schema({"x": pa.int8()})
    for rows in ({"x": [1, 300]}, [{"x": 1}, {"x": 300}], pd.DataFrame({"x": [1, 300]})):
        with pytest.raises(
            SchemaMismatchError, match="x: the value 300 in row 1 does not fit int8"
        ):
            as_reader(rows, narrow).read_all()
    batches = [pa.record_batch({"x": [1]}), pa.record_batch({"x": [2, 300]})]
    with pytest.raises(SchemaMismatchError, match="x: the value 300 in row 2 does not fit int8"):
        as_reader(iter(batches), narrow).read_all()


def test_pandas_index():
    frame = pd.DataFrame({"x": [1, 2, 3]})
    assert as_reader(frame.iloc[1:]).schema.names == ["x"]
    named = frame.set_index(pd.Index([7, 8, 9], name="key"))
    assert as_reader(named).read_all().to_pydict() == {"key": [7, 8, 9], "x": [1, 2, 3]}
    assert as_reader(named, pa.schema({"x": pa.int64()})).schema.names == ["x"]
    mixed = frame.set_index(pd.MultiIndex.from_arrays([[1, 2, 3], list("abc")], names=["k", None]))
    assert as_reader(mixed).read_all().to_pydict() == {
        "x": [1, 2, 3],
        "k": [1, 2, 3],
        "__index_level_1__": ["a", "b", "c"],
    }


FRAME = pd.DataFrame({"x": [1, 2, 3]})
CALLED = FRAME.assign(__index_level_0__=[4, 5, 6])
LETTERS = list("abc")
MOMENTS = pd.date_range("2020", periods=3, tz="Europe/Berlin")
#: frames, and the columns that come of their index
INDICES = {
    "range": (FRAME, {}),
    "part of a range": (FRAME[1:], {}),
    "text": (FRAME.set_index(pd.Index(LETTERS)), {"__index_level_0__": LETTERS}),
    "floats": (FRAME.set_index(pd.Index([1.5, 2, 3])), {"__index_level_0__": [1.5, 2, 3]}),
    "truths": (FRAME.set_index(pd.Index([True, True, False])), {"__index_level_0__": [1, 1, 0]}),
    "category": (FRAME.set_index(pd.CategoricalIndex(LETTERS)), {"__index_level_0__": LETTERS}),
    "moments": (FRAME.set_index(MOMENTS), {"__index_level_0__": list(MOMENTS)}),
    "named": (FRAME.set_index(pd.Index([7, 9, 4], name="k")), {"k": [7, 9, 4]}),
    "named range": (FRAME.rename_axis("k"), {"k": [0, 1, 2]}),
    "named by a number": (FRAME.set_index(pd.Index([7, 9, 4], name=5)), {"5": [7, 9, 4]}),
    "two levels": (
        FRAME.set_index(pd.MultiIndex.from_arrays([[1, 2, 3], LETTERS])),
        {"__index_level_0__": [1, 2, 3], "__index_level_1__": LETTERS},
    ),
    "of one name": (
        FRAME.set_index(pd.MultiIndex.from_arrays([[1, 2, 3], LETTERS], names=["k", "k"])),
        {"k": [1, 2, 3], "__index_level_1__": LETTERS},
    ),
    "names must be text, got so": (CALLED, {}),
    "and there is an index": (CALLED.set_index(pd.Index(LETTERS)), {"__index_level_1__": LETTERS}),
    "named as a column": (
        FRAME.set_index(pd.Index(LETTERS, name="x")),
        {"__index_level_0__": LETTERS},
    ),
}
#: those of the table above whose columns differ in pylance, where a range is never a column
OURS = {"named range"}
#: cases whose level has the name of a column, for which older pandas chooses no other
TAKEN = {"of one name", "and there is an index"}


@pytest.mark.parametrize("case", INDICES)
def test_an_index_is_columns_as_in_pylance(case, tmp_path, recwarn):
    frame, levels = INDICES[case]
    read = as_reader(frame).read_all()
    assert read.select(frame.columns).to_pydict() == frame.to_dict("list")
    assert read.drop_columns(list(frame.columns)).to_pydict() == levels
    assert not recwarn.list
    if case in TAKEN and pd.__version__ < "3":
        return  # pylance refuses two columns of a name
    theirs = lance.write_dataset(frame, tmp_path / "d").to_table()
    assert (theirs.column_names == read.column_names) == (case not in OURS)
    if case not in OURS:
        assert theirs.to_pydict() == read.to_pydict()


def test_an_index_of_numbers_without_a_name_is_left_out_with_a_warning():
    frame = FRAME.set_index(pd.Index([7, 9, 4]))
    with pytest.warns(UserWarning, match="integers without a name, and is not written"):
        assert as_reader(frame).schema.names == ["x"]
    place = pa.schema({"x": pa.int64(), "__index_level_0__": pa.int64()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted = FRAME.set_index(pd.Index([0, 1, 2], dtype="uint8"))
        assert as_reader(counted).schema.names == ["x"]
        assert as_reader(frame, pa.schema({"x": pa.int8()})).schema.names == ["x"]
        # who has a place for them gets them
        for read in (as_reader(frame, place), as_reader(frame, like=place)):
            assert read.read_all()["__index_level_0__"].to_pylist() == [7, 9, 4]


def test_an_index_level_has_the_type_of_its_schema():
    frame = FRAME.set_index(pd.Index([7, 9, 4], name="k"))
    schema = pa.schema({"k": pa.int8(), "x": pa.int16()})
    assert as_reader(frame, schema).read_all() == pa.table({"k": [7, 9, 4], "x": [1, 2, 3]}, schema)


def test_columns_that_are_not_called_by_text():
    assert as_reader(pd.DataFrame({1: [2], ("a", "b"): [3]})).read_all().to_pylist() == [
        {"1": 2, "('a', 'b')": 3}
    ]
    with pytest.raises(SchemaMismatchError, match=r"Duplicate column names found: .'1'"):
        as_reader(pd.DataFrame({1: [2], "1": [3]}))
    with pytest.raises(InvalidTypeError, match="names must be text, got 1"):
        as_reader({1: [2], "1": [3]})


def test_pandas_frames_that_make_no_table():
    with pytest.raises(
        SchemaMismatchError, match="'a' cannot be converted to a column: 'x' in row 1"
    ):
        as_reader(pd.DataFrame({"a": [1, "x"]}, dtype=object))
    with pytest.raises(SchemaMismatchError, match="Duplicate column names"):
        as_reader(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("data", [3, None, b"bytes", np.int64(1), pa.array([1])])
def test_what_is_no_rows(data):
    with pytest.raises(
        InvalidTypeError, match=r"rows cannot be read from a .*Pass a pyarrow Table"
    ):
        as_reader(data)


def test_lists_of_something_else():
    with pytest.raises(InvalidTypeError, match="item 1 of the rows is a int"):
        as_reader([BATCHES[0], 3]).read_all()
    with pytest.raises(InvalidTypeError, match="item 0 of the rows is a dict"):
        as_reader({"x": n} for n in range(2))
    with pytest.raises(InvalidTypeError, match="no schema"):
        as_reader([])


def test_batches_that_differ():
    other = pa.record_batch({"x": ["a"], "s": ["b"]})
    with pytest.raises(SchemaMismatchError, match=r"batch 2 has another schema .*x: string"):
        as_reader([*BATCHES, other]).read_all()
    with pytest.raises(SchemaMismatchError, match="same length, got x \\(1\\), y \\(2\\)"):
        as_reader({"x": [1], "y": [1, 2]})
    with pytest.raises(
        SchemaMismatchError,
        match="values of 'x' cannot be converted to a column: 'ab' is one value",
    ):
        as_reader({"x": "ab"})


def test_spark_frames_are_told_by_their_module():
    classic = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    assert is_spark_dataframe(classic())
    assert is_spark_dataframe(connect())
    assert is_replayable(classic())
    assert not is_spark_dataframe(TABLE)
    with pytest.raises(InvalidTypeError, match="pyspark"):
        as_reader(classic())


def test_a_real_spark_class():
    from pyspark.sql.classic.dataframe import DataFrame

    assert is_spark_dataframe(object.__new__(DataFrame))


def test_importing_loads_no_frame_library():
    code = (
        "import sys, lancekit._pipeline.inputs, lancekit._pipeline.casts.plan;"
        "print([m for m in ('pandas', 'polars', 'pyspark', 'pyarrow.dataset') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_objects_of_polars_are_not_taken_for_their_addresses():
    frame = pl.DataFrame({"a": pl.Series([object(), "text"], dtype=pl.Object)})
    for rows in (frame, frame.lazy()):
        with pytest.raises(
            UnsupportedTypeError, match="'a' of the Polars frame holds Python objects"
        ):
            as_reader(rows)


def test_types_of_polars_that_arrow_has_not_are_named():
    plain = pl.DataFrame({"a": [1], "b": [2]}).with_columns(pl.col("b").cast(pl.Int128))
    for rows in (
        plain,
        plain.lazy(),
        plain.select(pl.struct("b").alias("b")),
        plain.select(pl.concat_list("b")),
    ):
        with pytest.raises(
            UnsupportedTypeError, match=r"'b' of the Polars frame has type .*Int128"
        ):
            as_reader(rows)
    cast = plain.with_columns(pl.col("b").cast(pl.Decimal(38, 0)))
    assert as_reader(cast).read_all()["b"].to_pylist() == [2]


def test_a_reader_in_stored_form_stays_as_it_is():
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', None]))
    stored = as_reader(pa.table({"j": json})).read_all()
    assert as_reader(stored.to_reader()).read_all().equals(stored)


@pytest.mark.parametrize("value", [1, 2.5, None, "ab", pd.Timestamp("2026-01-01")])
def test_one_value_instead_of_a_column(value):
    with pytest.raises(SchemaMismatchError, match=r"is one value.*list of rows"):
        as_reader({"x": value})


@pytest.mark.parametrize(
    ("path", "line"),
    [("a.csv", r"lk\.read_csv\('a.csv'\)"), (Path("a.parquet"), r"lk\.read_parquet\('a.parquet'"),
     ("a.lance", r"lk\.dataset\('a.lance'\)")],
)  # fmt: skip
def test_a_path_instead_of_rows(path, line):
    with pytest.raises(InvalidTypeError, match=line):
        as_reader(path)
