"""The shell of IPython around this process, if there is one; IPython is never loaded for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["active_shell", "hints_are_seen", "in_kernel", "show_hint"]

LOGGER = logging.getLogger("lancekit")
#: the cell and the text of the last hint
_last: list[tuple[int, str]] = []


def active_shell() -> Any:
    """Return the shell that this process runs in, or ``None``."""
    get: Callable[[], Any] | None = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def in_kernel() -> bool:
    """Return whether this process is a notebook's kernel."""
    return hasattr(active_shell(), "kernel")


def hints_are_seen() -> bool:
    """Tell whether `show_hint` reaches anybody: a hint that costs requests is not made in vain."""
    return active_shell() is not None or (
        LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers()
    )


def show_hint(text: str) -> None:
    """Print a hint in IPython, once for a cell; elsewhere log it.  It is never a warning."""
    shell = active_shell()
    if shell is None:
        LOGGER.info(text)
    elif (hint := (shell.execution_count, text)) not in _last:
        _last[:] = [hint]
        print(text)
