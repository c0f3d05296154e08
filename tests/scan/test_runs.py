"""Runs of rows that are spread over a table: each in a part of its own, all rows once."""

from __future__ import annotations

import numpy as np
import pytest

from lancekit._scan.take import rows_of_runs, spread_runs


@pytest.mark.parametrize(("total", "rows", "count"), [(100, 10, 5), (7, 7, 3), (1000, 1, 1)])
def test_each_part_has_a_run(total: int, rows: int, count: int) -> None:
    for seed in range(20):
        starts, lengths = spread_runs(np.random.default_rng(seed), total, rows, count)
        assert len(starts) == count
        assert lengths.sum() == rows
        places = rows_of_runs(starts, lengths)
        assert len(set(places)) == rows
        assert places.min() >= 0
        assert places.max() < total
        parts = np.linspace(0, total, count + 1).astype(int)
        assert (starts >= parts[:-1]).all()
        assert (starts + lengths <= parts[1:]).all()
