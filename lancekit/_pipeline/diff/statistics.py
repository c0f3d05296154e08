"""Statistics, value counts and histograms of a column, each in one pass over its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._casts import nearest
from lancekit._display import Displayed
from lancekit._legible import python_value
from lancekit._pipeline.diff.values import Seeds, digests
from lancekit._pipeline.hashed_keys import Hashes

#: number of lowest digests that are kept; they estimate the number of distinct values to 2 %
_KEPT = 1 << 14


@dataclass(frozen=True, slots=True)
class ColumnStatistics(Displayed):
    """Statistics of a column's values in a version.

    Attributes
    ----------
    rows, nulls
        The number of rows, and of null values among them.
    min, max
        The lowest and the highest value.  ``None`` without values or without an order of the type.
    distinct
        The number of distinct values without nulls.  Exact below 16,384, else an estimate.
    """

    rows: int
    nulls: int
    min: Any
    max: Any
    distinct: int


def column_statistics(batches: Iterable[pa.Array]) -> ColumnStatistics:
    """Return the statistics of values that arrive in batches.

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
        present = ak.drop_null(values)
        if not len(present):
            continue
        found = digests([present], seeds).first
        waiting.append(found[found < lowest[-1]] if len(lowest) == _KEPT else found)
        if sum(map(len, waiting)) >= _KEPT:  # a sort after each batch would dominate the time
            lowest, waiting = _lowest(lowest, *waiting), []
        ends += _ends(present)
    outermost = _ends(ak.concat_arrays(ends)) if ends else []
    low, high = (python_value(end[0]) for end in outermost) if outermost else (None, None)
    return ColumnStatistics(rows, nulls, low, high, _count(_lowest(lowest, *waiting)))


def _ends(values: pa.Array) -> list[pa.Array]:
    """Return the lowest and the highest value, or nothing if the type has no order."""
    if isinstance(values, pa.DictionaryArray):
        values = values.cast(values.type.value_type)
    if pa.types.is_duration(values.type):  # Arrow does not order durations
        return [end.view(values.type) for end in _ends(values.view(pa.int64()))]
    try:
        return [pa.repeat(end(values), 1) for end in (pc.min, pc.max)]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return []


def _lowest(*parts: Hashes) -> Hashes:
    return np.unique(np.concatenate(parts))[:_KEPT]


def _count(lowest: Hashes) -> int:
    """Estimate the number of evenly distributed digests from the lowest ones."""
    if len(lowest) < _KEPT:
        return len(lowest)
    return round((_KEPT - 1) / (float(lowest[-1]) / 2.0**64))


# ---- values as numbers, and the ranges of histograms


@dataclass(frozen=True, slots=True)
class Bin:
    """A range of values and its number of rows; only the last range includes its upper end."""

    low: Any
    high: Any
    rows: int


def is_time(kind: pa.DataType) -> bool:
    """Return True for moments, dates, times and durations, which are stored as integers."""
    return bool(pt.is_temporal(kind)) and not pt.is_interval(kind)


def has_ranges(kind: pa.DataType) -> bool:
    """Return True if values of a type are numbers or times."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) or is_time(kind))


def plain(values: pa.Array) -> pa.Array:
    """Return the storage of extension values, and the decoded values of dictionaries.

    Examples
    --------
    >>> plain(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist()
    ['a', 'b', 'a']
    """
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    return values.cast(values.type.value_type) if pt.is_dictionary(values.type) else values


def as_numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers or times without nulls as doubles, which are exact enough for ranges.

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


def even_edges(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """Return the edges of ranges of equal width: `bins` ranges, or fewer if no float is between.

    Examples
    --------
    >>> even_edges(0.0, 3.0, 3).tolist(), len(even_edges(0.3, 0.1 + 0.2, 12))
    ([0.0, 1.0, 2.0, 3.0], 2)
    """
    steps = np.linspace(0.0, 1.0, bins + 1)
    edges = np.unique(low * (1 - steps) + high * steps)  # high - low may be infinite
    edges[0], edges[-1] = low, high
    return edges if low < high else np.array([low, np.nextafter(high, np.inf)])


# ---- value counts and histograms

#: below this, every integer is exact as a double
_EXACT = 1 << 53
_UNCOUNTED = (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError)


class Counts:
    """The number of occurrences of each value without nulls, up to a limit of distinct values.

    most: the limit at which counting stops. ``None`` for no limit.

    Examples
    --------
    >>> counts = Counts()
    >>> for part in (["b", "a"], ["a", None, "c"]):
    ...     _ = counts.seen(pa.array(part))
    >>> counts.top(2)
    (('a', 2), ('b', 1))
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = math.inf if most is None else most
        #: values in order of first occurrence, and counts; ``None`` if not countable or too many
        self.table: pa.Table | None = pa.table({"value": pa.nulls(0), "count": pa.nulls(0)})

    def seen(self, values: pa.Array) -> pa.Array:
        """Count values in the form of `plain`, and return them."""
        if self.table is not None and len(present := ak.drop_null(values)):
            try:
                table = _added(self.table, present)
            except _UNCOUNTED:  # lists, structs
                table = None
            self.table = table if table is not None and len(table) <= self._most else None
        return values

    def top(self, most: int) -> tuple[tuple[object, int], ...] | None:
        """Return the most frequent values; of equally frequent values the first to occur.

        Return ``None`` if the values were not counted.
        """
        if self.table is None:
            return None
        counts = self.table["count"].to_numpy()
        order = np.argsort(-counts, kind="stable")[:most]
        values = map(python_value, ak.take(self.table["value"], pa.array(order, pa.int64())))
        return tuple(zip(values, counts[order].tolist(), strict=True))


def _added(table: pa.Table, values: pa.Array) -> pa.Table:
    found = values.value_counts()
    part = pa.table({"value": found.field(0), "count": found.field(1)})
    if not len(table):
        return part
    place = pc.index_in(part["value"], table["value"])
    counts, known = table["count"].to_numpy().copy(), ak.drop_null(place).to_numpy()
    counts[known] += ak.filter(part["count"], place.is_valid()).to_numpy()
    new = ak.filter(part, place.is_null())
    return pa.concat_tables([table.set_column(1, "count", [counts]), new])


def histogram(
    kind: pa.DataType,
    found: ColumnStatistics,
    counts: Counts,
    values: Callable[[], Iterable[pa.Array]],
    bins: int,
) -> tuple[tuple[Bin, ...], int]:
    """Return the ranges with their counts, and the number of NaN and infinite values.

    kind: the type of the values.  Only numbers and times have ranges.
    found, counts: the statistics and the counts of all values.
    values: a function that returns all values again.  Unused if the values were counted.
    bins: the most ranges.  Few distinct integers, or times, have a range each.

    Examples
    --------
    >>> from lancekit._pipeline.diff.statistics import column_statistics
    >>> values, counts = pa.array([1, 2, 2, 9]), Counts()
    >>> found = column_statistics([counts.seen(values)])
    >>> histogram(values.type, found, counts, lambda: [values], 3)
    ((Bin(low=1, high=4, rows=3), Bin(low=4, high=7, rows=0), Bin(low=7, high=9, rows=1)), 0)
    """
    if not (bins and has_ranges(kind)):
        return (), 0

    def parts() -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        if counts.table is not None:
            if len(counts.table):
                yield as_numbers(counts.table["value"]), counts.table["count"].to_numpy()
            return
        for part in values():
            numbers = as_numbers(ak.drop_null(part))
            yield numbers, np.ones(len(numbers), np.int64)

    low, high, others = np.inf, -np.inf, 0
    for numbers, weights in parts():
        finite = np.isfinite(numbers)
        others += int(weights[~finite].sum())
        low = min(low, numbers[finite].min(initial=np.inf))
        high = max(high, numbers[finite].max(initial=-np.inf))
    if low > high:
        return (), others
    whole = not (pt.is_floating(kind) or pt.is_decimal(kind))
    edges = _edges(float(low), float(high), bins, whole=whole)
    rows = np.zeros(len(edges) - 1, np.int64)
    for numbers, weights in parts():
        finite = np.isfinite(numbers)
        rows += np.histogram(numbers[finite], edges, weights=weights[finite])[0].astype(np.int64)
    ends = [_whole(kind, edge) if whole else edge for edge in edges.tolist()]
    ends[0], ends[-1] = (found.min, found.max) if whole else (ends[0], float(high))
    return tuple(map(Bin, ends[:-1], ends[1:], rows.tolist())), others


def _edges(low: float, high: float, bins: int, *, whole: bool) -> NDArray[np.float64]:
    if whole and high - low < bins and max(-low, high) < _EXACT:
        return np.append(np.arange(low, high + 1), high)
    return even_edges(low, high, bins)


def _whole(kind: pa.DataType, edge: float) -> object:
    """Return the first value at or above an edge, which leaves the range's values unchanged."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    if not is_time(kind):
        return math.ceil(edge)
    most = (1 << (width.bit_width - 1)) - 1  # a double may round up to one more
    return python_value(pa.array([min(math.ceil(edge), most)], width).view(kind)[0])
