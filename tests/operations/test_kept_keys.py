"""What an overwrite makes of the primary key."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import NullKeyError


def _key(ds: lk.LanceDataset) -> list[str]:
    return [field.name() for field in ds.lance_schema.unenforced_primary_key()]


@pytest.fixture
def ds() -> lk.LanceDataset:
    return lk.write_dataset({"a": [1], "b": [1], "x": [1]}, "memory://kept", primary_key=["b", "a"])


def test_an_overwrite_keeps_the_key(ds: lk.LanceDataset) -> None:
    ds.insert({"x": [2], "a": ["x"], "b": [2]}, mode="overwrite")
    assert _key(ds) == ["b", "a"]
    assert not ds.schema.field("a").nullable
    ds.merge_insert().when_matched_update_all().execute({"a": ["x"], "b": [2], "x": [3]})
    assert ds.to_table()["x"].to_pylist() == [3]


def test_a_key_that_is_passed_or_marked_counts(ds: lk.LanceDataset) -> None:
    ds.insert({"a": [1], "b": [1]}, mode="overwrite", primary_key="a")
    assert _key(ds) == ["a"]
    marks = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64(), False, marks)])
    ds.insert(pa.table({"a": [1], "b": [1]}, schema=schema), mode="overwrite")
    assert _key(ds) == ["b"]
    ds.insert({"a": [1], "b": [1]}, mode="overwrite", primary_key=[])
    assert _key(ds) == []
    ds.insert({"a": [1], "b": [1]}, mode="overwrite")
    assert _key(ds) == []


@pytest.mark.parametrize(
    ("key", "found"), [("name", ["name"]), ([], []), (["x", "id"], ["x", "id"])]
)
@pytest.mark.parametrize("mode", ["create", "overwrite"])
def test_a_key_that_is_passed_replaces_marks_of_the_rows(
    mode: str, key: str | list[str], found: list[str]
) -> None:
    marks = {"lance-schema:unenforced-primary-key": "true", "other": "stays"}
    inner = pa.field("deep", pa.int64(), False, marks)
    fields = [
        pa.field(
            "id", pa.int64(), False, {**marks, "lance-schema:unenforced-primary-key:position": "1"}
        ),
        pa.field("name", pa.string()),
        pa.field("x", pa.int64()),
        pa.field("s", pa.struct([inner]), False),
    ]
    rows = pa.table([[1, 2], ["a", "b"], [3, 4], [{"deep": 5}] * 2], schema=pa.schema(fields))
    place = f"memory://marked-{mode}-{len(found)}"
    if mode == "overwrite":
        lk.write_dataset({"z": [1]}, place)
    ds = lk.write_dataset(rows, place, mode=mode, primary_key=key)
    assert _key(ds) == found
    assert ds.schema.field("id").metadata[b"other"] == b"stays"
    deep = ds.schema.field("s").type.field("deep").metadata
    assert deep == {b"other": b"stays"}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"a": [1]}, "column 'b' does not exist"),
        ({"a": [1], "b": [[1]]}, "Column 'b' of type list<item: int64> cannot be a key"),
    ],
)
def test_a_key_that_cannot_be_kept_is_dropped_with_a_warning(
    ds: lk.LanceDataset, rows: dict[str, list[int]], reason: str
) -> None:
    with pytest.warns(UserWarning, match=r"drops the primary key \['b', 'a'\]") as caught:
        ds.insert(rows, mode="overwrite")
    assert reason.lower() in str(caught[0].message).lower()
    assert caught[0].filename == __file__
    assert _key(ds) == []


def test_nulls_in_a_kept_key(ds: lk.LanceDataset) -> None:
    rows = {"a": pa.array([1]), "b": pa.nulls(1, pa.int64())}
    with pytest.raises(NullKeyError, match=r"primary_key=\[\] for none"):
        ds.insert(rows, mode="overwrite")
    assert ds.version == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.insert(rows, mode="overwrite", primary_key=[])
    assert _key(ds) == []
