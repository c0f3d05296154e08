"""What is among numbers that ascend."""

from __future__ import annotations

import numpy as np
import pytest

from lancekit._index.row_sets import among


@pytest.mark.parametrize("kind", [np.uint32, np.uint64, np.int64])
def test_it_says_what_numpy_says(kind: type[np.integer]) -> None:
    drawn = np.random.default_rng(3)
    for size in (0, 1, 5, 300):
        ascending = np.unique(drawn.integers(0, 400, size)).astype(kind)
        some = drawn.integers(0, 450, 200).astype(kind)
        assert np.array_equal(among(some, ascending), np.isin(some, ascending))
        assert not len(among(some[:0], ascending))
