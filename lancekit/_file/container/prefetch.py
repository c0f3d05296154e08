"""Many small ranges of a file fetched together, before the code that needs each one asks for it."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lancekit._storage.base import RandomAccess

# ---- what files that stand before another file have in common


class SourceWrapper:
    """A file that answers for another one, except for reading it."""

    def __init__(self, source: RandomAccess) -> None:
        self._source = source

    @property
    def name(self) -> str:
        """What errors call the file."""
        return self._source.name

    @property
    def gap(self) -> int:
        """Bytes between two ranges that cost no more than reading them apart."""
        return self._source.gap

    @property
    def identity(self) -> Hashable | None:
        """What tells the file from all others."""
        return self._source.identity

    def size(self) -> int:
        """Return the file's size in bytes."""
        return self._source.size()


#: Ranges no farther apart than this are held as one.
_GAP = 1 << 12

#: Bytes held at most; what is beyond is read when it is asked for.
_MAX_BYTES = 1 << 26


class PrefetchedSource(SourceWrapper):
    """A file in which every read is a request, and what was fetched of it ahead of need.

    Readers in several threads may share it: what one holds may be replaced by another's, which
    costs requests but is never wrong.
    """

    def __init__(self, source: RandomAccess) -> None:
        super().__init__(source)
        self._held: tuple[list[int], list[pa.Buffer]] = ([], [])
        self._whole: pa.Buffer | None = None

    def keep(self, whole: pa.Buffer) -> None:
        """Read from the bytes of the file from now on, all of which one read has brought."""
        self._whole = whole

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return a range that is held, or read it."""
        found = self._find(start, length)
        return self._source.read(start, length) if found is None else found

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return ranges if all are held, or read them."""
        found = [self._find(start, length) for start, length in ranges]
        held = [data for data in found if data is not None]
        return held if len(held) == len(ranges) else self._source.read_many(ranges)

    @contextmanager
    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> Iterator[None]:
        """Fetch ranges and hold them while the block runs."""
        spans = _merged(ranges) if self._whole is None else []
        if spans:
            buffers = self._source.read_many([(start, stop - start) for start, stop in spans])
            self._held = ([start for start, _ in spans], buffers)
        try:
            yield
        finally:
            self._held = ([], [])

    def _find(self, start: int, length: int) -> pa.Buffer | None:
        if self._whole is not None and start + length <= self._whole.size:
            return self._whole.slice(start, length)
        starts, buffers = self._held
        at = bisect_right(starts, start) - 1
        if at < 0 or start + length > starts[at] + buffers[at].size:
            return None
        return buffers[at].slice(start - starts[at], length)


def shelved(source: RandomAccess) -> RandomAccess:
    """Return a file to read from: itself if its reads are free, as those of mapped memory are."""
    return source if source.gap == sys.maxsize else PrefetchedSource(source)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return starts and stops of what to hold, ascending."""
    spans: list[tuple[int, int]] = []
    held = 0
    for start, length in sorted(ranges):
        stop = start + length
        held += stop - min(max(start, spans[-1][1] if spans else 0), stop)
        if held > _MAX_BYTES:
            break
        if spans and start - spans[-1][1] <= _GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
    return spans
