"""The object that pylance's handles share caches by: here all of a process share one."""

from __future__ import annotations

from typing import Any

from lancekit.cache import cache_info, cache_limit
from lancekit.errors import NotOfferedError

__all__ = ["Session"]


class Session:
    """The process's cache, whichever handle is asked: every session is the same as any other.

    How much is remembered is said by ``lancekit.options.cache_bytes``, and is not to be said here.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://session-of-a-dataset")
    >>> ds.session().is_same_as(lk.Session())
    True
    """

    def __init__(self, **sizes: Any) -> None:
        for name in sizes:
            raise NotOfferedError(
                f"Session({name}=...) is not offered: one cache serves the process.",
                hint="Set lancekit.options.cache_bytes.",
                argument=name,
            )

    def size_bytes(self) -> int:
        """Return how many bytes are remembered."""
        return cache_info().bytes

    def index_cache_size_bytes(self) -> int:
        """Return how many bytes are remembered at most, of indices and all else."""
        return cache_limit()

    def is_same_as(self, other: Session) -> bool:
        """Return whether both share what is remembered, as they do."""
        return isinstance(other, Session)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session)

    def __hash__(self) -> int:
        return hash(Session)
