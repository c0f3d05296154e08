"""Values as numbers, and ranges of them: what histograms are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import arrow_kernels as ak
from lancekit.casts.kernels import nearest

__all__ = ["Bin", "as_numbers", "even_edges", "has_ranges", "is_time", "plain"]


@dataclass(frozen=True, slots=True)
class Bin:
    """A range of values, the upper end not in it but for the last one, and its rows."""

    low: Any
    high: Any
    rows: int


def is_time(kind: pa.DataType) -> bool:
    """Tell whether values of a type are moments, dates or durations, which are whole numbers."""
    return bool(pt.is_temporal(kind)) and not pt.is_interval(kind)


def has_ranges(kind: pa.DataType) -> bool:
    """Tell whether values of a type are numbers or times."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) or is_time(kind))


def plain(values: pa.Array) -> pa.Array:
    """Return values of an extension type as they are stored, and of a dictionary themselves.

    Examples
    --------
    >>> plain(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist()
    ['a', 'b', 'a']
    """
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    return values.cast(values.type.value_type) if pt.is_dictionary(values.type) else values


def as_numbers(values: pa.Array | pa.ChunkedArray) -> Any:
    """Return numbers or times, none of them null, as floating-point numbers: ranges need no more.

    Examples
    --------
    >>> as_numbers(pa.array([1, 1000], pa.timestamp("ms"))).tolist()
    [1.0, 1000.0]
    """
    if isinstance(values, pa.ChunkedArray):
        values = ak.combine_chunks(values)
    if is_time(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return np.asarray(nearest(values, pa.float64()))


def even_edges(low: float, high: float, bins: int) -> Any:
    """Return the ends of ranges of one width: as many as asked, or as numbers between them allow.

    Examples
    --------
    >>> even_edges(0.0, 3.0, 3).tolist(), len(even_edges(0.3, 0.1 + 0.2, 12))
    ([0.0, 1.0, 2.0, 3.0], 2)
    """
    steps = np.linspace(0.0, 1.0, bins + 1)
    edges = np.unique(low * (1 - steps) + high * steps)  # their difference may be infinite
    edges[0], edges[-1] = low, high
    return edges if low < high else np.array([low, np.nextafter(high, np.inf)])
