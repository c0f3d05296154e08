"""The style of all pictures: distinguishable colours, marks, dashes and hatches, and two themes.

matplotlib is imported when a picture is drawn.  Our figures use the colours of the light theme, one
colour for each role.  Their SVG has a CSS variable for each role instead (`style.css`), so that it
follows the theme of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from math import log
from typing import TYPE_CHECKING, Any

from lancekit._legible import shown
from lancekit._notebook.render.html import Markup, element, sheet
from lancekit._notebook.render.words import count, cut, size
from lancekit._picture import Picture, without_warnings
from lancekit.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

MARKS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (6, 2)), (0, (2, 2)), (0, (7, 2, 2, 2)), (0, (4, 1)), (0, (1, 2)))
#: straight lines only: each dot would take 1,000 bytes of SVG
HATCHES = ("", "////", "\\\\\\\\", "||||", "xxxx", "----")
_DPI = 100
_POINTS = 72
_TITLE = 50  # characters; fits even in a font with wide letters
_RC = {
    "font.size": 10.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",  # text stays text, so that it can be read, searched and copied
    "svg.hashsalt": "lancekit",
    "hatch.linewidth": 0.8,
    "axes.formatter.useoffset": False,
    "path.simplify": True,
}


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of a theme by role; ``series`` has six distinguishable colours."""

    text: str
    quiet: str
    line: str
    ground: str
    series: tuple[str, ...]

    def parts(self) -> dict[str, str]:
        """Return the CSS variable of each colour."""
        named = {"text": self.text, "quiet": self.quiet, "line": self.line, "ground": self.ground}
        named |= {f"c{at}": colour for at, colour in enumerate(self.series)}
        return {colour: f"var(--{name})" for name, colour in named.items()}


LIGHT = Colours(
    "#1f2328", "#57606a", "#d0d7de", "#ffffff",
    ("#0a58ca", "#b34700", "#00664d", "#8a2f8f", "#6b5600", "#545d66"),
)  # fmt: skip
DARK = Colours(
    "#e6edf3", "#9aa4af", "#3d444d", "#161b22",
    ("#79b8ff", "#ffab70", "#56d4a7", "#e0a3e8", "#e3c85c", "#b1bac4"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Canvas:
    """The figure, its axes from the top, the colours, and True for axes given by the user."""

    figure: Figure | SubFigure
    axes: Sequence[Axes]
    colours: Colours
    given: bool = False


def drawn(
    title: str,
    alt: str,
    text: str,
    paint: Callable[[Canvas], None],
    *,
    heights: Sequence[float] = (1.0,),
    columns: int = 1,
    inches: tuple[float, float] = (6.2, 3.0),
    share: bool = False,
    ax: Axes | Sequence[Axes] | None = None,
) -> Picture:
    """Return a picture drawn by ``paint``; without matplotlib a picture of text alone.

    title, alt, text: the title, the content in sentences, and the content in lines.
    paint: draws on a canvas.
    heights: the relative heights of the rows of axes.
    columns: the number of axes in a row.
    inches: width and height of the figure.
    share: True if the axes of a column share their x axis.
    ax: the user's axes, one or several, to draw on instead of a new figure.
    """
    title = cut(title, _TITLE)
    full_alt = f"{title}. {alt}"
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return Picture(alt=full_alt, text=text)
    with rc_context(_RC):
        if ax is not None:
            many = ax.flat if hasattr(ax, "flat") else ax if isinstance(ax, Sequence) else [ax]
            axes: list[Axes] = list(many)
            if not all(hasattr(one, "stairs") for one in axes) or not axes:
                raise InvalidTypeError(f"ax must be matplotlib axes, got {shown(ax)}.")
            canvas = Canvas(axes[0].figure, axes, _theme_of(axes[0]), given=True)
            paint(canvas)
            for one in axes:
                _plain(one, canvas.colours)
            return Picture(
                alt=full_alt, text=text, figure=canvas.figure,
                render=partial(_svg, canvas.figure.figure, {}, title, alt),  # in its own colours
            )  # fmt: skip
        figure = Figure(figsize=inches, dpi=_DPI, layout="constrained", facecolor=LIGHT.ground)
        grid = figure.subplots(len(heights), columns, height_ratios=heights, squeeze=False,
                               sharex="col" if share else False)  # fmt: skip
        canvas = Canvas(figure, list(grid.flat), LIGHT)
        heading(figure, title)
        paint(canvas)
        for one in canvas.axes:
            one.set_facecolor("none")
            _plain(one, LIGHT)
    render = partial(_svg, figure, LIGHT.parts(), title, alt)
    return Picture(alt=full_alt, text=text, figure=figure, render=render)


def several(ax: Axes | Sequence[Axes]) -> bool:
    """Return True if a user's ``ax`` is a list or array of axes, not a single one."""
    return hasattr(ax, "flat") or isinstance(ax, Sequence)


def heading(figure: Figure, title: str) -> None:
    """Write a figure's title, aligned left."""
    figure.suptitle(title, x=0.012, ha="left", color=LIGHT.text, fontsize=12.5, weight="bold",
                    parse_math=False)  # fmt: skip


def label(axes: Axes, words: str, colours: Colours) -> None:
    """Write the label of axes horizontally above them."""
    axes.set_title(words, loc="left", color=colours.quiet, fontsize=10, pad=4, parse_math=False)


def _plain(axes: Axes, colours: Colours) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(colours.line)
    axes.tick_params(colors=colours.quiet, labelcolor=colours.text, length=0, labelsize=9.5)
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        text.set_parse_math(False)  # a dollar sign in a user's name must not start a formula


def count_axis(axis: Axis, bins: int = 4) -> None:
    """Label an axis with whole numbers in groups of three digits."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_formatter(FuncFormatter(lambda value, _: count(round(value))))
    axis.set_major_locator(MaxNLocator(nbins=bins, integer=True))


def bytes_axis(axis: Axis, top: float, bins: int = 3) -> None:
    """Label an axis with sizes, at round multiples of a binary unit."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    unit = 1024 ** int(log(max(top, 1), 1024))
    steps = (unit * step for step in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000))
    axis.set_major_locator(
        MultipleLocator(next(s for s in steps if s * bins >= top or s >= unit * 1000))
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: size(round(value))))


Boxes = Iterable[tuple[float, float, float, float]]


def boxes(axes: Axes, found: Boxes, **look: object) -> None:
    """Draw rectangles (left, bottom, width, height) of the same style as one path."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners: list[tuple[float, float]] = []
    codes: list[np.uint8] = []
    for x, y, w, h in found:
        corners += [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    if corners:
        patch = PathPatch(Path(corners, codes), linewidth=look.pop("linewidth", 0), **look)
        axes.add_patch(patch)


# ---- SVG

_INSIDE = re.compile(r"<svg\b[^>]*?viewBox=\"0 0 ([\d.]+) ([\d.]+)\"[^>]*>(.*)</svg>", re.DOTALL)
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_TAG = re.compile(r"<[^>]*>")
_NOTHING_SEEN = re.compile(
    r"<metadata>.*?</metadata>|<!--.*?-->|<style .*?</style>|<defs>\s*</defs>|<g/>", re.DOTALL
)
#: (pattern, replacement) for parts of matplotlib's tags that a picture in a page does not need
_IN_TAGS = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r' id="[a-zA-Z_.0-9]+_\d+"', ""),
        (r' transform="rotate\(-?0 [^"]*"', ""),
        (r"font-family: [^;\"]*;? ?", ""),
        (r"(\d+\.\d)\d+(?=[\s,\"L)])", r"\1"),
        (r"\s+", " "),
        ("xlink:href", "href"),
    )
)


def _saved(figure: Any, parts: Mapping[str, str]) -> tuple[float, float, str]:
    """Return width, height and inner SVG of a figure, with CSS variables for the colours."""
    from matplotlib import rc_context

    out = StringIO()
    with rc_context(_RC), without_warnings():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    found = _INSIDE.search(out.getvalue())
    if found is None:  # pragma: no cover  # another matplotlib's way to write it
        raise ValueError("matplotlib wrote an SVG of an unknown form")

    def tidy(tag: re.Match[str]) -> str:
        text = tag[0]
        for pattern, instead in _IN_TAGS:
            text = pattern.sub(instead, text)
        return _COLOUR.sub(lambda colour: parts.get(colour[0], colour[0]), text)

    body = _TAG.sub(tidy, _NOTHING_SEEN.sub("", found[3]))
    return float(found[1]), float(found[2]), re.sub(r">\s+<", "><", body.strip())


def _svg(figure: object, parts: Mapping[str, str], title: str, alt: str) -> str:
    width, height, body = _saved(figure, parts)
    zoom = _DPI / _POINTS
    inside = element("g", Markup(body), transform=f"scale({zoom:.4f})")
    return picture(title, alt, (round(width * zoom), round(height * zoom)), inside)


def _theme_of(axes: Axes) -> Colours:
    """Return the theme that is readable on the background of axes."""
    from matplotlib.colors import to_rgba

    for face in (axes.get_facecolor(), axes.figure.get_facecolor()):
        red, green, blue, alpha = to_rgba(face)
        if alpha > 0.5:
            return DARK if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4 else LIGHT
    return LIGHT


# ---- the frame of all SVG pictures

#: minimum width in pixels: on a narrower screen a picture scrolls instead of shrinking
_LEAST = 420


def picture(title: str, alt: str, size: tuple[float, float], *inside: Markup) -> str:
    """Return a complete SVG with title and description for screen readers."""
    width, height = size
    return element(
        "svg",
        element("title", title),
        element("desc", alt),
        element("style", Markup(sheet("lancekit._notebook.pictures"))),
        element("rect", class_="ground", width=width, height=height),
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        class_="lancekit-picture",
        role="img",
        aria_label=f"{title}. {alt}",
        style=f"max-width:100%;min-width:{min(width, _LEAST):g}px;height:auto",
    )


def width_of(text: str, size: float = 12) -> float:
    """Return an upper estimate of a text's width in pixels; wide letters count almost double."""
    return size * sum(0.6 if ord(letter) < 0x2E80 else 1.1 for letter in text)


# ---- text graphics: sparklines, bars and tables

_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float], most: int = 60) -> str:
    """Return values as a line of block characters; many values are sampled evenly.

    Examples
    --------
    >>> sparkline([0, 5, 10])
    '▁▅█'
    """
    step = max(len(values) / most, 1)
    some = [values[int(at * step)] for at in range(min(len(values), most))]
    top = max(some, default=0) or 1
    return "".join(_LEVELS[round(max(value, 0) / top * (len(_LEVELS) - 1))] for value in some)


def gauge(share: float, width: int = 20) -> str:
    """Return a share between 0 and 1 as a bar of ``width`` characters.

    Examples
    --------
    >>> gauge(0.5, 4)
    '██  '
    """
    eighths = round(min(max(share, 0), 1) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def columns(rows: Sequence[Sequence[str]], most: int = 48) -> list[str]:
    """Return rows of cells as lines with aligned columns."""
    shown = [[cut(cell, most) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
