"""Rows put together anew: as batches of other sizes, or in another order.

Dictionaries whose values one key cannot tell apart stay in arrays of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of
from lancekit._scan.fragments.category_keys import taken_apart

__all__ = ["combined", "cut_at", "exact_batches", "no_rows", "small_batches", "taken"]


def exact_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in batches of ``rows`` rows; only the last may have fewer.

    Rows that no batch can hold together come in several.
    """
    held: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= missing:
            yield from _joined([*held, batch.slice(start, missing)])
            start += missing
            held, missing = [], rows
        if start < batch.num_rows:
            held.append(batch.slice(start))
            missing -= batch.num_rows - start
    if held:
        yield from _joined(held)


def _joined(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield parts[0] if len(parts) == 1 else ak.concat_batches(parts)
    except pa.ArrowInvalid:
        yield from parts


def small_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches in pieces of about ``size`` bytes at most, of one row at least."""
    for batch in batches:
        fitting = batch.num_rows * size // max(batch.nbytes, 1)
        rows = max(min(fitting, batch.num_rows), 1)
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


def combined(table: pa.Table) -> pa.Table:
    """Return a table in one chunk, or in several where no chunk can hold all rows."""
    try:
        return ak.combine_chunks(table)
    except pa.ArrowInvalid:
        return table


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; ``empty_table`` would import pandas."""
    return pa.Table.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return rows of a table, in any order, repeated ones repeated."""
    places = arrow_of(rows)
    try:
        return ak.take(table, places)
    except pa.ArrowInvalid:
        with suppress(pa.ArrowInvalid):
            columns = [taken_apart(column, places) for column in table.columns]
            return pa.table(columns, schema=table.schema)
        batches = table.to_batches()
        borders = np.cumsum([0, *(batch.num_rows for batch in batches)])
        owners = np.searchsorted(borders, rows, "right") - 1
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(rows)]
        parts = [
            ak.take(batches[owners[start]], rows[start:stop] - borders[owners[start]])
            for start, stop in pairwise(cuts)
        ]
        return pa.Table.from_batches(parts, table.schema)
