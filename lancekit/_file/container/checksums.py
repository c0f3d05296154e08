"""Optional checksums of a data file, in metadata that other readers ignore.

They are a value in the metadata of the file's own schema, which no manifest repeats.  The value is
a hash of the rest, then a JSON object.  The object has hashes of the schema and the number of rows,
of each column's serialised metadata, of each page's buffers in order, and of the blobs' bytes.
They cover all that a value depends on: offsets, sizes, constants and symbol tables are part of the
column metadata.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
from xxhash import xxh3_64, xxh3_64_hexdigest

from lancekit._file.container.prefetch import SourceWrapper
from lancekit._file.kernels.faults import Damaged, located
from lancekit._format.pb import schema_pb2
from lancekit._storage.base import RandomAccess

if TYPE_CHECKING:
    from collections.abc import Buffer

KEY = "lancekit:checksums"
_ALGORITHM = "xxh3_64"

#: Begin of the JSON object in every list of checksums.
_MARK = b'{"algorithm":"'


def _of_buffers(buffers: Iterable[Buffer]) -> str:
    state = xxh3_64()
    for buffer in buffers:
        view = memoryview(buffer)
        if view.nbytes:
            state.update(view.cast("B"))
    return state.hexdigest()


def _of_schema(descriptor: schema_pb2.FileDescriptor) -> str:
    rest = schema_pb2.FileDescriptor()
    rest.CopyFrom(descriptor)
    rest.schema.metadata.pop(KEY, None)
    return xxh3_64_hexdigest(rest.SerializeToString(deterministic=True))


@dataclass(slots=True)
class ChecksumWriter:
    """Collector of the checksums of a file that is being written."""

    _pages: dict[int, list[str]] = field(default_factory=dict)
    _regions: list[tuple[int, int, str]] = field(default_factory=list)

    def add_page(self, field_id: int, buffers: Iterable[Buffer]) -> None:
        """Add the next page of the column that belongs to a field."""
        self._pages.setdefault(field_id, []).append(_of_buffers(buffers))

    def add_region(self, position: int, data: Buffer) -> None:
        """Add the bytes of blobs, which are not part of a page."""
        self._regions.append((position, memoryview(data).nbytes, _of_buffers([data])))

    def finish(self, descriptor: schema_pb2.FileDescriptor, columns: Mapping[int, bytes]) -> None:
        """Store the checksums in the file's schema.

        ``columns`` is the serialised metadata of the columns in order, by the ids of their fields.
        """
        found = {
            "algorithm": _ALGORITHM,
            "schema": _of_schema(descriptor),
            "columns": [xxh3_64_hexdigest(metadata) for metadata in columns.values()],
            "pages": [self._pages.get(field_id, []) for field_id in columns],
            "regions": self._regions,
        }
        text = json.dumps(found, separators=(",", ":")).encode()
        descriptor.schema.metadata[KEY] = xxh3_64_hexdigest(text).encode() + text


@dataclass(frozen=True, slots=True)
class Checksums:
    """Expected hashes of a file.  Call its methods within `located`."""

    columns: tuple[str, ...]
    pages: tuple[tuple[str, ...], ...]
    regions: tuple[tuple[int, int, str], ...]
    _checked_regions: set[int] = field(default_factory=set, repr=False, compare=False)
    #: pages that have been compared; ``None`` if every read compares
    _checked_pages: set[tuple[int, int]] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls, descriptor: schema_pb2.FileDescriptor, serialised: bytes, *, once: bool = False
    ) -> Checksums | None:
        """Return the checksums of a file, or ``None`` if it has none; verify its schema.

        ``serialised`` are the bytes of the descriptor, in which a damaged key hides the checksums.
        With `once` each page is compared only once.

        Raises Damaged: the schema or the list of checksums differs from the written one.
        """
        stored = descriptor.schema.metadata.get(KEY)
        if stored is None:
            if _MARK in serialised:
                raise Damaged("the list of checksums is not where it was written")
            return None
        digest, text = stored[:16], stored[16:]
        if digest != xxh3_64_hexdigest(text).encode():
            raise Damaged("the list of checksums does not match its own checksum")
        found = json.loads(text)
        if found["algorithm"] != _ALGORITHM:  # written by a later release
            return None
        if found["schema"] != _of_schema(descriptor):
            raise Damaged("the schema does not match its checksum")
        pages, regions = (tuple(map(tuple, found[name])) for name in ("pages", "regions"))
        return cls(tuple(found["columns"]), pages, regions, _checked_pages=set() if once else None)

    def check_column(self, column: int, metadata: Buffer) -> None:
        """Raise ``Damaged`` if a column's serialised metadata do not match their checksum."""
        if self.columns[column] != _of_buffers([metadata]):
            raise Damaged("the column's metadata do not match their checksum")

    def check_regions(self, source: RandomAccess) -> None:
        """Raise ``Damaged`` if the bytes of a blob do not match their checksum."""
        self.check_blobs(source, [(position, length) for position, length, _ in self.regions])

    def check_blobs(self, source: RandomAccess, ranges: Sequence[tuple[int, int]]) -> None:
        """Raise ``Damaged`` if a region that overlaps a range does not match its checksum.

        Regions are sorted by position, and each is compared once.
        """
        for start, length in ranges if self.regions else ():
            at = max(0, bisect_right(self.regions, start, key=itemgetter(0)) - 1)
            for number in range(at, len(self.regions)):
                position, size, digest = self.regions[number]
                if position >= start + length:
                    break
                if number in self._checked_regions or position + size <= start:
                    continue
                if digest != _of_buffers([source.read(position, size)]):
                    raise Damaged(f"the blobs from byte {position} on do not match their checksum")
                self._checked_regions.add(number)

    def checked(
        self, source: RandomAccess, column: int, page: int, places: Sequence[tuple[int, int]]
    ) -> RandomAccess:
        """Return a source that compares all of a page's buffers before it reads the first one.

        A read raises ``Damaged`` if they do not match the checksum.
        """

        def check() -> None:
            if self._checked_pages is not None and (column, page) in self._checked_pages:
                return
            buffers = source.read_many([place for place in places if place[1]])
            if self.pages[column][page] != _of_buffers(buffers):
                raise Damaged("the page does not match its checksum")
            if self._checked_pages is not None:
                self._checked_pages.add((column, page))

        return _Page(source, self, check)


class BlobSource(SourceWrapper):
    """Data file from which blobs are read, each compared with its checksum before its first read.

    source, checksums: the file, and its expected hashes.

    Raises CorruptFileError: on a read, if the bytes do not match.
    """

    def __init__(self, source: RandomAccess, checksums: Checksums) -> None:
        super().__init__(source)
        self._checksums = checksums

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return a range of bytes."""
        self._verify([(start, length)])
        return self._source.read(start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return ranges of bytes."""
        self._verify(ranges)
        return self._source.read_many(ranges)

    def _verify(self, ranges: Sequence[tuple[int, int]]) -> None:
        with located(self.name):
            self._checksums.check_blobs(self._source, ranges)


class _Page(BlobSource):
    """Data file from which one page is read, with a check before the first read."""

    def __init__(
        self, source: RandomAccess, checksums: Checksums, check: Callable[[], None]
    ) -> None:
        super().__init__(source, checksums)
        self._check: Callable[[], None] | None = check

    def _verify(self, ranges: Sequence[tuple[int, int]]) -> None:
        if self._check is not None:
            self._check()
            self._check = None
        self._checksums.check_blobs(self._source, ranges)
