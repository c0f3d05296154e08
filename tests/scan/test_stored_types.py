"""Expressions that only name a column or a field keep its type."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk

CODE = pa.dictionary(pa.int8(), pa.string())
FIELDS = [pa.field("x", pa.float16()), pa.field("d", CODE), pa.field("u", pa.uuid())]


@pytest.fixture
def ds(tmp_path: object) -> lk.LanceDataset:
    ids = [uuid.UUID(int=number).bytes for number in range(3)]
    parts = [
        pa.array([1, 2, None], pa.float16()),
        pa.array(["a", "b", None]).cast(CODE),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16))),
    ]
    rows = pa.table({"id": range(3), "h": parts[0], "d": parts[1], "u": parts[2]})
    rows = rows.append_column("s", pa.StructArray.from_arrays(parts, fields=FIELDS))
    return lk.write_dataset(rows, f"{tmp_path}/d", data_storage_version="2.2")


COLUMNS = {
    "a": "h",
    "b": "s.x",
    "c": "d",
    "e": "s['d']",
    "f": "u",
    "g": "`s`.`u`",
    "i": "(h)",
    "id": "id",
    "h": "id",
}
KINDS = [pa.float16(), pa.float16(), CODE, CODE, pa.uuid(), pa.uuid(), pa.float16()]


@pytest.mark.parametrize("text", [None, "id > 0", "h = 2", "d = 'a'"])
def test_a_projection_keeps_types(ds: lk.LanceDataset, text: str | None) -> None:
    found = ds.to_table(columns=COLUMNS, filter=text)
    assert found.schema.types == [*KINDS, pa.int64(), pa.int64()]
    theirs = lance.dataset(ds.uri).to_table(columns=COLUMNS, filter=text)
    assert found.schema.types == theirs.schema.types
    assert found.to_pylist() == theirs.to_pylist()
    assert ds.take([1], columns=COLUMNS).schema == found.schema


def test_a_new_column_keeps_the_type(ds: lk.LanceDataset) -> None:
    ds.add_columns({"y": "s.x", "z": "s.d", "w": "u", "v": "s.u"})
    assert [ds.schema.field(name).type for name in "yzwv"] == [
        pa.float16(),
        CODE,
        pa.uuid(),
        pa.uuid(),
    ]
    assert lance.dataset(ds.uri).to_table().to_pylist() == ds.to_table().to_pylist()
    ds.update({"y": "h", "z": "d"})
    assert ds.to_table()["y"].to_pylist() == [1.0, 2.0, None]
    assert ds.to_table()["z"].to_pylist() == ["a", "b", None]


def test_lists_and_structs_keep_the_types_of_their_parts(tmp_path: Path) -> None:
    half, code = pa.float16(), pa.dictionary(pa.int8(), pa.string())
    rows = pa.table(
        {
            "h": pa.array([[1.5], None], pa.list_(half)),
            "s": pa.array([{"c": "a"}, {"c": None}], pa.struct([("c", code)])),
        }
    )
    ds = lk.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.2")
    found = ds.to_table(columns={"x": "h", "y": "s"})
    assert found == lance.dataset(ds.uri).to_table(columns={"x": "h", "y": "s"})
    assert found.schema.types == rows.schema.types
    ds.add_columns({"x": "h", "y": "s"})
    assert ds.to_table(["x", "y"]) == found
