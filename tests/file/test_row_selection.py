"""Ranges and scattered rows equal slices of the whole, and read no more than they need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancekit._file.kernels.memory import recorded_scratch
from lancekit._file.kernels.row_selection import grouped
from lancekit._file.reader import FileReader
from lancekit._storage.places import open_store
from lancekit.errors import InvalidArgumentError, RowOutOfRangeError
from lancekit.options import options
from tests.file.columns import VERSIONS, assert_same, columns, with_nulls
from tests.file.lance_io import open_ours, write_ours, write_reference
from tests.file.nested import SHARES, share_of
from tests.support.memory_file import MemoryFile

ROWS = 1300


def _table() -> pa.Table:
    wide = ("[128]", "huge", "long")  # several pages of these come from small pages anyway
    return pa.table(
        {
            f"{name}, {nulls} null": with_nulls(array, nulls)
            for name, array in columns(ROWS)
            for nulls in ("none", "some")
            if nulls == "some" or not name.endswith(wide)
        }
    )


@pytest.fixture(scope="module", params=SHARES)
def table(request: pytest.FixtureRequest) -> pa.Table:
    return share_of(_table(), request.param)


@pytest.fixture(scope="module", params=[f"{w} {v}" for v in VERSIONS for w in ("ours", "theirs")])
def reader(
    request: pytest.FixtureRequest, table: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> FileReader:
    writer, version = request.param.split()
    if writer == "ours":
        return open_ours(write_ours(table, version, max_page_bytes=6000))
    return open_ours(write_reference(table, tmp_path_factory.mktemp("a") / "a.lance", version))


@pytest.mark.cover
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (0, 1024), (700, 705), (1023, 1026), (1199, ROWS)]
)
def test_ranges(reader: FileReader, table: pa.Table, start: int, stop: int) -> None:
    read = reader.read(reader.columns, range(start, stop))
    for name in table.column_names:
        assert_same(read[name], table[name].combine_chunks()[start:stop], name)


@pytest.mark.cover
@pytest.mark.parametrize("count", [1, 7, 300, 1000])
def test_scattered_rows(reader: FileReader, table: pa.Table, count: int) -> None:
    rows = np.sort(np.random.default_rng(count).choice(ROWS, count, replace=False))
    read = reader.read(reader.columns, rows)
    for name in table.column_names:
        assert_same(read[name], table[name].combine_chunks().take(pa.array(rows)), name)


@pytest.mark.cover
@pytest.mark.parametrize("batch_size", [400, 10_000])
def test_batches(reader: FileReader, table: pa.Table, batch_size: int) -> None:
    rows = np.arange(5, ROWS, 2)
    batches = list(reader.read_batches(reader.columns, rows, batch_size))
    assert [b.num_rows for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    read = pa.Table.from_batches(batches)
    for name in table.column_names:
        assert_same(read[name], table[name].combine_chunks().take(pa.array(rows)), name)


@st.composite
def _selections(draw: st.DrawFn) -> range | np.ndarray:
    if draw(st.booleans()):
        start, stop = sorted(draw(st.tuples(*[st.integers(0, ROWS)] * 2)))
        return range(start, stop)
    return np.array(sorted(draw(st.sets(st.integers(0, ROWS - 1), max_size=40))), np.int64)


@pytest.mark.cover
@settings(max_examples=15, derandomize=True)
@given(rows=_selections())
def test_any_selection(reader: FileReader, table: pa.Table, rows: range | np.ndarray) -> None:
    index = np.arange(ROWS)[rows]
    read = reader.read(reader.columns[::4], rows)
    for name in read.column_names:
        assert_same(read[name], table[name].combine_chunks().take(pa.array(index)), name)


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_only_what_is_asked_for(tmp_path: Path, version: str) -> None:
    rows = 200_000
    arrays = {name: pa.array(np.random.default_rng(1).random(rows)) for name in "abc"}
    file = MemoryFile(write_ours(pa.table(arrays), version))
    reader = FileReader.open(file)
    assert sum(length for _, length in file.reads) <= 1 << 16
    file.reads.clear()
    reader.read(reader.columns[1:2])
    column = sum(length for _, length in file.reads)
    assert column < 1.01 * rows * 8
    file.reads.clear()
    reader.read(reader.columns[1:2], np.array([17, 100_000]))
    assert sum(length for _, length in file.reads) < 50_000
    file.reads.clear()
    reader.read(reader.columns[1:2], range(5000, 6000))
    assert sum(length for _, length in file.reads) < 50_000


@pytest.mark.cover
def test_positions_are_checked(reader: FileReader) -> None:
    for rows in (range(0, ROWS + 1), np.array([0, ROWS]), np.array([-1, 4])):
        with pytest.raises(RowOutOfRangeError):
            reader.read(reader.columns, rows)
    for rows in (np.array([3, 3]), np.array([4, 2]), range(0, 10, 2), np.array([[1]])):
        with pytest.raises(InvalidArgumentError):
            reader.read(reader.columns, rows)


def test_entries_of_rows() -> None:
    assert grouped(range(2, 5), 3) == range(6, 15)
    assert np.asarray(grouped(np.array([0, 4]), 3)).tolist() == [0, 1, 2, 12, 13, 14]
    assert grouped(range(2, 5), 1) == range(2, 5)


@pytest.mark.cover
def test_no_columns_have_rows(reader: FileReader) -> None:
    assert reader.read([], range(0, 7)).num_rows == 7
    assert [b.num_rows for b in reader.read_batches([], range(0, 7), 4)] == [4, 3]


def _mapped(table: pa.Table, folder: Path) -> FileReader:
    """Return the reader of a file on a local disk, which is not read before it is looked at."""
    (folder / "a.lance").write_bytes(write_ours(table))
    with options(cache_bytes=0):  # it is decoding that is looked at, whatever is remembered
        return FileReader.open(open_store(str(folder)).open("a.lance"))


@pytest.mark.parametrize("item", ["float32", "uint8", "float16", "int64"])
@pytest.mark.parametrize("size", [1, 3, 4, 32])
def test_a_few_vectors_are_taken_from_where_they_lie(item: str, size: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    items = pa.array(rng.integers(0, 100, 40_000 * size), item)
    table = pa.table({"c": pa.FixedSizeListArray.from_arrays(items, size)})
    reader = _mapped(table, tmp_path)
    rows = np.sort(rng.choice(40_000, 300, replace=False))
    with recorded_scratch() as rooms:
        found = reader.read(reader.columns, rows)
    assert found.equals(table.take(pa.array(rows)))
    wanted = 300 * size * items.type.bit_width // 8
    assert sum(room for _, room in rooms) <= 2 * wanted


def test_pages_of_plain_values_are_read_as_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    table = pa.table({"c": rng.random(3_000_000)})
    reader = _mapped(table, tmp_path)
    assert len(reader.container.pages(0)) > 1
    rows = np.sort(rng.choice(3_000_000, 500, replace=False))
    found = reader.read(reader.columns, rows)
    assert found.column("c").num_chunks == 1
    assert found.equals(table.take(pa.array(rows)))
    assert reader.read(reader.columns).equals(table)
