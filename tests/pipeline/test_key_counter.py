"""Keys that stand more than once, beside a plain count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancekit._pipeline import key_counter
from lancekit._pipeline.key_counter import KeyCounter, key_words

_KINDS: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "uint64": pa.uint64(),
    "text": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "moment": pa.timestamp("ns"),
    "decimal": pa.decimal128(30, 2),
    "category": pa.dictionary(pa.int8(), pa.string()),
}


def _values(kind: pa.DataType, numbers: np.ndarray[Any, Any], mask: Any) -> pa.Array:
    plain = pa.array(numbers, mask=mask)
    if pa.types.is_dictionary(kind):
        return plain.cast(pa.string()).dictionary_encode().cast(kind)
    return plain.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else plain.cast(kind)


@pytest.mark.parametrize("name", _KINDS)
@pytest.mark.parametrize("held", [1 << 24, 64])
def test_as_a_plain_count(name: str, held: int) -> None:
    random = np.random.default_rng(7)
    numbers, mask = random.integers(0, 100, 150), random.random(150) < 0.1
    column = _values(_KINDS[name], numbers, mask)
    second = pa.array(random.integers(0, 3, 150))
    for columns in ([column], [column, second]):
        with KeyCounter(held) as counter:
            for start in range(0, 150, 20):
                counter.add([one.slice(start, 20) for one in columns])
            found = counter.repeated()
        rows = zip(*(one.to_pylist() for one in columns), strict=True)
        counts = Counter(row for row in rows if None not in row)
        shared = {row: times for row, times in counts.items() if times > 1}
        assert (found.rows, found.keys) == (sum(shared.values()), len(shared))
        assert (np.diff(found.words.astype(object)) > 0).all()
        assert np.isin(key_words(columns), found.words).sum() == found.rows


def test_few_words_of_many_keys_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_counter, "_KEPT", 5)
    with KeyCounter(16) as counter:
        for _ in range(2):
            counter.add([pa.array(range(100))])
        found = counter.repeated()
    assert (found.rows, found.keys, found.words.tolist()) == (200, 100, [0, 1, 2, 3, 4])


def test_no_rows_and_ascending_rows() -> None:
    with KeyCounter() as counter:
        assert counter.repeated().rows == 0
        counter.add([pa.array([], pa.int64())])
        counter.add([pa.array([1, 2, 3])])
        assert counter.repeated().rows == 0
