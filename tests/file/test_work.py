"""Small pages of several columns are decoded as one, and each column gets what is its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import options
from lancekit._file.columns import work
from lancekit._file.reader import FileReader
from lancekit._storage import base
from lancekit.errors import CorruptFileError, MemoryLimitError
from tests.file.columns import NULLS, assert_same, columns, with_nulls
from tests.file.lance_io import write_ours, write_reference
from tests.file.nested import SHARES, assert_same_nested, nested_columns, nested_field
from tests.support.memory_file import MemoryFile

ROWS, COPIES = 300, 3
_RNG = np.random.default_rng(3)
SELECTIONS = [None, range(20, 290), np.sort(_RNG.choice(ROWS, 40, replace=False)), np.array([7])]


class Local(MemoryFile):
    """A file whose reads cost nothing, as those of a mapped one."""

    gap = sys.maxsize


def opened(data: bytes) -> FileReader:
    return FileReader.open(Local(data, "wide.lance"))


def rolled(array: pa.Array, times: int) -> pa.Array:
    """Return the values from another one on, so that no two columns are the same."""
    return pa.concat_arrays([array[times:], array[:times]])


def flat_table(nulls: str) -> pa.Table:
    return pa.table(
        {
            f"{name} {copy}": rolled(with_nulls(array, nulls), copy)
            for name, array in columns(ROWS)
            if not (nulls == "all" and "any bits" not in name)
            for copy in range(COPIES)
        }
    )


def nested_table(share: int) -> pa.Table:
    named = list(nested_columns(ROWS, "2.2"))[share :: len(SHARES)]
    found = {
        f"{name} {copy}": (nested_field(name, array), rolled(array, copy))
        for name, array in named
        for copy in range(COPIES)
    }
    schema = pa.schema([field.with_name(name) for name, (field, _) in found.items()])
    return pa.table([array for _, array in found.values()], schema=schema)


def check(data: bytes, same: Callable[[Any, Any, str], None]) -> None:
    """Compare what is read of all columns at once with what is read of one after the other."""
    reader = opened(data)
    for rows in SELECTIONS:
        together = reader.read(reader.columns, rows)
        for column, mine in zip(reader.columns, together.columns, strict=True):
            alone = reader.read([column], rows).column(0)
            if not mine.equals(alone):  # as NaN is not
                same(mine, alone.combine_chunks(), f"{column.field.name}, {rows}")


@pytest.mark.cover
@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
def test_flat_columns(tmp_path: Path, nulls: str, theirs: bool) -> None:
    table = flat_table(nulls)
    data = write_reference(table, tmp_path / "a.lance", "2.1") if theirs else write_ours(table)
    check(data, assert_same)


@pytest.mark.cover
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
def test_nested_columns(tmp_path: Path, share: int, theirs: bool) -> None:
    table = nested_table(share)
    path = tmp_path / "a.lance"
    data = write_reference(table, path, "2.2") if theirs else write_ours(table, "2.2")
    check(data, assert_same_nested)


def numbers(count: int = 50) -> pa.Table:
    return pa.table({f"c{number}": _RNG.random(ROWS) for number in range(count)})


def test_alike_pages_have_one_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    table, made = numbers(), []
    reader = opened(write_ours(table))
    decoder_of = work.decoder_of
    monkeypatch.setattr(work, "decoder_of", lambda *given: made.append(1) or decoder_of(*given))
    assert reader.read(reader.columns).equals(table)
    assert len(made) == 1
    # and no more are decoded at a time than what a result may keep in memory
    monkeypatch.setattr(work, "_MOST_ROWS", 10 * ROWS)
    assert reader.read(reader.columns).equals(table)
    assert len(made) == 1 + 5


def test_what_is_remembered_of_some_columns_is_no_other_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files on a disk are remembered; each choice here has the same first column, and as many."""
    lists = [[k] * (k % 5) for k in range(ROWS)]
    table = pa.table({f"c{k}": rolled(pa.array(lists), k * k) for k in range(9)})
    monkeypatch.setattr(base, "SETTLED_SECONDS", -1.0)
    ds = lk.write_dataset(table, tmp_path / "d")
    choices = [[0, 1, 2, 3], [0, 4, 5, 6], [0, 2, 7, 8]]
    for rows in ([7], [60, 250], [3, 4, 290]):
        for choice in choices:
            names = [f"c{k}" for k in choice]
            assert ds.take(rows, names).equals(table.select(names).take(rows)), (rows, names)


def test_a_damaged_page_among_many_is_named() -> None:
    data = bytearray(write_ours(pa.table({f"c{k}": [str(k)] * 3 + ["b"] for k in range(9)})))
    reader = opened(bytes(data))
    (stored,) = reader.container.pages(4)
    chunk = stored.page.positions[1]
    data[chunk : chunk + 8] = b"\xff" * 8
    damaged = opened(bytes(data))
    with pytest.raises(CorruptFileError, match=r"wide\.lance, column 'c4', page 0"):
        damaged.read(damaged.columns)
    whole = [column for column in damaged.columns if column.field.name != "c4"]
    assert damaged.read(whole).num_columns == 8


def test_a_page_may_take_no_more_than_it_may_alone(tmp_path: Path) -> None:
    """Compressed texts whose bytes are few, each page far below the limit, and one above it."""
    field = {"lance-encoding:compression": "zstd"}
    texts = {f"c{k}": ["x" * 50_000 * (40 if k == 5 else 1)] * 2 for k in range(8)}
    schema = pa.schema([pa.field(name, pa.string(), metadata=field) for name in texts])
    data = write_reference(pa.table(texts, schema=schema), tmp_path / "a.lance", "2.1")
    with options(page_memory_bytes=1 << 20):
        reader = opened(data)
        with pytest.raises(MemoryLimitError, match="column 'c5'"):
            reader.read(reader.columns)
        reader.read([column for column in reader.columns if column.field.name != "c5"])


def test_a_damaged_level_moves_no_values_of_other_columns() -> None:
    lists = pa.array([[k % 50] * (k % 3) if k % 7 else None for k in range(ROWS)])
    table = pa.table({f"c{k}": rolled(lists, k) for k in range(6)})
    data = write_ours(table)
    (stored,) = opened(data).container.pages(2)
    others, rows = [f"c{k}" for k in range(6) if k != 2], np.arange(0, ROWS, 7)
    first = stored.page.positions[1]
    for place in range(first, first + stored.page.sizes[1], 5):
        damaged = bytearray(data)
        damaged[place] ^= 1
        reader = opened(bytes(damaged))
        try:
            found = reader.read(reader.columns, rows)
        except CorruptFileError as error:
            assert "column 'c2" in str(error)  # noqa: PT017  # or it is a value that is another
        else:
            assert found.select(others).equals(table.select(others).take(rows)), place


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_damage_is_met_as_if_each_column_were_read_alone(tmp_path: Path, writer: str) -> None:
    rng = np.random.default_rng(5)
    lists = [[f"of {k}"] * (k % 3) if k % 7 else None for k in range(ROWS)]
    table = pa.table({f"c{k}": rolled(pa.array(lists), k) for k in range(6)})
    data = write_ours(table) if writer == "ours" else write_reference(table, tmp_path / "a", "2.1")
    end = opened(data).container.column_table[0][0]
    outcomes = set()
    for place in rng.integers(0, end, 80).tolist():
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        found = []
        for columns_at_once in (6, 1):
            try:
                reader = opened(bytes(damaged))
                fields = reader.columns
                parts = [
                    reader.read(fields[start : start + columns_at_once])
                    for start in range(0, 6, columns_at_once)
                ]
                found.append([column for part in parts for column in part.columns])
            except CorruptFileError as error:
                found.append(str(error))
        assert found[0] == found[1]
        outcomes.add(type(found[0]))
    assert outcomes == {list, str}
