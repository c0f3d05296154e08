"""The ids of rows that a merge moved, in few bytes of the manifest."""

from __future__ import annotations

import numpy as np
import pytest

from lancekit._format.fragment import Fragment
from lancekit._format.row_ids import parse_row_ids
from lancekit._format.row_ids_encode import with_row_ids


@pytest.mark.parametrize(
    ("ids", "most"),
    [
        (np.arange(0, 3_000_000, 50), 2.1),  # in the reference's form four bytes each
        (np.concatenate([np.arange(5, 2_000_000, 50), np.arange(0, 2_000_000, 50)]), 2.1),
        (np.arange(1 << 40, (1 << 40) + 200_000), 0.001),
        (np.arange(0, 1 << 28, 1 << 12), 4.1),  # few stay together
        (np.random.default_rng(3).permutation(100_000), 4.1),
        (np.array([7]), 99),
    ],
)
def test_moved_ids_come_back_and_take_few_bytes(ids, most) -> None:
    fragment = Fragment(id=0, files=(), physical_rows=len(ids))
    (moved,) = with_row_ids([fragment], ids.astype(np.uint64))
    assert moved.row_ids is not None
    assert np.array_equal(parse_row_ids(moved.row_ids, len(ids), "it"), ids)
    assert len(moved.row_ids) <= most * len(ids)
