"""Rows that tasks tell: a bitmap for each fragment, however often and in whatever order."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancekit._spark.merge.merge_task import RowSet

ADDRESSES = st.lists(
    st.integers(0, 3).flatmap(lambda id_: st.integers(0, 40).map(lambda row: id_ << 32 | row)),
    max_size=30,
)


@given(st.lists(ADDRESSES, max_size=4))
def test_as_a_set(parts: list[list[int]]) -> None:
    sets = []
    for part in parts:
        sets.append(RowSet())
        sets[-1].add(np.array(part[:10], np.int64))
        sets[-1].add(np.array(part[10:], np.int64))
    whole = RowSet.union(pickle.loads(pickle.dumps(one)) for one in sets)
    every = [address for part in parts for address in part]
    assert (len(whole), whole.added) == (len(set(every)), len(every))
    found = [id_ << 32 | row for id_, rows in whole.offsets() for row in rows.tolist()]
    assert found == sorted(set(every))


def test_two_bytes_a_row_at_most() -> None:
    rng = np.random.default_rng(1)
    for share in (0.01, 0.5, 1.0):
        rows = RowSet()
        rows.add(np.flatnonzero(rng.random(1 << 20) < share) | (7 << 32))
        assert len(pickle.dumps(rows)) < 2 * len(rows) + 2000
