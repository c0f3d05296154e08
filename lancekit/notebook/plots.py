"""A picture of the history: lines of versions, their forks and tags, and how the rows grew."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from typing import Any

from lancekit.api.history import Version
from lancekit.api.lance_dataset import LanceDataset
from lancekit.api.pylance.arguments import check_count
from lancekit.checked import checked
from lancekit.errors import InvalidTypeError
from lancekit.format.refs import MAIN
from lancekit.legible import shown
from lancekit.notebook._common import is_quiet, place_of, tags_by_version
from lancekit.notebook.words import clean, count, cut, listing, plural

__all__ = ["HistoryPicture", "plot_history"]

#: dark enough on white for anyone; lines also differ in marker and dash, for print
_LOOKS = (
    ("#0a58ca", "o", "-"),
    ("#b34700", "s", "--"),
    ("#00664d", "^", "-."),
    ("#8a2f8f", "D", ":"),
    ("#5c4a00", "v", "-"),
    ("#454c54", "P", "--"),
)
_TEXT = "#1f2328"
_GRID = "#d0d7de"
_MAX_LINES = len(_LOOKS)
_LABEL = 28
_DPI = 110


@dataclass(frozen=True, slots=True)
class HistoryPicture:
    """A matplotlib figure with the text that stands for it where it cannot be seen."""

    figure: Any = field(repr=False)
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def png(self) -> bytes:
        """Return the picture as a PNG file."""
        out = BytesIO()
        # without its own version number, so that the same history gives the same bytes
        self.figure.savefig(out, format="png", metadata={"Software": None, "Title": self.alt})
        return out.getvalue()

    def _repr_html_(self) -> str:
        # not `_repr_png_`: notebooks give such pictures no alternative text
        data = b64encode(self.png()).decode()
        style = "max-width: 100%; background: white"
        return f'<img src="data:image/png;base64,{data}" alt="{escape(self.alt)}" style="{style}">'


@dataclass(frozen=True, slots=True)
class _Lane:
    name: str
    versions: Sequence[Version]
    tags: Mapping[int, Sequence[str]]
    parent: str | None = None
    fork: int = 0


@checked
def plot_history(dataset: LanceDataset, *, limit: int = 50) -> HistoryPicture:
    """Draw the versions of main and of the branches, with tags and row counts.

    Parameters
    ----------
    dataset
        A handle; whichever version or branch it is at, all lines are drawn.
    limit
        The most versions of each line, the newest; each costs one small read.

    Returns
    -------
    HistoryPicture
        A notebook shows it; `figure` is matplotlib's, to change or save.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-example")
    >>> ds.tags.create("first", 1)
    >>> lk.plot_history(lk.write_dataset({"x": [2, 3]}, ds, mode="append"))
    History of plot-example. main: 2 versions, 1 to 3 rows; tag first at 1.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if not isinstance(dataset, LanceDataset):
        raise InvalidTypeError(f"{shown(dataset)} is no dataset.", hint="Pass a LanceDataset.")
    lanes, left_out = _lanes(dataset, check_count("limit", limit))
    name = place_of(dataset).name
    figure = Figure(figsize=(8, 2.9 + 0.45 * len(lanes)), dpi=_DPI, layout="constrained")
    figure.suptitle(f"History of {name}", x=0.01, ha="left", color=_TEXT, fontsize=12)
    rows, lines = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 0.6 + 0.45 * len(lanes)])
    for lane, look in zip(lanes, _LOOKS, strict=False):
        _draw_rows(rows, lane, look)
    _draw_lines(lines, lanes)
    rows.set_ylabel("rows", color=_TEXT)
    rows.set_ylim(bottom=0)
    rows.margins(y=0.15)
    rows.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count(round(value))))
    rows.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    rows.grid(axis="y", color=_GRID, linewidth=0.8)
    rows.set_axisbelow(True)
    lines.xaxis.set_major_locator(MaxNLocator(nbins=18, integer=True))
    lines.set_xlabel("version", color=_TEXT)
    for axes in (rows, lines):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(colors=_TEXT, length=0)
    return HistoryPicture(figure, _alt(name, lanes, left_out))


def _lanes(dataset: LanceDataset, limit: int) -> tuple[list[_Lane], int]:
    """Return main and the branches in the order of their forks, and how many are left out."""
    branches = dataset.branches.list_ordered("asc")
    lines: list[tuple[str, str | None, int]] = [(MAIN, None, 0)]
    lines += [(name, b["parent_branch"] or MAIN, b["parent_version"]) for name, b in branches]
    lanes = []
    for name, parent, fork in lines[:_MAX_LINES]:
        history = dataset.checkout_version((name, None)).versions()
        tags = tags_by_version(dataset.tags, name) or {}
        lanes.append(_Lane(name, history[-limit:] if limit else history[:0], tags, parent, fork))
    return lanes, len(lines) - len(lanes)


def _draw_rows(axes: Any, lane: _Lane, look: tuple[str, str, str]) -> None:
    color, marker, dash = look
    axes.plot(
        [v.version for v in lane.versions],
        [v.num_rows for v in lane.versions],
        color=color,
        marker=marker,
        linestyle=dash,
        markersize=5,
        drawstyle="steps-post",
    )


def _draw_lines(axes: Any, lanes: Sequence[_Lane]) -> None:
    height = {lane.name: -place for place, lane in enumerate(lanes)}
    for lane, (color, marker, dash) in zip(lanes, _LOOKS, strict=False):
        numbers, y = [v.version for v in lane.versions], height[lane.name]
        axes.plot(numbers, [y] * len(numbers), color=color, linestyle=dash, linewidth=1.5)
        for quiet, fill in ((False, color), (True, "white")):
            some = [v.version for v in lane.versions if is_quiet(v.operation) is quiet]
            axes.plot(some, [y] * len(some), marker, color=color, markerfacecolor=fill)
        if lane.parent in height and numbers:
            bend = {"arrowstyle": "-", "color": color, "connectionstyle": "arc3,rad=0.2"}
            ends = {"xy": (numbers[0], y), "xytext": (lane.fork, height[lane.parent])}
            axes.annotate("", **ends, arrowprops=bend)
        for number in numbers:
            if number in lane.tags:
                label = cut(listing(sorted(lane.tags[number]), 2), _LABEL)
                _write(axes, f"▸{label}", (number, y), (0, 7), _TEXT)
    axes.set_yticks(list(height.values()), [cut(clean(lane.name), _LABEL) for lane in lanes])
    axes.set_ylim(0.6 - len(lanes), 0.7)


def _write(
    axes: Any, words: str, at: tuple[float, float], offset: tuple[int, int], color: str
) -> None:
    # names are anyone's: a dollar sign must not start a formula
    axes.annotate(
        words,
        at,
        offset,
        textcoords="offset points",
        color=color,
        fontsize=8,
        parse_math=False,
        annotation_clip=False,
    )


def _alt(name: str, lanes: Sequence[_Lane], left_out: int) -> str:
    sentences = [f"History of {name}."]
    for lane in lanes:
        fork = f", forked from {clean(lane.parent)}:{count(lane.fork)}" if lane.parent else ""
        words = f"{clean(lane.name)}: {plural(len(lane.versions), 'version')}{fork}"
        if lane.versions:
            counts = lane.versions[0].num_rows, lane.versions[-1].num_rows
            words += f", {count(counts[0])} to {plural(counts[1], 'row')}"
        shown = {v.version for v in lane.versions}
        tags = [
            f"tag {clean(tag)} at {count(number)}"
            for number, tags in sorted(lane.tags.items())
            if number in shown
            for tag in sorted(tags)
        ]
        sentences.append(f"{words}{'; ' if tags else ''}{listing(tags, 10)}.")
    if left_out:
        sentences.append(f"{plural(left_out, 'more branch', 'more branches')}.")
    return " ".join(sentences)
