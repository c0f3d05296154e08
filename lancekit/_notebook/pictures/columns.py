"""Value distributions of columns in two versions, and the columns that drifted.

All rows of each side are read if that takes only a moment.  Otherwise the numbers are estimates
from evenly spread blocks of rows, and marked as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.column import SECONDS, sampled_rows
from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.schema import LanceField
from lancekit._notebook.cards.common import place_of, ref
from lancekit._notebook.pictures.style import HATCHES, Canvas, boxes, drawn, several, sparkline
from lancekit._notebook.pictures.style import columns as in_columns
from lancekit._notebook.render.words import cell, clean, count, cut, listing, plural, share
from lancekit._picture import Picture
from lancekit._pipeline.diff.statistics import as_numbers, even_edges, has_ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: columns compared by default, and columns drawn, drifted ones first
_READ, _DRAWN = 24, 9
_ACROSS = 3
_NAME = 20


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows read from a version, its total number of rows, and its reference."""

    table: pa.Table
    total: int
    reference: str

    @property
    def about(self) -> str:
        """The mark of this side's figures: ``"≈ "`` if not all rows were read."""
        return "" if len(self.table) == self.total else "≈ "

    @property
    def words(self) -> str:
        """The number of rows read, of all rows of the version."""
        rows = f"{plural(self.total, 'row')} of {self.reference}"
        return f"estimated from {count(len(self.table))} of {rows}" if self.about else f"all {rows}"


def columns_picture(
    new: LanceDataset,
    *,
    old: LanceDataset,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
    measure: str = "psi",
    ax: Axes | None = None,
) -> Picture:
    """Return the picture of columns' value distributions in two versions."""
    pairs, unread = _pairs(old, new, columns)
    sides = [
        _read(handle, [pair[at] for pair in pairs], sample) for at, handle in enumerate((old, new))
    ]
    found = [
        one
        for before, after in pairs
        if (one := compare(after, sides[0].table[before], sides[1].table[after], measure))
    ]
    found.sort(key=lambda one: -one.value)
    about = sides[0].about, sides[1].about
    name, least = _MEASURES[measure]
    title = f"Columns of {place_of(new).name}, {sides[0].reference} → {sides[1].reference}"
    caption = f"{sides[0].words}; {sides[1].words}; {name}, drift at {least:g} or more" + (
        f"; {plural(unread, 'more column')}: columns=[...]" if unread else ""
    )
    shown = found[: 1 if ax is not None and not several(ax) else _DRAWN]

    def paint(canvas: Canvas) -> None:
        for axes in canvas.axes[len(shown) :]:
            if not canvas.given:
                axes.set_axis_off()
        for axes, one in zip(canvas.axes, shown, strict=False):
            _draw(axes, one, canvas, max(about))
        if not canvas.given:
            more = "; filled: new, dashed or hatched: old"
            if len(found) > len(shown):
                more += f"; {plural(len(found) - len(shown), 'column')} with less drift not drawn"
            canvas.figure.supxlabel(
                _wrapped(caption + more),
                x=0.012, ha="left", fontsize=9, color=canvas.colours.quiet, parse_math=False,
            )  # fmt: skip

    across = min(max(len(shown), 1), _ACROSS)
    down = max(-(-len(shown) // across), 1)
    return drawn(
        title, _alt(found, caption, max(about)), _text(title, found, caption, about), paint,
        heights=[1.0] * down, columns=across,
        inches=(6.2, 1.0 + 1.75 * down), ax=ax,  # as wide for one column: its caption needs it
    )  # fmt: skip


def _wrapped(text: str) -> str:
    parts, lines = text.split("; "), [""]
    for part in parts:
        if len(lines[-1]) + len(part) > 88 and lines[-1]:
            lines.append("")
        lines[-1] += ("; " if lines[-1] else "") + part
    return ";\n".join(lines)


# ---- reading


def _pairs(
    old: LanceDataset, new: LanceDataset, columns: Sequence[str] | None
) -> tuple[list[tuple[str, str]], int]:
    """Return (old, new) column names to compare, and the number of further comparable columns."""
    before = old._snapshot.manifest.schema.fields
    by_id = (
        {field.id: field for field in before} if old._location.root == new._location.root else {}
    )
    by_name = {field.name: field for field in before}
    pairs = []
    wanted: Sequence[str] | None = columns
    if wanted is not None:  # the scanner raises the error for an unknown column
        wanted = new.scanner(columns=list(wanted)).projected_schema.names
    for field in new._snapshot.manifest.schema.fields:
        twin = by_id.get(field.id) or by_name.get(field.name)
        plain = twin is not None and _is_plain(field) and _is_plain(twin)
        if twin is not None and plain and (wanted is None or field.name in wanted):
            pairs.append((twin.name, field.name))
    if wanted is not None:
        return pairs, 0
    return pairs[:_READ], max(len(pairs) - _READ, 0)


def _is_plain(field: LanceField) -> bool:
    kind = field.to_arrow().type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal,
        pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _read(handle: LanceDataset, names: Sequence[str], most: int | None) -> _Side:
    snapshot, columns = handle._snapshot, list(dict.fromkeys(names))
    total, reference = snapshot.manifest.num_rows, ref(handle.branch, handle.version)
    schema = handle.scanner(columns=columns).projected_schema
    batches = sampled_rows(snapshot, columns, most, SECONDS / 2) if columns else []
    return _Side(pa.Table.from_batches(batches, schema), total, reference)


# ---- drawing


def _draw(axes: Axes, one: _Compared, canvas: Canvas, about: str) -> None:
    colours = canvas.colours
    if one.edges is None:
        _draw_values(axes, one, canvas)
    else:
        blue, red = colours.series[:2]
        axes.stairs(one.new, one.edges, fill=True, color=blue, alpha=0.35, linewidth=0)
        axes.stairs(one.new, one.edges, color=blue, linewidth=1.4)
        axes.stairs(one.old, one.edges, color=red, linewidth=1.4, linestyle=(0, (4, 2)))
        ends = float(one.edges[0]), float(one.edges[-1])
        axes.set_xlim(*ends)
        axes.set_ylim(bottom=0)
        axes.set_yticks([])
        axes.set_xticks(ends, [_value(value, one.kind) for value in ends])
        for text, side in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
            text.set(ha=side)
    mark = "▲ drift" if one.drifted else "no drift"
    axes.set_title(
        f"{cut(clean(one.name), _NAME)}\n{one.measure.upper()} {about}{one.value:.2f} {mark}",
        loc="left", fontsize=9.5, pad=4, parse_math=False,
        color=colours.text if one.drifted else colours.quiet,
        weight="bold" if one.drifted else "normal",
    )  # fmt: skip


def _draw_values(axes: Axes, one: _Compared, canvas: Canvas) -> None:
    """Draw a pair of bars for each value, the old side above the new one."""
    blue, red = canvas.colours.series[:2]
    old, new = (
        [(0.0, y + shift, float(share), 0.36) for y, share in enumerate(side)]
        for side, shift in ((one.old, -0.4), (one.new, 0.04))
    )
    ground = canvas.colours.ground
    boxes(axes, new, facecolor=blue, alpha=0.75)
    boxes(axes, old, facecolor=ground, edgecolor=red, hatch=HATCHES[1], linewidth=0.8)
    axes.set_yticks(range(len(one.names)), [cut(name, 11) for name in one.names])
    axes.set_ylim(len(one.names) - 0.4, -0.6)
    top = max(float(one.old.max(initial=0)), float(one.new.max(initial=0)), 0.01)
    axes.set_xlim(0, top * 1.05)
    axes.set_xticks([])


def _value(value: float, kind: pa.DataType) -> str:
    if pa.types.is_date32(kind):
        return _day(value * 86_400)
    if pa.types.is_date64(kind):
        return _day(value / 1e3)
    if pa.types.is_timestamp(kind):
        unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        return _day(value / unit)
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-3:
        return f"{value:.2g}"
    return count(round(value)) if abs(value) >= 100 else f"{value:.3g}"


def _day(seconds: float) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds):%Y-%m-%d}"
    except OverflowError:
        return "out of range"


# ---- text


def _alt(found: Sequence[_Compared], caption: str, about: str) -> str:
    drifted = [f"{clean(one.name)} ({about}{one.value:.2f})" for one in found if one.drifted]
    drift = f"drift in {listing(drifted, 10)}" if drifted else "no drift"
    compared = plural(len(found), "column")
    legend = "The old side is dashed or hatched, the new side filled"
    return f"{compared} compared, {drift}. {legend}. Read: {caption}."


def _text(title: str, found: Sequence[_Compared], caption: str, about: tuple[str, str]) -> str:
    rows = [("column", "old", "new", "measure", "", "nulls")]
    for one in found[:_READ]:
        shares = (f"{mark}{share(part)}" for mark, part in zip(about, one.nulls, strict=True))
        rows.append(
            (
                cut(clean(one.name), 32),
                sparkline(one.old.tolist(), 24),
                sparkline(one.new.tolist(), 24),
                f"{one.measure.upper()} {max(about)}{one.value:.2f}",
                "▲ drift" if one.drifted else "",
                " to ".join(shares) if any(one.nulls) else "",
            )
        )
    more = [f"  {count(len(found) - _READ)} more"] if len(found) > _READ else []
    return "\n".join([title, *(f"  {line}" for line in in_columns(rows)), *more, f"  {caption}"])


# ---- drift measures, each with a threshold
#
# *Population stability index*: the sum of (new share - old share) x log(new share / old share) over
# classes that both sides share: tenths of the old side, or its most frequent values.
# *Kolmogorov-Smirnov*: the largest distance between the two cumulative shares.

Shares: TypeAlias = npt.NDArray[np.float64]
Pair: TypeAlias = tuple[float, float]

#: by measure: its name, and the threshold from which a column counts as drifted
_MEASURES: Mapping[str, tuple[str, float]] = {
    "psi": ("population stability index", 0.2),
    "ks": ("Kolmogorov-Smirnov distance", 0.1),
}
#: bars of a histogram, frequent values of the old side, more of the new side, classes of the index
_BARS, _NAMED, _NEW, _CLASSES = 24, 6, 2, 10
#: the least share of a class, and the fraction of a row that an empty class of a sample stands for
_LEAST, _HALF = 1e-4, 0.5
#: no bar ends beyond this number, so that sums of ends are finite
_HIGHEST = 1e300


@dataclass(frozen=True, slots=True)
class _Compared:
    """The distributions of a column on both sides as shares of bars, and its drift.

    ``edges`` has the ends of the bars of numbers and times, ``names`` the values of other types.
    ``nulls`` has the shares of nulls, which are in no bar.
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
        """True if the measure reaches its threshold."""
        return self.value >= _MEASURES[self.measure][1]


def stability_index(old: Shares, new: Shares, least: float = _LEAST) -> float:
    """Return the population stability index of shares in the same classes.

    An empty class counts with the share ``least``.

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


def compare(
    name: str, old: pa.ChunkedArray, new: pa.ChunkedArray, measure: str
) -> _Compared | None:
    """Return the drift of a column; ``None`` for types that have neither bins nor countable values.

    measure: ``"psi"`` or ``"ks"``; values other than numbers and times always use ``"psi"``.
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
) -> _Compared:
    edges = _bars(old, new)
    before, after = (np.histogram(side, edges)[0] / max(len(side), 1) for side in (old, new))
    value = _index(old, new, nulls) if measure == "psi" else kolmogorov_smirnov(old, new)
    return _Compared(name, before, after, edges, (), nulls, measure, value, kind)


def _of_values(
    name: str, old: dict[object, int], new: dict[object, int], nulls: Pair, kind: pa.DataType
) -> _Compared:
    """Return the drift of values without order; rare values share one class."""
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
    labels = (*(cell(one, 24) for one in names), *rest)
    return _Compared(name, sides[0], sides[1], None, labels, nulls, "psi", value, kind)


def _least(old: int, new: int) -> float:
    """Return the share of an empty class: less than one value of the smaller sample."""
    return max(_LEAST, _HALF / max(min(old, new), 1))


def _index(old: Shares, new: Shares, nulls: Pair) -> float:
    """Return the population stability index over tenths of the old side.

    Further classes: each value that fills a tenth, nulls, new values below the old minimum, new
    values above the old maximum.
    """
    old, new = old / 4, new / 4  # a quarter, so that differences are finite
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
    """Return the edges of bars from the lowest to the highest value, without far outliers."""
    both = np.concatenate([old, new])
    if not len(both):
        return np.array([0.0, 1.0])
    low, high = float(both.min()), float(both.max())
    some = np.quantile(both / 4, [0.005, 0.995])  # a quarter, so that the difference is finite
    wide = max(float(some[1] - some[0]), 1e-300)
    low, high = max(low, float(some[0]) * 4 - wide), min(high, float(some[1]) * 4 + wide)
    if not high > low:
        half = max(abs(low), 1.0) / 2
        low, high = low - half, high + half
    low, high = max(low, -_HIGHEST), min(high, _HIGHEST)
    edges: Shares = even_edges(low, high, min(_BARS, max(round(sqrt(len(both))), 4)))
    return edges


def _numbers(values: pa.ChunkedArray) -> Shares | None:
    """Return numbers and times as numbers, without nulls, NaN and infinities."""
    if not has_ranges(values.type):
        return None
    found: Shares = as_numbers(ak.drop_null(values))
    return found[np.isfinite(found)]


def _counted(values: pa.ChunkedArray) -> dict[object, int] | None:
    """Return the count of each value; ``None`` for types that cannot be counted."""
    try:
        there: pa.Array = ak.combine_chunks(ak.drop_null(values))
        if not isinstance(there, pa.DictionaryArray):
            there = there.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    numbers = np.bincount(there.indices.to_numpy(), minlength=len(there.dictionary))
    found = zip(there.dictionary.to_pylist(), numbers.tolist(), strict=True)
    return {value: number for value, number in found if number}
