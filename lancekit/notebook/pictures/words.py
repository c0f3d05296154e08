"""Small drawings in letters: bars and lines of values."""

from __future__ import annotations

from collections.abc import Sequence

from lancekit.notebook.render.words import cut

__all__ = ["columns", "gauge", "sparkline"]

_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float], most: int = 60) -> str:
    """Return values as a line of blocks, the largest the highest; of many, evenly some.

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
    """Return a share as a bar.

    Examples
    --------
    >>> gauge(0.5, 4)
    '██  '
    """
    eighths = round(min(max(share, 0), 1) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def columns(rows: Sequence[Sequence[str]], most: int = 48) -> list[str]:
    """Return rows of words as lines whose cells stand below each other."""
    shown = [[cut(cell, most) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
