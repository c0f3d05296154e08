"""Tasks of Spark's that a test runs in its own process, where they leave a worker's options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import lancekit as lk

__all__ = ["options_stay"]


@contextmanager
def options_stay() -> Iterator[None]:
    """Put the process's options back behind the block."""
    before = lk.options.current()
    try:
        yield
    finally:
        for option in fields(before):
            setattr(lk.options, option.name, getattr(before, option.name))
