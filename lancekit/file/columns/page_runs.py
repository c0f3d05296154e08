"""Runs of pages that are encoded alike, and read as if they were one.

The reference begins a page of lists every few ten thousand values, and what a decoder does once for
each page soon costs more than the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lancekit.file.container.footer import StoredPage
from lancekit.file.container.page import Page
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["PageGroup", "runs_of"]

#: Encoded bytes that are read as one at most: what one thread takes some milliseconds for.
_MAX_BYTES = 2 << 20

#: Values that are read as one at most, few as their bytes may be.
_MAX_ITEMS = 1 << 22


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Consecutive pages of a column that one decoder reads."""

    pages: tuple[StoredPage, ...]

    @property
    def first(self) -> StoredPage:
        """The only page, or the first."""
        return self.pages[0]

    @property
    def length(self) -> int:
        """The rows of all pages."""
        return sum(stored.page.length for stored in self.pages)

    @property
    def encoded_bytes(self) -> int:
        """The size of all buffers."""
        return sum(map(_size, self.pages))

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """The position and size of every buffer."""
        for stored in self.pages:
            yield from zip(stored.page.positions, stored.page.sizes, strict=True)

    def as_page(self) -> StoredPage:
        """Return a page as long and as large as all are together."""
        if len(self.pages) == 1:
            return self.first
        page = self.first.page
        whole = Page(page.source, page.index, self.length, (), (self.encoded_bytes,))
        return StoredPage(whole, self.first.encoding)


def _size(stored: StoredPage) -> int:
    return sum(stored.page.sizes)


def _items(stored: StoredPage) -> int:
    encoding = stored.encoding
    return int(encoding.mini_block.num_items) if isinstance(encoding, pb.PageLayout) else 0


def runs_of(pages: Sequence[StoredPage]) -> Iterator[PageGroup]:
    """Yield all pages of a column, in order, those that are alike together."""
    if len(pages) == 1:
        yield PageGroup(tuple(pages))
        return
    run: list[StoredPage] = []
    size = items = 0
    alike: bytes | None = None
    for stored in pages:
        kind = _kind_of(stored)
        if run and (
            kind is None
            or kind != alike
            or size + _size(stored) > _MAX_BYTES
            or items + _items(stored) > _MAX_ITEMS
            or stored.page.source is not run[-1].page.source
            or stored.page.positions[0] < run[-1].page.positions[-1]
        ):
            yield PageGroup(tuple(run))
            run, size, items = [], 0, 0
        alike = kind
        run.append(stored)
        size += _size(stored)
        items += _items(stored)
    if run:
        yield PageGroup(tuple(run))


def _kind_of(stored: StoredPage) -> bytes | None:
    """Return what pages must have in common; ``None`` for those that are read on their own."""
    encoding = stored.encoding
    if not isinstance(encoding, pb.PageLayout) or not encoding.HasField("mini_block"):
        return None
    if encoding.mini_block.HasField("dictionary") or not stored.page.positions:
        return None
    common = pb.MiniBlockLayout()
    common.CopyFrom(encoding.mini_block)
    common.ClearField("num_items")
    if common.value_compression.HasField("fsst"):
        common.value_compression.fsst.ClearField("symbol_table")
    return common.SerializeToString(deterministic=True)
