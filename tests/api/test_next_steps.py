"""The next step that an error or a warning names works."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset({"id": [1, 2, 3], "x": [4, 5, 6]}, tmp_path / "d", primary_key="id")


def test_an_empty_filter(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.PredicateError, match='Pass "true" as a filter for all rows'):
        ds.delete("")
    assert ds.delete("true")["num_deleted_rows"] == 3


def test_an_empty_value(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.PredicateError, match="or \"''\" as a value for empty text"):
        ds.add_columns({"note": ""})
    ds.add_columns({"note": "''"})
    assert ds.to_table(["note"]).to_pydict() == {"note": ["", "", ""]}


def test_an_empty_list_of_rows(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.InvalidTypeError, match=r"those of a dataset are ds\.schema"):
        ds.insert([])
    ds.insert([], schema=ds.schema)
    assert ds.count_rows() == 3


def _whole(batch: pa.RecordBatch) -> pd.DataFrame:
    return batch.to_pandas().assign(double=1)


def _only_new(batch: pa.RecordBatch) -> pd.DataFrame:
    return _whole(batch)[["double"]]


def test_a_function_of_whole_rows(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Return only the new columns"):
        ds.add_columns(_whole)
    ds.add_columns(_only_new)
    assert ds.schema.names == ["id", "x", "double"]


def test_a_function_in_a_dict(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.InvalidTypeError, match="or a function itself, not in a dict"):
        ds.add_columns({"double": _only_new})


def test_a_function_of_a_pandas_frame(ds: lk.LanceDataset) -> None:
    with pytest.raises(AttributeError) as failure:
        ds.add_columns(lambda frame: frame.assign(double=frame["x"]))
    assert failure.value.__notes__ == [
        "The function receives a pyarrow.RecordBatch, not a pandas frame."
    ]
