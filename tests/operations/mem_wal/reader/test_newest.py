"""Where keys lead, against a dictionary."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lancekit._format import row_address
from lancekit._operations.mem_wal.reader.newest import (
    NOWHERE,
    KeyRows,
    newest_in,
    newest_of,
    newest_only,
)
from lancekit._scan.expressions.predicate import Predicate

KINDS: list[tuple[pa.DataType, ...]] = [
    (pa.int64(),),
    (pa.string(),),
    (pa.int8(), pa.large_binary()),
    (pa.bool_(), pa.string(), pa.uint64()),
]


def value(kind: pa.DataType, number: int) -> object:
    if pa.types.is_integer(kind):
        return number
    return number % 2 == 0 if pa.types.is_boolean(kind) else str(number % 7)


def made(
    kinds: Sequence[pa.DataType], random: np.random.Generator, count: int
) -> tuple[list[tuple[object, ...]], tuple[pa.Array, ...]]:
    numbers = random.integers(0, 40, (count, len(kinds)))
    keys = [tuple(value(k, int(n)) for k, n in zip(kinds, row, strict=True)) for row in numbers]
    columns = [pa.array([key[at] for key in keys], k) for at, k in enumerate(kinds)]
    return keys, tuple(columns)


@pytest.mark.parametrize("kinds", KINDS)
def test_a_key_leads_to_its_last_row_in_the_first_source_that_has_it(
    kinds: tuple[pa.DataType, ...],
) -> None:
    random = np.random.default_rng(len(kinds))
    names = tuple(f"k{place}" for place in range(len(kinds)))
    wanted: dict[tuple[object, ...], int] = {}
    parts, ids = [], [9, 7, 8]
    for id_ in ids:
        keys, columns = made(kinds, random, 25)
        deletes = random.random(25) < 0.3
        parts.append(KeyRows(columns, deletes))
        own = {
            key: int(NOWHERE) if deletes[at] else row_address.joined(id_, at)
            for at, key in enumerate(keys)
        }
        wanted = {**own, **wanted}
    newest = pickle.loads(pickle.dumps(newest_of(names, parts, ids)))
    asked, columns = made(kinds, random, 200)
    rows, addresses = newest.find(columns)
    found = dict(zip(rows.tolist(), addresses.tolist(), strict=True))
    assert found == {at: wanted[key] for at, key in enumerate(asked) if key in wanted}


def test_the_filter_lets_pass_what_leads_to_itself_or_nowhere_and_is_wanted() -> None:
    part = KeyRows((pa.array([1, 2, 1]),), np.array([False, True, False]))
    newest = newest_of(("k",), [part], [5])
    rows = pa.table(
        {
            "k": [1, 1, 1, 2, 3],
            "x": [0, 9, 9, 9, 9],
            "_rowaddr": pa.array([0, (5 << 32) + 0, (5 << 32) + 2, (5 << 32) + 1, 1], pa.uint64()),
        }
    )
    schema = pa.schema({"k": pa.int64(), "x": pa.int64()})
    alone = newest_only(newest, schema, None)
    assert alone.columns == {"k", "_rowaddr"}
    assert alone.mask(rows).to_pylist() == [False, False, True, False, True]
    wanted = Predicate.parse("x > 3 AND k < 3", schema)
    assert newest_in(wanted) is None
    both = pickle.loads(pickle.dumps(newest_only(newest, schema, wanted)))
    assert both.columns == {"k", "x", "_rowaddr"}
    assert both.mask(rows).to_pylist() == [False, False, True, False, False]
    # blocks in which no row is wanted are left out, newest or not
    ends = pa.array([0, 2]), pa.array([3, 9])
    assert both.may_want("x", *ends).tolist() == [False, True]
    test = newest_in(both)
    assert test is not None
    assert "shards have 3 candidates" in test.describe
