"""Prefetching of many small ranges of a file with one request."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lancekit._storage.base import RandomAccess

# ---- base class of sources that wrap another source


class SourceWrapper:
    """Source that delegates to another source, except for reads."""

    def __init__(self, source: RandomAccess) -> None:
        self._source = source

    @property
    def name(self) -> str:
        """The file's name in errors."""
        return self._source.name

    @property
    def gap(self) -> int:
        """Number of bytes between two ranges up to which one read is as cheap as two."""
        return self._source.gap

    @property
    def identity(self) -> Hashable | None:
        """Key that distinguishes the file from all others, or ``None``."""
        return self._source.identity

    def size(self) -> int:
        """Return the file's size in bytes."""
        return self._source.size()


#: Ranges no further apart than this are fetched as one.
_GAP = 1 << 12

#: Maximum bytes in the prefetch buffer; later ranges are read on demand.
_MAX_BYTES = 1 << 26


class PrefetchedSource(SourceWrapper):
    """Source with a prefetch buffer, for files in which every read is a request.

    Threads can share it.  One thread may replace another's prefetched ranges, which costs requests
    but never returns wrong bytes.
    """

    def __init__(self, source: RandomAccess) -> None:
        super().__init__(source)
        self._buffered: tuple[list[int], list[pa.Buffer]] = ([], [])
        self._whole: pa.Buffer | None = None

    def keep(self, whole: pa.Buffer) -> None:
        """Serve all later reads from `whole`, the bytes of the complete file."""
        self._whole = whole

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return a range from the buffer, or read it."""
        found = self._find(start, length)
        return self._source.read(start, length) if found is None else found

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return ranges from the buffer if it has them all, or read them."""
        found = [self._find(start, length) for start, length in ranges]
        buffered = [data for data in found if data is not None]
        return buffered if len(buffered) == len(ranges) else self._source.read_many(ranges)

    @contextmanager
    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> Iterator[None]:
        """Fetch ranges and buffer them while the context is open."""
        spans = _merged(ranges) if self._whole is None else []
        if spans:
            buffers = self._source.read_many([(start, stop - start) for start, stop in spans])
            self._buffered = ([start for start, _ in spans], buffers)
        try:
            yield
        finally:
            self._buffered = ([], [])

    def _find(self, start: int, length: int) -> pa.Buffer | None:
        if self._whole is not None and start + length <= self._whole.size:
            return self._whole.slice(start, length)
        starts, buffers = self._buffered
        at = bisect_right(starts, start) - 1
        if at < 0 or start + length > starts[at] + buffers[at].size:
            return None
        return buffers[at].slice(start - starts[at], length)


def with_prefetch(source: RandomAccess) -> RandomAccess:
    """Return a source with a prefetch buffer, or the source itself if its reads are free (mmap)."""
    return source if source.gap == sys.maxsize else PrefetchedSource(source)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the (start, stop) spans to fetch, ascending, up to `_MAX_BYTES`."""
    spans: list[tuple[int, int]] = []
    buffered = 0
    for start, length in sorted(ranges):
        stop = start + length
        buffered += stop - min(max(start, spans[-1][1] if spans else 0), stop)
        if buffered > _MAX_BYTES:
            break
        if spans and start - spans[-1][1] <= _GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
    return spans
