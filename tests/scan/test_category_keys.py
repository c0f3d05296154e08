"""Categories with keys of 8 bits, of which the files together have more than 127."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.fragments.rebatch import fitted, joined, taken
from lancekit.errors import SchemaMismatchError

_KIND = pa.dictionary(pa.int8(), pa.string())


def _text(number: int) -> str:
    return f"n{number}"


def _columns(numbers: list[int]) -> dict[str, pa.Array]:
    codes = pa.array(range(len(numbers)), pa.int8())
    names = pa.DictionaryArray.from_arrays(codes, pa.array(map(_text, numbers), pa.string()))
    starts = pa.array(range(len(numbers) + 1), pa.int32())
    return {
        "id": pa.array(numbers, pa.int64()),
        "name": names,
        "s": pa.StructArray.from_arrays([names], names=["c"]),
        "l": pa.ListArray.from_arrays(starts, names),
    }


def _row(number: int) -> dict[str, Any]:
    text = _text(number)
    return {"name": text, "s": {"c": text}, "l": [text]}


def _shown(table: pa.Table) -> list[dict[str, Any]]:
    return table.select(["name", "s", "l"]).to_pylist()


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    """300 names in three files."""
    ds = lk.write_dataset(_columns([*range(0, 300, 3)]), str(tmp_path / "d"), primary_key="id")
    for day in (1, 2):
        ds.insert(_columns([*range(day, 300, 3)]))
    return ds


def test_rows_in_order(ds: lk.LanceDataset) -> None:
    wanted = [_row(number) for number in range(300)]
    assert _shown(ds.to_table(order_by=["id"])) == wanted
    frame = ds.to_pandas(["name"], order_by=["id"])
    assert frame["name"].tolist() == [row["name"] for row in wanted]
    by_name = ds.to_table(["name"], order_by=["name"])["name"].to_pylist()
    assert by_name == sorted(by_name)
    assert ds.to_table(order_by=["id"]).schema.field("name").type == _KIND


def test_comparisons_reverts_and_merges(ds: lk.LanceDataset) -> None:
    version = ds.version
    ds.update({"id": "id + 1000"})
    changed = ds.diff(version).to_table()
    assert sorted(changed["name"].to_pylist()) == sorted(map(_text, [*range(300)] * 2))
    assert ds.diff(version).sample()
    assert ds.changes(version).to_table().num_rows == 600
    assert sum(batch.num_rows for batch in ds.diff(version).to_batches()) == 600
    branch = ds.create_branch("b")
    branch.update({"id": "id + 1"}, where="id % 2 = 0")
    ds.delete("id = 1001")
    ds.branches.merge("b")
    ds.revert(version + 1, conflicts="theirs")
    rows = ds.to_table()
    order = np.argsort(rows["id"].to_numpy())
    result = ds.merge_insert("id").when_matched_update_all("source.name <> 'n'").execute(rows)
    assert result["num_updated_rows"] == rows.num_rows
    assert _shown(ds.to_table(order_by=["id"])) == _shown(taken(rows, order))


def test_more_texts_than_keys_in_one_batch(ds: lk.LanceDataset) -> None:
    numbers = [*range(1000, 1400)]
    texts = [*map(_text, numbers)]
    new = {"id": numbers, "name": texts, "s": [{"c": t} for t in texts], "l": [[t] for t in texts]}
    ds.insert(new)
    found = ds.to_table(filter="id >= 1000", order_by=["id"])
    assert _shown(found) == [_row(number) for number in numbers]
    ds.merge_insert("id").when_not_matched_insert_all().execute(
        {**new, "id": [number + 5000 for number in numbers]}
    )
    assert ds.count_rows() == 1100
    ds.validate(deep=True)
    with pytest.raises(SchemaMismatchError, match="200 different values are too many for int8"):
        ds.insert({"id": [9000], "l": [texts[:200]]})


def test_arrays_are_joined_and_cut() -> None:
    parts = [_columns([*range(start, start + 100)]) for start in (0, 100, 200)]
    for name in ("name", "s", "l"):
        arrays = [part[name] for part in parts]
        whole = joined(arrays, arrays[0].type)
        assert whole.to_pylist() == [value for array in arrays for value in array.to_pylist()]
        mixed = whole.take(pa.array(np.arange(299, -1, -1)))
        column = fitted(mixed, arrays[0].type)
        assert column.type == arrays[0].type
        assert column.to_pylist() == mixed.to_pylist()
    assert joined([], _KIND).type == _KIND
    nulls = pa.array([None, "a"]).dictionary_encode()
    assert fitted(nulls, _KIND).to_pylist() == [None, "a"]
    keys = pa.array(
        [[("k", "a")], None], pa.map_(pa.string(), pa.dictionary(pa.int64(), pa.string()))
    )
    assert fitted(keys, pa.map_(pa.string(), _KIND)).to_pylist() == keys.to_pylist()
