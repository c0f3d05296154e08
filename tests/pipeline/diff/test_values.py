"""Values are the same or not, of any type, alone and as digests of rows."""

from __future__ import annotations

import math
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._pipeline.diff.values import Seeds, differing, digests
from tests.file.columns import columns, with_nulls
from tests.file.nested import nested_columns

FLOATS = st.sampled_from([0.0, -0.0, 1.5, math.nan, struct.unpack("d", b"\1" * 7 + b"\xff")[0]])
NESTED = pa.list_(pa.struct([("x", pa.float64()), ("t", pa.list_(pa.string()))]))


def plain(value: Any) -> Any:
    """Return a value that equals others as values of tables do."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


@st.composite
def nested_pairs(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    texts = st.lists(st.sampled_from(["", "a", "b", None]), max_size=2)
    item = st.fixed_dictionaries({"x": st.none() | FLOATS, "t": st.none() | texts})
    value = st.none() | st.lists(st.none() | item, max_size=3)
    pairs = draw(st.lists(st.tuples(value, value), min_size=1, max_size=8))
    return [a for a, _ in pairs], [b for _, b in pairs]


@given(nested_pairs(), st.integers(0, 3))
def test_nested_values_differ_as_their_parts_do(
    pairs: tuple[list[Any], list[Any]], skip: int
) -> None:
    old, new = (pa.array([None] * skip + values, NESTED)[skip:] for values in pairs)
    expected = [plain(a) != plain(b) for a, b in zip(*pairs, strict=True)]
    assert differing(old, new).tolist() == expected
    seeds = Seeds.drawn()
    found, other = digests([old], seeds), digests([new], seeds)
    unlike = (found.first != other.first) | (found.second != other.second)
    assert unlike.tolist() == expected


@given(st.lists(st.tuples(st.none() | FLOATS, st.none() | FLOATS), min_size=1))
def test_floats_differ_by_what_they_are(pairs: list[tuple[Any, Any]]) -> None:
    expected = [plain(a) != plain(b) for a, b in pairs]
    for kind in (pa.float64(), pa.float32(), pa.float16()):
        old, new = (pa.array(side, pa.float64()).cast(kind) for side in zip(*pairs, strict=True))
        assert differing(old, new).tolist() == expected


def listed(array: pa.Array) -> list[Any]:
    """Return values for Python, times that it does not know as numbers."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return [plain(value) for value in array.to_pylist()]


EVERY = {
    **{name: with_nulls(array, "some") for name, array in columns(64)},
    **dict(nested_columns(64, "2.2")),
}


@pytest.mark.parametrize("name", EVERY)
def test_values_of_every_type_are_those_of_a_copy(name: str) -> None:
    array = EVERY[name]
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    shifted = pa.concat_arrays([array[:1], array])[1:]  # at other offsets
    assert not differing(array, shifted).any()
    seeds = Seeds.drawn()
    ours, theirs = digests([array], seeds), digests([shifted], seeds)
    assert (ours.first == theirs.first).all()
    assert (ours.second == theirs.second).all()
    turned = array.take(pa.array(np.roll(np.arange(len(array)), 1)))
    with suppress(OverflowError, ValueError):  # lists of times that Python does not know
        unlike = [a != b for a, b in zip(listed(array), listed(turned), strict=True)]
        assert differing(array, turned).tolist() == unlike


def test_rows_are_told_apart_by_where_their_values_are() -> None:
    seeds = Seeds.drawn()
    rows = [pa.array(["a", "ab", None, "x"]), pa.array(["bc", "c", "x", None])]
    found = digests(rows, seeds)
    assert len({*zip(found.first.tolist(), found.second.tolist(), strict=True)}) == 4
    assert Seeds.drawn() != seeds
