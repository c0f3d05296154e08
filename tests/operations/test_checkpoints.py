"""Functions that make columns, and the file that keeps their results until they have landed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError


class Interrupted(Exception):
    pass


class Double:
    """Doubles `x`, counts its rows, and gives up after some."""

    def __init__(self, most: int | None = None) -> None:
        self.rows = 0
        self.most = most

    def __call__(self, batch: pa.RecordBatch) -> Any:
        if self.most is not None and self.rows >= self.most:
            raise Interrupted
        self.rows += batch.num_rows
        return {"y": pc.multiply(batch["x"], 2)}


SCHEMA = pa.schema({"y": pa.int64()})


def make(path: Path) -> lk.LanceDataset:
    return lk.write_dataset({"x": range(1000)}, path / "t", max_rows_per_file=300)


def add(ds: lk.LanceDataset, function: Double, file: Path) -> None:
    ds.add_columns(lk.batch_udf(SCHEMA, file)(function), batch_size=100)


def test_a_second_attempt_goes_on(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept.sqlite"
    ds.delete("x % 7 = 3")
    with pytest.raises(Interrupted):
        add(ds, first := Double(most=400), file)
    assert ds.version == 2
    assert file.exists()
    add(ds, second := Double(), file)
    assert first.rows + second.rows == ds.count_rows()
    assert 0 < second.rows < 600
    assert not file.exists()
    assert ds.count_rows("y = x * 2") == ds.count_rows()


def test_changed_rows_are_made_again(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept.sqlite"
    with pytest.raises(Interrupted):
        add(ds, Double(most=900), file)
    ds.update({"x": "x + 1000"}, where="x < 50")
    ds.delete("x = 600")
    add(ds, Double(), file)
    assert ds.count_rows("y = x * 2") == ds.count_rows() == 999


def test_equal_rows_are_told_apart(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1] * 30}, tmp_path / "t")
    calls = iter(range(100))

    @lk.batch_udf(SCHEMA, checkpoint_file=tmp_path / "kept")
    def number(batch: pa.RecordBatch) -> Any:
        return {"y": [next(calls)] * batch.num_rows}

    ds.add_columns(number, read_columns=["x"], batch_size=10)
    assert sorted(set(ds.to_table()["y"].to_pylist())) == [0, 1, 2]


def test_without_a_schema_and_on_a_fragment(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"
    function = lk.batch_udf(checkpoint_file=file)(Double())
    fragment, schema = ds.get_fragments()[0].merge_columns(function)
    assert [f.name() for f in schema.fields()] == ["x", "y"]
    assert len(fragment.files) == 2
    assert file.exists()  # nothing has landed
    ds.add_columns(function)
    assert not file.exists()


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    ds = make(tmp_path)
    (tmp_path / "other").write_bytes(b"no database, but a text" * 100)
    for file in (tmp_path / "other", tmp_path / "nowhere" / "kept", tmp_path):
        with pytest.raises(InvalidArgumentError, match="checkpoint_file"):
            add(ds, Double(), file)
    assert ds.version == 1
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4
