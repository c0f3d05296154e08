"""The container of a data file: footer, tables, column metadata.

See docs/format/data-files.md, 1 and 2.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lancekit._cache import remembered
from lancekit._file.container.checksums import Checksums
from lancekit._file.container.legacy_tables import LEGACY, legacy_tables
from lancekit._file.container.prefetch import PrefetchedSource
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, as_bytes, fetch
from lancekit._format.pb import encodings_v20_pb2, encodings_v21_pb2, file2_pb2, schema_pb2
from lancekit._format.unknown_fields import parse
from lancekit._storage.base import RandomAccess
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.options import options

MAGIC = b"LANC"
FOOTER = struct.Struct("<QQQIIHH4s")
ALIGNMENT = 64

#: (major, minor) in a footer -> the version's name, and its numbers in manifests
VERSIONS = {
    (0, 1): ("0.1", LEGACY),
    (0, 2): ("0.1", LEGACY),
    (0, 3): ("2.0", (2, 0)),
    (2, 0): ("2.0", (2, 0)),
    (2, 1): ("2.1", (2, 1)),
    (2, 2): ("2.2", (2, 2)),
}

COLUMN_ENCODING = "/lance.encodings.ColumnEncoding"
ARRAY_ENCODING = "/lance.encodings.ArrayEncoding"
PAGE_LAYOUT = "/lance.encodings21.PageLayout"

#: One read of this size at the end usually covers footer, tables, metadata and schema.
_TAIL = 1 << 16

#: Maximum number of parsed encodings in each cache.
_CACHED = 512


class StoredPage(NamedTuple):
    """Page, the message that describes its encoding, and the key for decoding pages together."""

    page: Page
    encoding: encodings_v20_pb2.ArrayEncoding | encodings_v21_pb2.PageLayout
    #: ``None`` for pages that are decoded separately
    run_key: bytes | None = None


class DescribedPage(NamedTuple):
    """Description of a page in the column metadata, independent of any open file handle."""

    length: int
    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    encoding: encodings_v20_pb2.ArrayEncoding | encodings_v21_pb2.PageLayout
    run_key: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """Parsed end of a file, and its bytes from `start` on; compares by identity."""

    version: tuple[int, int]
    descriptor: schema_pb2.FileDescriptor
    column_table: tuple[tuple[int, int], ...]
    global_table: tuple[tuple[int, int], ...]
    start: int
    data: pa.Buffer

    def bytes_held(self) -> int:
        """Return an estimate of its memory in bytes."""
        numbers = len(self.column_table) + len(self.global_table)
        return 4 * self.descriptor.ByteSize() + 150 * numbers + self.data.size


@dataclass(frozen=True, slots=True)
class Container:
    """Metadata of an open file; the metadata of columns are parsed on demand."""

    source: RandomAccess
    size: int
    version: tuple[int, int]
    descriptor: schema_pb2.FileDescriptor
    column_table: tuple[tuple[int, int], ...]
    global_table: tuple[tuple[int, int], ...]
    tail: _Tail = field(repr=False)
    checksums: Checksums | None = field(default=None, repr=False)
    #: bytes that any page may take in memory: the floor of `bounds.allowance`
    page_memory: int = field(default_factory=lambda: options.page_memory_bytes, repr=False)
    #: identifies the file in the cache; ``None`` if nothing of it is cached
    key: object | None = field(default=None, repr=False)

    def metadata_places(self, columns: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield (position, size) of the columns' metadata that opening the file did not read."""
        for column in columns:
            if 0 <= column < len(self.column_table):
                position, size = self.column_table[column]
                if position < self.tail.start and position + size <= self.size:
                    yield position, size

    def pages(self, column: int) -> list[StoredPage]:
        """Return the pages of one physical column, from the cache if possible.

        Raises Damaged, Unsupported: call it within `located`.
        """
        key = None if self.key is None else (self.key, column)
        described = remembered("columns", key, lambda: self.described(column), _described_bytes)
        return [self._page(column, index, page) for index, page in enumerate(described)]

    def described(self, column: int) -> list[DescribedPage]:
        """Read and parse the metadata of one physical column."""
        require(0 <= column < len(self.column_table), f"there is no physical column {column}")
        position, size = self.column_table[column]
        stored = bytes(self.tail.read(position, size))
        if self.checksums is not None:
            self.checksums.check_column(column, stored)
        metadata = file2_pb2.ColumnMetadata.FromString(stored)
        _check_column_encoding(metadata.encoding.SerializeToString())
        return [self._described(index, page) for index, page in enumerate(metadata.pages)]

    def _described(self, index: int, message: file2_pb2.Page) -> DescribedPage:
        positions, sizes = tuple(message.buffer_offsets), tuple(message.buffer_sizes)
        require(len(positions) == len(sizes), f"page {index} has buffers without a size")
        for position, size in zip(positions, sizes, strict=True):
            require(position + size <= self.size, f"page {index} reaches past the end of the file")
            require(
                self.version == (2, 0) or position % ALIGNMENT == 0,
                f"page {index} has a buffer that is not aligned",
            )
        parse_encoding = _array_encoding if self.version == (2, 0) else _page_layout
        encoding, run_key = parse_encoding(message.encoding.SerializeToString())
        return DescribedPage(int(message.length), positions, sizes, encoding, run_key)

    def _page(self, column: int, index: int, described: DescribedPage) -> StoredPage:
        length, positions, sizes, encoding, run_key = described
        source = self.source
        if self.checksums is not None:
            places = list(zip(positions, sizes, strict=True))
            source = self.checksums.checked(source, column, index, places)
        key = None if self.key is None else (self.key, column, index)
        return StoredPage(Page(source, index, length, positions, sizes, key), encoding, run_key)


def _described_bytes(pages: list[DescribedPage]) -> int:
    return sum(200 + 100 * len(page.positions) + 3 * page.encoding.ByteSize() for page in pages)


# Most columns and pages share their encoding with others, byte for byte: each encoding of a wide
# table is parsed once.  The largest contain an FSST symbol table of 2 KiB.


@functools.lru_cache(_CACHED)
def _check_column_encoding(stored: bytes) -> None:
    encoding = encodings_v20_pb2.ColumnEncoding()
    _unwrap(stored, COLUMN_ENCODING, encoding)
    kind = encoding.WhichOneof("column_encoding")
    if kind == "blob":  # in 2.0; its pages are marked as well
        kind = encoding.blob.inner.WhichOneof("column_encoding")
    if kind != "values":
        raise Unsupported(f"column encoding {kind or 'unknown'!r}")


@functools.lru_cache(_CACHED)
def _array_encoding(stored: bytes) -> tuple[encodings_v20_pb2.ArrayEncoding, None]:
    encoding = encodings_v20_pb2.ArrayEncoding()
    _unwrap(stored, ARRAY_ENCODING, encoding)
    return encoding, None


@functools.lru_cache(_CACHED)
def _page_layout(stored: bytes) -> tuple[encodings_v21_pb2.PageLayout, bytes | None]:
    encoding = encodings_v21_pb2.PageLayout()
    _unwrap(stored, PAGE_LAYOUT, encoding)
    return encoding, _run_key(encoding)


def _run_key(encoding: encodings_v21_pb2.PageLayout) -> bytes | None:
    """Return the key that pages must share to be decoded as one, or ``None`` if they cannot be."""
    if not encoding.HasField("mini_block") or encoding.mini_block.HasField("dictionary"):
        return None
    common = encodings_v21_pb2.MiniBlockLayout()
    common.CopyFrom(encoding.mini_block)
    common.ClearField("num_items")
    if common.value_compression.HasField("fsst"):
        common.value_compression.fsst.ClearField("symbol_table")
    return common.SerializeToString(deterministic=True)


def _unwrap(stored: bytes, type_url: str, into: Message) -> None:
    """Parse a directly stored encoding of the expected type."""
    encoding = file2_pb2.Encoding.FromString(stored)
    where = encoding.WhichOneof("location")
    if where == "indirect":
        raise Unsupported("an encoding stored outside of its column")
    require(where == "direct", "an encoding is missing")
    wrapper = AnyMessage()
    wrapper.ParseFromString(encoding.direct.encoding)
    if not wrapper.type_url.endswith(type_url):
        raise Unsupported(f"encoding {wrapper.type_url!r}")
    into.ParseFromString(wrapper.value)


class _Tail(NamedTuple):
    """End of the file in memory, with its source for earlier bytes."""

    source: RandomAccess
    start: int
    data: pa.Buffer

    def read(self, position: int, length: int) -> pa.Buffer:
        end = self.start + self.data.size
        if position + length > end:
            raise Damaged(f"bytes {position} to {position + length} of a file of {end}")
        if position >= self.start:
            return self.data.slice(position - self.start, length)
        return self.source.read(position, length)

    def owned_from(self, first: int) -> _Tail:
        """Return a copy of the end from position `first` on, in separate memory."""
        start = max(self.start, first)
        return _Tail(
            self.source, start, pa.py_buffer(self.data.slice(start - self.start).to_pybytes())
        )


def open_container(source: RandomAccess, *, compared: bool = False) -> Container:
    """Read footer, tables and schema; most files need one read.

    With `compared` each page is compared with its checksum before it is first decoded, and decoded
    values are cached.  The option `verify_checksums` caches nothing.

    Raises CorruptFileError: the file is truncated or not a Lance file.
    Raises UnsupportedFeatureError: this release does not read the format version.
    """
    verify = options.verify_checksums
    # data that is compared with checksums comes from the file, not from the cache
    identity = None if verify else source.identity
    memory = options.page_memory_bytes  # limits the decoded size of a page
    key = None if identity is None else (identity, memory, compared)
    frame = remembered(
        "files", key, lambda: _read_frame(source, key is not None), _Frame.bytes_held
    )
    tail = _Tail(source, frame.start, frame.data)
    checksums = None
    if (verify or compared) and frame.global_table:
        stored = tail.read(*frame.global_table[0])
        checksums = Checksums.of(frame.descriptor, stored.to_pybytes(), once=compared)
    return Container(
        source,
        source.size(),
        frame.version,
        frame.descriptor,
        frame.column_table,
        frame.global_table,
        tail,
        checksums,
        memory,
        None if key is None else frame,
    )


def _read_frame(source: RandomAccess, is_cached: bool) -> _Frame:
    """Read the end of a file; copy its bytes if the frame will be cached."""
    size = source.size()
    start = max(0, size - _TAIL)
    tail = _Tail(source, start, source.read(start, size - start))
    if start == 0 and isinstance(source, PrefetchedSource):
        source.keep(tail.data)
    if tail.data.size < FOOTER.size:
        raise _not_lance(source, f"it has only {size} bytes")
    footer = FOOTER.unpack(tail.read(size - FOOTER.size, FOOTER.size))
    columns_at, table_at, globals_at, num_globals, num_columns, major, minor, magic = footer
    if magic != MAGIC:
        raise _not_lance(source, f"it ends with {magic!r}, not {MAGIC!r}")
    known = VERSIONS.get((major, minor))
    if known is None:
        raise UnsupportedFeatureError(
            f"{source.name}: data file version {major}.{minor} is not supported.",
            hint="Supported versions are 0.1, 2.0, 2.1 and 2.2.",
            file=source.name,
            version=f"{major}.{minor}",
        )
    if known[1] == LEGACY:
        return _legacy_frame(source, tail, is_cached)
    if not columns_at <= table_at <= globals_at <= size - FOOTER.size:
        raise Damaged("the footer points outside of the file")
    require(num_globals >= 1, "there is no schema")
    require(table_at + 16 * num_columns <= globals_at, "the column table is truncated")
    require(globals_at + 16 * num_globals <= size - FOOTER.size, "the buffer table is truncated")
    columns = _table(tail.read(table_at, 16 * num_columns))
    global_table = _table(tail.read(globals_at, 16 * num_globals))
    schema_at, schema_size = global_table[0]
    stored = tail.read(schema_at, schema_size)
    descriptor = parse(schema_pb2.FileDescriptor, stored, f"Schema of {source.name}")
    end = tail.owned_from(columns_at) if is_cached else tail
    return _Frame(known[1], descriptor, columns, global_table, end.start, end.data)


def _legacy_frame(source: RandomAccess, tail: _Tail, is_cached: bool) -> _Frame:
    """Read the end of a legacy file."""
    descriptor, schema, columns = legacy_tables(tail.read, source.size(), source.name)
    end = tail.owned_from(columns[0][0]) if is_cached else tail
    return _Frame(LEGACY, descriptor, columns, (schema,), end.start, end.data)


def _table(data: pa.Buffer) -> tuple[tuple[int, int], ...]:
    return tuple(struct.iter_unpack("<QQ", data))


def _not_lance(source: RandomAccess, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{source.name} is not a Lance data file: {why}.",
        hint="It may be truncated, or another kind of file.",
        file=source.name,
    )


# ---- the pages of a column, with the positions of their buffers


@dataclass(frozen=True, slots=True)
class Page:
    """Positions and sizes of a page's buffers, checked against the file's size.

    `key` identifies the page in the cache; ``None`` if it is not cached.
    """

    source: RandomAccess
    index: int
    length: int
    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    key: Hashable | None = None

    def size(self, buffer: int) -> int:
        """Return the size of one buffer in bytes."""
        require(buffer < len(self.sizes), f"buffer {buffer} is missing")
        return self.sizes[buffer]

    def read(self, buffer: int) -> Bytes:
        """Return one whole buffer."""
        size = self.size(buffer)
        if size == 0:
            return np.empty(0, np.uint8)
        return as_bytes(self.source.read(self.positions[buffer], size))

    def fetch(self, buffer: int, starts: Ints, stops: Ints) -> tuple[Bytes, Ints]:
        """Read ascending byte ranges of one buffer; return bytes, and where each range starts."""
        require(len(stops) == 0 or stops.max() <= self.size(buffer), "a buffer is too short")
        return fetch(self.source, self.positions[buffer], starts, stops)
