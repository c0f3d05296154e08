"""Samples: as many rows as were asked for, each once, from everywhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pylance.sampling import maybe_sample, reservoir_sampling
from lancekit.errors import InvalidArgumentError


@pytest.mark.parametrize(("n", "takes"), [(1, 1), (50, 2048), (300, 7), (300, 299), (999, 10)])
def test_rows_come_once_and_from_everywhere(n: int, takes: int) -> None:
    ds = lk.write_dataset({"x": range(1000)}, f"memory://samples-{n}-{takes}", max_rows_per_file=90)
    batches = [*maybe_sample(ds, n, ["x"], batch_size=64, max_takes=takes)]
    assert {batch.num_rows for batch in batches[:-1]} <= {64}
    rows = np.concatenate([batch["x"].to_numpy() for batch in batches])
    assert len(rows) == n == len(np.unique(rows))
    if n > takes:  # in runs, one in each part
        assert np.count_nonzero(np.diff(rows) != 1) < takes
        assert np.diff(rows).max() < 3 * 1000 / takes
    assert n < 300 or rows.max() - rows.min() > 500


def test_all_rows_if_there_are_no_more() -> None:
    ds = lk.write_dataset({"x": [1, None, 3]}, "memory://samples-all")
    assert pa.Table.from_batches(maybe_sample(ds, 3, "x"))["x"].to_pylist() == [1, None, 3]
    found = pa.Table.from_batches(maybe_sample(ds, 9, "x", filt="x IS NOT NULL"))
    assert found["x"].to_pylist() == [1, 3]


def test_a_filter_is_any_filter() -> None:
    ds = lk.write_dataset({"x": range(1000), "y": ["a", "b"] * 500}, "memory://samples-filter")
    ds.delete("x < 100")
    rows = pa.Table.from_batches(maybe_sample(ds, 40, {"z": "x"}, filt="y = 'b'", batch_size=7))
    found = rows["z"].to_pylist()
    assert len(set(found)) == 40
    assert all(x % 2 == 1 and x >= 100 for x in found)
    few = pa.Table.from_batches(maybe_sample(ds, 40, "x", filt="x < 105"))
    assert sorted(few["x"].to_pylist()) == [100, 101, 102, 103, 104]
    with pytest.raises(InvalidArgumentError, match=r"n must be .* got -1"):
        maybe_sample(ds, -1, "x")


def test_a_reservoir_keeps_each_as_likely_as_the_others() -> None:
    assert sorted(reservoir_sampling(iter("ab"), 5)) == ["a", "b"]
    counts = np.zeros(10)
    for _ in range(2000):
        counts[reservoir_sampling(iter(range(10)), 3)] += 1
    assert counts.sum() == 6000
    assert abs(counts - 600).max() < 120
