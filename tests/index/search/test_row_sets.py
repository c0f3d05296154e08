"""Sets of rows in memory."""

import numpy as np
from pyroaring import BitMap

from lancekit._index.row_sets import joined, rows_of, union


def test_numbers_become_rows_and_back() -> None:
    numbers = np.array([(2 << 32) + 5, 3, (2 << 32) + 1], np.uint64)
    rows = rows_of(numbers)
    assert rows == {0: BitMap([3]), 2: BitMap([1, 5])}
    assert joined(rows).tolist() == sorted(numbers.tolist())
    assert union([rows, {0: BitMap([4])}]) == {0: BitMap([3, 4]), 2: BitMap([1, 5])}
    assert joined({}).tolist() == []
