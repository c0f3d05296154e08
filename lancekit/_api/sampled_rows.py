"""Rows for statistics: all rows of a version, or blocks of rows that are spread evenly over it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._api.scanner import scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._format.extensions import resolved
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.take import rows_at, rows_of_runs, spread_runs
from lancekit._versions.snapshot import Snapshot

__all__ = ["SECONDS", "sampled_rows"]

#: reading all rows may take so many seconds, unless a number of rows is wanted
SECONDS = 1.0
#: after this share of the time it is known whether all rows can be read
_TRIED = 0.25
#: so many bytes are read in any case, unless that takes so many times as long
_SMALL, _PATIENCE = 16 << 20, 5
#: rows of a sample, its blocks at most, and how many blocks are read together
_ROWS, _BLOCKS, _TOGETHER = 1 << 18, 1 << 10, 1 << 6
#: reading ends at so many bytes of values
_BYTES = 256 << 20
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def sampled_rows(
    snapshot: Snapshot, paths: Sequence[str], most: int | None, seconds: float = SECONDS
) -> list[pa.RecordBatch]:
    """Return all rows of a version, or of a large one blocks that are spread evenly over it.

    A table is often laid down in loads that differ, so the blocks are small and many, and any
    number of them covers the whole table.

    Parameters
    ----------
    paths
        The paths of the columns to read, which become the columns of the batches, in that order.
    most
        The most rows to read.  With ``None`` all rows are read if they are few, or if that takes
        no longer than `seconds`.  More than 256 MiB of values are never read.
    """
    columns = list(paths)
    if most is None or most >= snapshot.manifest.num_rows:
        found = _all_rows(snapshot, columns, seconds if most is None else None)
        if found is not None:
            return found
    return _sample(snapshot, columns, most, seconds)


def _all_rows(
    snapshot: Snapshot, columns: list[str], seconds: float | None
) -> list[pa.RecordBatch] | None:
    """Read a version; ``None`` if that takes too long, or too much memory."""
    total, begun = snapshot.manifest.num_rows, time.monotonic()
    read = taken = 0
    found = []
    for batch in scan_of(snapshot, ScanArguments(columns=columns)).to_batches():
        found.append(batch)
        read += batch.num_rows
        taken += batch.nbytes
        if taken > _BYTES:
            return None
        if seconds is not None and read < total:
            spent = time.monotonic() - begun
            allowed = seconds * (_PATIENCE if taken * total <= _SMALL * read else 1)
            if spent > allowed * _TRIED and spent * total > allowed * read:
                return None
    return found


def _sample(
    snapshot: Snapshot, columns: list[str], most: int | None, seconds: float
) -> list[pa.RecordBatch]:
    """Read blocks, until there are enough rows or bytes, or the time is over."""
    total, until = snapshot.manifest.num_rows, time.monotonic() + seconds
    wanted = min(most or _ROWS, total)
    starts, lengths = spread_runs(np.random.default_rng(0), total, wanted, min(_BLOCKS, wanted))
    order = _evenly(len(starts))
    schema = blob_view(snapshot.manifest.schema)
    sources, outputs = fragment_sources(snapshot, schema), plan_columns(schema, columns)
    taken = 0
    found: list[pa.RecordBatch] = []
    for at in range(0, len(order), _TOGETHER):
        blocks = np.sort(order[at : at + _TOGETHER])
        rows = rows_of_runs(starts[blocks], lengths[blocks])
        table = resolved(rows_at(sources, outputs, rows))
        found += table.to_batches()
        taken += table.nbytes
        if taken > _BYTES or (most is None and time.monotonic() > until):
            break
    return found


def _evenly(count: int) -> npt.NDArray[np.int64]:
    """Return the numbers below `count` in an order whose every beginning is spread evenly.

    Examples
    --------
    >>> _evenly(8).tolist()
    [0, 5, 2, 7, 4, 1, 6, 3]
    """
    places = np.arange(count) * _GOLDEN_RATIO % 1.0
    ranks: npt.NDArray[np.int64] = np.argsort(np.argsort(places))
    return ranks
