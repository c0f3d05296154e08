"""Rows chosen at random, of a dataset or of a stream; names of ``lance.sampler``."""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.open import dataset as open_dataset
from lancekit._api.pylance_log import LOGGER
from lancekit._arguments.checks import check_count
from lancekit._checked import checked
from lancekit._scan.take import rows_of_runs, spread_runs

__all__ = ["maybe_sample", "one_batch", "reservoir_sampling"]

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
    """Yield rows chosen at random, each at most once; all of them if there are no more than ``n``.

    Parameters
    ----------
    dataset
        A handle, or where the dataset is.
    n
        How many rows.
    columns
        As in `LanceDataset.take`; one may be named alone.
    batch_size
        The most rows of a batch.
    max_takes
        The most places that are read: above so many rows, these come in runs.
    filt
        Only rows that it selects; their ids are looked up first.

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
        rows = _places(rng, total, n, max_takes)
    else:
        ids = ds.to_table(columns=[], filter=filt, with_row_id=True)["_rowid"].to_numpy()
        rows = rng.permutation(ids)[:n]
    take = ds.take if filt is None else ds._take_rows
    LOGGER.info("sampling %d of %d rows", len(rows), total)
    for start in range(0, len(rows), batch_size):
        yield one_batch(take(pa.array(rows[start : start + batch_size]), columns))


def _places(rng: np.random.Generator, total: int, n: int, max_takes: int) -> Any:
    """Return positions of rows: anywhere, or in so many runs, one in each part of the rows."""
    if n <= max_takes:
        return rng.choice(total, n, replace=False)
    return rows_of_runs(*spread_runs(rng, total, n, max_takes))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch."""
    batches = ak.combine_chunks(table).to_batches()
    empty = pa.RecordBatch.from_pylist([], table.schema)
    return batches[0] if batches else empty


@checked
def reservoir_sampling(stream: Iterable[T], k: int) -> list[T]:
    """Return ``k`` things of a stream, each as likely as any other; all if there are fewer."""
    drawn = ((random.random(), at, item) for at, item in enumerate(stream))  # noqa: S311
    return [item for _, _, item in heapq.nlargest(k, drawn)]
