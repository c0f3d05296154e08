"""What the values of a column are like, in one pass over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.display import Displayed
from lancekit.legible import python_value
from lancekit.pipeline.diff.values import Seeds, digests
from lancekit.pipeline.keys.hash import Hashes

__all__ = ["ColumnStatistics", "column_statistics"]

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
