"""Data files by the names of the reference's ``lance.file``, beside it on the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit.file
from lancekit.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidArgumentError,
    NotFoundError,
    RowOutOfRangeError,
    SchemaMismatchError,
)
from lancekit.file import LanceFileReader, LanceFileWriter

LIBRARIES = [lance.file, lancekit.file]
_ROWS = 3000


def _table() -> pa.Table:
    rng = np.random.default_rng(0)
    structs = [{"x": int(k), "y": str(k)} for k in rng.integers(0, 9, _ROWS)]
    return pa.table(
        {
            "n": pa.array(rng.integers(0, 1000, _ROWS)),
            "s": pa.array([f"word {k}" for k in range(_ROWS)]),
            "p": pa.array(structs),
            "l": pa.array([[k] * (k % 4) for k in range(_ROWS)]),
        }
    )


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("reader", LIBRARIES)
def test_one_program_for_both_libraries(
    tmp_path: Path, writer: Any, reader: Any, version: str
) -> None:
    table = _table()
    path = str(tmp_path / "a.lance")
    with writer.LanceFileWriter(path, table.schema, version=version) as out:
        assert out.add_global_buffer(b"hello") == 1
        out.write_batch(table.slice(0, 1000))
        out.write_batch(table.slice(1000).combine_chunks().to_batches()[0])
        out.add_schema_metadata("unit", "m")
        assert out.close() == _ROWS
        assert out.close() is None
    assert out.size_bytes == Path(path).stat().st_size

    opened = reader.LanceFileReader(path)
    assert opened.num_rows() == _ROWS
    assert opened.read_global_buffer(1) == b"hello"
    whole = opened.read_all(batch_size=700).to_table()
    assert whole.schema.metadata == {b"unit": b"m"}
    assert whole.equals(table)
    assert next(len(b) for b in opened.read_all(batch_size=700).to_batches()) == 700
    assert opened.read_range(990, 30).to_table().equals(table.slice(990, 30))
    rows = [0, 5, 2999]
    assert opened.take_rows(rows).to_table().equals(table.take(rows))
    few = reader.LanceFileReader(path, columns=["s", "n"]).read_all().to_table()
    assert few.equals(table.select(few.column_names))
    assert set(few.column_names) == {"s", "n"}


def _facts(metadata: Any) -> dict[str, Any]:
    return {
        "rows": metadata.num_rows,
        "bytes": (
            metadata.num_data_bytes,
            metadata.num_column_metadata_bytes,
            metadata.num_global_buffer_bytes,
        ),
        "globals": [(b.position, b.size) for b in metadata.global_buffers],
        "pages": [
            [[(b.position, b.size) for b in page.buffers] for page in column.pages]
            for column in metadata.columns
        ],
        "schema": metadata.schema,
    }


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", LIBRARIES)
def test_metadata_is_the_reference_s(tmp_path: Path, writer: Any, version: str) -> None:
    path = str(tmp_path / "a.lance")
    with writer.LanceFileWriter(path, version=version) as out:
        out.write_batch(_table())
        out.add_global_buffer(b"12345")
    ours, theirs = LanceFileReader(path), lance.file.LanceFileReader(path)
    assert _facts(ours.metadata()) == _facts(theirs.metadata())
    assert f"Data file {version}, " in str(ours.metadata())
    statistics = [
        [(c.num_pages, c.size_bytes) for c in reader.file_statistics().columns]
        for reader in (ours, theirs)
    ]
    assert statistics[0] == statistics[1]


def test_metadata_shows_encodings() -> None:
    place = "memory://files/shown.lance"
    with LanceFileWriter(place) as writer:
        writer.write_batch(
            pa.table({"n": np.arange(5000), "p": [{"x": 1, "y": f"w{k % 7}"} for k in range(5000)]})
        )
    shown = str(LanceFileReader(place).metadata()).splitlines()
    assert shown[0].startswith("Data file 2.2, 5,000 rows, ")
    assert shown[1].endswith("mini-block of bit-packed integers")
    assert shown[2].endswith("one value")
    assert "p.y: 1 page" in shown[3]
    assert "into a dictionary of 7 (strings)" in shown[3]


def test_only_asked_for_parts_of_structs() -> None:
    place = "memory://files/parts.lance"
    with LanceFileWriter(place) as writer:
        writer.write_batch(_table())
    part = LanceFileReader(place, columns=["p.y", "l"]).take_rows([1]).to_table()
    assert part.schema.field("p").type == pa.struct([("y", pa.string())])
    assert part.column_names == ["p", "l"]


def test_no_columns_keep_the_number_of_rows() -> None:
    place = "memory://files/no-columns.lance"
    with LanceFileWriter(place) as writer:
        writer.write_batch(pa.table({"n": [1, 2, 3]}))
    found = LanceFileReader(place, columns=[]).read_all()
    assert found.to_table().num_rows == sum(len(b) for b in found.to_batches()) == 3


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"

    def wrong() -> None:
        with LanceFileWriter(path) as writer:
            writer.write_batch(pa.table({"n": [1]}))
            writer.write_batch(pa.table({"n": ["x"]}))

    with pytest.raises(SchemaMismatchError):
        wrong()
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    with LanceFileWriter(path) as writer:
        with pytest.raises(InvalidArgumentError, match="no schema"):
            writer.add_global_buffer(b"x")
        writer.write_batch(pa.table({"n": [1, 2]}))
    with pytest.raises(InvalidArgumentError, match="closed"):
        writer.write_batch(pa.table({"n": [1]}))
    with pytest.raises(InvalidArgumentError, match="Schema is unknown"):
        LanceFileWriter(tmp_path / "b.lance").close()
    with pytest.raises(InvalidArgumentError, match=r"9\.9"):
        LanceFileWriter(tmp_path / "b.lance", pa.schema([("n", pa.int8())]), version="9.9")
    with pytest.raises(InvalidArgumentError, match=r"version .*9\.9"):
        LanceFileWriter(tmp_path / "b.lance", version="9.9")
    for name in ("data_cache_bytes", "max_page_bytes"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must not be negative, got -5"):
            LanceFileWriter(tmp_path / "b.lance", pa.schema([("n", pa.int8())]), **{name: -5})
    reader = LanceFileReader(path)
    with pytest.raises(RowOutOfRangeError):
        reader.take_rows([2])
    with pytest.raises(RowOutOfRangeError):
        reader.read_range(1, 2)
    with pytest.raises(InvalidArgumentError, match="num_rows must not be negative, got -1"):
        reader.read_range(0, -1)
    with pytest.raises(InvalidArgumentError, match="ascending"):
        reader.take_rows([1, 0])
    with pytest.raises(InvalidArgumentError, match="Global buffer 1"):
        reader.read_global_buffer(1)
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        reader.read_all(batch_size=0)
    with pytest.raises(ColumnNotFoundError, match="zz"):
        LanceFileReader(path, columns=["zz"])
    with pytest.raises(NotFoundError, match="nowhere"):
        LanceFileReader(tmp_path / "nowhere.lance")
    (tmp_path / "c.lance").write_bytes(b"no Lance file at all, but long enough to have a footer")
    with pytest.raises(CorruptFileError):
        LanceFileReader(tmp_path / "c.lance")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.lance", "c.lance"]


def test_a_type_made_in_python() -> None:
    place = "memory://files/blobs.lance"
    with LanceFileWriter(place) as writer:
        writer.write_batch(pa.table({"v": lk.blob_array([b"x", None])}))
    assert LanceFileReader(place).num_rows() == 2


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_compression_that_is_not_known(version: str) -> None:
    for options in ({"compression": "brotli"}, {"compression": "zstd", "compression-level": "x"}):
        metadata = {f"lance-encoding:{name}": value for name, value in options.items()}
        schema = pa.schema([pa.field("c", pa.string(), metadata=metadata)])
        with pytest.raises(InvalidArgumentError, match=r"'c' has lance-encoding:compression"):
            LanceFileWriter("memory://files/none.lance", schema, version=version)


class _Celsius(pa.ExtensionType):  # type: ignore[misc]  # pyarrow is untyped here
    def __init__(self) -> None:
        super().__init__(pa.float32(), "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, data: bytes) -> _Celsius:
        return cls()


def test_an_extension_type_of_the_user() -> None:
    place = "memory://files/celsius.lance"
    array = pa.ExtensionArray.from_storage(_Celsius(), pa.array([1.5, None], pa.float32()))
    with LanceFileWriter(place) as writer:
        writer.write_batch(pa.table({"t": array}))
    read = LanceFileReader(place).read_all().to_table()["t"].combine_chunks()
    assert getattr(read, "storage", read).to_pylist() == [1.5, None]
