"""Batches of other sizes: of so many rows, of about so many bytes, of one fragment each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

__all__ = ["cut_at", "exact_batches", "small_batches"]


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


def cut_at(tables: Iterable[pa.Table], parts: Iterable[int]) -> Iterator[pa.Table]:
    """Yield tables cut so that none has rows of two parts; ``parts`` are the rows of each."""
    rest = filter(None, parts)
    left = 0
    for table in tables:
        start = 0
        while start < table.num_rows:
            left = left or next(rest, table.num_rows)
            part = table.slice(start, left)
            yield part
            start += part.num_rows
            left -= part.num_rows


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
