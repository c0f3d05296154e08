"""What cannot be committed is refused with an error of lancekit's that names the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancekit as lk
from lancekit.errors import InvalidArgumentError, InvalidTypeError

Op: Any = lk.LanceOperation
Call = Callable[[Any], Any]


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(
        {"a": [1, 2], "b": [3, 4]}, str(tmp_path / "d"), enable_stable_row_ids=True
    )


def commit(ds: Any, operation: Any, **kwargs: Any) -> Any:
    return lk.LanceDataset.commit(ds, operation, read_version=1, **kwargs)


def first(ds: Any) -> Any:
    return ds.get_fragments()[0].metadata


WRONG: dict[str, tuple[type[Exception], str, Call]] = {
    "columns to drop, explained": (
        InvalidTypeError,
        "columns must be .* got True",
        lambda d: d.explain.drop_columns(True),
    ),
    "column to index, explained": (
        InvalidTypeError,
        "column must be .* got 7",
        lambda d: d.explain.create_scalar_index(7, "BTREE"),
    ),
    "names of parameters": (
        InvalidTypeError,
        "params must be a dict with string keys or None, got .1: 2",
        lambda d: lk.sql("SELECT a FROM d", d=d, params={1: 2}),
    ),
    "id": (
        InvalidArgumentError,
        "id of .* must be .* got -1",
        lambda d: Op.Append([replace(first(d), id=-1)]),
    ),
    "rows": (
        InvalidArgumentError,
        "physical_rows of .* must be .* got -1",
        lambda d: Op.Append([replace(first(d), physical_rows=-1)]),
    ),
    "text for rows": (
        InvalidTypeError,
        "physical_rows of .*'4'",
        lambda d: Op.Append([replace(first(d), physical_rows="4")]),
    ),
    "no rows": (
        InvalidTypeError,
        "physical_rows of .*None",
        lambda d: Op.Append([replace(first(d), physical_rows=None)]),
    ),
    "base id": (
        InvalidArgumentError,
        "-4",
        lambda d: d.add_bases([lk.DatasetBasePath("x", id=-4)]),
    ),
    "high base id": (
        InvalidArgumentError,
        str(2**40),
        lambda d: d.add_bases([lk.DatasetBasePath("x", id=2**40)]),
    ),
    "base of a number": (
        InvalidTypeError,
        "5 of type int",
        lambda d: lk.DatasetBasePath(cast(Any, 5)),
    ),
    "no bases": (InvalidTypeError, "new_bases must be .* got None", lambda d: d.add_bases(None)),
    "timeout": (
        InvalidTypeError,
        "commit_timeout must be .* got 5",
        lambda d: commit(d, Op.ReserveFragments(1), commit_timeout=5),
    ),
    "properties": (
        InvalidTypeError,
        "properties must be .* got 5",
        lambda d: commit(d, Op.ReserveFragments(1), properties=5),
    ),
    "batch of a number": (
        InvalidTypeError,
        "transactions must be .* got 5",
        lambda d: d.commit_batch(d, 5),
    ),
    "batch of numbers": (
        InvalidTypeError,
        "a Transaction, got int",
        lambda d: d.commit_batch(d, [5]),
    ),
    "batch of operations": (
        InvalidTypeError,
        "a Transaction, got .*Append",
        lambda d: d.commit_batch(d, [Op.Append([])]),
    ),
    "unpaired surrogate": (
        InvalidArgumentError,
        "unpaired surrogate",
        lambda d: d.update_config({"a": "\ud800"}),
    ),
    "message": (
        InvalidArgumentError,
        "unpaired surrogate",
        lambda d: d.insert({"a": [1], "b": [1]}, commit_message="\ud800"),
    ),
    "offsets": (
        InvalidArgumentError,
        "row 7",
        lambda d: commit(
            d,
            Op.Update(
                updated_fragments=[first(d)],
                update_mode="rewrite_columns",
                updated_fragment_offsets={0: BitMap([7]).serialize()},
            ),
        ),
    ),
    "text for keys": (
        InvalidTypeError,
        "keys must be .* got 'ab'",
        lambda d: d.delete_config_keys("ab"),
    ),
    "no keys": (InvalidTypeError, "keys must be .* got None", lambda d: d.delete_config_keys(None)),
    "no config": (InvalidTypeError, "None", lambda d: d.update_config(None, replace=True)),
    "no metadata": (InvalidTypeError, "None", lambda d: d.update_schema_metadata(None)),
    "pylance's fragment": (
        InvalidTypeError,
        "got .* of type lance.fragment.FragmentMetadata",
        lambda d: Op.Append([lance.fragment.FragmentMetadata(0, [], 1)]),
    ),
    "pylance's dataset": (
        InvalidTypeError,
        "not lance.dataset.LanceDataset",
        lambda d: commit(lance.dataset(d.uri), Op.ReserveFragments(1)),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_error_names_the_value(ds: lk.LanceDataset, case: str) -> None:
    kind, message, call = WRONG[case]
    with pytest.raises(kind, match=message):
        call(ds)
    assert lk.dataset(ds.uri).version == 1
    assert lance.dataset(ds.uri).to_table() == pa.table({"a": [1, 2], "b": [3, 4]})


@pytest.mark.parametrize(
    "name_a_column",
    [
        lambda d, name: d.add_columns({name: "a"}),
        lambda d, name: d.alter_columns({"path": "a", "name": name}),
        lambda d, name: lk.write_dataset({name: [1]}, "memory://halves"),
        lambda d, name: lk.write_dataset([{name: 1}], "memory://halves"),
    ],
)
def test_no_column_is_named_with_half_of_a_character(ds, name_a_column) -> None:
    with pytest.raises(InvalidArgumentError, match="unpaired surrogate"):
        name_a_column(ds, "a\ud800")
    assert lk.dataset(ds.uri).version == 1
