"""Runs of rows that are spread evenly over a table: what a sample reads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["rows_of_runs", "spread_runs"]


def spread_runs(
    rng: np.random.Generator, total: int, rows: int, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return starts and lengths of runs of rows: one at random in each of `count` equal parts.

    Parameters
    ----------
    total, rows
        How many rows there are, and how many the runs have together.
    """
    parts = np.linspace(0, total, count + 1).astype("i8")
    ends = np.linspace(0, rows, count + 1).astype("i8")
    lengths = np.minimum(np.diff(ends), np.diff(parts))
    return parts[:-1] + rng.integers(0, np.diff(parts) - lengths + 1), lengths


def rows_of_runs(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the positions of all rows of runs.

    Examples
    --------
    >>> rows_of_runs(np.array([0, 10]), np.array([2, 3])).tolist()
    [0, 1, 10, 11, 12]
    """
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows: npt.NDArray[np.int64] = np.repeat(starts, lengths) + within
    return rows
