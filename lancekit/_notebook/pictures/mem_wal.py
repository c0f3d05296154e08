"""The picture of a table's shards: writers, generations, logs and the rows still to be merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lancekit._api.lance_dataset import LanceDataset
from lancekit._notebook.cards.common import place_of, ref
from lancekit._notebook.pictures.style import (
    HATCHES,
    Canvas,
    boxes,
    columns,
    count_axis,
    drawn,
    label,
)
from lancekit._notebook.render.words import clean, count, cut, listing, plural
from lancekit._operations.mem_wal.shards import ShardInfo
from lancekit._picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: shards drawn (those with the most rows to merge), newest generations of each, characters of an id
_SHARDS, _GENERATIONS, _ID = 20, 24, 8
_KEY = "filled: merged; hatched: to merge; outlined: log"


def mem_wal_picture(ds: LanceDataset, *, ax: Axes | None = None) -> Picture:
    """Return the picture of a table's current shards; it reads their manifests and no rows."""
    every = ds.mem_wal_shards()
    shards = sorted(every, key=lambda one: (-_lag(one), -one.log_entries, one.shard_id))[:_SHARDS]
    title = f"Write-ahead logs of {place_of(ds).name}, {ref(ds.branch, ds.version)}"
    notes = [f"{count(len(shards))} of {count(len(every))} shards, most rows to merge first"]
    notes = notes if len(every) > len(shards) else []

    def paint(canvas: Canvas) -> None:
        left, *right = canvas.axes
        _draw_generations(left, shards, canvas)
        label(left, "generations", canvas.colours)
        if right:
            _draw_lag(right[0], shards, canvas)
            label(right[0], "rows to merge", canvas.colours)
        if not canvas.given:
            canvas.figure.supxlabel(
                "; ".join([_KEY, *notes]), x=0.012, ha="left", fontsize=9,
                color=canvas.colours.quiet,
            )  # fmt: skip

    return drawn(
        title, _alt(every, notes), _text(title, shards, notes), paint, columns=2,
        inches=(6.2, 1.35 + 0.34 * max(len(shards), 1)), ax=ax,
    )  # fmt: skip


def _bar(one: ShardInfo) -> str:
    merged = min(one.merged_generation, _GENERATIONS)
    waiting = min(len(one.unmerged_generations), _GENERATIONS)
    return "█" * merged + "▒" * waiting + ("□" if one.log_entries else "")


def _lag(one: ShardInfo) -> int:
    """Return the rows to be merged; a generation of unknown size counts as one row."""
    return sum(1 if g.rows is None else g.rows for g in one.unmerged_generations)


def _name(one: ShardInfo) -> str:
    sealed = ", sealed" if one.sealed else ""
    return f"{cut(clean(one.shard_id), _ID)} · epoch {count(one.epoch)}{sealed}"


def _draw_generations(axes: Axes, shards: Sequence[ShardInfo], canvas: Canvas) -> None:
    colours = canvas.colours
    low, high = _ends(shards)
    merged, waiting, logs = [], [], []
    for y, one in enumerate(shards):
        if one.merged_generation >= low:
            wide = one.merged_generation - low + 0.88
            merged.append((low - 0.44, y - 0.32, wide, 0.64))
        waiting += [
            (g.number - 0.44, y - 0.32, 0.88, 0.64)
            for g in one.unmerged_generations
            if g.number >= low
        ]
        if one.log_entries:
            logs.append((one.current_generation - 0.44, y - 0.32, 0.88, 0.64))
            axes.text(
                one.current_generation + 0.54, y, f"+{plural(one.log_entries, 'entry', 'entries')}",
                va="center", fontsize=8.5, color=colours.quiet,
            )  # fmt: skip
    boxes(axes, merged, facecolor=colours.series[2])
    boxes(axes, waiting, facecolor=colours.series[1], edgecolor=colours.ground, hatch=HATCHES[1])
    boxes(axes, logs, facecolor="none", edgecolor=colours.series[0], linewidth=1.4)
    axes.set_xlim(low - 0.8, high + max(2.5, (high - low) * 0.35))
    _rows(axes, [_name(one) for one in shards])
    count_axis(axes.xaxis, 6)


def _draw_lag(axes: Axes, shards: Sequence[ShardInfo], canvas: Canvas) -> None:
    lags = [_lag(one) for one in shards]
    boxes(
        axes, ((0.0, y - 0.32, float(lag), 0.64) for y, lag in enumerate(lags)),
        facecolor=canvas.colours.series[1], edgecolor=canvas.colours.ground, hatch=HATCHES[1],
    )  # fmt: skip
    top = max(lags, default=0) or 1
    for y, lag in enumerate(lags):
        axes.text(
            lag + top * 0.02, y, count(lag), va="center", fontsize=9.5, color=canvas.colours.text
        )
    axes.set_xlim(0, top * 1.25)
    axes.set_xticks([])
    _rows(axes, [""] * len(shards))


def _ends(shards: Sequence[ShardInfo]) -> tuple[int, int]:
    """Return the lowest and the highest generation to draw."""
    high = max((one.current_generation - (not one.log_entries) for one in shards), default=1)
    low = min((g.number for one in shards for g in one.unmerged_generations), default=1)
    if any(one.merged_generation for one in shards):
        low = 1
    return max(low, high - _GENERATIONS + 1), max(high, 1)


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)


def _alt(shards: Sequence[ShardInfo], notes: Sequence[str]) -> str:
    waiting = [one for one in shards if one.unmerged_generations]
    lag = sum(map(_lag, shards))
    number = sum(len(one.unmerged_generations) for one in shards)
    lag_text = (
        f"{plural(number, 'generation')} with {plural(lag, 'row')} to merge, "
        f"of {listing((cut(one.shard_id, _ID) for one in waiting), 5)}"
        if waiting
        else "no generations to merge"
    )
    entries = sum(one.log_entries for one in shards)
    logs = f"; {plural(entries, 'entry', 'entries')} in the logs" if entries else ""
    return ". ".join([f"{plural(len(shards), 'shard')}: {lag_text}{logs}", *notes]) + "."


def _text(title: str, shards: Sequence[ShardInfo], notes: Sequence[str]) -> str:
    if not shards:
        return f"{title}: no shards"
    rows = [
        (
            _name(one),
            _bar(one),
            f"{plural(_lag(one), 'row')} to merge",
            plural(one.log_entries, "log entry", "log entries"),
        )
        for one in shards
    ]
    key = "█ merged, ▒ to merge, □ log"
    return "\n".join([title, *(f"  {line}" for line in [*columns(rows), key, *notes])])
