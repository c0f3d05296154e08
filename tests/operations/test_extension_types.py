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
from lancekit.errors import CorruptFileError


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
    with pytest.raises(CorruptFileError, match="extension type that does not fit"):
        _ = ds.schema
