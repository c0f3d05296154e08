"""The writer's own rules: what it refuses, what it reports, how it splits pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancekit._file.writer import FileWriter
from lancekit._format.schema import LanceSchema
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from tests.file.columns import VERSIONS, assert_same
from tests.file.lance_io import open_ours, write_ours
from tests.support.memory_file import MemorySink

_PACKED = {"lance-encoding:packed": "true"}
_BLOB = {"lance-encoding:blob": "true"}
_STRUCT = pa.struct([("x", pa.int32())])
_VECTORS = pa.list_(_STRUCT, 3)
_REFUSED = [
    ("2.0 2.1", pa.map_(pa.string(), pa.int32()), None, "map<string, int32"),
    ("2.0 2.1", _VECTORS, None, "fixed_size_list"),
    ("2.0 2.1 2.2", pa.binary(0), None, "fixed_size_binary"),
    ("2.0 2.1 2.2", pa.list_(pa.float32(), 0), None, "without items"),
    ("2.1", pa.list_(pa.bool_(), 8193), None, "8193 booleans"),
    ("2.2", pa.list_(pa.struct([("l", pa.list_(pa.int8()))]), 2), None, "lists inside"),
    ("2.2", pa.list_(_VECTORS), None, "fixed-size lists of structs inside"),
    ("2.1 2.2", pa.list_(pa.struct([])), None, "without fields"),
    ("2.0 2.1 2.2", pa.struct([]), _PACKED, "without fields"),
    ("2.0 2.1 2.2", pa.struct([("f", pa.bool_())]), _PACKED, "packed structs with bool"),
    ("2.0 2.1", pa.struct([("f", pa.string())]), _PACKED, "packed structs with string"),
    ("2.1", pa.struct([("f", pa.list_(pa.int8(), 2))]), _PACKED, "packed structs with fixed"),
    ("2.1", pa.struct([("f", pa.binary(4081))]), _PACKED, "packed structs of 4081 bytes"),
    ("2.0 2.1 2.2", pa.string(), _BLOB, "blobs of type string"),
    (
        "2.1 2.2",
        pa.list_(pa.field("item", pa.large_binary(), metadata=_BLOB)),
        None,
        "blobs inside of lists",
    ),
]


@pytest.mark.parametrize(("versions", "kind", "metadata", "problem"), _REFUSED, ids=str)
def test_what_no_reader_could_read_is_refused_before_anything_is_written(
    versions: str, kind: pa.DataType, metadata: dict[str, str] | None, problem: str
) -> None:
    schema = pa.schema([("fine", pa.int32()), pa.field("odd", kind, metadata=metadata)])
    for version in versions.split():
        sink = MemorySink()
        with pytest.raises(UnsupportedTypeError, match=problem) as info:
            FileWriter(sink, schema, version=version)
        assert info.value.context["version"] == version
        assert version in str(info.value)
        assert sink.tell() == 0


_NULL_STRUCTS = pa.array([{"x": 1}, None], _STRUCT)
_NULL_FIELDS = pa.array([{"x": 1}, {"x": None}], _STRUCT)
_EMPTY = pa.array([{}, None], pa.struct([]))


@pytest.mark.parametrize(
    ("versions", "array", "metadata", "problem"),
    [
        ("2.0", _NULL_STRUCTS, None, "null structs"),
        ("2.0", pa.array([[{"x": 1}, None]], pa.list_(_STRUCT)), None, "null structs"),
        ("2.0", _NULL_STRUCTS, _PACKED, "null structs"),
        ("2.0 2.1 2.2", _NULL_FIELDS, _PACKED, "nulls in fields of packed structs"),
        ("2.0 2.1 2.2", _EMPTY, None, "null structs"),
    ],
    ids=str,
)
def test_values_that_a_version_cannot_hold_are_refused(
    versions: str, array: pa.Array, metadata: dict[str, str] | None, problem: str
) -> None:
    schema = pa.schema([pa.field("odd", array.type, metadata=metadata)])
    for version in versions.split():
        writer = FileWriter(MemorySink(), schema, version=version)
        with pytest.raises(UnsupportedTypeError, match=problem) as info:
            writer.write(pa.record_batch([array], schema=schema))
        assert info.value.context["version"] == version


def test_null_parts_are_refused_where_the_schema_has_none() -> None:
    part = pa.field("x", pa.int32(), nullable=False)
    cases = {
        pa.struct([part]): [{"x": 1}, {"x": None}],
        pa.list_(pa.field("item", pa.int32(), nullable=False)): [[1], [None]],
        pa.list_(pa.struct([part])): [[{"x": 1}], [{"x": None}]],
        pa.list_(pa.struct([part]), 1): [[{"x": 1}], [{"x": None}]],
        pa.map_(pa.string(), part): [[("k", 1)], [("k", None)]],
    }
    for kind, rows in cases.items():
        writer = FileWriter(MemorySink(), pa.schema([("c", kind)]))
        loose = pa.array(rows, _nullable(kind))
        with pytest.raises(SchemaMismatchError, match="nulls in a non-nullable field"):
            writer.write(pa.record_batch({"c": loose}))
        writer.write(pa.record_batch({"c": pa.array([None, rows[0]], _nullable(kind))}))


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type with everything nullable that may be."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_type)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_nullable(kind.value_type), kind.list_size)
    return pa.list_(_nullable(kind.value_type)) if pa.types.is_list(kind) else kind


def test_unknown_version_and_page_size_are_refused() -> None:
    schema = pa.schema([("a", pa.int32())])
    with pytest.raises(InvalidArgumentError, match=r"'0\.1'"):
        FileWriter(MemorySink(), schema, version="0.1")
    with pytest.raises(InvalidArgumentError, match="max_page_bytes"):
        FileWriter(MemorySink(), schema, max_page_bytes=0)


def test_rows_must_fit_the_schema() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    writer = FileWriter(MemorySink(), schema)
    for batch, problem in (
        (pa.record_batch({"b": [1]}), "'a' is missing"),
        (pa.record_batch({"a": [1]}), "'a' must be int32, got int64"),
        (pa.record_batch({"a": pa.array([None], pa.int32())}), "is not nullable, but has 1 null"),
        (pa.record_batch({"a": pa.array([1], pa.int32()), "z": [1]}), "'z'"),
    ):
        with pytest.raises(SchemaMismatchError, match=problem):
            writer.write(batch)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_summary_is_what_a_manifest_needs(version: str) -> None:
    schema = LanceSchema.from_arrow(pa.schema([("a", pa.int32()), ("b", pa.string())]), first_id=7)
    sink = MemorySink()
    writer = FileWriter(sink, schema, version=version)
    writer.write(pa.record_batch({"b": ["x"], "a": pa.array([1], pa.int32())}))
    summary = writer.finish()
    assert summary.field_ids == (7, 8)
    assert summary.column_indices == (0, 1)
    assert summary.version == tuple(map(int, version.split(".")))
    assert sink.data is not None
    assert sink.data[-8:-4] == (b"\0\0\3\0" if version == "2.0" else sink.data[-8:-4])
    reader = open_ours(sink.data)
    assert [field.id for field in reader.lance_schema.fields] == [7, 8]
    assert reader.read(reader.columns).to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(InvalidArgumentError, match="finished"):
        writer.write(pa.record_batch({"a": pa.array([1], pa.int32()), "b": ["x"]}))


def test_abort_leaves_nothing() -> None:
    sink = MemorySink()
    writer = FileWriter(sink, pa.schema([("a", pa.int32())]))
    writer.abort()
    assert sink.aborted
    assert sink.data is None


def test_pages_are_written_as_they_fill() -> None:
    sink = MemorySink()
    writer = FileWriter(sink, pa.schema([("a", pa.float64())]), max_page_bytes=8000)
    for seed in range(5):
        written = sink.tell()
        writer.write(pa.record_batch({"a": np.random.default_rng(seed).random(1000)}))
        assert sink.tell() - written >= 8000


def test_bytes_of_other_rows_stay_out() -> None:
    """Neither what lies around a slice nor what nulls hide reaches the file."""
    secret = pa.array(["secret-before", "kept", "secret-null", "secret-after"])
    _, offsets, data = secret.buffers()
    hidden = pa.Array.from_buffers(pa.string(), 4, [pa.py_buffer(b"\x0b"), offsets, data])
    for version in VERSIONS:
        assert b"secret" not in write_ours(pa.table({"a": hidden.slice(1, 2)}), version)


_VALUES = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.none() | st.integers(0, 200)).map(lambda v: pa.array(v, pa.uint8())),
    st.lists(st.none() | st.booleans()).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.none() | st.floats(width=32)).map(lambda v: pa.array(v, pa.float32())),
    st.lists(st.none() | st.text()).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.none() | st.binary(max_size=400)).map(lambda v: pa.array(v, pa.large_binary())),
    st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), min_size=3, max_size=3)).map(
        lambda v: pa.array(v, pa.list_(pa.int16(), 3))
    ),
)


@settings(derandomize=True)
@given(
    array=_VALUES,
    version=st.sampled_from(VERSIONS),
    page=st.sampled_from([1, 50, 1 << 20]),
    repeats=st.sampled_from([1, 1, 30]),
    offset=st.integers(0, 9),
)
def test_round_trip(array: pa.Array, version: str, page: int, repeats: int, offset: int) -> None:
    whole = pa.concat_arrays([array] * repeats).slice(offset)
    data = write_ours(pa.table({"c": whole}), version, max_page_bytes=page)
    reader = open_ours(data)
    assert_same(reader.read(reader.columns)["c"], whole, f"{version} {page}")


def _not_text() -> pa.Array:
    stored = pa.array([b"ok", b"\xff\xfe", None], pa.binary())
    return pa.Array.from_buffers(pa.string(), 3, stored.buffers())


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_text_that_is_not_utf_8_is_refused(version: str) -> None:
    text = _not_text()
    for array in (
        text,
        text.dictionary_encode(),
        pa.ListArray.from_arrays([0, 1, 3], text),
        pa.StructArray.from_arrays([text], names=["x"]),
    ):
        with pytest.raises(InvalidArgumentError, match="not UTF-8"):
            write_ours(pa.table({"c": array}), version)
    assert write_ours(pa.table({"c": ["é", "b", None]}), version)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_text_that_is_not_utf_8_is_damage(version: str) -> None:
    rows = ["first", "second"] * 70
    for array in (pa.array(rows), pa.array(rows).dictionary_encode()):
        data = write_ours(pa.table({"c": array}), version).replace(b"second", b"sec\xffnd")
        reader = open_ours(data, "bad.lance")
        with pytest.raises(CorruptFileError, match=r"bad\.lance, column 'c', page 0.*UTF-8"):
            reader.read(reader.columns)


def test_metadata_are_written_in_the_order_of_their_names() -> None:
    """Protobuf orders a map by addresses: two processes wrote equal tables as unequal files."""
    names = [f"name {number}" for number in range(10, 60)]
    schema = pa.schema([("x", pa.int32())], metadata=dict.fromkeys(reversed(names), "v"))
    data = write_ours(pa.table({"x": [1]}).replace_schema_metadata(schema.metadata), "2.1")
    places = [data.index(name.encode()) for name in names]
    assert places == sorted(places)
