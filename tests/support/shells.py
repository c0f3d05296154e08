"""An IPython shell in this process, as a notebook's kernel has one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

__all__ = ["ipython"]


@contextmanager
def ipython() -> Iterator[Any]:
    """Have a shell of one's own; it takes the place of ``__main__``, which comes back."""
    main = sys.modules["__main__"]
    InteractiveShell.clear_instance()
    try:
        yield InteractiveShell.instance()
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main
