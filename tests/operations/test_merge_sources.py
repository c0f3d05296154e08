"""Sources of merges and joins: columns in another case, and very many columns."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ColumnNotFoundError, SchemaMismatchError


@pytest.fixture
def ds() -> lk.LanceDataset:
    rows = {"id": [1], "Price": [1], "note": ["a"]}
    return lk.write_dataset(rows, "memory://sources", primary_key="id")


def test_a_column_in_another_case_is_named(ds: lk.LanceDataset) -> None:
    merge = ds.merge_insert("id").when_matched_update_all()
    with pytest.raises(SchemaMismatchError, match=r"price.*\(is it 'Price'\?\)") as caught:
        merge.execute({"id": [1], "price": [2]})
    assert caught.value.hint == "Rename 'price' to 'Price'."
    assert caught.value.context["renames"] == {"price": "Price"}
    with pytest.raises(SchemaMismatchError) as caught:
        merge.execute({"id": [1], "cost": [2]})
    assert (
        caught.value.hint == "Drop 'cost', or add them to the dataset with schema_mode=\"merge\"."
    )
    with pytest.raises(SchemaMismatchError) as caught:  # both are there: no rename helps
        merge.execute({"id": [1], "price": [2], "Price": [2]})
    assert (
        caught.value.hint == "Drop 'price', or add them to the dataset with schema_mode=\"merge\"."
    )


def test_a_key_in_another_case_is_told_of_the_source(ds: lk.LanceDataset) -> None:
    with pytest.raises(
        ColumnNotFoundError, match="source of the merge has no column 'id'"
    ) as caught:
        ds.merge_insert("id").when_matched_update_all().execute({"ID": [1], "note": ["b"]})
    assert caught.value.hint == "Rename 'ID' to 'id' in the source."
    with pytest.raises(ColumnNotFoundError, match="source of the merge has no column 'id'"):
        ds.merge_insert("id").when_matched_update_all().execute({"note": ["b"]})


@pytest.mark.parametrize(
    "join",
    [
        lambda ds, rows: ds.merge(rows, "id"),
        lambda ds, rows: ds.merge(rows, "note", "id"),
        lambda ds, rows: ds.add_columns(rows, on="id"),
        lambda ds, rows: ds.explain.add_columns(rows, on="id"),
        lambda ds, rows: ds.get_fragments()[0].merge(rows, "id"),
        lambda ds, rows: ds.get_fragments()[0].update_columns(rows, "id"),
    ],
)
def test_the_key_of_a_join_in_another_case_is_told_of_the_source(
    ds: lk.LanceDataset, join: Callable[[lk.LanceDataset, pa.Table], object]
) -> None:
    with pytest.raises(
        ColumnNotFoundError, match="source of the join has no column 'id'"
    ) as caught:
        join(ds, pa.table({"ID": [1], "w": [2]}))
    assert caught.value.hint == "Rename 'ID' to 'id' in the source."
    with pytest.raises(
        ColumnNotFoundError, match="source of the join has no column 'id'"
    ) as caught:
        join(ds, pa.table({"key": [1], "w": [2]}))
    assert caught.value.hint == "Columns: key, w."
    with pytest.raises(ColumnNotFoundError) as caught:  # which of them is meant is not known
        join(ds, pa.table({"ID": [1], "Id": [2], "w": [2]}))
    assert caught.value.hint == "Did you mean 'ID' or 'Id'?"


def test_wide_tables_get_columns_that_the_source_lacks() -> None:
    names = [f"c{number}" for number in range(400)]
    rows = pa.table({"id": [1, 2], **{name: [1.0, 2.0] for name in names}})
    ds = lk.write_dataset(rows, "memory://wide", primary_key="id")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    few = {"c7": [8.0, 9.0], "id": [2, 3]}
    assert merge.preview(few).num_inserted_rows == 1
    merge.execute(few)
    found = ds.to_table(order_by=["id"])
    assert found.column_names == ["id", *names]
    assert found["c7"].to_pylist() == [1.0, 8.0, 9.0]
    assert found["c8"].to_pylist() == [1.0, 2.0, None]
    assert ds.diff(1, columns=["c7"]).counts.updated == 1
