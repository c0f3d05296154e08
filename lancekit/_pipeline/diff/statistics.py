"""What the values of a column are like, in one pass over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._casts.kernels import nearest
from lancekit._display import Displayed
from lancekit._legible import python_value
from lancekit._pipeline.diff.values import Seeds, digests
from lancekit._pipeline.keys.hash import Hashes

__all__ = [
    "Bin",
    "ColumnStatistics",
    "as_numbers",
    "column_statistics",
    "even_edges",
    "has_ranges",
    "is_time",
    "plain",
]

#: so many of the lowest digests are kept: of them it is told how many there are in all, to 2 %
_KEPT = 1 << 14


@dataclass(frozen=True, slots=True)
class ColumnStatistics(Displayed):
    """What the values of a column are like in a version.

    Attributes
    ----------
    rows, nulls
        How many rows there are, and how many of them are null.
    min, max
        The lowest and the highest value; ``None`` where there is none, or no order.
    distinct
        How many values there are, nulls left out: exact for less than 16,384, else an estimate.
    """

    rows: int
    nulls: int
    min: Any
    max: Any
    distinct: int


def column_statistics(batches: Iterable[pa.Array]) -> ColumnStatistics:
    """Return what values are like that come in parts.

    Examples
    --------
    >>> found = column_statistics([pa.array([3, None]), pa.array([1, 3])])
    >>> (found.rows, found.nulls, found.min, found.max, found.distinct)
    (4, 1, 1, 3, 2)
    """
    seeds, rows, nulls = Seeds.drawn(), 0, 0
    lowest, waiting = np.empty(0, np.uint64), list[Hashes]()
    ends: list[pa.Array] = []
    for values in batches:
        rows, nulls = rows + len(values), nulls + ak.null_count(values)
        there = ak.drop_null(values)
        if not len(there):
            continue
        found = digests([there], seeds).first
        waiting.append(found[found < lowest[-1]] if len(lowest) == _KEPT else found)
        if sum(map(len, waiting)) >= _KEPT:  # sorting them after each part costs more than the rest
            lowest, waiting = _lowest(lowest, *waiting), []
        ends += _ends(there)
    outermost = _ends(ak.concat_arrays(ends)) if ends else []
    low, high = (python_value(end[0]) for end in outermost) if outermost else (None, None)
    return ColumnStatistics(rows, nulls, low, high, _count(_lowest(lowest, *waiting)))


def _ends(values: pa.Array) -> list[pa.Array]:
    """Return the lowest and the highest of values, nothing where they have no order."""
    if isinstance(values, pa.DictionaryArray):
        values = values.cast(values.type.value_type)
    if pa.types.is_duration(values.type):  # Arrow does not order them
        return [end.view(values.type) for end in _ends(values.view(pa.int64()))]
    try:
        return [pa.repeat(end(values), 1) for end in (pc.min, pc.max)]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return []


def _lowest(*parts: Hashes) -> Hashes:
    return np.unique(np.concatenate(parts))[:_KEPT]


def _count(lowest: Hashes) -> int:
    """Return of how many digests these are the lowest, which lie evenly."""
    if len(lowest) < _KEPT:
        return len(lowest)
    return round((_KEPT - 1) / (float(lowest[-1]) / 2.0**64))


# ---- values as numbers, and ranges of them: what histograms are made of


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
