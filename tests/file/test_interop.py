"""What lancekit writes the reference reads, and the other way round, to the last bit."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._file.columns.physical import FileColumn
from lancekit.errors import UnsupportedTypeError
from tests.file.columns import NULLS, VERSIONS, assert_same, columns, with_nulls
from tests.file.lance_io import open_ours, read_reference, write_ours, write_reference
from tests.file.nested import SHARES, share_of

SIZES = (1, 5, 1100)


def _table(rows: int, nulls: str, offset: int = 0) -> pa.Table:
    arrays = {name: with_nulls(array, nulls) for name, array in columns(rows + offset)}
    return pa.table({name: array.slice(offset) for name, array in arrays.items()})


def _compare(actual: pa.Table, expected: pa.Table, note: str) -> None:
    assert actual.column_names == expected.column_names
    for name in expected.column_names:
        assert_same(actual[name], expected[name].combine_chunks(), f"{name}, {note}")


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("rows", SIZES)
def test_reads_what_the_reference_wrote(
    tmp_path: Path, version: str, nulls: str, rows: int
) -> None:
    table = _table(rows, nulls)
    reader = open_ours(write_reference(table, tmp_path / "a.lance", version))
    assert reader.num_rows == rows
    assert reader.version == tuple(map(int, version.split(".")))
    _compare(reader.read(reader.columns), table, f"{version}, {nulls} null")


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("offset", [0, 13])
def test_the_reference_reads_what_we_wrote(
    tmp_path: Path, version: str, nulls: str, rows: int, offset: int
) -> None:
    table = _table(rows, nulls, offset)
    data = write_ours(table, version)
    _compare(read_reference(data, tmp_path / "a.lance"), table, f"{version}, {nulls} null")
    ours = open_ours(data)
    _compare(ours.read(ours.columns), table, f"own {version}, {nulls} null")


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", ["none", "some"])
@pytest.mark.parametrize("share", SHARES)
def test_several_pages(tmp_path: Path, version: str, nulls: str, share: int) -> None:
    table = share_of(_table(450, nulls), share)
    data = write_ours(table, version, max_page_bytes=900)
    _compare(read_reference(data, tmp_path / "a.lance"), table, version)
    ours = open_ours(data)
    read = ours.read(ours.columns)
    assert max(len(ours._container.pages(c)) for c in range(ours.num_columns)) > 3
    _compare(read, table, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_many_rows(tmp_path: Path, version: str) -> None:
    """Chunks of every size, and dictionaries, symbol tables and pages that only many rows have."""
    rng = np.random.default_rng(1)
    rows = 120_000
    strings = [f"row {k} of many" for k in rng.integers(0, 10**6, rows)]
    arrays = {
        "packed": pa.array(rng.integers(0, 1 << 20, rows)),
        "flat": pa.array(rng.standard_normal(rows)),
        "small": pa.array(rng.integers(0, 3, rows), pa.int8()),
        "runs": pa.array(np.repeat(np.arange(rows // 500), 500)),
        "text": pa.array(strings),
        "few": pa.array([f"category {k}" for k in rng.integers(0, 40, rows)]),
        "decimal": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(30, 0)),
        "flag": pa.array(rng.random(rows) < 0.5),
    }
    table = pa.table(arrays | {f"{k} null": with_nulls(a, "some") for k, a in arrays.items()})
    theirs = open_ours(write_reference(table, tmp_path / "a.lance", version))
    _compare(theirs.read(theirs.columns), table, f"theirs {version}")
    data = write_ours(table, version)
    ours = open_ours(data)
    _compare(ours.read(ours.columns), table, f"own {version}")
    _compare(read_reference(data, tmp_path / "b.lance"), table, f"ours {version}")


@pytest.mark.parametrize("version", VERSIONS)
def test_no_rows(tmp_path: Path, version: str) -> None:
    table = _table(0, "none")
    for data in (
        write_ours(table, version),
        write_reference(table, tmp_path / "a.lance", version),
    ):
        reader = open_ours(data)
        assert reader.num_rows == 0
        assert reader.read(reader.columns).schema.types == table.schema.types
        assert list(reader.read_batches(reader.columns)) == []
    assert lance.file.LanceFileReader(str(tmp_path / "a.lance")).num_rows() == 0


COMPRESSION = [
    {"lance-encoding:compression": "zstd"},
    {"lance-encoding:compression": "lz4"},
    {"lance-encoding:compression": "none"},
    {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"},
    {"lance-encoding:rle-threshold": "0.9"},
    {"lance-encoding:structural-encoding": "fullzip"},
    {"lance-encoding:structural-encoding": "miniblock"},
    {"lance-encoding:dict-values-compression": "zstd"},
]


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("metadata", COMPRESSION, ids=str)
def test_reads_encodings_asked_for_by_metadata(
    tmp_path: Path, version: str, metadata: dict[str, str]
) -> None:
    rows = 5000
    rng = np.random.default_rng(2)
    arrays = {
        "int": pa.array(np.arange(rows) // 10, pa.int32()),
        "double": pa.array(rng.integers(0, 50, rows) / 4),
        "runs": pa.array(np.repeat(np.arange(rows // 100), 100)),
        "text": pa.array([f"some text {k % 700} and more" for k in range(rows)]),
        "binary": pa.array([b"%d" % k for k in range(rows)], pa.binary()),
        "flag": pa.array(rng.random(rows) < 0.5),
        "few": pa.array([f"category {k}" for k in rng.integers(0, 40, rows)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 4)), 4),
    }
    arrays |= {f"{name} null": with_nulls(array, "some") for name, array in arrays.items()}
    flags = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 16) < 0.5), 16)
    arrays["flags"] = flags
    schema = pa.schema([pa.field(n, a.type, metadata=metadata) for n, a in arrays.items()])
    table = pa.table(list(arrays.values()), schema=schema)
    reader = open_ours(write_reference(table, tmp_path / "a.lance", version))
    _compare(reader.read(reader.columns), table, f"{version} {metadata}")
    picked = np.arange(3, rows, 97)
    _compare(reader.read(reader.columns, picked), table.take(picked), f"{version} {metadata}")


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_the_files_of_a_dataset(tmp_path: Path, version: str) -> None:
    table = _table(300, "some")
    path = tmp_path / "a.lance"
    lance.write_dataset(table, path, data_storage_version=version)
    (file,) = (path / "data").glob("*.lance")
    reader = open_ours(file.read_bytes())
    _compare(reader.read(reader.columns), table, version)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("items", [pa.null(), pa.string(), pa.large_binary()])
def test_vectors_that_only_the_reference_writes(
    tmp_path: Path, version: str, items: pa.DataType
) -> None:
    rows = pa.table({"id": [1, 2], "v": pa.array([[None, None]] * 2, pa.list_(items, 2))})
    lance.write_dataset(rows, tmp_path / "d", data_storage_version=version)
    ds = lk.dataset(tmp_path / "d")
    for change in (lambda: ds.insert(rows), lambda: ds.update({"id": "id + 1"})):
        with pytest.raises(UnsupportedTypeError, match="'v': fixed-size lists of"):
            change()
    ds.delete("id = 2")
    assert lk.dataset(ds.uri).to_table().equals(rows[:1])


def test_a_field_keeps_its_metadata(tmp_path: Path) -> None:
    field = pa.field(
        "a", pa.int32(), nullable=False, metadata={"lance-encoding:compression": "zstd"}
    )
    table = pa.table([pa.array([1, 2], pa.int32())], schema=pa.schema([field], {"k": "v"}))
    data = write_ours(table)
    assert open_ours(data).schema.equals(table.schema, check_metadata=True)
    assert read_reference(data, tmp_path / "a.lance").schema.field("a") == field


@pytest.mark.parametrize("version", VERSIONS)
def test_extension_types_are_read_as_asked(version: str) -> None:
    stored = pa.array([b"0123456789abcdef", None], pa.binary(16))
    reader = open_ours(write_ours(pa.table({"a": stored}), version))
    read = reader.read([FileColumn(pa.field("a", pa.uuid()), (0,))])["a"]
    assert read.type == pa.uuid()
    assert_same(read.combine_chunks().storage, stored, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_dictionary_columns(tmp_path: Path, version: str) -> None:
    values = ["a", "bb", None, "a", "ccc", None] * 50
    table = pa.table({"d": pa.array(values).dictionary_encode()})
    reader = open_ours(write_reference(table, tmp_path / "a.lance", version))
    read = reader.read(reader.columns)["d"]
    assert read.type == table["d"].type
    assert read.to_pylist() == values
    assert reader.read(reader.columns, range(2, 9))["d"].to_pylist() == values[2:9]
