"""All that is read is remembered at its first use, so that whatever is wrong with that is met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lancekit as lk
from lancekit import _cache as cache
from lancekit._file.columns import blocks
from lancekit._storage import base

__all__ = ["all_remembered", "small_blocks"]


@contextmanager
def all_remembered(most: int | None = None) -> Iterator[None]:
    """In the block, so are files as young as the clock of this machine's disk allows.

    With ``most``, so many bytes are kept, so that what is there goes and comes.
    """
    find = cache._Cache.find

    def found(self: Any, kind: str, wanted: Any, *of: int) -> list[Any]:
        values = find(self, kind, wanted, *of)
        return [True if value is False else value for value in values]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache._Cache, "find", found)
        patch.setattr(base, "SETTLED_SECONDS", 0.02)
        if most is not None:
            patch.setattr(cache, "cache_limit", lambda: most)
        yield


@contextmanager
def small_blocks(most: int, least: int = 128) -> Iterator[None]:
    """In the block, pages of some thousand rows have several blocks, and nothing is known before.

    Parameters
    ----------
    most, least
        Rows of a block.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_MOST_ROWS", most)
        patch.setattr(blocks, "_LEAST_ROWS", least)
        lk.clear_cache()
        yield
        lk.options.cache_bytes = None
        lk.clear_cache()
