"""Columns of vectors, and of lists of vectors, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._index.distances import METRICS_OF, Distances, distances
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["VectorType", "measured"]

Vectors = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class VectorType:
    """What a column of vectors holds: values of which type, how many, and whether in lists."""

    value: str
    dimension: int
    in_lists: bool

    @classmethod
    def of(cls, field: pa.Field) -> VectorType:
        """Return what a column holds.

        Raises
        ------
        InvalidTypeError
            It holds no vectors.
        InvalidArgumentError
            It holds vectors of values that are not compared.
        """
        kind: Any = field.type
        in_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        vector: Any = kind.value_type if in_lists else kind
        if not pa.types.is_fixed_size_list(vector):
            raise InvalidTypeError(
                f"The column {field.name!r} must be a vector column; it holds {kind}, no vectors.",
                hint="Name a column of fixed-size lists of numbers, or of lists of them.",
                column=field.name,
            )
        value = str(vector.value_type)
        if value not in METRICS_OF:
            raise InvalidArgumentError(
                f"The column {field.name!r} holds vectors of {value}.",
                hint="Vectors of float16, float32, float64 and uint8 are searched.",
                column=field.name,
            )
        return cls(value, vector.list_size, in_lists)


def measured(metric: str, column: pa.ChunkedArray, query: Vectors) -> Distances:
    """Return how far the rows of a column are from a query; NaN where there is no vector.

    Of a row of several vectors the nearest counts, and of a query of several their sum.

    Parameters
    ----------
    query
        Shape (vectors, dimensions).
    """
    parts = [_measured(metric, chunk, query) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.float32), *parts])


def _measured(metric: str, rows: pa.Array, query: Vectors) -> Distances:
    if isinstance(rows, pa.FixedSizeListArray):
        found = _sum([distances(metric, _values(rows), vector) for vector in query])
    else:
        found = _sum([_nearest_in_lists(metric, rows, vector) for vector in query])
    if ak.null_count(rows):
        found[rows.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def _sum(parts: Sequence[Distances]) -> Distances:
    return reduce(np.add, parts)


def _nearest_in_lists(metric: str, rows: Any, query: Vectors) -> Distances:
    ends = rows.offsets.to_numpy()
    inner = rows.values.slice(ends[0], ends[-1] - ends[0])
    each = _measured(metric, inner, query[np.newaxis])
    out = np.full(len(rows), np.nan, np.float32)
    held = np.flatnonzero(np.diff(ends))
    if len(held):
        out[held] = np.fmin.reduceat(each, ends[held] - ends[0])
    return out


def _values(vectors: pa.FixedSizeListArray) -> Vectors:
    """Return vectors as rows of an array; a value that is null is 0, as in the reference."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    flat = _bare(values)
    if ak.null_count(values):
        flat = np.where(values.is_valid().to_numpy(zero_copy_only=False), flat, flat.dtype.type(0))
    return flat.reshape(len(vectors), size)


def _bare(values: pa.Array) -> Vectors:
    """Return what numbers are, or stand behind nulls, without a copy."""
    buffers = [None, values.buffers()[1]]
    bare = pa.Array.from_buffers(values.type, len(values), buffers, offset=values.offset)
    numbers: Vectors = bare.to_numpy()
    return numbers
