"""Pictures of a history (rows, bytes and operations by version) and of a diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from lancekit._api.diff import DatasetDiff
from lancekit._api.history import Version
from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.names import MAIN
from lancekit._notebook.cards.common import (
    OPERATIONS,
    is_quiet,
    operation_word,
    place_of,
    ref,
    tags_by_version,
)
from lancekit._notebook.pictures.style import (
    DASHES,
    HATCHES,
    MARKS,
    Canvas,
    boxes,
    bytes_axis,
    columns,
    count_axis,
    drawn,
    gauge,
    label,
    several,
    sparkline,
)
from lancekit._notebook.render.words import clean, count, cut, listing, moment, plural, size
from lancekit._picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL = 24
#: branches that are drawn, each with its colour and mark; the graph shows further ones
_BRANCHES = len(MARKS)
#: operations that have a row of their own
_OPERATIONS = 8
#: newest tags that are labelled
_TAGS = 12


@dataclass(frozen=True, slots=True)
class _Branch:
    name: str
    versions: Sequence[Version]
    total: int
    tags: Mapping[int, Sequence[str]]
    parent: str | None = None
    fork: int = 0


def history_picture(
    ds: LanceDataset,
    *,
    limit: int = 50,
    spread: bool = False,
    over: str = "version",
    show: Sequence[str] = ("rows", "bytes", "operations"),
    ax: Axes | None = None,
) -> Picture:
    """Return the picture of each branch's newest versions, or of evenly spread versions."""
    branches, left = _branches(ds, limit, spread)
    name = place_of(ds).name
    title, alt = f"History of {name}", _alt(branches, left)
    panels = list(show)[:1] if ax is not None and not several(ax) else list(show)
    heights = {"rows": 2.0, "bytes": 1.3, "operations": 0.45 + 0.24 * len(_words(branches))}

    def paint(canvas: Canvas) -> None:
        where: Where = attrgetter("timestamp" if over == "time" else "version")
        for panel, axes in zip(panels, canvas.axes, strict=False):
            _PANELS[panel](axes, branches, where, canvas)
        _abscissa(canvas, over, branches, where)

    return drawn(
        title,
        alt,
        _text(title, branches, left),
        paint,
        heights=[heights[panel] for panel in panels],
        inches=(6.2, 0.9 + sum(heights[panel] for panel in panels)),
        share=True,
        ax=ax,
    )


def _branches(ds: LanceDataset, limit: int, spread: bool) -> tuple[list[_Branch], int]:
    """Return main and the branches in the order of their forks, and the number left out."""
    branches = ds.branches.list_ordered("asc")
    wanted: list[tuple[str, str | None, int]] = [(MAIN, None, 0)]
    wanted += [(name, b["parent_branch"] or MAIN, b["parent_version"]) for name, b in branches]
    # main and the handle's branch come first, so that the limit never leaves them out
    wanted.sort(key=lambda branch: (branch[0] != MAIN, branch[0] != ds.branch))
    found = []
    for name, parent, fork in wanted[:_BRANCHES]:
        history = ds.checkout_version((name, None)).versions()
        tags = tags_by_version(ds.tags, name) or {}
        picked = _spread(len(history), limit, spread)
        versions = (
            list(history[picked]) if isinstance(picked, slice) else [history[at] for at in picked]
        )
        found.append(_Branch(name, versions, len(history), tags, parent, fork))
    return found, len(wanted) - len(found)


def _spread(total: int, limit: int, spread: bool) -> slice | list[int]:
    if not spread or total <= limit:
        return slice(max(total - limit, 0), total)
    step = (total - 1) / max(limit - 1, 1)
    return sorted({round(at * step) for at in range(limit)} | {total - 1})


def _words(branches: Branches) -> list[str]:
    """Return the words of the drawn operations; operations that change rows come first."""
    versions = [version for branch in branches for version in branch.versions]
    order = [*OPERATIONS, *(version.operation for version in versions)]
    versions.sort(key=lambda v: (is_quiet(v.operation), order.index(v.operation)))
    return list(dict.fromkeys(map(_word, versions)))[:_OPERATIONS]


# ---- drawing

Branches = Sequence[_Branch]
Where = Callable[[Version], Any]


def _look(at: int, canvas: Canvas) -> dict[str, Any]:
    """Return the line style of a branch."""
    few = {"marker": MARKS[at], "markersize": 4.5}
    return {"color": canvas.colours.series[at], "linestyle": DASHES[at], "linewidth": 1.6, **few}


def _draw_steps(
    axes: Axes, branches: Branches, where: Where, canvas: Canvas, of: Callable[[Version], int]
) -> None:
    """Draw a number of each version as steps, one line for each branch."""
    for at, branch in enumerate(branches):
        x, y = [where(v) for v in branch.versions], [of(v) for v in branch.versions]
        look = _look(at, canvas)
        if len(x) > 60:
            look["marker"] = ""
        axes.plot(x, y, drawstyle="steps-post", label=cut(clean(branch.name), _LABEL), **look)
    axes.set_ylim(0, max(axes.dataLim.y1 * 1.12, 1))  # room for the highest marker
    axes.grid(axis="y", color=canvas.colours.line, linewidth=0.8)
    axes.set_axisbelow(True)


def _rows(axes: Axes, branches: Branches, where: Where, canvas: Canvas) -> None:
    _draw_steps(axes, branches, where, canvas, lambda v: v.num_rows)
    _tags(axes, branches, where, canvas)
    count_axis(axes.yaxis)
    label(axes, "rows", canvas.colours)
    if len(branches) > 1:
        legend = axes.legend(
            loc="lower right", bbox_to_anchor=(1, 1), ncols=_columns(branches), frameon=False,
            fontsize=9, columnspacing=1.2, labelcolor=canvas.colours.text, handlelength=2.6,
            borderpad=0, borderaxespad=0.2,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)


def _columns(branches: Branches) -> int:
    """Return the number of legend columns that fit the longest branch name."""
    longest = max(min(len(branch.name), _LABEL) for branch in branches)
    return min(len(branches), max(72 // (longest + 8), 1))


def _tags(axes: Axes, branches: Branches, where: Where, canvas: Canvas) -> None:
    tagged = [
        (v, tags) for one in branches for v in one.versions if (tags := one.tags.get(v.version))
    ]
    for version, tags in tagged[-_TAGS:]:
        axes.annotate(
            f"▸{cut(listing(sorted(tags), 2), _LABEL)}",
            (where(version), version.num_rows),
            (0, 6),
            textcoords="offset points",
            ha="center",
            color=canvas.colours.text,
            fontsize=8.5,
            parse_math=False,
        )


def _bytes(axes: Axes, branches: Branches, where: Where, canvas: Canvas) -> None:
    _draw_steps(axes, branches, where, canvas, lambda v: v.total_bytes)
    top = max((v.total_bytes for one in branches for v in one.versions), default=0)
    bytes_axis(axes.yaxis, top)
    label(axes, "size of data files", canvas.colours)


def _operations(axes: Axes, branches: Branches, where: Where, canvas: Canvas) -> None:
    words = _words(branches)
    for at, branch in enumerate(branches):
        for quiet in (False, True):
            some = [
                v for v in branch.versions if is_quiet(v.operation) is quiet and _word(v) in words
            ]
            # a small offset separates the branches of one row
            y = [words.index(_word(v)) + 0.16 * (at - (len(branches) - 1) / 2) for v in some]
            axes.plot(
                [where(v) for v in some], y, MARKS[at], color=canvas.colours.series[at],
                markersize=4.5, markerfacecolor="none" if quiet else canvas.colours.series[at],
            )  # fmt: skip
    axes.set_yticks(range(len(words)), words)
    axes.set_ylim(len(words) - 0.4, -0.6)
    axes.grid(axis="y", color=canvas.colours.line, linewidth=0.8)
    axes.set_axisbelow(True)
    label(axes, "operations (hollow: no row changes)", canvas.colours)


def _word(version: Version) -> str:
    return operation_word(version.operation, first=version.read_version == 0)


def _abscissa(canvas: Canvas, over: str, branches: Branches, where: Where) -> None:
    """Label the last x axis with versions or times."""
    last = canvas.axes[-1]
    if over == "time":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=7)
        last.xaxis.set_major_locator(locator)
        last.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        last.set_xlabel("committed, UTC", color=canvas.colours.quiet, fontsize=9.5)
        return
    count_axis(last.xaxis, 9)
    last.set_xlabel("version", color=canvas.colours.quiet, fontsize=9.5)
    numbers = [where(v) for branch in branches for v in branch.versions]
    if len(set(numbers)) == 1:
        last.set_xlim(numbers[0] - 1, numbers[0] + 1)


_PANELS = {"rows": _rows, "bytes": _bytes, "operations": _operations}


# ---- text


def _shown(branch: _Branch) -> str:
    whole, drawn = plural(branch.total, "version"), len(branch.versions)
    return whole if drawn == branch.total else f"{count(drawn)} of {whole}"


def _alt(branches: Branches, left: int) -> str:
    sentences = []
    for branch in branches:
        fork = f", forked from {clean(branch.parent)}:{branch.fork}" if branch.parent else ""
        words = f"{clean(branch.name)}: {_shown(branch)}{fork}"
        if branch.versions:
            counts = branch.versions[0].num_rows, branch.versions[-1].num_rows
            words += f", {count(counts[0])} to {plural(counts[1], 'row')}"
        tags = [
            f"tag {clean(tag)} at {v.version}"
            for v in branch.versions
            for tag in sorted(branch.tags.get(v.version, ()))
        ]
        sentences.append(f"{words}{'; ' if tags else ''}{listing(tags, 10)}.")
    if left:
        sentences.append(f"{plural(left, 'more branch', 'more branches')}.")
    return " ".join(sentences)


def _text(title: str, branches: Branches, left: int) -> str:
    rows = []
    for branch in branches:
        if not branch.versions:
            continue
        first, last = branch.versions[0], branch.versions[-1]
        name, shown = clean(branch.name), _shown(branch)
        for what, of, say in (
            ("rows", [v.num_rows for v in branch.versions], count),
            ("size", [v.total_bytes for v in branch.versions], size),
        ):
            rows.append((name, shown, what, sparkline(of, 40), f"{say(of[0])} to {say(of[-1])}"))
            name = shown = ""
        done: dict[str, int] = {}
        for v in branch.versions:
            done[_word(v)] = done.get(_word(v), 0) + 1
        most = sorted(done, key=lambda word: -done[word])
        rows.append(("", "", "operations", listing((f"{count(done[w])} {w}" for w in most), 6), ""))
        times = f"{moment(first.timestamp)} to {moment(last.timestamp)}"
        rows.append(("", "", "committed", times, ""))
        tags = [
            f"{tag} at {v.version}"
            for v in branch.versions
            for tag in sorted(branch.tags.get(v.version, ()))
        ]
        if tags:
            rows.append(("", "", "tags", listing(tags, 6), ""))
    more = [f"  {plural(left, 'more branch', 'more branches')}"] if left else []
    return "\n".join([title, *(f"  {line}" for line in columns(rows, 56)), *more])


# ---- a diff by column: the changed columns, and their numbers of changed rows

#: columns with a bar (most changed first), cells of the strip, characters of a name
_BARS, _CELLS, _NAME = 12, 100, 24
_STEPS = 5


def diff_picture(diff: DatasetDiff, *, ax: Axes | None = None) -> Picture:
    """Return the picture of a diff's changed rows and columns; this compares the rows."""
    counts, cells = diff.counts, diff.columns
    rows = {"inserted": counts.inserted, "deleted": counts.deleted, "updated": counts.updated}
    changed = {name: number for name, number in cells.items() if number}
    most = sorted(changed, key=lambda name: -changed[name])[:_BARS]
    title = f"Diff {ref(*diff.old)} → {ref(*diff.new)}"
    first = f"columns by changed values ({count(len(changed))} of {count(len(cells))} changed)"

    def paint(canvas: Canvas) -> None:
        bars, *others = reversed(canvas.axes) if canvas.given else canvas.axes[::-1]
        _draw_bars(bars, most, changed, canvas)
        label(bars, first if len(changed) <= _BARS else f"{first}, most first", canvas.colours)
        if others:
            _draw_strip(others[0], list(cells.values()), counts.updated, canvas)
        if others[1:]:
            _draw_rows(others[1], rows, canvas)

    heights = (0.9, 0.35, 0.35 + 0.26 * max(len(most), 1))
    return drawn(
        title, _heat_alt(diff, rows, changed, most),
        _heat_text(title, rows, cells, changed, most), paint,
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
    """Draw a strip of all columns; opacity is the share of updated rows that changed there."""
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
    cells_of = f", {count(step)} per cell" if step > 1 else ""
    words = f"all columns in schema order{cells_of}; stronger colour: changed in more rows"
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


def _heat_alt(
    diff: DatasetDiff, rows: Mapping[str, int], changed: Mapping[str, int], most: Sequence[str]
) -> str:
    counts = ", ".join(f"{count(number)} {name}" for name, number in rows.items())
    cells = listing((f"{clean(name)} in {plural(changed[name], 'row')}" for name in most), 6)
    columns_text = f"Columns: {cells}" if most else "No column of an updated row differs"
    return f"Rows: {counts}, {count(diff.counts.unchanged)} unchanged. {columns_text}."


def _heat_text(
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
        lines.append(f"all columns  {sparkline(list(cells.values()), 60)}")
        high = max(changed.values())
        lines += columns([(clean(n), gauge(changed[n] / high), count(changed[n])) for n in most])
    if len(changed) > len(most):
        lines.append(f"{count(len(changed) - len(most))} more: diff.columns")
    return "\n".join([title, *(f"  {line}" for line in lines)])
