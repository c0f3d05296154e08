"""Several files with the same columns read as one: small files cost more to open than to read.

A reader decodes pages with the same encoding together if they are in one file.  So the files are
concatenated to one virtual file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import pyarrow as pa

from lancekit._cache import remembered
from lancekit._file.container.footer import ALIGNMENT, Container, DescribedPage, StoredPage
from lancekit._file.kernels.faults import require
from lancekit._file.reader import FileReader
from lancekit._format.pb import schema_pb2
from lancekit._storage.base import RandomAccess

#: Gap in bytes between two ranges up to which copying the gap is faster than a second read.
_GAP = 1 << 12


def join_files(readers: Sequence[FileReader]) -> FileReader:
    """Return a reader of the rows of all files, in order.

    Errors name the first file.  On an error, callers read the files one by one to get the right
    name.

    readers: files of 2.1 or newer, with the same version and the same physical columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit._file.reader import FileReader
    >>> from lancekit._file.writer import FileWriter
    >>> from lancekit._storage.places import open_store
    >>> store, readers = open_store("memory://"), []
    >>> for name in ("a", "b"):
    ...     writer = FileWriter(store.create(name), pa.schema({"x": pa.string()}))
    ...     writer.write(pa.record_batch({"x": [f"of {name}"]}))
    ...     _ = writer.finish()
    ...     readers.append(FileReader.open(store.open(name)))
    >>> both = join_files(readers)
    >>> both.read(readers[0].columns).column("x").to_pylist()
    ['of a', 'of b']
    """
    parts = tuple(reader.container for reader in readers)
    first = parts[0]
    if len(parts) == 1:
        return readers[0]
    chain = _Chain([part.source for part in parts])
    joined = _Joined(
        source=chain,
        size=chain.size(),
        version=first.version,
        descriptor=schema_pb2.FileDescriptor(length=sum(part.descriptor.length for part in parts)),
        column_table=(),
        global_table=first.global_table,
        tail=first.tail,
        key=_key_of(parts),
        parts=parts,
        chain=chain,
    )
    return FileReader(joined)


def _key_of(parts: Sequence[Container]) -> object | None:
    """Return a cache key for these files in this order, or ``None`` if one is not cached."""
    keys = tuple(part.key for part in parts)
    if None in keys:
        return None
    return remembered("files", keys, object, lambda _: 16 * len(keys))


class _Chain:
    """Virtual file of several files, with gaps so wide that no merged range spans two files."""

    def __init__(self, sources: Sequence[RandomAccess]) -> None:
        self._sources = sources
        sizes = [-(-source.size() // ALIGNMENT) * ALIGNMENT + 2 * _GAP for source in sources]
        *self.firsts, self._size = accumulate(sizes, initial=0)

    @property
    def name(self) -> str:
        """Name of the first file, for errors."""
        return self._sources[0].name

    @property
    def gap(self) -> int:
        """Number of bytes between two ranges up to which one read is as cheap as two."""
        return _GAP

    @property
    def identity(self) -> None:
        """``None``: only the files themselves have identities."""

    def size(self) -> int:
        """Return the bytes of all files and of the gaps between them."""
        return self._size

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return a range of bytes from one of the files."""
        at = bisect_right(self.firsts, start) - 1
        return self._sources[at].read(start - self.firsts[at], length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return several ranges of bytes."""
        return [self.read(start, length) for start, length in ranges]


@dataclass(frozen=True, slots=True)
class _Joined(Container):
    """Container of the virtual file."""

    parts: tuple[Container, ...] = field(kw_only=True)
    chain: _Chain = field(kw_only=True)

    def pages(self, column: int) -> list[StoredPage]:
        """Return the pages of one physical column of all files."""
        if self.key is not None:
            return Container.pages(self, column)
        found: list[StoredPage] = []
        each = [part.pages(column) for part in self.parts]
        self._check_rows([[stored.page.length for stored in pages] for pages in each])
        for part, first, pages in zip(self.parts, self.chain.firsts, each, strict=True):
            for stored in pages:
                found.append(self._placed(stored, part.source, first, len(found)))
        return found

    def described(self, column: int) -> list[DescribedPage]:
        """Return the descriptions of one physical column's pages in all files."""
        each = [part.pages(column) for part in self.parts]
        self._check_rows([[stored.page.length for stored in pages] for pages in each])
        return [
            DescribedPage(
                stored.page.length,
                tuple(first + position for position in stored.page.positions),
                stored.page.sizes,
                stored.encoding,
                stored.run_key,
            )
            for first, pages in zip(self.chain.firsts, each, strict=True)
            for stored in pages
        ]

    def _check_rows(self, lengths: Sequence[Sequence[int]]) -> None:
        """Raise ``Damaged`` if pages of one file make up for missing rows of another."""
        shares = set()
        for part, pages in zip(self.parts, lengths, strict=True):
            rows, length = sum(pages), part.descriptor.length
            require(bool(length) and rows % length == 0, f"its pages hold {rows} rows")
            shares.add(rows // length)
        require(len(shares) == 1, "the files do not hold the same rows")

    def _placed(
        self, stored: StoredPage, source: RandomAccess, first: int, index: int
    ) -> StoredPage:
        page = stored.page
        if page.source is not source:  # this source compares a checksum before its first read
            return StoredPage(replace(page, index=index, key=None), stored.encoding, stored.run_key)
        positions = tuple(first + position for position in page.positions)
        placed = replace(page, source=self.chain, index=index, positions=positions, key=None)
        return StoredPage(placed, stored.encoding, stored.run_key)
