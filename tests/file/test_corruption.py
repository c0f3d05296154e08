"""Damaged files end in an error of lancekit's that names the file; never in another exception."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancekit import options
from lancekit._file.columns.physical import FileColumn
from lancekit._file.writer import FileWriter
from lancekit.errors import (
    CorruptFileError,
    FormatError,
    LancekitError,
    UnsupportedFeatureError,
)
from tests.file.columns import VERSIONS, columns, with_nulls
from tests.file.lance_io import MemorySink, open_ours, write_ours, write_reference

ROWS = 600
SKIPPED = ("duration", "time", "date", "large", "uint", "decimal256", "huge")


def _files(tmp_path: Path, version: str) -> dict[str, bytes]:
    """Return small files of both writers, which together use every encoding."""
    files = {}
    for name, array in columns(ROWS):
        if name.startswith(SKIPPED) or "128]" in name:
            continue
        table = pa.table({"c": with_nulls(array, "some")})
        files[f"ours {name}"] = write_ours(table, version)
        files[f"theirs {name}"] = write_reference(table, tmp_path / "a.lance", version)
    text = pa.array([f"some text {k % 90} and more of it" for k in range(3000)])
    for metadata in ({"lance-encoding:compression": "lz4"}, {"lance-encoding:compression": "zstd"}):
        for array in (text, pa.array(np.arange(3000) // 7)):
            schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
            table = pa.table([array], schema=schema)
            files[f"theirs {array.type} {metadata}"] = write_reference(
                table, tmp_path / "a.lance", version
            )
    files["theirs text"] = write_reference(pa.table({"c": text}), tmp_path / "a.lance", version)
    return files


def _read(data: bytes) -> None:
    """Read everything in all ways; whatever comes out must be whole arrays."""
    try:
        reader = open_ours(bytes(data), "damaged.lance")
        fields = reader.columns
        if reader.num_rows > 1 << 20:
            return  # a damaged count of a file without pages
        for rows in (None, range(3, 9), np.array([1, 5, 300])):
            table = reader.read(fields, rows)
            table.validate()
            for column in table.columns:
                column.combine_chunks().validate()
                column.is_null()
    except CorruptFileError as error:
        if "damaged.lance" not in str(error):
            raise AssertionError("the file is not named") from error
    except LancekitError:
        pass


@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
def test_flipped_bytes(tmp_path: Path, version: str, whole: bool) -> None:
    """In every part of every file; in a usual run a fifth of the places in a third of the files."""
    rng = np.random.default_rng(3)
    many, some = (25, 8) if whole else (5, 2)
    files = list(_files(tmp_path, version).values())
    for data in files if whole else files[VERSIONS.index(version) :: len(VERSIONS)]:
        # metadata is at the end; chunk headers, offsets and levels at the start
        places = np.concatenate(
            (
                rng.integers(max(0, len(data) - 600), len(data), many),
                rng.integers(0, min(len(data), 200), some),
                rng.integers(0, len(data), some),
            )
        )
        for place in places.tolist():
            damaged = bytearray(data)
            damaged[place] ^= int(rng.integers(1, 256))
            _read(bytes(damaged))


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_files(tmp_path: Path, version: str) -> None:
    data = write_ours(pa.table({"c": [f"value {k}" for k in range(500)]}), version)
    for length in (0, 1, 39, 40, len(data) // 2, len(data) - 1):
        with pytest.raises(CorruptFileError, match=r"cut\.lance"):
            open_ours(data[:length], "cut.lance")
    # the front is missing: every offset points elsewhere
    for length in (40, 100, len(data) // 2):
        _read(data[-length:])


def test_not_a_lance_file() -> None:
    with pytest.raises(CorruptFileError, match=r"text\.txt is not a Lance data file"):
        open_ours(b"just some text, and more of it, and more of it, and more", "text.txt")


def test_unknown_version_is_named() -> None:
    data = bytearray(write_ours(pa.table({"a": [1]})))
    data[-8:-4] = struct.pack("<HH", 2, 3)
    with pytest.raises(
        UnsupportedFeatureError, match=r"new\.lance: data file version 2\.3"
    ) as info:
        open_ours(bytes(data), "new.lance")
    assert info.value.context["version"] == "2.3"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_nested_column_that_is_asked_for_as_another_is_refused(
    tmp_path: Path, version: str
) -> None:
    table = pa.table({"s": [{"x": 1, "y": "a"}], "l": [[1, 2]], "n": [5]})
    path = tmp_path / "a.lance"
    lance.write_dataset(table, path, data_storage_version=version)
    (file,) = (path / "data").glob("*.lance")
    reader = open_ours(file.read_bytes(), "nested.lance")
    assert reader.schema.equals(table.schema)
    assert reader.read(reader.columns).equals(table)
    struct_column, list_column, plain = reader.columns
    for column, other in (
        (struct_column, pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
        (struct_column, pa.struct([("x", pa.string()), ("y", pa.string())])),
        (struct_column, pa.struct([("x", pa.int64())])),
        (list_column, pa.list_(pa.struct([("x", pa.int64())]))),
        (list_column, pa.list_(pa.list_(pa.int64()))),
        (list_column, pa.int64()),
        (plain, pa.list_(pa.int64())),
        (plain, pa.struct([("x", pa.int64())])),
    ):
        asked = FileColumn(column.field.with_type(other), column.columns)
        with pytest.raises(FormatError, match=rf"nested\.lance, column '{column.field.name}"):
            reader.read([asked])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wrong_type_is_not_misread(version: str) -> None:
    reader = open_ours(write_ours(pa.table({"a": pa.array(np.arange(50.0))}), version))
    for kind in (pa.int32(), pa.string(), pa.bool_(), pa.list_(pa.int8(), 8)):
        with pytest.raises(CorruptFileError, match="column 'a', page 0"):
            reader.read([FileColumn(pa.field("a", kind), (0,))])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_schema_of_no_bytes_is_damage(version: str) -> None:
    """Also in a file with checksums, which stand in the schema: it would look like one without."""
    sink = MemorySink()
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    writer = FileWriter(sink, table.schema, version=version, checksums=True)
    writer.write(table.to_batches()[0])
    writer.finish()
    assert sink.data is not None
    damaged = bytearray(sink.data)
    (buffers,) = struct.unpack_from("<Q", damaged, len(damaged) - 40 + 16)
    damaged[buffers + 8 : buffers + 16] = bytes(8)  # the size of the first
    with options(verify_checksums=True):
        reader = open_ours(bytes(damaged), "damaged.lance")
        with pytest.raises(CorruptFileError, match=r"damaged.lance.*not one of 2 columns"):
            _ = reader.columns
