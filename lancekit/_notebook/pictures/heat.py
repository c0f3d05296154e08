"""A diff by column: which columns changed, in how many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lancekit._api.diff import DatasetDiff
from lancekit._notebook.cards.common import ref
from lancekit._notebook.pictures.style import (
    HATCHES,
    Canvas,
    boxes,
    columns,
    count_axis,
    drawn,
    gauge,
    label,
    sparkline,
)
from lancekit._notebook.render.words import clean, count, cut, listing, plural
from lancekit._picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["diff_picture"]

#: columns that have a bar of their own, those that changed most; cells of the strip
_BARS, _CELLS, _NAME = 12, 100, 24
_STEPS = 5


def diff_picture(diff: DatasetDiff, *, ax: Axes | None = None) -> Picture:
    """Return how many rows and which columns changed; the rows are compared for it."""
    counts, cells = diff.counts, diff.columns
    rows = {
        "inserted": counts.inserted,
        "deleted": counts.deleted,
        "updated": counts.updated,
    }
    changed = {name: number for name, number in cells.items() if number}
    most = sorted(changed, key=lambda name: -changed[name])[:_BARS]
    title = f"What changed, {ref(*diff.old)} to {ref(*diff.new)}"
    first = f"columns by changed values ({count(len(changed))} of {count(len(cells))} changed)"

    def paint(canvas: Canvas) -> None:
        bars, *others = reversed(canvas.axes) if canvas.given else canvas.axes[::-1]
        _draw_bars(bars, most, changed, canvas)
        label(bars, first if len(changed) <= _BARS else f"{first}, the most", canvas.colours)
        if others:
            _draw_strip(others[0], list(cells.values()), counts.updated, canvas)
        if others[1:]:
            _draw_rows(others[1], rows, canvas)

    heights = (0.9, 0.35, 0.35 + 0.26 * max(len(most), 1))
    return drawn(
        title, _alt(diff, rows, changed, most), _text(title, rows, cells, changed, most), paint,
        heights=heights, inches=(6.2, 1.35 + sum(heights)), ax=ax,
    )  # fmt: skip


def _draw_rows(axes: Axes, rows: Mapping[str, int], canvas: Canvas) -> None:
    for y, (number, colour) in enumerate(zip(rows.values(), (2, 1, 0), strict=True)):
        boxes(
            axes, [(0, y - 0.36, float(number), 0.72)], facecolor=canvas.colours.series[colour],
            edgecolor=canvas.colours.ground, hatch=HATCHES[y],
        )  # fmt: skip
    top = max(*rows.values(), 1)
    axes.set_yticks(range(len(rows)), [_sign(name) for name in rows])
    _numbers(axes, list(rows.values()), top, canvas)
    label(axes, "rows", canvas.colours)


def _sign(name: str) -> str:
    return {"inserted": "+ inserted", "deleted": "\u2212 deleted", "updated": "~ updated"}[name]


def _draw_strip(axes: Axes, cells: Sequence[int], updated: int, canvas: Canvas) -> None:
    """Draw all columns in their order, the stronger the more of the updated rows changed there."""
    step = max(-(-len(cells) // _CELLS), 1)
    edges = np.append(np.arange(0, len(cells), step), len(cells))
    top = [max(cells[a:b], default=0) / max(updated, 1) for a, b in pairwise(edges)]
    strong = np.ceil(np.array(top) * _STEPS).astype(int)
    for strength in range(1, _STEPS + 1):
        found = [
            (float(edges[at]), 0.0, float(edges[at + 1] - edges[at]), 1.0)
            for at in np.flatnonzero(strong == strength)
        ]
        boxes(axes, found, facecolor=canvas.colours.series[0], alpha=strength / _STEPS)
    boxes(
        axes, [(0, 0, float(max(len(cells), 1)), 1)], facecolor="none",
        edgecolor=canvas.colours.line, linewidth=0.8,
    )  # fmt: skip
    axes.set_xlim(0, max(len(cells), 1))
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    count_axis(axes.xaxis, 8)
    cells_of = f", {count(step)} to a cell" if step > 1 else ""
    words = f"all columns in their order{cells_of}; strong: in many of the updated rows"
    label(axes, words, canvas.colours)


def _draw_bars(axes: Axes, most: Sequence[str], changed: Mapping[str, int], canvas: Canvas) -> None:
    boxes(
        axes,
        ((0.0, y - 0.36, float(changed[name]), 0.72) for y, name in enumerate(most)),
        facecolor=canvas.colours.series[0],
    )
    axes.set_yticks(range(len(most)), [cut(clean(name), _NAME) for name in most])
    top = max([changed[name] for name in most], default=1)
    _numbers(axes, [changed[name] for name in most], top, canvas)


def _numbers(axes: Axes, numbers: Sequence[int], top: int, canvas: Canvas) -> None:
    for y, number in enumerate(numbers):
        axes.text(
            number + top * 0.012, y, count(number), va="center", fontsize=9.5,
            color=canvas.colours.text,
        )  # fmt: skip
    axes.set_xlim(0, top * 1.12)
    axes.set_ylim(max(len(numbers), 1) - 0.4, -0.6)
    axes.set_xticks([])


def _alt(
    diff: DatasetDiff, rows: Mapping[str, int], changed: Mapping[str, int], most: Sequence[str]
) -> str:
    counts = ", ".join(f"{count(number)} {name}" for name, number in rows.items())
    cells = listing((f"{clean(name)} in {plural(changed[name], 'row')}" for name in most), 6)
    told = f"Columns: {cells}" if most else "No column of an updated row differs"
    return f"Rows: {counts}, {count(diff.counts.unchanged)} unchanged. {told}."


def _text(
    title: str,
    rows: Mapping[str, int],
    cells: Mapping[str, int],
    changed: Mapping[str, int],
    most: Sequence[str],
) -> str:
    top = max(*rows.values(), 1)
    lines = columns([(_sign(n), gauge(v / top), count(v)) for n, v in rows.items()])
    lines.append(f"{count(len(changed))} of {plural(len(cells), 'column')} changed")
    if changed:
        lines.append(f"all of them  {sparkline(list(cells.values()), 60)}")
        high = max(changed.values())
        lines += columns([(clean(n), gauge(changed[n] / high), count(changed[n])) for n in most])
    if len(changed) > len(most):
        lines.append(f"{count(len(changed) - len(most))} more: diff.columns")
    return "\n".join([title, *(f"  {line}" for line in lines)])
