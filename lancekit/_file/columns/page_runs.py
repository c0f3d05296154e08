"""Runs of pages with the same encoding, which are decoded as if they were one page.

The reference begins a new page of lists every few ten thousand values, and a decoder's fixed cost
for each page soon exceeds the cost of its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lancekit._file.columns.threads import is_costly
from lancekit._file.container.footer import Page, StoredPage
from lancekit._file.container.prefetch import PrefetchedSource
from lancekit._file.kernels.row_selection import Rows
from lancekit._format.pb import encodings_v21_pb2 as pb

#: Maximum encoded bytes of a run: a thread decodes them in some milliseconds.
_MAX_BYTES = 2 << 20

#: The same for local pages that are decoded without threads: unrequested bytes are not read.
_MAX_PLAIN_BYTES = 64 << 20

#: Maximum values of a run, however few bytes they take.
_MAX_ITEMS = 1 << 22

# A page's first buffer has the positions of its rows: reading it is a request before the request
# for the rows, and often takes more time than fetching bytes that are not needed.

#: Up to this many encoded bytes, a run is fetched whole, however few rows are requested.
_WHOLE_BYTES = 1 << 17
#: Up to this many encoded bytes, a run is fetched whole if most of it is requested.
_MOST_BYTES = 4 << 20
#: Encoded bytes that are fetched for a run's first rows.
_FIRST_BYTES = 1 << 15
#: Approximate bytes read for one isolated row: a chunk.
_CHUNK_BYTES = 1 << 13


class PageGroup(NamedTuple):
    """Consecutive pages of a column that one decoder reads.

    `encoded_bytes` is the size of all their buffers, and `length` their number of rows.  `whole` is
    a substitute page with the length and the size of the group.
    """

    pages: tuple[StoredPage, ...]
    encoded_bytes: int
    length: int
    whole: StoredPage

    @classmethod
    def of(cls, pages: Iterable[StoredPage]) -> PageGroup:
        """Group pages."""
        pages = tuple(pages)
        whole, size = pages[0], sum(map(_size, pages))
        length = sum(stored.page.length for stored in pages)
        if len(pages) > 1:
            page = whole.page
            whole = StoredPage(Page(page.source, page.index, length, (), (size,)), whole.encoding)
        return cls(pages, size, length, whole)

    @property
    def first(self) -> StoredPage:
        """First page of the group."""
        return self.pages[0]

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """Position and size of every buffer."""
        for stored in self.pages:
            yield from zip(stored.page.positions, stored.page.sizes, strict=True)

    def prefetch_ranges(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """Return the ranges to prefetch before some of the rows are read."""
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
    """Yield the pages of a column in order, grouped by equal encoding."""
    if len(pages) == 1:
        yield PageGroup.of(pages)
        return
    run: list[StoredPage] = []
    size = items = 0
    run_key: bytes | None = None
    most = _most_bytes(pages[0]) if pages else 0
    for stored in pages:
        kind = stored.run_key if stored.page.positions else None
        if run and (
            kind is None
            or kind != run_key
            or size + _size(stored) > most
            or items + _items(stored) > _MAX_ITEMS
            or stored.page.source is not run[-1].page.source
            or stored.page.positions[0] < run[-1].page.positions[-1]
        ):
            yield PageGroup.of(run)
            run, size, items, most = [], 0, 0, _most_bytes(stored)
        run_key = kind
        run.append(stored)
        size += _size(stored)
        items += _items(stored)
    if run:
        yield PageGroup.of(run)


def _most_bytes(stored: StoredPage) -> int:
    """Return the maximum encoded bytes of a run that starts with this page."""
    is_remote = isinstance(stored.page.source, PrefetchedSource)
    return _MAX_BYTES if is_remote or is_costly(stored) else _MAX_PLAIN_BYTES
