"""Look-ups of values among known ones: the same as Arrow's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._pipeline.find_values import NOWHERE, Lookup, find_words, numbered
from lancekit._pipeline.probe import KeyTable, ProbeTask, probe_fragments
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.read import Read
from tests.support.twins import Counted, agreed

WHOLE = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns")),
    *(pa.timestamp("us", tz="UTC"), pa.duration("s")),
]
OTHERS = [pa.string(), pa.large_string(), pa.binary(), pa.float64(), pa.bool_()]


def check(known: pa.Array, values: pa.Array | pa.ChunkedArray) -> None:
    places, positions = Lookup(known).find(values)
    expected = pc.index_in(values, value_set=known, skip_nulls=True)
    found = expected.is_valid().to_numpy(zero_copy_only=False)
    assert places.tolist() == np.flatnonzero(found).tolist()
    assert positions.tolist() == expected.drop_null().to_pylist()


@pytest.mark.parametrize("kind", [*WHOLE, *OTHERS], ids=str)
def test_any_values_are_numbered_as_in_a_dictionary(kind: pa.DataType) -> None:
    rng = np.random.default_rng(7)
    drawn = rng.integers(0, 3000, 9000) * 86_400_000 % 80_000_000
    nulls = pa.array(rng.random(9000) < 0.1)
    values = pc.if_else(nulls, pa.scalar(None, kind), cast(drawn, kind))
    sliced = pa.concat_arrays([values, values])[500:9700]
    lookup, numbers = numbered(sliced)
    encoded = sliced.dictionary_encode()
    assert numbers.tolist() == encoded.indices.fill_null(NOWHERE).to_pylist()
    assert len(lookup) == len(encoded.dictionary)
    places, found = lookup.find(sliced)
    assert places.tolist() == np.flatnonzero(numbers != NOWHERE).tolist()
    assert found.tolist() == numbers[places].tolist()


@given(st.lists(st.none() | st.integers(-3, 3), max_size=40))
def test_numbers_are_those_of_a_dictionary(drawn: list[int | None]) -> None:
    values = pa.array(drawn, pa.int64())
    _, numbers = numbered(values)
    indices = values.dictionary_encode().indices
    assert numbers.tolist() == indices.fill_null(NOWHERE).to_pylist()


def cast(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(numbers % 2 == 0)
    if pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(numbers.astype("U").tolist()).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array(numbers / 4)
    bits = kind.bit_width
    storage = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
    if bits < 64:
        numbers = numbers % (1 << (bits - 1))
        storage = pa.from_numpy_dtype(np.dtype(f"i{bits // 8}"))
    if pa.types.is_date64(kind):
        numbers = numbers // 86_400_000 * 86_400_000
    return pa.array(numbers).cast(storage).cast(kind)


@pytest.mark.cover
@pytest.mark.parametrize("kind", [*WHOLE, *OTHERS], ids=str)
@pytest.mark.parametrize("count", [0, 1, 40, 5000])
def test_the_same_as_arrow(kind: pa.DataType, count: int) -> None:
    rng = np.random.default_rng(count)
    numbers = rng.integers(0, 30_000, 70_000) * 86_400_000 % 80_000_000
    values = cast(numbers, kind)
    known = pc.unique(cast(rng.choice(numbers, count), kind))
    gaps = pc.if_else(pa.array(rng.random(len(values)) < 0.1), pa.scalar(None, kind), values)
    check(known, values)
    check(known, gaps.slice(13, 60_000))
    check(known, pa.chunked_array([gaps.slice(0, 5), gaps.slice(7, 0), gaps.slice(20)]))
    check(known, pa.chunked_array([], kind))


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=50),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=50),
    st.integers(0, 49),
)
def test_any_numbers(known: list[int], values: list[int | None], shared: int) -> None:
    check(pa.array(known, pa.int64()), pa.array([*values, *known[:shared]], pa.int64()))


def test_numbers_that_fall_into_one_slot() -> None:
    # the inverse of the factor: products that differ in their lowest bits alone
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    known = np.array([i * inverse % 2**64 for i in range(3000)], np.uint64)
    others = np.array([i * inverse % 2**64 for i in range(2000, 9000)], np.uint64)
    check(pa.array(known), pa.array(others))


@pytest.mark.parametrize("count", [0, 1, 40, 5000])
def test_the_kernel_finds_the_same(kernels, monkeypatch, count: int) -> None:
    rng = np.random.default_rng(count)
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    # half of them fall into few slots
    numbers = rng.integers(0, 1 << 40, 20_000, np.uint64)
    numbers[::2] = numbers[::2] % 9000 * np.uint64(inverse)
    known = Lookup(pa.array(np.unique(rng.choice(numbers, count))))
    values = pa.array(numbers, mask=rng.random(20_000) < 0.1)
    counted = Counted(monkeypatch, find_words)
    agreed(lambda: known.find(values))
    agreed(lambda: known.find(pa.chunked_array([values.slice(7, 50), values.slice(3000)])))
    assert counted.good == counted.calls == 3


def test_rows_that_are_deleted_are_not_found(tmp_path: Path) -> None:
    rows = pa.table({"a": [n // 10 for n in range(1000)], "b": [str(n % 10) for n in range(1000)]})
    ds = lk.write_dataset(rows, tmp_path / "d")
    ds.delete("a = 7 OR b = '3'")
    keys = KeyTable(("a", "b"), (pa.array([7, 8, 9, 9, None]), pa.array(list("12335"))))
    (source,) = fragment_sources(ds._snapshot)
    (found,) = probe_fragments(ProbeTask(read=Read((source,)), keys=keys))
    assert found.offsets.tolist() == [82]
    assert found.source_rows.tolist() == [1]
