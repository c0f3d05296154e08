"""Operators and assignments that a dataset does not have are refused with the right line."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import lancekit as lk
from lancekit.errors import InvalidTypeError, UnknownNameError

REFUSED: list[tuple[Callable[[lk.LanceDataset], object], str]] = [
    (lambda ds: next(iter(ds)), "ds.to_batches()"),  # type: ignore[call-overload]
    (list, "ds.to_batches()"),
    (np.asarray, "ds.to_pandas().to_numpy()"),
    (lambda ds: ds + {"id": [2]}, "ds.insert(df)"),  # type: ignore[operator]
    (lambda ds: ds.__enter__(), "ds.insert(df)"),  # type: ignore[attr-defined]
    (lambda ds: ds["x"] > 3, 'ds.to_table(filter="x > 3")'),  # type: ignore[operator]
    (lambda ds: ds["x"] == "a", "ds.to_table(filter=\"x = 'a'\")"),
    (lambda ds: ds["x"] != 1, 'ds.to_table(filter="x <> 1")'),
    (lambda ds: ds["x"] * 2, "lk.col('x') * 2"),  # type: ignore[operator]
    (lambda ds: 2 - ds["x"], "lk.col('x') - 2"),  # type: ignore[operator]
    (lambda ds: list(ds["x"]), "ds.to_table(columns=['x'])['x']"),  # type: ignore[call-overload]
    (lambda ds: operator.setitem(ds, "x", 1), "ds.update({'x': '1'})"),  # type: ignore[call-overload]
    (lambda ds: operator.setitem(ds, "new", "a"), "ds.add_columns({'new': \"'a'\"})"),  # type: ignore[call-overload]
    (lambda ds: operator.delitem(ds, "x"), "ds.drop_columns(['x'])"),
    (lambda ds: operator.setitem(ds.tags, "a", 1), "ds.tags.create('a', 1)"),  # type: ignore[call-overload]
    (lambda ds: operator.delitem(ds.tags, "a"), "ds.tags.delete('a')"),  # type: ignore[call-overload]
    (lambda ds: ds.branches(), "ds.branches.list()"),  # type: ignore[operator]
]


@pytest.mark.parametrize(("use", "line"), REFUSED, ids=[line for _, line in REFUSED])
def test_an_operator_is_refused_with_a_line(
    use: Callable[[lk.LanceDataset], object], line: str
) -> None:
    ds = lk.write_dataset({"id": [1], "x": [2.5]}, "memory://operators", primary_key="id")
    with pytest.raises((InvalidTypeError, UnknownNameError)) as seen:
        use(ds)
    assert line in str(seen.value)
    assert ds.version == 1


def test_a_public_attribute_cannot_be_assigned() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://assigned")
    with pytest.raises(UnknownNameError, match=r"Use ds.add_columns\(\{'tax': '1'\}\)"):
        ds.tax = 1  # type: ignore[attr-defined]
    assert "tax" not in vars(ds)


def test_columns_are_compared_by_identity() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://identity")
    column = ds["id"]
    assert column == column
    assert column != ds["id"]
    assert column in {column}


def test_arrays_of_handles(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://in-arrays")
    found = np.array([ds], dtype=object)
    assert (found.shape, found[0]) == ((1,), ds)
    with pytest.raises(InvalidTypeError, match="to_numpy"):
        np.asarray(ds)


def test_methods_can_be_replaced_in_tests() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://replaced")
    with patch.object(ds, "insert") as insert:
        ds.insert({"id": [2]})
    insert.assert_called_once_with({"id": [2]})
    assert ds.insert({"id": [3]}).version == 2

    class Mine(lk.LanceDataset):
        pass

    mine = Mine("memory://replaced")
    mine.note = "x"  # type: ignore[attr-defined]
    assert vars(mine)["note"] == "x"


def test_an_expression_names_the_line() -> None:
    with pytest.raises(UnknownNameError, match=r"Use lk.col\('x'\).is_null\(\)"):
        lk.col("x").isnull()  # type: ignore[attr-defined]
    assert not hasattr(lk.col("x"), "nonsense")


def test_a_column_with_the_name_of_a_guess() -> None:
    ds = lk.write_dataset({"keys": [1]}, "memory://keys")
    with pytest.raises(UnknownNameError, match=r"For the item, use ds\['keys'\]"):
        ds.keys  # type: ignore[attr-defined]  # noqa: B018


def test_pandas_takes_no_handle_in_silence() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://pandas")
    for thing, line in (
        (ds, "ds.to_pandas"),
        (ds["id"], r"ds.to_table"),
        (lk.sql("SELECT 1"), "to_pandas"),
    ):
        for kind in (pd.DataFrame, pd.Series):
            with pytest.raises(InvalidTypeError, match=line):
                kind(thing)
