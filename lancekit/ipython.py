"""The shell of IPython around this process, if there is one; IPython is never loaded for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["active_shell", "in_kernel"]


def active_shell() -> Any:
    """Return the shell that this process runs in, or ``None``."""
    get: Callable[[], Any] | None = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def in_kernel() -> bool:
    """Return whether this process is a notebook's kernel."""
    return hasattr(active_shell(), "kernel")
