"""Pylance's session object for shared caches; in lancekit it represents the process's one cache."""

from __future__ import annotations

from lancekit._cache import cache_info
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit.errors import NotOfferedError


@checked_methods
class Session(Displayed):
    """The process's cache, for all handles: all sessions are equal.

    ``lancekit.options.cache_bytes`` sets the size of the cache.  The sizes in the constructor are
    hints that change nothing, as in `lancekit.dataset`.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://session-of-a-dataset")
    >>> ds.session().is_same_as(lk.Session(index_cache_size_bytes=1 << 20))
    True
    """

    def __init__(
        self,
        index_cache_size_bytes: int | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_backend: object = None,
        metadata_cache_backend: object = None,
        store_registry: object = None,
    ) -> None:
        del index_cache_size_bytes, metadata_cache_size_bytes
        given = {
            "index_cache_backend": index_cache_backend,
            "metadata_cache_backend": metadata_cache_backend,
            "store_registry": store_registry,
        }
        for name, value in given.items():
            if value is not None:
                raise NotOfferedError(
                    f"Session({name}=...) is not supported: the process has one cache.",
                    hint="Set lancekit.options.cache_bytes.",
                    argument=name,
                )

    def size_bytes(self) -> int:
        """Return the size of the cached data in bytes."""
        return cache_info().bytes

    def index_cache_size_bytes(self) -> int:
        """Return the size of all cached data in bytes, not only of indices."""
        return cache_info().bytes

    def is_same_as(self, other: Session) -> bool:
        """Return True if the other object is a session, because all share one cache."""
        return isinstance(other, Session)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session)

    def __hash__(self) -> int:
        return hash(Session)
