import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from lancekit.errors import InvalidTypeError, SchemaMismatchError
from lancekit.pipeline.inputs import as_reader, is_replayable, is_spark_dataframe, replayable

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
    assert replayable(data) is data
    for _ in range(2):
        assert as_reader(data).read_all().to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=ONE_SHOT)
def test_inputs_of_one_pass(make):
    assert as_reader(make()).read_all().to_pydict() == TABLE.to_pydict()
    assert not is_replayable(make())
    kept = replayable(make())
    assert is_replayable(kept)
    assert kept.to_pydict() == TABLE.to_pydict()


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
    assert as_reader(rows).read_all().to_pydict() == {"x": [1, None], "y": [None, "b"]}


def test_a_schema_gives_python_values_their_types():
    schema = pa.schema({"x": pa.int8(), "other": pa.string()})
    assert as_reader({"x": [1]}, schema).schema == pa.schema({"x": pa.int8()})
    assert as_reader([{"x": 1}], schema).schema == pa.schema({"x": pa.int8()})
    assert as_reader([], schema).read_all() == schema.empty_table()
    assert as_reader(iter([]), schema).schema == schema
    assert as_reader(BATCHES, schema).schema == TABLE.schema


def test_pandas_index():
    frame = pd.DataFrame({"x": [1, 2, 3]})
    assert as_reader(frame[frame.x > 1]).schema.names == ["x"]
    named = frame.set_index(pd.Index([7, 8, 9], name="key"))
    assert as_reader(named).read_all().to_pydict() == {"key": [7, 8, 9], "x": [1, 2, 3]}
    assert as_reader(named, pa.schema({"x": pa.int64()})).schema.names == ["x"]
    mixed = frame.set_index(pd.MultiIndex.from_arrays([[1, 2, 3], list("abc")], names=["k", None]))
    assert as_reader(mixed).schema.names == ["k", "x"]


def test_pandas_frames_that_make_no_table():
    with pytest.raises(SchemaMismatchError, match="Conversion failed for column a"):
        as_reader(pd.DataFrame({"a": [1, "x"]}, dtype=object))
    with pytest.raises(SchemaMismatchError, match="Duplicate column names"):
        as_reader(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("data", [3, None, "path", b"bytes", np.int64(1), pa.array([1])])
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
    with pytest.raises(SchemaMismatchError, match=r"different lengths: x \(1\), y \(2\)"):
        as_reader({"x": [1], "y": [1, 2]})
    with pytest.raises(
        SchemaMismatchError, match="values of 'x' do not make a column of type int8"
    ):
        as_reader({"x": [300]}, pa.schema({"x": pa.int8()}))


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

    assert is_spark_dataframe(DataFrame.__new__(DataFrame))


def test_importing_loads_no_frame_library():
    code = (
        "import sys, lancekit.pipeline.inputs, lancekit.pipeline.casts;"
        "print([m for m in ('pandas', 'polars', 'pyspark', 'pyarrow.dataset') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
