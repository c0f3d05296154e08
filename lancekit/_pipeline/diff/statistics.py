"""What the values of a column are like, in one pass over them."""

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


def as_numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
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


def even_edges(low: float, high: float, bins: int) -> NDArray[np.float64]:
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


# ---- how often values come: each of them, and in ranges

#: below it, whole numbers are floating-point numbers of their own
_EXACT = 1 << 53
_UNCOUNTED = (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError)


class Counts:
    """How often each value comes, nulls left out, as long as there are not too many different ones.

    most: how many different values are too many; ``None`` if none are.

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
        #: values, as they came, and counts; ``None`` if they cannot be counted, or are too many
        self.table: pa.Table | None = pa.table({"value": pa.nulls(0), "count": pa.nulls(0)})

    def seen(self, values: pa.Array) -> pa.Array:
        """Count values, `plain` ones, and give them on."""
        if self.table is not None and len(there := ak.drop_null(values)):
            try:
                table = _added(self.table, there)
            except _UNCOUNTED:  # lists, structs
                table = None
            self.table = table if table is not None and len(table) <= self._most else None
        return values

    def top(self, most: int) -> tuple[tuple[object, int], ...] | None:
        """Return the most frequent values, of equally frequent ones those that came first.

        ``None`` if they were not counted.
        """
        if self.table is None:
            return None
        counts = self.table["count"].to_numpy()
        best = np.argsort(-counts, kind="stable")[:most]
        values = map(python_value, ak.take(self.table["value"], pa.array(best, pa.int64())))
        return tuple(zip(values, counts[best].tolist(), strict=True))


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
    """Return how many values ranges have, and how many none has: NaN and infinite ones.

    kind: the type of the values; only numbers and times have ranges.
    found, counts: what is known of them all.
    values: gives all of them again; not asked where they were counted.
    bins: how many ranges at most.  Few whole numbers, or times, have one each.

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
    """Return the first value that is not below an end: with it the range has the same values."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    if not is_time(kind):
        return math.ceil(edge)
    most = (1 << (width.bit_width - 1)) - 1  # of which a float may be one more
    return python_value(pa.array([min(math.ceil(edge), most)], width).view(kind)[0])
