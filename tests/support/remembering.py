"""All that is read is remembered at its first use, so that whatever is wrong with that is met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lancekit import cache
from lancekit.storage import identity

__all__ = ["all_remembered"]


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
        patch.setattr(identity, "SETTLED_SECONDS", 0.02)
        if most is not None:
            patch.setattr(cache, "cache_limit", lambda: most)
        yield
