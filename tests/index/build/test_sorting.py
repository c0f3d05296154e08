"""The order of an index, against Arrow's of the same values."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancekit._index.build.sorting import differs, order_of, stable_order, text_order, whole
from tests.support.indexed_columns import COLUMNS

PLAIN = [name for name in COLUMNS if not pa.types.is_nested(COLUMNS[name].type)]


@pytest.mark.parametrize(
    "name", [name for name in PLAIN if name not in ("half", "float", "double")]
)
def test_as_arrow_orders(name: str) -> None:
    values = pa.concat_arrays([COLUMNS[name]] * 3).slice(2)
    count = values.null_count  # which Arrow puts last
    expected = pc.sort_indices(values).to_pylist()
    assert (
        order_of(values).tolist()
        == expected[len(values) - count :] + expected[: len(values) - count]
    )
    ordered = values.take(pa.array(order_of(values)))
    firsts = ordered.filter(pa.array(differs(ordered)))
    assert len(firsts) == len(set(values.to_pylist()))


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_are_in_total_order(kind: pa.DataType) -> None:
    wanted = [-math.nan, -math.inf, -5.5, -0.0, 0.0, 0.5, math.inf, math.nan]
    values = pa.array(wanted[::-1], pa.float32()).cast(kind)
    assert order_of(values).tolist() == list(range(8))[::-1]
    assert differs(values).all()


@pytest.mark.parametrize("seed", range(30))
def test_texts(seed: int) -> None:
    random = np.random.default_rng(seed)
    ends = ["", "a", "a\0", "a\0\0", "abcdefgh", "abcdefgh\0", "abcdefghi", "é", "z" * 33, "z" * 34]
    texts = [
        ends[random.integers(len(ends))]
        if random.random() < 0.5
        else "".join(random.choice(list("ab\0"), int(random.integers(0, 25))))
        for _ in range(int(random.integers(0, 200)))
    ]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        values = pa.array(["before", *texts]).cast(kind).slice(1)
        expected = pc.sort_indices(values).to_pylist()
        assert order_of(values).tolist() == expected
        found = text_order(values)
        assert found is not None
        assert found.tolist() == expected


def test_long_beginnings_are_left_to_arrow() -> None:
    values = pa.array(["x" * 200 + str(number) for number in (3, 1, 2)] * 4)
    assert text_order(values) is None
    assert order_of(values).tolist() == pc.sort_indices(values).to_pylist()


@pytest.mark.parametrize("bits", [3, 40, 64])
def test_numbers_of_any_width(bits: int) -> None:
    words = np.random.default_rng(bits).integers(0, (1 << bits) - 1, 3_000, np.uint64)
    words[::7] = words[0]
    assert np.array_equal(stable_order(words), np.argsort(words, kind="stable"))


def test_columns_of_several_chunks() -> None:
    assert whole(pa.chunked_array([["a"], ["b", None]])).to_pylist() == ["a", "b", None]
    assert whole(pa.chunked_array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(3), pa.decimal128(8, 1), pa.int32()])
def test_nothing_but_nulls_is_one_value(kind: pa.DataType) -> None:
    assert differs(pa.nulls(3, kind)).tolist() == [True, False, False]
