"""Repetition and definition levels against a slow shredder that follows the format's text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancekit._file.encodings.request import Part
from lancekit._file.layouts.repdef_build import (
    Shredded,
    chunk_borders,
    expand,
    pack_levels,
    repetition_index,
    shred,
    values_that_fit,
)
from lancekit._format.pb import encodings_v21_pb2 as pb
from tests.support.twins import Counted, agreed

_INT = pa.int16()
_LIST = pa.list_(_INT)
_NUMBERS = {
    pb.ALL_VALID_ITEM: 0,
    pb.ALL_VALID_LIST: 0,
    pb.NULLABLE_ITEM: 1,
    pb.NULLABLE_LIST: 1,
    pb.EMPTYABLE_LIST: 1,
    pb.NULLABLE_EMPTYABLE_LIST: 2,
}


def _levels(made: Shredded) -> tuple[list[int], list[int]]:
    zeros = [0] * made.entries
    return (
        zeros if made.repetition is None else made.repetition.tolist(),
        zeros if made.definition is None else made.definition.tolist(),
    )


@pytest.mark.parametrize(
    ("rows", "kind", "depth", "layers", "repetition", "definition", "values"),
    [
        ([1, None], _INT, 0, [3], [0, 0], [0, 1], [1, None]),
        (
            [[1, None], None, [], [2]],
            _LIST,
            1,
            [3, 6],
            [1, 0, 1, 1, 1],
            [0, 1, 2, 3, 0],
            [1, None, 2],
        ),
        ([[1], [2, 3]], _LIST, 1, [1, 2], [1, 1, 0], [0, 0, 0], [1, 2, 3]),
        ([[], [1]], _LIST, 1, [1, 5], [1, 1], [1, 0], [1]),
        ([None, [1]], _LIST, 1, [1, 4], [1, 1], [1, 0], [1]),
        (
            [[[1, 2], []], [[3]]],
            pa.list_(_LIST),
            2,
            [1, 5, 2],
            [2, 0, 1, 2],
            [0, 0, 1, 0],
            [1, 2, 3],
        ),
        ([[None, [1]], []], pa.list_(_LIST), 2, [1, 4, 5], [2, 1, 2], [1, 0, 2], [1]),
        ([{"x": 1}, None], pa.struct([("x", _INT)]), 1, [3, 3], [0, 0], [0, 2], [1, None]),
        ([{"x": None}, None], pa.struct([("x", _INT)]), 1, [3, 3], [0, 0], [1, 2], [None, None]),
        ([{"x": [1]}, None], pa.struct([("x", _LIST)]), 2, [1, 4, 3], [1, 1], [0, 2], [1]),
    ],
)
def test_examples(
    rows: list[Any],
    kind: pa.DataType,
    depth: int,
    layers: list[int],
    repetition: list[int],
    definition: list[int],
    values: list[Any],
) -> None:
    made = shred(pa.array(rows, kind), depth)
    assert list(made.layers) == layers
    assert _levels(made) == (repetition, definition)
    assert made.values.to_pylist() == values


_KINDS = st.recursive(
    st.just(_INT),
    lambda kinds: st.one_of(
        kinds.map(pa.list_),
        kinds.map(pa.large_list),
        kinds.map(lambda kind: pa.struct([("x", kind)])),
    ),
    max_leaves=4,
)


def _rows(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({"x": _rows(kind.field(0).type)})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.none() | st.lists(_rows(kind.value_type), max_size=4)
    return st.none() | st.integers(0, 9)


def _depth(kind: pa.DataType) -> int:
    return 0 if kind == _INT else 1 + _depth(kind.field(0).type)


def _put_together(made: Shredded, kind: pa.DataType) -> list[Any]:
    """Return the rows that levels and values stand for, entry by entry."""
    kinds = []
    while True:
        kinds.append(kind)
        if kind == _INT:
            break
        kind = kind.field(0).type
    kinds.reverse()  # as the layers, innermost first
    lists = sum(map(_is_list, kinds))
    stops: dict[int, tuple[int, Any]] = {}
    for place, layer in enumerate(made.layers):
        if layer in {pb.NULLABLE_ITEM, pb.NULLABLE_LIST, pb.NULLABLE_EMPTYABLE_LIST}:
            stops[len(stops) + 1] = place, None
        if layer in {pb.EMPTYABLE_LIST, pb.NULLABLE_EMPTYABLE_LIST}:
            stops[len(stops) + 1] = place, []
    assert len(stops) == sum(_NUMBERS[layer] for layer in made.layers)
    values = iter(made.values.to_pylist())
    innermost = next((place for place, kind in enumerate(kinds) if _is_list(kind)), len(kinds))
    rows: list[Any] = []
    open_lists: dict[int, list[Any]] = {lists: rows}
    for repetition, definition in zip(*_levels(made), strict=True):
        place, value = stops[definition] if definition else (-1, None)
        if place < innermost:  # visible
            leaf = next(values)
            assert (leaf is None) == (definition > 0)
            value = leaf if definition == 0 else value
        level = sum(map(_is_list, kinds[: place + 1]))  # lists inside of where it stops
        for above in range(max(place, -1) + 1, len(kinds)):
            if _is_list(kinds[above]):
                level += 1
                if level > repetition:
                    open_lists[level - 1].append(value)
                    break
                value = [value]
                open_lists[level - 1] = value
            elif above > 0 and pa.types.is_struct(kinds[above]):
                value = {"x": value}
        else:
            rows.append(value)
    return rows


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


@settings(max_examples=300, derandomize=True)
@given(data=st.data(), offset=st.integers(0, 2))
def test_levels_say_what_the_rows_are(data: st.DataObject, offset: int) -> None:
    kind = data.draw(_KINDS)
    rows = data.draw(st.lists(_rows(kind), min_size=1, max_size=9))
    array = pa.array(rows, kind).slice(offset)
    made = shred(array, _depth(kind))
    assert _put_together(made, kind) == array.to_pylist()
    assert made.rows == len(array)
    slots = made.entries if made.slots is None else len(made.slots)
    assert slots == len(made.values)


def test_fixed_size_lists_of_structs_repeat_their_rows() -> None:
    structs = pa.array([{"x": 1}, None, {"x": 3}, {"x": 4}, None, None], pa.struct([("x", _INT)]))
    array = pa.FixedSizeListArray.from_arrays(structs, 2, mask=pa.array([False, True, False]))
    made = shred(array, 2)
    assert made.rows == 6
    assert made.definition is not None
    assert made.definition.tolist() == [0, 2, 3, 3, 2, 2]
    assert made.values.to_pylist() == [1, None, None, None, None, None]


# ---- chunks of levels


def _unpacked(encoding: pb.CompressiveEncoding, parts: list[Part], counts: Any) -> list[int]:
    """Decode the levels of every chunk, one at a time."""
    out: list[int] = []
    at = [0] * len(parts)
    for chunk, count in enumerate(counts):
        data = b""
        for place, part in enumerate(parts):
            size = int(part.lengths[chunk])
            data += part.data[at[place] : at[place] + size].tobytes()
            at[place] += size
        out += _one_chunk(encoding, data, int(count))
    return out


def _one_chunk(encoding: pb.CompressiveEncoding, data: bytes, count: int) -> list[int]:
    if encoding.HasField("flat"):
        return np.frombuffer(data, "<u2").tolist()
    if encoding.HasField("rle"):
        size = int.from_bytes(data[:8], "little")
        values = np.frombuffer(data[8 : 8 + size], "<u2")
        return np.repeat(values, np.frombuffer(data[8 + size :], np.uint8)).tolist()
    width = encoding.out_of_line_bitpacking.values.flat.bits_per_value
    words = np.frombuffer(data, "<u2")
    out: list[int] = []
    while count - len(out) >= 1024 or (count > len(out) and len(words) >= 64 * width):
        if len(words) == count - len(out) < 1024:
            break
        out += _block(words[: 64 * width], width)[: count - len(out)]
        words = words[64 * width :]
    return out + words.tolist()


def _block(words: Any, width: int) -> list[int]:
    """Unpack 1024 16-bit values bit by bit, by the formula of the format."""
    values = np.zeros(1024, int)
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    for row in range(16):
        for lane in range(64):
            value = 0
            for bit in range(width):
                place = row * width + bit
                word = int(words[place // 16 * 64 + lane])
                value |= (word >> place % 16 & 1) << bit
            values[16 * order[row // 8] + 128 * (row % 8) + lane] = value
    return values.tolist()


@pytest.mark.parametrize("large_chunks", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "counts", [[3, 500], [1024, 1024, 17], [5000, 1, 0, 900], [2047, 2048, 60]], ids=str
)
@pytest.mark.parametrize("runs", [False, True])
def test_levels_of_chunks(large_chunks: bool, most: int, counts: list[int], runs: bool) -> None:
    rng = np.random.default_rng(most)
    levels = rng.integers(0, most + 1, sum(counts)).astype(np.uint8)
    levels[0] = most
    if runs:
        levels = np.sort(levels)
    borders = np.concatenate(([0], np.cumsum(counts)))
    encoding, parts = pack_levels(levels, borders, large_chunks=large_chunks)
    assert encoding.HasField("rle") == (runs and large_chunks and sum(counts) > 512)
    assert _unpacked(encoding, parts, counts) == levels.tolist()


def test_chunks_end_behind_their_last_value() -> None:
    made = shred(pa.array([[1, 2], [], [], [3], None, [4, 5], []], _LIST), 1)
    assert chunk_borders(made, np.array([2, 2, 1])).tolist() == [0, 2, 7, 9]


def test_the_repetition_index() -> None:
    """Rows that end in a chunk, and the entries of a row that goes on."""
    made = shred(pa.array([[1, 2, 3], [4], [5, 6, 7, 8, 9]], _LIST), 1)
    assert made.repetition is not None
    stored = repetition_index(made.repetition, 1, np.array([0, 2, 4, 6, 8, 9]))
    pairs = np.frombuffer(stored, "<u8").reshape(-1, 2).tolist()
    assert pairs == [[0, 2], [2, 0], [0, 2], [0, 2], [1, 0]]


def test_chunks_have_no_more_levels_than_fit() -> None:
    sparse = np.zeros(400_000, np.int64)
    sparse[::500] = 1
    offsets = pa.array(np.concatenate(([0], np.cumsum(sparse))), pa.int32())
    items = pa.array(np.arange(int(sparse.sum())))
    made = shred(pa.ListArray.from_arrays(offsets, items), 1)
    assert values_that_fit(made, large_chunks=True) == 64
    assert values_that_fit(made, large_chunks=False) == 64
    assert values_that_fit(shred(pa.array([[1]] * 9), 1), large_chunks=True) == 1 << 15
    nothing = np.full(100_001, 1)
    nothing[0] = 0
    made = shred(pa.ListArray.from_arrays(pa.array(nothing, pa.int32()), items), 1)
    assert values_that_fit(made, large_chunks=True) is None


@given(data=st.data(), offset=st.integers(0, 2))
def test_the_kernel_makes_the_same_levels(kernels: object, data: Any, offset: int) -> None:
    kind = data.draw(_KINDS)
    array = pa.array(data.draw(st.lists(_rows(kind), min_size=offset)), kind).slice(offset)
    agreed(lambda: shred(array, _depth(kind)))


def test_the_kernel_has_a_part_in_it(kernels: object, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[[1, None], [], None], None, [], [[2]]]
    counted = Counted(monkeypatch, expand)
    made = agreed(lambda: shred(pa.array(rows, pa.list_(_LIST)), 2))
    assert made
    assert counted.good == counted.calls == 2
