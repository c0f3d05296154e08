"""Rows in other batches or another order, with dictionary keys wide enough for all values.

Dictionaries with too many values for one key type stay in separate arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of
from lancekit._format.arrow_parts import with_leaves


def exact_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in batches of ``rows`` rows; only the last may have fewer.

    Rows with too many dictionary values for one batch are yielded in several.
    """
    buffered: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= missing:
            yield from _joined([*buffered, batch.slice(start, missing)])
            start += missing
            buffered, missing = [], rows
        if start < batch.num_rows:
            buffered.append(batch.slice(start))
            missing -= batch.num_rows - start
    if buffered:
        yield from _joined(buffered)


def _joined(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield parts[0] if len(parts) == 1 else ak.concat_batches(parts)
    except pa.ArrowInvalid:
        yield from parts


def small_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches in slices of about ``size`` bytes at most, but at least one row."""
    for batch in batches:
        fitting = batch.num_rows * size // max(batch.nbytes, 1)
        rows = max(min(fitting, batch.num_rows), 1)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def cut_at(tables: Iterable[pa.Table], parts: Iterable[int]) -> Iterator[pa.Table]:
    """Yield tables cut so that none has rows of two parts; ``parts`` are the row counts of each."""
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
    """Return a table in one chunk, or in several if one chunk cannot hold all rows."""
    try:
        return ak.combine_chunks(table)
    except pa.ArrowInvalid:
        return table


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return an empty table; ``empty_table`` would import pandas."""
    return pa.Table.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return rows of a table, in any order; a repeated index repeats its row."""
    places = arrow_of(rows)
    try:
        return ak.take(table, places)
    except pa.ArrowInvalid:
        with suppress(pa.ArrowInvalid):
            columns = [taken_values(column, places) for column in table.columns]
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


# ---- dictionary columns whose keys are too narrow for the values of all chunks together
#
# pandas gives up to 127 categories keys of 8 bits. Each file has its own dictionary, so each chunk
# of a column is valid, but Arrow refuses to concatenate them. Such chunks get wider keys first, and
# the result is cut into chunks that fit the type of the column.


class _TooManyError(Exception):
    """A dictionary has more values than its key type can number."""


def joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return arrays of a type as one, with wider keys if the type's keys do not suffice."""
    if not parts:
        return pa.array([], kind)
    try:
        return ak.concat_arrays(parts)
    except pa.ArrowInvalid:
        return ak.concat_arrays([with_leaves(part, _widened) for part in parts])


def taken_values(
    column: pa.ChunkedArray, rows: pa.Array | npt.NDArray[np.int64]
) -> pa.ChunkedArray:
    """Return rows of a column in as many chunks as its keys need."""
    try:
        return ak.take(column, rows)
    except pa.ArrowInvalid:
        found = fitted(ak.take(joined(column.chunks, column.type), rows), column.type)
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def fitted(array: pa.Array, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return an array in its column's type: unchanged, or in chunks whose keys suffice."""
    return array if array.type == kind else pa.chunked_array(_cut(array, kind), kind)


def _cut(array: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    try:
        return [with_leaves(array, _narrowed, kind)]
    except _TooManyError:
        if len(array) < 2:
            raise pa.ArrowInvalid(f"one value has too many categories for {kind}") from None
    half = len(array) // 2
    # copies, so that parts have no items of other rows
    parts = (ak.take(array, np.arange(*ends)) for ends in ((half,), (half, len(array))))
    return [piece for part in parts for piece in _cut(part, kind)]


def _widened(array: pa.Array, _kind: pa.DataType) -> pa.Array:
    if not isinstance(array, pa.DictionaryArray):
        return array
    keys = pc.cast(array.indices, pa.int64())
    return pa.DictionaryArray.from_arrays(keys, array.dictionary, ordered=array.type.ordered)


def _narrowed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not (isinstance(array, pa.DictionaryArray) and isinstance(kind, pa.DictionaryType)):
        return array
    if array.type == kind:
        return array
    used = ak.without_unused_values(array)
    if len(used.dictionary) > np.iinfo(kind.index_type.to_pandas_dtype()).max + 1:
        raise _TooManyError
    keys = pc.cast(used.indices, kind.index_type)
    return pa.DictionaryArray.from_arrays(keys, used.dictionary, ordered=kind.ordered)
