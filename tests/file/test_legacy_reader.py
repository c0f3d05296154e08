"""Pieces and streams of legacy files, and what damage of them ends in."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.columns import legacy_reader as field_reader
from lancekit._file.reader import FileReader
from lancekit._format.pb import schema_pb2
from lancekit.errors import CorruptFileError, LancekitError, MemoryLimitError
from lancekit.options import options
from tests.file.lance_io import open_ours
from tests.support.memory_file import CountedFile

ROWS = 500


def _table() -> pa.Table:
    k = range(ROWS)
    keys = pa.array(np.arange(ROWS) % 3, pa.int8())
    return pa.table(
        {
            "n": pa.array(k),
            "b": [i % 3 == 0 for i in k],
            "t": [f"é{i}" * (i % 4) if i % 5 else None for i in k],
            "s": [{"x": i, "y": b"q" * (i % 3)} for i in k],
            "l": [[f"i{i}"] * (i % 4) for i in k],
            "m": [[{"z": [True, False][: i % 3]}] * (i % 2) for i in k],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(3 * ROWS) % 2 == 0), 3),
            "d": pa.DictionaryArray.from_arrays(keys, pa.array(["p", "q", "r"])),
            "e": pa.nulls(ROWS),
        }
    )


def _file(path: Path, group: int = 64) -> bytes:
    options = {"data_storage_version": "legacy", "max_rows_per_group": group}
    ds = lance.write_dataset(_table(), path, **options)
    (file,) = ds.get_fragments()[0].data_files()
    return (path / "data" / file.path).read_bytes()


@pytest.mark.parametrize("group", [1, 7, 64, 1000])
def test_any_rows_in_any_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    reader = open_ours(_file(tmp_path / "d.lance", group))
    expected = lance.dataset(tmp_path / "d.lance").to_table()
    rng = np.random.default_rng(group)
    # a piece of all, then many
    for most in (field_reader._PIECE_BYTES, 2000):
        monkeypatch.setattr(field_reader, "_PIECE_BYTES", most)
        monkeypatch.setattr(field_reader, "_UNIT_BYTES", most)
        assert reader.read(reader.columns).to_pylist() == expected.to_pylist()
        for share in (0.01, 0.5, 0.97):
            rows = np.flatnonzero(rng.random(ROWS) < share)
            assert reader.read(reader.columns, rows).to_pylist() == expected.take(rows).to_pylist()
            start, stop = sorted(rng.integers(0, ROWS, 2).tolist())
            part = expected.slice(start, stop - start).to_pylist()
            assert reader.read(reader.columns, range(start, stop)).to_pylist() == part
            batches = list(reader.read_batches(reader.columns, range(start, stop), 33))
            assert [row for batch in batches for row in batch.to_pylist()] == part
    assert reader.read(reader.columns, range(9, 9)).num_rows == 0
    assert len(list(field_reader.LegacyFieldReader._cut(_field(reader), range(ROWS), 2000))) > 3


def _field(reader: object) -> field_reader.LegacyFieldReader:
    column = reader.columns[0]  # type: ignore[attr-defined]
    return field_reader.LegacyFieldReader(reader.container, column.field, column.columns)  # type: ignore[attr-defined]


def _fetched(data: bytes, columns: int, rows: Any, gap: int = 1 << 16) -> tuple[pa.Table, int, int]:
    """Return rows of the first columns, and the requests and bytes that they took."""
    source = CountedFile(data)
    source.gap = gap
    reader = FileReader.open(source)
    requests, size = source.requests, sum(size for _, size in source.reads)
    found = reader.read(reader.columns[:columns], rows)
    return found, source.requests - requests, sum(size for _, size in source.reads) - size


def test_what_lies_between_pages_is_fetched_once(tmp_path: Path) -> None:
    k = range(20_000)
    table = pa.table({"n": k, "t": [f"text {i}" for i in k], "b": [i % 3 == 0 for i in k]})
    options = {"data_storage_version": "legacy", "max_rows_per_group": 500}
    ds = lance.write_dataset(table, tmp_path / "d.lance", **options)
    (file,) = ds.get_fragments()[0].data_files()
    data = (tmp_path / "d.lance/data" / file.path).read_bytes()
    assert _fetched(data, 3, None) == (table, 1, pytest.approx(len(data), rel=0.02))
    found, requests, size = _fetched(data, 3, range(700, 900))
    assert found.equals(table.slice(700, 200))
    assert (requests, size < len(data) / 10) == (1, True)
    found, requests, size = _fetched(data, 3, np.array([3, 11_111, 17_000]))
    assert found.equals(table.take(pa.array([3, 11_111, 17_000])))
    assert (requests, size < len(data) / 5) == (1, True)
    # batches are larger than what is read in vain: of one column, the others are left out
    found, _, size = _fetched(data, 1, None, gap=10)
    assert found.equals(table.select(["n"]))
    assert size < len(data) / 2


def _read(data: bytes) -> bool:
    """Read everything in all ways; whatever comes out must be whole arrays."""
    try:
        reader = open_ours(data, "damaged.lance")
        fields = reader.columns
        if reader.num_rows > 1 << 20:
            return True  # a damaged count
        for rows in (None, range(3, 9), np.array([1, 5, 300])):
            table = reader.read(fields, rows)
            table.validate()
            for column in table.columns:
                column.combine_chunks().validate()
    except CorruptFileError as error:
        if "damaged.lance" not in str(error):
            raise AssertionError("the file is not named") from error
    except LancekitError:
        pass
    else:
        return True
    return False


@pytest.mark.torture
def test_damage_is_an_error_or_other_values(tmp_path: Path, whole: bool) -> None:
    data = _file(tmp_path / "d.lance")
    rng = np.random.default_rng(None if whole else 3)
    tables = len(data) - len(data) // 4  # the page table and all behind it
    survived = 0
    times = 20_000 if whole else 150
    for turn in range(times):
        place = int(rng.integers(0 if turn % 4 else tables, len(data)))
        damaged = bytearray(data)
        if turn % 3:
            damaged[place] ^= 1 << int(rng.integers(8))
        else:
            value = int(rng.choice([-1, 1 << 62, 1 << 31, len(data), 0, 255]))
            damaged[place : place + 8] = struct.pack("<q", value)[: len(data) - place]
        survived += _read(bytes(damaged))
    assert 0 < survived < times
    for size in rng.integers(0, len(data), times // 10).tolist():
        assert not _read(data[:size])


def test_counts_that_no_bytes_account_for(tmp_path: Path) -> None:
    lists = pa.array([[None] * 9000] * 8, pa.list_(pa.null()))
    ds = lance.write_dataset(pa.table({"l": lists}), tmp_path / "d", data_storage_version="legacy")
    (file,) = ds.get_fragments()[0].data_files()
    data = (tmp_path / "d/data" / file.path).read_bytes()
    rows = np.array([1, 5])
    reader = open_ours(data)
    assert reader.read(reader.columns, rows)["l"].to_pylist() == [[None] * 9000] * 2
    with (
        options(page_memory_bytes=10),
        pytest.raises(MemoryLimitError, match=r"places of 18,000 items would take 144,000 bytes"),
    ):
        open_ours(data).read(reader.columns, rows)


def test_damage_is_named(tmp_path: Path) -> None:
    data = _file(tmp_path / "d.lance")
    (at,) = struct.unpack_from("<q", data, len(data) - 16)
    (length,) = struct.unpack_from("<I", data, at)
    table = schema_pb2.Metadata.FromString(data[at + 4 : at + 4 + length]).page_table_position
    batches = -(-ROWS // 64)

    def changed(page: int, *numbers: int) -> None:
        """Put another position and length into the page table, and read."""
        broken = bytearray(data)
        struct.pack_into("<2q", broken, table + 16 * page, *numbers)
        reader = open_ours(bytes(broken))
        reader.read(reader.columns)

    with pytest.raises(CorruptFileError, match="column 'n' is damaged: a page is outside"):
        changed(0, len(data) + 1, 64)
    with pytest.raises(CorruptFileError, match="impossible length"):
        changed(0, 0, -1)
    with pytest.raises(CorruptFileError, match="a page has fewer rows than its batch"):
        changed(0, 0, 63)
    with pytest.raises(CorruptFileError, match="column 't' is damaged"):
        changed(2 * batches, 3, 64)
    with pytest.raises(CorruptFileError, match="pages are outside of the file, or overlap"):
        changed(0, len(data) - 1, 64)
    with pytest.raises(CorruptFileError, match="column 's' is damaged: a page has fewer rows"):
        changed(4 * batches, 0, 3)
