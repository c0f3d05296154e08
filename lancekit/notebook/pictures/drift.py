"""By how much the values of two sides differ: two measures, each with a value from which it counts.

*Population stability index*: both sides in the same classes, tenths of the old side or its most
frequent values; the sum of (new share - old share) x log(new share / old share).  *Kolmogorov and
Smirnov*: the largest distance between the two cumulative shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.notebook.render.words import cell
from lancekit.pipeline.diff.ranges import as_numbers, even_edges, has_ranges

__all__ = ["MEASURES", "Compared", "compare", "kolmogorov_smirnov", "stability_index"]

Shares: TypeAlias = npt.NDArray[np.float64]
Pair: TypeAlias = tuple[float, float]

#: measures by their name: what they are called, and from when a column counts as drifted
MEASURES: Mapping[str, tuple[str, float]] = {
    "psi": ("population stability index", 0.2),
    "ks": ("Kolmogorov-Smirnov distance", 0.1),
}
#: bars of a drawing, values of the old side and of the new that have one, classes of the index
_BARS, _NAMED, _NEW, _CLASSES = 24, 6, 2, 10
#: the least share that a class is taken to have, and the least part of a value in a sample
_LEAST, _HALF = 1e-4, 0.5
#: numbers beyond it have no bar: sums of ends are finite
_HIGHEST = 1e300


@dataclass(frozen=True, slots=True)
class Compared:
    """A column's values on both sides, as shares of bars, and by how much they differ.

    ``edges`` are the ends of the bars of numbers and times, ``names`` the values of others; the
    shares of nulls stand apart.
    """

    name: str
    old: Shares
    new: Shares
    edges: Shares | None
    names: tuple[str, ...]
    nulls: Pair
    measure: str
    value: float
    kind: pa.DataType

    @property
    def drifted(self) -> bool:
        """Whether the measure is above its threshold."""
        return self.value >= MEASURES[self.measure][1]


def stability_index(old: Shares, new: Shares, least: float = _LEAST) -> float:
    """Return the population stability index of shares in the same classes.

    A class without values is taken to have the share ``least``.

    Examples
    --------
    >>> round(stability_index(np.array([0.5, 0.5]), np.array([0.8, 0.2])), 3)
    0.416
    """
    a, b = np.maximum(old, least), np.maximum(new, least)
    return float(((b - a) * np.log(b / a)).sum())


def kolmogorov_smirnov(old: Shares, new: Shares) -> float:
    """Return the largest distance between the cumulative shares of two samples of numbers.

    Examples
    --------
    >>> kolmogorov_smirnov(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    both = np.sort(np.concatenate([old, new]))
    if not len(old) or not len(new):
        return float(len(old) != len(new))
    sides = (np.searchsorted(np.sort(side), both, side="right") / len(side) for side in (old, new))
    return float(np.abs(next(sides) - next(sides)).max())


def compare(name: str, old: pa.ChunkedArray, new: pa.ChunkedArray, measure: str) -> Compared | None:
    """Return how a column differs; ``None`` for values that have neither order nor equality here.

    Parameters
    ----------
    measure
        ``"psi"`` or ``"ks"``; of values that are no numbers or times it is the first.
    """
    nulls = ak.null_count(old) / max(len(old), 1), ak.null_count(new) / max(len(new), 1)
    numbers = _numbers(old), _numbers(new)
    if numbers[0] is not None and numbers[1] is not None:
        return _of_numbers(name, numbers[0], numbers[1], nulls, measure, new.type)
    counted = _counted(old), _counted(new)
    if counted[0] is not None and counted[1] is not None:
        return _of_values(name, counted[0], counted[1], nulls, new.type)
    return None


def _of_numbers(
    name: str, old: Shares, new: Shares, nulls: Pair, measure: str, kind: pa.DataType
) -> Compared:
    edges = _bars(old, new)
    before, after = (np.histogram(side, edges)[0] / max(len(side), 1) for side in (old, new))
    value = _index(old, new, nulls) if measure == "psi" else kolmogorov_smirnov(old, new)
    return Compared(name, before, after, edges, (), nulls, measure, value, kind)


def _of_values(
    name: str, old: dict[Any, int], new: dict[Any, int], nulls: Pair, kind: pa.DataType
) -> Compared:
    """Return how values without order differ; rare ones are one class."""
    names = sorted(old, key=lambda value: -old[value])[:_NAMED]
    names += sorted(new.keys() - set(names), key=lambda value: -new[value])[:_NEW]
    rest = ("others",) if (old.keys() | new.keys()) - set(names) else ()
    sides = []
    for side in (old, new):
        own = [float(side.get(value, 0)) for value in names]
        whole = max(sum(side.values()), 1)
        sides.append(np.array([*own, *([whole - sum(own)] if rest else [])]) / whole)
    before, after = (
        np.append(side * (1 - part), part) for side, part in zip(sides, nulls, strict=True)
    )
    value = stability_index(before, after, _least(sum(old.values()), sum(new.values())))
    said = (*(cell(one, 24) for one in names), *rest)
    return Compared(name, sides[0], sides[1], None, said, nulls, "psi", value, kind)


def _least(old: int, new: int) -> float:
    """Return what a class without values counts: less than one value of the smaller sample."""
    return max(_LEAST, _HALF / max(min(old, new), 1))


def _index(old: Shares, new: Shares, nulls: Pair) -> float:
    """Return the index over tenths of the old side.

    A value that fills a tenth is a class of its own, and so are nulls, and what lies below the old
    side's lowest value and above its highest.
    """
    old, new = old / 4, new / 4  # whose differences are finite
    tenths = np.quantile(old, np.arange(_CLASSES + 1) / _CLASSES) if len(old) else np.zeros(1)
    often = tenths[1:][tenths[1:] == tenths[:-1]]
    ends = np.nextafter([*often, tenths[-1]], np.inf)
    inner = np.unique(np.concatenate([tenths[:-1], often, ends]))
    sides = []
    for side, part in zip((old, new), nulls, strict=True):
        classes = np.bincount(np.searchsorted(inner, side, side="right"), minlength=len(inner) + 1)
        sides.append(np.append(classes / max(len(side), 1) * (1 - part), part))
    return stability_index(sides[0], sides[1], _least(len(old), len(new)))


def _bars(old: Shares, new: Shares) -> Shares:
    """Return the ends of bars: from the lowest to the highest value, without far outliers."""
    both = np.concatenate([old, new])
    if not len(both):
        return np.array([0.0, 1.0])
    low, high = float(both.min()), float(both.max())
    some = np.quantile(both / 4, [0.005, 0.995])  # whose difference is finite
    wide = max(float(some[1] - some[0]), 1e-300)
    low, high = max(low, float(some[0]) * 4 - wide), min(high, float(some[1]) * 4 + wide)
    if not high > low:
        half = max(abs(low), 1.0) / 2
        low, high = low - half, high + half
    low, high = max(low, -_HIGHEST), min(high, _HIGHEST)
    least = min(_BARS, max(round(sqrt(len(both))), 4))
    edges: Shares = even_edges(low, high, least)
    return edges


def _numbers(values: pa.ChunkedArray) -> Shares | None:
    """Return numbers and times as numbers, without nulls, NaN and infinities."""
    if not has_ranges(values.type):
        return None
    found: Shares = as_numbers(ak.drop_null(values))
    return found[np.isfinite(found)]


def _counted(values: pa.ChunkedArray) -> dict[Any, int] | None:
    """Return how often each value stands."""
    try:
        there: Any = ak.combine_chunks(ak.drop_null(values))
        if not pa.types.is_dictionary(there.type):
            there = there.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    numbers = np.bincount(there.indices.to_numpy(), minlength=len(there.dictionary))
    found = zip(there.dictionary.to_pylist(), numbers.tolist(), strict=True)
    return {value: number for value, number in found if number}
