"""Lists of descriptions and containers as frames of pandas, Polars and Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk

#: each list of the table of `_table`, its columns, and its number of rows
LISTS: dict[str, tuple[Callable[[lk.LanceDataset], Any], str, int]] = {
    "versions": (
        lambda ds: ds.versions(),
        "version timestamp operation num_rows message writer",
        3,
    ),
    "tags": (lambda ds: ds.tags, "name branch version created_at updated_at metadata", 1),
    "branches": (
        lambda ds: ds.branches,
        "name parent_branch parent_version create_at metadata",
        1,
    ),
    "indices": (lambda ds: ds.indices, "name index_type field_names num_rows_indexed share", 1),
    "list_indices": (
        lambda ds: ds.list_indices(),
        "name type uuid fields version fragment_ids base_id",
        1,
    ),
    "describe_indices": (
        lambda ds: ds.describe_indices(),
        "name index_type field_names num_rows_indexed total_size_bytes",
        1,
    ),
    "fragments": (lambda ds: ds.get_fragments(), "fragment_id physical_rows num_deletions", 1),
    "constraints": (lambda ds: ds.constraints, "name condition on_fail existing", 1),
}


def _table(place: str) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [1, 2]}, f"memory://listed-{place}")
    ds.create_scalar_index("id", "BTREE")
    ds.tags.create("first", 1)
    ds.create_branch("old", 1)
    ds.constraints.add("positive", "id > 0")
    return ds


@pytest.mark.parametrize("name", LISTS)
def test_every_list_is_a_frame(name: str) -> None:
    of, columns, rows = LISTS[name]
    found = of(_table(name))
    frame, polars = found.to_pandas(), found.to_polars()
    assert list(frame.columns) == polars.columns == columns.split()
    assert len(frame) == polars.height == rows
    assert polars["name" if "name" in columns.split() else polars.columns[0]].null_count() == 0


@pytest.mark.parametrize("name", ["tags", "branches", "indices", "constraints"])
def test_pandas_makes_columns_of_a_container(name: str) -> None:
    found = LISTS[name][0](_table(f"pandas-{name}"))
    pd.testing.assert_frame_equal(pd.DataFrame(found), found.to_pandas())
    assert pa.table(found).column_names == LISTS[name][1].split()
    if name != "indices":  # Polars makes columns of the names of a mapping
        assert pl.DataFrame(found).equals(found.to_polars())


def test_an_empty_list_has_its_columns() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://listed-empty")
    assert ds.tags.to_polars().shape == (0, 6)
    assert ds.indices.to_pandas().shape == (0, 5)
    assert len(pd.DataFrame(ds.tags)) == 0


def test_constraints_are_iterable() -> None:
    constraints = _table("iterated").constraints
    assert [one.name for one in constraints] == ["positive"]
    assert len(constraints) == 1


def test_polars_shows_the_numbers_of_versions() -> None:
    versions = _table("placeholders").versions()
    found = pl.DataFrame(versions)  # reads the memory of dictionaries
    assert found["version"].to_list() == [1, 2, 3]
    assert "ds.versions().to_polars()" in str(found["timestamp"][0])


def test_a_diff_has_a_length_and_a_truth_value() -> None:
    ds = lk.write_dataset({"id": [1, 2]}, "memory://diff-length", primary_key="id")
    ds.insert({"id": [3]})
    assert (len(ds.diff(1)), bool(ds.diff(1)), bool(ds.diff(2))) == (1, True, False)
    ds.add_columns({"x": "id"})
    assert ds.diff(2)  # a new column


def test_a_position_out_of_range_is_an_index_error() -> None:
    versions = _table("positions").versions()
    with pytest.raises(IndexError, match=r"position 7: the history has 3.*checkout_version\(7\)"):
        versions[7]
    with pytest.raises(TypeError, match=r"checkout_version\('first'\)"):
        versions["first"]  # type: ignore[call-overload]
