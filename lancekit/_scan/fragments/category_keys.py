"""Columns of dictionaries whose keys are too narrow for the values of all chunks together.

pandas gives up to 127 categories keys of 8 bits. Each file has a dictionary of its own, so a column
is fine chunk by chunk, and Arrow refuses to make one array of it. Such chunks get wider keys first,
and the result is cut into chunks that fit the type of the column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import with_leaves

__all__ = ["fitted", "joined", "taken_apart"]


class _TooManyError(Exception):
    """A dictionary has more values than its keys tell apart."""


def joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return arrays of a type as one, with wider keys where those of the type do not suffice."""
    if not parts:
        return pa.array([], kind)
    try:
        return ak.concat_arrays(parts)
    except pa.ArrowInvalid:
        return ak.concat_arrays([with_leaves(part, _widened) for part in parts])


def taken_apart(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Return rows of a column in as many chunks as its keys need."""
    try:
        return ak.take(column, rows)
    except pa.ArrowInvalid:
        found = fitted(ak.take(joined(column.chunks, column.type), rows), column.type)
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def fitted(array: pa.Array, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return an array as its column's type: as it is, or in chunks whose keys suffice."""
    return array if array.type == kind else pa.chunked_array(_cut(array, kind), kind)


def _cut(array: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    try:
        return [with_leaves(array, _narrowed, kind)]
    except _TooManyError:
        if len(array) < 2:
            raise pa.ArrowInvalid(f"one value has too many categories for {kind}") from None
    half = len(array) // 2
    # copied, so that parts have no items of other rows
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
    missing = pc.is_null(array.indices).to_numpy(zero_copy_only=False)
    used, keys = np.unique(array.indices.fill_null(0).to_numpy()[~missing], return_inverse=True)
    if len(used) > np.iinfo(kind.index_type.to_pandas_dtype()).max + 1:
        raise _TooManyError
    places = np.zeros(len(array), np.int64)
    places[~missing] = keys
    indices = pa.array(places, kind.index_type, mask=missing)
    dictionary = ak.take(array.dictionary, used)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered)
