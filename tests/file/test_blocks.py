"""Decoded rows that are remembered are those that the file has, in memory of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._arrow_values import arrow_of
from lancekit._cache import _cache
from lancekit._file.columns import blocks
from lancekit._file.kernels.memory import owned, recorded_scratch, scratch
from lancekit._file.reader import FileReader
from lancekit._storage.objects import MERGED_GAP_BYTES
from lancekit.errors import CorruptFileError
from tests.file.columns import NULLS, VERSIONS, assert_same, columns, with_nulls
from tests.file.lance_io import write_ours, write_reference
from tests.file.nested import SHARES, assert_same_nested, nested_table, share_of
from tests.support.memory_file import CountedFile, MemoryFile
from tests.support.remembering import small_blocks

ROWS = 1500


@pytest.fixture(autouse=True)
def _small_blocks() -> Iterator[None]:
    with small_blocks(256):
        yield


class Plain(CountedFile):
    """A file that nothing is known of."""

    def __init__(self, data: bytes, *, remote: bool) -> None:
        super().__init__(data)
        self.gap = MERGED_GAP_BYTES if remote else sys.maxsize


class Known(Plain):
    """A file that is remembered."""

    def __init__(self, data: bytes, *, remote: bool) -> None:
        super().__init__(data, remote=remote)
        self.identity: Any = ("a file", hash(data))


def flat_table(rows: int, nulls: str) -> pa.Table:
    return pa.table({name: with_nulls(array, nulls) for name, array in columns(rows)})


_RNG = np.random.default_rng(3)
WHOLE, SOME, FEW = range(ROWS), range(200, 900), np.array([0, 5, 255, 256, 1499])
APART = np.sort(_RNG.choice(ROWS, 500, replace=False))
LAST = range(1499, 1500)
ORDERS = ([WHOLE, WHOLE, SOME, APART, FEW], [APART, APART, SOME, FEW, LAST, WHOLE])


def opened(file: Plain, rows: Any) -> pa.Table:
    """Return some rows of a file that is opened for them."""
    reader = FileReader.open(file)
    return reader.read(reader.columns, rows)


def compare(data: bytes, same: Callable[[Any, Any, str], None], *, remote: bool) -> int:
    """Read again and again, each time as one who opens the file, with the cache and without.

    Returns how often a block was found.
    """
    without: dict[int, tuple[Plain, pa.Table]] = {}
    for order in ORDERS:
        lk.clear_cache()
        for rows in order:
            known, plain = Known(data, remote=remote), Plain(data, remote=remote)
            if id(rows) not in without:
                without[id(rows)] = plain, opened(plain, rows)
            plain, expected = without[id(rows)]
            found = opened(known, rows)
            assert found.schema.equals(expected.schema, check_metadata=True)
            for name, mine, other in zip(
                expected.column_names, found.columns, expected.columns, strict=True
            ):
                if not mine.equals(other):  # as NaN is not
                    same(mine, other.combine_chunks(), f"{name}, {rows}")
            if remote:
                assert known.requests <= plain.requests
    use = lk.cache_info().kinds.get("values")
    return use.hits if use else 0


@pytest.mark.cover
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_nested_values_equal_those_of_the_file(
    tmp_path: Path, version: str, share: int, remote: bool
) -> None:
    table = share_of(nested_table(ROWS, version), share)
    data = write_reference(table, tmp_path / "a.lance", version)
    assert compare(data, assert_same_nested, remote=remote) > 0


@pytest.mark.cover
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("nulls", "remote"),
    [*((nulls, False) for nulls in NULLS), ("some", True)],
    ids=lambda value: {False: "local", True: "remote"}.get(value, value),
)
def test_values_equal_those_of_the_file(version: str, nulls: str, remote: bool) -> None:
    hits = compare(write_ours(flat_table(ROWS, nulls), version), assert_same, remote=remote)
    assert hits > 0 or nulls == "all"  # which takes no decoding


def table(rows: int = 4096) -> pa.Table:
    return pa.table({"x": np.arange(rows) % 999, "s": [f"row {i % 77}" for i in range(rows)]})


def read(data: bytes, rows: Any = None) -> tuple[pa.Table, Known]:
    file = Known(data, remote=False)
    reader = FileReader.open(file)
    return reader.read(reader.columns, rows), file


def kept() -> int:
    use = lk.cache_info().kinds.get("values")
    return use.entries if use else 0


def test_what_is_read_once_is_not_kept() -> None:
    data = write_ours(table())
    for start in range(0, 4096, 100):  # blocks are read in two halves
        read(data, range(start, min(start + 100, 4096)))
    assert kept() == 0
    read(data)
    assert kept() == 32
    _, file = read(data)
    assert kept() == 32
    assert not [start for start, _ in file.reads if start < 4096]


def test_rows_apart_decode_their_blocks_once_they_have_taken_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "_APART", 16)
    data = write_ours(table())
    for _ in range(4):
        read(data, np.arange(0, 4096, 64))  # four of each block
    assert kept() == 0
    read(data, np.array([3, 700]))
    assert kept() == 4  # two of each column
    read(data, np.arange(0, 4096, 64))
    assert kept() == 32


def test_a_scan_that_does_not_fit_drives_nothing_out() -> None:
    small, large = write_ours(table(512)), write_ours(table(1 << 15))
    for _ in range(2):
        read(small)
    mine = kept()
    assert mine == 4
    info = lk.cache_info()
    lk.options.cache_bytes = info.bytes + 30_000
    for _ in range(4):
        read(large)
    before = lk.cache_info().kinds["values"].hits
    read(small)
    assert lk.cache_info().kinds["values"].hits == before + mine


def test_what_is_kept_owns_its_memory() -> None:
    whole = flat_table(ROWS, "some")
    data = write_ours(whole)
    for _ in range(3):
        _, file = read(data)
    held = file.read(0, file.size())
    arrays = [value for kind, _, value in _cache._entries[True].values() if kind == "values"]
    assert len(arrays) > 50
    for array in arrays:
        for buffer in filter(None, array.buffers()):
            assert not held.address <= buffer.address < held.address + held.size
        room = 64 * len(array.buffers()) + 64
        assert array.get_total_buffer_size() <= 1.1 * array.nbytes + room


def test_a_page_that_is_damaged_behind_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_MOST_ROWS", 1 << 16)
    data = bytearray(write_ours(pa.table({"s": [f"{i * 7919} of {i}" for i in range(20000)]})))
    reader = FileReader.open(MemoryFile(bytes(data)))
    (page,) = reader.container.pages(0)
    place, size = page.page.positions[1], page.page.sizes[1]
    data[place + size - 600 : place + size - 100] = bytes(500)
    whole = bytes(data)
    with pytest.raises(CorruptFileError):
        read(whole)
    for _ in range(4):
        found, _ = read(whole, range(1000))
        assert found["s"][0].as_py() == "0 of 0"
    for _ in range(3):
        with pytest.raises(CorruptFileError):
            read(whole)


def test_a_type_is_told_from_one_with_other_marks() -> None:
    plain = pa.struct({"a": pa.int64()})
    marked = pa.struct([pa.field("a", pa.int64(), metadata={"k": "v"})])
    assert blocks._name(plain) != blocks._name(marked)
    assert blocks._name(pa.timestamp("us", "UTC")) != blocks._name(pa.timestamp("us"))


def test_memory_that_was_set_aside_for_rows_is_kept_as_it_is() -> None:
    with recorded_scratch() as rooms:
        fits, wide = scratch(8000).view(np.int64), scratch(16_000).view(np.int64)
    elsewhere = scratch(8000).view(np.int64)
    for values, copied in ((fits, False), (wide[:1000], True), (elsewhere, True)):
        values[:] = 7
        array = arrow_of(values)
        mine = owned(array, rooms)
        assert mine == array
        assert (mine.buffers()[1].address != array.buffers()[1].address) is copied
        keyed = pa.DictionaryArray.from_arrays(array, pa.array(list("abcdefgh")))
        mine = owned(keyed, rooms)
        assert mine == keyed
        assert (mine.indices.buffers()[1].address != array.buffers()[1].address) is copied
