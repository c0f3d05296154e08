"""Rows of one chunk come out the same as the general way decodes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.container.footer import StoredPage
from lancekit._file.encodings import decode
from lancekit._file.kernels.faults import Damaged, Unsupported
from lancekit._file.layouts.field_tree import Leaf
from lancekit._file.layouts.miniblock_decode import MiniBlockPages
from lancekit._format.pb import encodings_v21_pb2 as pb
from tests.file.columns import assert_same, columns, with_nulls
from tests.file.lance_io import open_ours, write_ours, write_reference

ROWS = 5000
SKIPPED = ("duration", "time", "date", "large", "uint", "decimal256", "binary(", "int16")


def _files(tmp_path: Path, version: str, rows: int, turn: int) -> Iterator[tuple[str, bytes]]:
    """Yield a file of each column by each writer; of the two one has nulls, each in its turn."""
    for place, (name, array) in enumerate(columns(rows)):
        if name.startswith(SKIPPED) or "128]" in name or "huge" in name or "int64[" in name:
            continue
        nulls = ("none", "some") if (place + turn) % 2 else ("some", "none")
        ours, theirs = (pa.table({"c": with_nulls(array, these)}) for these in nulls)
        yield f"ours {name} {nulls[0]}", write_ours(ours, version)
        yield f"theirs {name} {nulls[1]}", write_reference(theirs, tmp_path / "a.lance", version)
    # general compression, and a dictionary
    text = pa.array([f"some text {k % 90} and more of it" for k in range(rows)])
    metadata = {"lance-encoding:compression": "zstd"}
    table = pa.table([text], schema=pa.schema([pa.field("c", text.type, metadata=metadata)]))
    yield "compressed", write_reference(table, tmp_path / "a.lance", version)
    yield "dictionary", write_ours(pa.table({"c": text.dictionary_encode()}), version)


def _pages(data: bytes) -> Iterator[tuple[StoredPage, pb.MiniBlockLayout, pa.DataType]]:
    reader = open_ours(data)
    for stored in reader.container.pages(0):
        encoding: Any = stored.encoding
        if encoding.WhichOneof("layout") == "mini_block":
            yield stored, encoding.mini_block, reader.schema.field(0).type


def _ranges(rng: np.random.Generator, first: int, last: int) -> Iterator[range]:
    """Yield the whole chunk, a row at either end, and some in between."""
    yield range(first, last)
    yield range(first, first + 1)
    yield range(last - 1, last)
    start, stop = sorted(rng.choice(last - first + 1, 2, replace=False).tolist())
    yield range(first + start, first + stop)


@pytest.mark.cover
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("turn", [0, 1])
def test_same_as_the_general_way(tmp_path: Path, version: str, turn: int) -> None:
    rng = np.random.default_rng(5)
    seen = set()
    for name, data in _files(tmp_path, version, ROWS, turn):
        for stored, layout, kind in _pages(data):
            decoder = MiniBlockPages([(stored.page, layout)], kind)
            seen.add(layout.value_compression.WhichOneof("compression"))
            borders = decoder._chunks.rows
            for chunk in {0, len(borders) // 2 - 1, len(borders) - 2}:
                if chunk < 0 or borders[chunk] == borders[chunk + 1]:
                    continue
                for rows_wanted in _ranges(rng, int(borders[chunk]), int(borders[chunk + 1])):
                    assert decoder._single(rows_wanted) is not None, name
                    fast, general = decoder.leaf(rows_wanted), decoder._decode_many(rows_wanted)
                    assert_same(fast.values, general.values, name)
                    assert fast.levels.count == general.levels.count
                    assert _words(fast) == _words(general), name
    assert seen >= {*decode._CHUNK, "fixed_size_list"}


@pytest.mark.cover
@pytest.mark.parametrize("rows", [100, ROWS])
@pytest.mark.parametrize("turn", [0, 1])
def test_where_the_first_chunk_lies(tmp_path: Path, rows: int, turn: int) -> None:
    """It is found without arrays of all, at the same place."""
    for name, data in _files(tmp_path, "2.1", rows, turn):
        for stored, layout, kind in _pages(data):
            decoder = MiniBlockPages([(stored.page, layout)], kind)
            start, size, values = decoder._first
            chunks = decoder._chunks
            assert (start, start + size) == (chunks.starts[0], chunks.stops[0]), name
            assert values == chunks.rows[1], name


@pytest.mark.sample(1)
@pytest.mark.parametrize("turn", [0, 1])
def test_damage_is_found_in_either_way(tmp_path: Path, turn: int) -> None:
    """What one way refuses is refused by the other, for a flipped byte anywhere in a chunk."""
    rng = np.random.default_rng(1)
    for name, data in _files(tmp_path, "2.2", 100, turn):
        for stored, _, _ in _pages(data):
            start, size = stored.page.positions[1], stored.page.sizes[1]
            for place in {
                *range(start, start + 8),
                *rng.integers(start, start + size, 8).tolist(),
            }:
                damaged = bytearray(data)
                damaged[place] ^= 1 << int(rng.integers(0, 8))
                for page, layout, kind in _pages(bytes(damaged)):
                    decoder = MiniBlockPages([(page.page, layout)], kind)
                    rows = range(0, page.page.length)
                    fast, general = _read(decoder.leaf, rows), _read(decoder._decode_many, rows)
                    assert (fast is None) == (general is None), (name, place - start)
                    if fast is not None and general is not None:
                        assert_same(fast, general, name)


def _words(leaf: Leaf) -> bytes | None:
    definition = leaf.levels.definition
    return None if definition is None else definition.tobytes()


def _read(read: Callable[[range], Leaf], rows: range) -> pa.Array | None:
    try:
        values = read(rows).values
        values.validate(full=True)
    except (Damaged, Unsupported, ValueError, IndexError, pa.ArrowException):
        return None
    return values
