"""Random samples of a dataset or a stream; names follow ``lance.sampler``."""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.lance_dataset import dataset as open_dataset
from lancekit._arguments.checks import check_count
from lancekit._checked import checked
from lancekit._pylance.debug import LOGGER
from lancekit._scan.fragments.rebatch import combined
from lancekit._scan.take import rows_of_runs, spread_runs

T = TypeVar("T")


@checked
def maybe_sample(
    dataset: str | os.PathLike[str] | LanceDataset,
    n: int,
    columns: list[str] | dict[str, str] | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield ``n`` random rows, each at most once; all rows if there are no more than ``n``.

    Parameters
    ----------
    dataset
        A handle, or the path or URI of the dataset.
    n
        The number of rows.
    columns
        As in `LanceDataset.take`; a single name is allowed.
    batch_size
        The most rows of a batch.
    max_takes
        The most random reads.  If ``n`` is larger, rows are read in contiguous runs.
    filt
        A filter; the ids of its rows are looked up first.

    Returns
    -------
    iterator of pyarrow.RecordBatch
        The rows.

    Raises
    ------
    InvalidArgumentError
        A number is out of range.
    DatasetNotFoundError
        There is no dataset at the path.
    ColumnNotFoundError, PredicateError
        A column or the filter does not fit the schema; raised with the first batch.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": range(100)}, "memory://sample-example")
    >>> [batch.num_rows for batch in maybe_sample(ds, 12, "x", batch_size=5)]
    [5, 5, 2]
    """
    for name, count, least in (("n", n, 0), ("batch_size", batch_size, 1)):
        check_count(name, count, least=least)
    check_count("max_takes", max_takes, least=1)
    ds = dataset if isinstance(dataset, LanceDataset) else open_dataset(dataset)
    wanted = [columns] if isinstance(columns, str) else columns
    return _sampled(ds, n, wanted, batch_size, max_takes, filt)


def _sampled(
    ds: LanceDataset,
    n: int,
    columns: list[str] | dict[str, str],
    batch_size: int,
    max_takes: int,
    filt: str | None,
) -> Iterator[pa.RecordBatch]:
    total = len(ds)
    if n >= total:
        yield from ds.to_batches(columns=columns, batch_size=batch_size, filter=filt)
        return
    rng = np.random.default_rng()
    if filt is None:
        rows = _sample_positions(rng, total, n, max_takes)
    else:
        ids = ds.to_table(columns=[], filter=filt, with_row_id=True)["_rowid"].to_numpy()
        rows = rng.permutation(ids)[:n]
    take = ds.take if filt is None else ds._take_rows
    LOGGER.info("sampling %d of %d rows", len(rows), total)
    for start in range(0, len(rows), batch_size):
        yield from batches_of(take(pa.array(rows[start : start + batch_size]), columns))


def _sample_positions(
    rng: np.random.Generator, total: int, n: int, max_takes: int
) -> NDArray[np.int64]:
    """Return random positions: single rows, or one run in each of ``max_takes`` parts."""
    if n <= max_takes:
        return rng.choice(total, n, replace=False)
    return rows_of_runs(*spread_runs(rng, total, n, max_takes))


def batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    """Combine a table into one batch, or into several if one cannot hold all categories."""
    return combined(table).to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]


@checked
def reservoir_sampling(stream: Iterable[T], k: int) -> list[T]:
    """Return random items of a stream, all equally likely.

    Parameters
    ----------
    stream
        The items.
    k
        The number of items to return; all items if there are fewer.

    Returns
    -------
    list
        The items, in random order.

    Raises
    ------
    TypeError
        ``stream`` is not iterable.

    Examples
    --------
    >>> sorted(reservoir_sampling(range(3), 5))
    [0, 1, 2]
    """
    drawn = ((random.random(), at, item) for at, item in enumerate(stream))  # noqa: S311
    return [item for _, _, item in heapq.nlargest(k, drawn)]
