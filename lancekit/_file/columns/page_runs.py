"""Runs of pages that are encoded alike, and read as if they were one.

The reference begins a page of lists every few ten thousand values, and what a decoder does once for
each page soon costs more than the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lancekit._file.columns.threads import is_costly
from lancekit._file.container.footer import Page, StoredPage
from lancekit._file.container.prefetch import PrefetchedSource
from lancekit._file.kernels.row_selection import Rows
from lancekit._format.pb import encodings_v21_pb2 as pb

#: Encoded bytes that are read as one at most: what one thread takes some milliseconds for.
_MAX_BYTES = 2 << 20

#: The same, where nothing is done in threads, and what is not wanted is not fetched either.
_MAX_PLAIN_BYTES = 64 << 20

#: Values that are read as one at most, few as their bytes may be.
_MAX_ITEMS = 1 << 22

# Where the rows of a page lie is asked of its first buffer: a request before the one for the rows,
# and often more time than bytes that nobody wants.

#: Encoded bytes that are fetched at once, few as the rows may be that are wanted.
_WHOLE_BYTES = 1 << 17
#: Encoded bytes that are fetched at once if most of them are wanted.
_MOST_BYTES = 4 << 20
#: Encoded bytes that are fetched for the first rows.
_FIRST_BYTES = 1 << 15
#: About what is read for a row that lies apart: a chunk.
_CHUNK_BYTES = 1 << 13


class PageGroup(NamedTuple):
    """Consecutive pages of a column that one decoder reads.

    `encoded_bytes` is the size of all their buffers, `length` how many rows they have, and `whole`
    a page as long and as large as all are together.
    """

    pages: tuple[StoredPage, ...]
    encoded_bytes: int
    length: int
    whole: StoredPage

    @classmethod
    def of(cls, pages: Iterable[StoredPage]) -> PageGroup:
        """Return pages as a group."""
        pages = tuple(pages)
        whole, size = pages[0], sum(map(_size, pages))
        length = sum(stored.page.length for stored in pages)
        if len(pages) > 1:
            page = whole.page
            whole = StoredPage(Page(page.source, page.index, length, (), (size,)), whole.encoding)
        return cls(pages, size, length, whole)

    @property
    def first(self) -> StoredPage:
        """The only page, or the first."""
        return self.pages[0]

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """The position and size of every buffer."""
        for stored in self.pages:
            yield from zip(stored.page.positions, stored.page.sizes, strict=True)

    def ahead_of(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """Return positions and sizes of what to fetch before some of the rows are read."""
        size = self.encoded_bytes
        if size <= _WHOLE_BYTES:
            return self.places
        if len(rows) == 0:
            return ()
        first, stop = int(rows[0]), int(rows[-1]) + 1
        wanted = min(len(rows) * _CHUNK_BYTES, size * (stop - first) // self.length)
        if 2 * wanted > size and size <= _MOST_BYTES:
            return self.places
        if 2 * size * stop // self.length <= _FIRST_BYTES:
            places = list(self.places)
            start = places[0][0]
            return [(start, min(_FIRST_BYTES, max(map(sum, places)) - start))]
        return ()


def _size(stored: StoredPage) -> int:
    return sum(stored.page.sizes)


def _items(stored: StoredPage) -> int:
    encoding = stored.encoding
    return int(encoding.mini_block.num_items) if isinstance(encoding, pb.PageLayout) else 0


def runs_of(pages: Sequence[StoredPage]) -> Iterator[PageGroup]:
    """Yield all pages of a column, in order, those that are alike together."""
    if len(pages) == 1:
        yield PageGroup.of(pages)
        return
    run: list[StoredPage] = []
    size = items = 0
    alike: bytes | None = None
    most = _most_bytes(pages[0]) if pages else 0
    for stored in pages:
        kind = stored.alike if stored.page.positions else None
        if run and (
            kind is None
            or kind != alike
            or size + _size(stored) > most
            or items + _items(stored) > _MAX_ITEMS
            or stored.page.source is not run[-1].page.source
            or stored.page.positions[0] < run[-1].page.positions[-1]
        ):
            yield PageGroup.of(run)
            run, size, items, most = [], 0, 0, _most_bytes(stored)
        alike = kind
        run.append(stored)
        size += _size(stored)
        items += _items(stored)
    if run:
        yield PageGroup.of(run)


def _most_bytes(stored: StoredPage) -> int:
    """Return how many encoded bytes are read as one, if a page is the first of them."""
    is_remote = isinstance(stored.page.source, PrefetchedSource)
    return _MAX_BYTES if is_remote or is_costly(stored) else _MAX_PLAIN_BYTES
