"""Batches of exactly so many rows, or of about so many bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

__all__ = ["exact_batches", "small_batches"]


def exact_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in batches of ``rows`` rows; only the last may have fewer."""
    held: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= missing:
            yield _joined([*held, batch.slice(start, missing)])
            start += missing
            held, missing = [], rows
        if start < batch.num_rows:
            held.append(batch.slice(start))
            missing -= batch.num_rows - start
    if held:
        yield _joined(held)


def small_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches in pieces of about ``size`` bytes at most, of one row at least."""
    for batch in batches:
        rows = max(batch.num_rows * size // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
