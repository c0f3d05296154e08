"""Key lookup: the same matches as a dictionary of tuples gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit.pipeline.keys.probe import KeyTable, key_values, show_keys

small = st.one_of(st.none(), st.integers(0, 4))
text = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
rows = st.lists(st.tuples(small, text, small), max_size=30)


def table(keys: list[tuple]) -> tuple[pa.Array, ...]:
    kinds = (pa.int64(), pa.string(), pa.date32())
    return tuple(pa.array([k[i] for k in keys], kind) for i, kind in enumerate(kinds))


@given(rows, rows)
def test_matches_of_a_dictionary(source: list[tuple], target: list[tuple]) -> None:
    keys = KeyTable(("a", "b", "c"), table(source))
    codes = np.zeros(len(target), np.int64)
    for place, values in enumerate(table(target)):
        codes = keys.extend(codes, place, pa.chunked_array([values]))
    first: dict[tuple, int] = {}
    for row, key in enumerate(source):
        if None not in key:
            first.setdefault(key, row)
    expected = [first.get(key, -1) for key in target]
    assert [keys.first_rows[code] if code >= 0 else -1 for code in codes] == expected
    counts = {key: source.count(key) for key in source}
    repeated = [i for i, key in enumerate(source) if None not in key and counts[key] > 1]
    assert keys.repeated().tolist() == repeated


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.timestamp("us"), pa.duration("ns")])
def test_few_keys_in_many_rows(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**40, 20_000)
    mask = rng.random(20_000) < 0.1
    wanted = values[rng.integers(0, 20_000, 40)]
    target = pa.array(values, mask=mask).cast(kind).slice(7)
    keys = KeyTable(("k",), (pa.array(np.unique(wanted)).cast(kind),))
    codes = keys.extend(np.zeros(len(target), np.int64), 0, pa.chunked_array([target]))
    expected = np.isin(values, wanted)[7:] & ~mask[7:]
    assert np.array_equal(codes >= 0, expected)
    assert np.array_equal(np.unique(wanted)[codes[expected]], values[7:][expected])


def test_a_key_that_is_not_a_number_is_named_once() -> None:
    nan = float("nan")
    keys = pa.table({"k": [nan, 1.0, nan, 1.0, None], "t": ["a", "b", "a", "b", None]})
    shown = key_values(keys, ("k", "t"), np.arange(5))
    assert show_keys(("k", "t"), shown) == "k = nan, t = a; k = 1.0, t = b; k = None, t = None"
