"""Buffered sources of a merge, and problems with their keys."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.workbench.merge_bench import KeyProblems, buffer_source, drift
from lancekit.errors import InvalidTypeError, SchemaMismatchError

LIKE = pa.schema({"id": pa.int64(), "v": pa.string()})
ROWS = {"id": [1, 1, None], "v": ["a", "b", "c"]}


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        pa.table(ROWS),
        pa.table(ROWS).to_reader(),
        pl.DataFrame(ROWS),
        pd.DataFrame({"id": pd.array([1, 1, None], "Int64"), "v": ["a", "b", "c"]}),
        [{"id": 1, "v": "a"}, {"id": 1, "v": "b"}, {"id": None, "v": "c"}],
        iter([pa.record_batch(ROWS)]),
    ],
)
def test_rows_are_held_as_arrow(data):
    source = buffer_source(data, None, LIKE)
    assert not source.on_demand
    assert source.rows.column("id").to_pylist() == [1, 1, None]
    assert source.key_problems(("id",)) == KeyProblems(nulls=1, repeated=((1,),))
    assert source.key_problems(("id", "v")) == KeyProblems(nulls=1)
    assert source.key_problems(("nothing",)) == KeyProblems()


def test_rows_in_files_are_not_read_into_memory(tmp_path):
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    source = buffer_source(ds, None, LIKE)
    assert source.rows is ds
    assert source.schema.names == ["id", "v"]
    assert source.key_problems(("id",)) == KeyProblems()


def test_rows_are_cast_to_a_schema_that_was_given():
    source = buffer_source({"id": [1]}, pa.schema({"id": pa.int8()}), LIKE)
    assert source.schema.field("id").type == pa.int8()
    with pytest.raises(SchemaMismatchError):
        buffer_source({"id": ["x"]}, pa.schema({"id": pa.int8()}), LIKE)
    with pytest.raises(InvalidTypeError):
        buffer_source(object(), None, LIKE)


def test_drift_is_what_differs():
    source = pa.schema({"id": pa.int32(), "v": pa.string(), "new": pa.bool_(), "s": pa.string()})
    dataset = pa.schema({"id": pa.int64(), "v": pa.string(), "old": pa.int8(), "s": pa.int8()})
    found = {one.column: one.fits for one in drift(source, dataset)}
    assert found == {"id": True, "new": False, "s": False, "old": True}
    assert drift(LIKE, LIKE) == ()
