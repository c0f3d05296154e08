"""Progress display: a bar in a notebook, an overwritten line at a prompt, log lines in a script."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Protocol

from lancekit._interrupts import active_shell, in_kernel
from lancekit._notebook.render.html import element, joined
from lancekit._notebook.render.words import count, duration
from lancekit.progress import Progress, Show

MARK = {"lancekit": "progress"}
"""Output metadata that marks a progress bar, so that a tool can strip it from a saved notebook."""

LINE_SECONDS = 10.0
"""Seconds between two lines of a log: a script's own output would break a line to overwrite."""


def make_bar(wanted: bool) -> Show | None:
    """Return a progress display for a notebook, a prompt, a script or a log; ``None`` for none.

    wanted: True if lines of text are to be written outside of notebooks and terminals.
    """
    display = _notebook_display()
    if display is not None:
        return _NotebookBar(display)
    if sys.stderr is None:
        return None
    if sys.stderr.isatty():
        return _terminal_line if _at_prompt() else _LogLines(0.0 if wanted else LINE_SECONDS)
    return _LogLines(0.0) if wanted else None


def _at_prompt() -> bool:
    """Return True if somebody types at Python's or IPython's prompt."""
    return hasattr(sys, "ps1") or active_shell() is not None


def _notebook_display() -> Callable[..., _Handle | None] | None:
    if not in_kernel():
        return None
    from IPython.display import display

    return display


def _text(progress: Progress) -> str:
    """Return the activity, its progress in rows (in tasks if rows are unknown), and the time."""
    done, total = _counts(progress)
    unit = "rows" if progress.rows else "tasks"
    of = "" if total is None else f" of {count(total)}"
    parts = [f"{count(done)}{of} {unit}"]
    rate, left = progress.rows_per_second, progress.seconds_left
    if rate is not None:
        parts.append(f"{count(round(rate)) if rate >= 10 else f'{rate:.1f}'} rows/s")
    parts.append(duration(progress.seconds) if left is None else f"{duration(left)} left")
    stage = f" ({progress.stage})" if progress.stage else ""
    return f"{progress.what}{stage}: {', '.join(parts)}"


def _counts(progress: Progress) -> tuple[int, int | None]:
    if progress.rows:
        return progress.rows, progress.total_rows
    return progress.done, progress.total


class _Handle(Protocol):
    def update(self, bundle: dict[str, str], *, raw: bool, metadata: dict[str, str]) -> None: ...


class _NotebookBar:
    def __init__(self, display: Callable[..., _Handle | None]) -> None:
        self._display = display
        self._handle: _Handle | None = None

    def __call__(self, progress: Progress) -> None:
        bundle = {"text/plain": "", "text/html": ""}
        if not progress.finished:
            bundle = {"text/plain": _text(progress), "text/html": _html(progress)}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, metadata=MARK, display_id=True)
        else:
            self._handle.update(bundle, raw=True, metadata=MARK)


def _html(progress: Progress) -> str:
    text, (done, total) = _text(progress), _counts(progress)
    value = done if total else None  # without a total the bar only moves
    bar = element("progress", aria_label=text, value=value, max=total or None)
    return joined(bar, " ", element("span", text))


def _terminal_line(progress: Progress) -> None:
    width = shutil.get_terminal_size().columns - 1
    text = "" if progress.finished else _text(progress)[:width]
    # \x1b[K erases the rest of a longer previous line
    sys.stderr.write(f"\r{text}\x1b[K")
    sys.stderr.flush()


class _LogLines:
    """Writes a line every ten seconds, and a last one after others; the first after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._next, self._wrote = seconds, False

    def __call__(self, progress: Progress) -> None:
        if progress.seconds >= self._next or (progress.finished and self._wrote):
            self._next, self._wrote = progress.seconds + LINE_SECONDS, True
            print(_text(progress), file=sys.stderr, flush=True)
