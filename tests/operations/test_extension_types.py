"""Extension types: they come back as themselves where they are registered, as in the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array

import lancekit as lk
from lancekit.errors import CorruptFileError, InvalidArgumentError, SchemaMismatchError


class Metres(pa.ExtensionType):
    """Registered by the user."""

    def __init__(self) -> None:
        super().__init__(pa.int32(), "tests.metres")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"m"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Metres:
        return cls()


class Unknown(Metres):
    """Not registered: it stays what it is stored as."""

    def __init__(self) -> None:
        pa.ExtensionType.__init__(self, pa.int32(), "tests.unknown")


@pytest.fixture(autouse=True)
def _registered():
    pa.register_extension_type(Metres())
    yield
    pa.unregister_extension_type("tests.metres")


def _of(kind: pa.BaseExtensionType, values: list[object]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


def flat() -> pa.Table:
    plain = pa.field("plain", pa.int64(), metadata={"k": "v"})
    columns = {
        "uuid": _of(pa.uuid(), [b"0" * 16, None]),
        "json": _of(pa.json_(), ['{"b": 1, "a": []}', None]),
        "tensor": _of(pa.fixed_shape_tensor(pa.float32(), [2, 2]), [[1, 2, 3, 4], None]),
        "bool8": _of(pa.bool8(), [1, None]),
        "opaque": _of(pa.opaque(pa.int32(), "a", "b"), [1, None]),
        "metres": _of(Metres(), [5, None]),
        "unknown": _of(Unknown(), [5, None]),
        "bfloat16": bfloat16_array([1.5, None]),
        "vector": pa.FixedSizeListArray.from_arrays(bfloat16_array([1.5, 2]), 1),
    }
    return pa.table(columns).append_column(plain, [[1, 2]])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_written_here_read_by_both(tmp_path: Path, version: str) -> None:
    ours = lk.write_dataset(flat(), tmp_path / "t", data_storage_version=version)
    theirs = lance.dataset(tmp_path / "t")
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.schema.field("metres").type == Metres()
    assert ours.schema.field("unknown").metadata[b"ARROW:extension:name"] == b"tests.unknown"
    wanted = theirs.to_table()
    assert wanted.column("json").to_pylist() == ['{"a":[],"b":1}', None]
    assert ours.to_table().equals(wanted)
    assert pa.Table.from_batches(ours.to_batches()).equals(wanted)
    assert ours.take([1, 0]).equals(theirs.take([1, 0]))
    assert ours.head(1).equals(wanted.slice(0, 1))
    assert ours.scanner().projected_schema == wanted.schema
    (fragment,) = ours.get_fragments()
    assert fragment.to_table().equals(wanted)
    assert fragment.physical_schema == fragment.take([0]).schema == wanted.schema


def test_expressions_that_are_only_a_column_keep_the_type(tmp_path: Path) -> None:
    ours = lk.write_dataset(flat(), tmp_path / "t")
    columns = {f"{name}2": name for name in flat().column_names}
    wanted = lance.dataset(tmp_path / "t").to_table(columns)
    found = ours.to_table(columns)
    assert found.schema.types == wanted.schema.types
    assert found.to_pydict() == wanted.to_pydict()
    ours.add_columns({"copied": "json"})
    assert ours.to_table(["copied"])["copied"].equals(ours.to_table(["json"])["json"])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_written_there_appended_here(tmp_path: Path, version: str) -> None:
    theirs = lance.write_dataset(flat(), tmp_path / "t", data_storage_version=version)
    ours = lk.dataset(tmp_path / "t")
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_table().equals(theirs.to_table())
    ours.insert(flat())
    assert lance.dataset(tmp_path / "t").to_table().equals(ours.to_table())
    ours.delete("metres IS NULL")
    merged = ours.merge_insert("plain").when_matched_update_all().when_not_matched_insert_all()
    merged.execute(flat().slice(1))
    assert lance.dataset(tmp_path / "t").to_table().equals(ours.to_table())


def test_the_older_release(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    table = flat().drop_columns(["json"])
    lk.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    program = "result = lance.dataset(arguments['uri']).to_table().column('tensor').to_pylist()"
    assert pylance4(program, uri=str(tmp_path / "t")) == [[1, 2, 3, 4], None]


def test_a_type_that_refuses_its_storage_is_named(tmp_path: Path) -> None:
    marks = {
        "ARROW:extension:name": "arrow.fixed_shape_tensor",
        "ARROW:extension:metadata": '{"shape":[3]}',
    }
    schema = pa.schema([pa.field("t", pa.list_(pa.float32(), 4), metadata=marks)])
    ds = lk.write_dataset(pa.table([[[1.0] * 4]], schema=schema), tmp_path / "t")
    with pytest.raises(CorruptFileError, match="invalid extension type"):
        _ = ds.schema


#: what a column is, its new type, and its values then, as they are stored; None where it stays
CHANGES: dict[str, tuple[pa.Array, pa.DataType, list[Any] | None]] = {
    "null to uuid": (pa.nulls(1), pa.uuid(), [None]),
    "null to json": (pa.nulls(1), pa.json_(), [None]),
    "null to a tensor": (pa.nulls(1), pa.fixed_shape_tensor(pa.float32(), [2]), [None]),
    "null to a user's type": (pa.nulls(1), Metres(), [None]),
    "null to bfloat16": (pa.nulls(1), bfloat16_array([1]).type, [None]),
    "null to a blob": (pa.nulls(1), lk.blob_field("b").type, [None]),
    "items": (pa.array([[None]]), pa.list_(pa.uuid()), [[None]]),
    "bytes to uuid": (pa.array([b"0" * 16], pa.binary(16)), pa.uuid(), [b"0" * 16]),
    "number to a user's type": (pa.array([5]), Metres(), [5]),
    "the same": (_of(pa.uuid(), [b"0" * 16]), pa.uuid(), [b"0" * 16]),
    "json stays json": (_of(pa.json_(), ['{"a":1}']), pa.json_(), ['{"a":1}']),
    "uuid to bytes": (_of(pa.uuid(), [b"0" * 16]), pa.binary(), [b"0" * 16]),
    "a user's type to a number": (_of(Metres(), [5]), pa.int64(), [5]),
    "a user's type to another": (_of(Metres(), [5]), pa.opaque(pa.int64(), "a", "b"), [5]),
    "list of uuid": (
        pa.ListArray.from_arrays([0, 1], _of(pa.uuid(), [b"0" * 16])),
        pa.large_list(pa.uuid()),
        [[b"0" * 16]],
    ),
    "text to json": (pa.array(['{"a":1}']), pa.json_(), None),
    "bytes to json": (pa.array([b"x"], pa.large_binary()), pa.json_(), None),
    "json to bytes": (_of(pa.json_(), ['{"a":1}']), pa.large_binary(), None),
    "items to json": (pa.array([["{}"]]), pa.list_(pa.json_()), None),
    "blob to a struct": (lk.blob_array([b"x"]), lk.blob_field("b").type.storage_type, None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_columns_become_extension_types_and_plain_ones(tmp_path: Path, name: str) -> None:
    values, kind, wanted = CHANGES[name]
    noted = pa.field("x", values.type, metadata={"unit": "m"})
    ds = lk.write_dataset(pa.table([values], schema=pa.schema([noted])), tmp_path / "t")
    before = ds.schema
    change: Any = {"path": "x", "data_type": kind}
    if wanted is None:
        with pytest.raises(InvalidArgumentError, match="Column 'x' cannot be cast from "):
            ds.alter_columns(change)
        assert ds.schema == before
        return
    ds.alter_columns(change)
    assert ds.schema.field("x").type == kind
    assert ds.schema.field("x").metadata[b"unit"] == b"m"
    column = ds.to_table()["x"].combine_chunks()
    stored = column.storage if isinstance(column, pa.ExtensionArray) else column
    plain = stored.cast(pa.large_list(pa.binary(16))) if name == "list of uuid" else stored
    assert plain.to_pylist() == wanted
    ds.validate(deep=True)
    assert lance.dataset(tmp_path / "t").schema.equals(ds.schema, check_metadata=True)


def test_a_part_becomes_an_extension_type_on_a_branch(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "s": [{"a": None, "b": 2}]}, tmp_path / "t", primary_key="id")
    branch = ds.create_branch("exp")
    branch.alter_columns({"path": "s.a", "data_type": pa.uuid()})
    ds.insert({"id": [2], "s": [{"a": None, "b": 3}]})
    ds.branches.merge("exp")
    assert ds.schema.field("s").type.field("a").type == pa.uuid()
    assert ds.to_table()["s"].to_pylist() == [{"a": None, "b": 2}, {"a": None, "b": 3}]


def test_text_becomes_json_and_bytes_do_not(tmp_path: Path) -> None:
    nested = pa.StructArray.from_arrays([_of(pa.json_(), ['{"b":1}'])], ["j"])
    rows = pa.table({"k": [1], "j": _of(pa.json_(), ['{"a":1}']), "s": nested})
    ds = lk.write_dataset(rows, tmp_path / "t")
    text = pa.table({"k": [2, 3], "j": ['{"a":2}', None]})
    ds = lk.write_dataset(text, ds, mode="append")
    ds.merge_insert("k").when_matched_update_all().execute(pa.table({"k": [3], "j": ["[3]"]}))
    wanted = ['{"a":1}', '{"a":2}', "[3]"]
    for library in (lk, lance):
        found = library.dataset(str(tmp_path / "t")).to_table()
        assert sorted(found["j"].to_pylist()) == sorted(wanted)
    binary = pa.array([b'{"a":4}'], pa.large_binary())
    for lost, where in (
        ({"j": binary}, "~ j: large_binary in the rows, JSON in the dataset"),
        ({"j": [5]}, "~ j: int64 in the rows, JSON in the dataset"),
        ({"s": pa.StructArray.from_arrays([binary], ["j"])}, "~ s: struct<j: large_binary> in"),
        ({"s": [{"j": "{}"}]}, "~ s: struct<j: string> in the rows"),
    ):
        with pytest.raises(SchemaMismatchError, match=where) as caught:
            lk.write_dataset(pa.table({"k": [4], **lost}), ds, mode="append")
        assert "pa.json_()" in caught.value.hint
    with pytest.raises(InvalidArgumentError, match="cannot be stored as JSON"):
        lk.write_dataset(pa.table({"k": [4], "j": ["{"]}), ds, mode="append")
    ds.checkout_latest()
    assert ds.count_rows() == 3
