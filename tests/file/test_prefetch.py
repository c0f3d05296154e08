"""Small pages of many columns are fetched together where every read is a request."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.container.prefetch import PrefetchedSource
from lancekit._file.reader import FileReader
from lancekit.errors import CorruptFileError
from lancekit.options import options
from tests.file.columns import VERSIONS
from tests.file.lance_io import write_ours
from tests.support.memory_file import CountedFile, MemoryFile

COLUMNS = 300


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _table(columns: int = COLUMNS, rows: int = 50) -> pa.Table:
    rng = np.random.default_rng(6)
    kinds = [
        lambda: pa.array(rng.integers(0, 99, rows)),
        lambda: pa.array([None if k % 3 else f"text {k}" for k in range(rows)]),
        lambda: pa.array([{"a": k, "b": k / 2} for k in range(rows)]),
        lambda: pa.array([[k] * (k % 4) for k in range(rows)]),
    ]
    return pa.table({f"c{place}": kinds[place % 4]() for place in range(columns)})


def test_a_wide_file_takes_few_requests(version: str) -> None:
    table = _table()
    file = CountedFile(write_ours(table, version))
    reader = FileReader.open(file)
    wanted = reader.columns
    opened = file.requests
    assert reader.read(wanted) == table
    # metadata, pages, and in 2.0 the offsets of lists, without which no page of items is known
    lists = COLUMNS // 4 if version == "2.0" else 0
    assert file.requests - opened <= 2 + 4 * lists
    for rows in (range(3, 9), np.array([1, 30, 49])):
        before = file.requests
        expected = table.slice(3, 6) if isinstance(rows, range) else table.take(pa.array(rows))
        assert reader.read(wanted, rows) == expected
        assert file.requests - before <= 1 + 4 * lists


def test_only_what_is_wanted_is_fetched(version: str) -> None:
    table = _table()
    file = CountedFile(write_ours(table, version))
    reader = FileReader.open(file)
    wanted = reader.columns[8::200]
    file.reads.clear()
    assert reader.read(wanted) == table.select([8, 208])
    assert sum(length for _, length in file.reads) < 40_000


def test_checked_pages_come_from_what_is_held(version: str) -> None:
    table = _table(40)
    data = bytearray(write_ours(table, version, checksums=True))
    file = CountedFile(bytes(data))
    with options(verify_checksums=True):
        reader = FileReader.open(file)
        before = file.requests
        assert reader.read(reader.columns) == table
        assert file.requests - before <= 2 + 4 * 10 * (version == "2.0")
        data[reader.container.pages(0)[0].page.positions[-1]] ^= 1
        damaged = FileReader.open(MemoryFile(bytes(data)))
        with pytest.raises(CorruptFileError, match="'c0', page 0"):
            damaged.read(damaged.columns)


def test_what_is_held_ends_with_the_block() -> None:
    file = CountedFile(bytes(range(200)) * 100)
    shelf = PrefetchedSource(file)
    with shelf.prefetch([(10, 5), (9000, 20), (40, 0), (12, 10)]):
        assert file.requests == 1
        assert bytes(shelf.read(11, 9)) == bytes(range(11, 20))
        parts = shelf.read_many([(9005, 4), (10, 2)])
        assert [bytes(part) for part in parts] == [bytes(range(5, 9)), bytes(range(10, 12))]
        assert file.requests == 1
        assert bytes(shelf.read(9010, 20)) == bytes(range(10, 30))  # beyond
        assert bytes(shelf.read(3, 2)) == b"\x03\x04"  # before
        assert file.requests == 3
        shelf.read_many([(10, 2), (500, 1)])
        assert file.requests == 4
    shelf.read(10, 5)
    assert file.requests == 5


def _tall(rows: int = 60_000) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table({name: pa.array(rng.random(rows)) for name in "abc"})


def test_a_file_that_one_read_brings_whole_is_not_asked_again(version: str) -> None:
    table = _tall(500)
    file = CountedFile(write_ours(table, version))
    reader = FileReader.open(file)
    assert file.requests == 1
    assert reader.read(reader.columns) == table
    assert reader.read(reader.columns, np.array([3, 400])) == table.take(pa.array([3, 400]))
    assert file.requests == 1


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_are_asked_for_once_if_most_of_them_are_wanted(version: str) -> None:
    table = _tall()
    wanted = np.arange(7, len(table), 31)
    for rows, requests in ((None, 1), (range(10, 20), 1), (wanted, 1), (range(0), 0)):
        file = CountedFile(write_ours(table, version))
        reader = FileReader.open(file)
        opened = file.requests
        found = reader.read(reader.columns, rows)
        chosen = range(len(table)) if rows is None else rows
        assert found == table.take(pa.array(chosen, pa.int64()))
        assert file.requests - opened == requests, rows


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_of_pages_of_which_little_is_wanted_little_is_fetched(version: str) -> None:
    table = _tall()
    file = CountedFile(write_ours(table, version))
    reader = FileReader.open(file)
    for rows in (np.array([5, 40_000]), range(30_000, 31_000), range(50)):
        file.reads.clear()
        assert reader.read(reader.columns, rows) == table.take(pa.array(rows))
        assert sum(length for _, length in file.reads) < 3 * 50_000
