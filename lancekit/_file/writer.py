"""Writer of one data file: writes batches as pages in a single pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.columns.categories import Categories, without_unused
from lancekit._file.columns.limits import check_field, check_packed, check_text, too_many_categories
from lancekit._file.columns.physical import packed_where
from lancekit._file.columns.split_leaves import columns_of_20, forbidden_nulls, plain_type, pruned
from lancekit._file.columns.threads import ahead
from lancekit._file.columns.written import FORMATS, WrittenColumn, columns_of
from lancekit._file.container.checksums import ChecksumWriter
from lancekit._file.container.footer import ALIGNMENT, FOOTER, MAGIC
from lancekit._file.encodings.choose import stay_plain
from lancekit._file.encodings.request import CHUNK
from lancekit._file.kernels.arrow_buffers import Encoded, byte_width, fixed_bytes
from lancekit._file.kernels.memory import Bytes
from lancekit._file.layouts.blob_descriptors import descriptor_field
from lancekit._format.data_file import DEFAULT_VERSION
from lancekit._format.field_marks import PACKED, is_blob_v2, may_be_packed
from lancekit._format.pb import schema_pb2
from lancekit._format.schema import LanceField, LanceSchema, schema_to_pb
from lancekit._storage.base import Sink
from lancekit.errors import InvalidArgumentError, SchemaMismatchError
from lancekit.options import DEFAULT_GOAL, check_goal
from lancekit.progress import step

if TYPE_CHECKING:
    from collections.abc import Buffer

#: Arrow bytes of one column in a page.
PAGE_BYTES = 8 << 20

#: Smaller pages are encoded before a thread would have started.
_THREADED_BYTES = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    """Entry of a finished data file for manifests.

    `version` is (2, 0), (2, 1) or (2, 2); `field_ids` are the fields that own a physical column,
    `column_indices` their columns.
    """

    num_rows: int
    size_bytes: int
    version: tuple[int, int]
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]


class FileWriter:
    """Writer of one data file.

    Rows are buffered by column.  A column's buffer is encoded and written as soon as it fills a
    page, so memory is limited to one page for each column.

    sink: receives the bytes; nothing is visible before `finish`.
    schema: the schema with the dataset's field ids, or an Arrow schema that gets ids from 0 on.
    version: ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    max_page_bytes: Arrow bytes of one column in a page.
    checksums: True to write checksums, which other readers ignore.
    optimize_for: reading pattern that string encodings are chosen for, from 2.1 on: ``"scan"``,
        ``"take"``, ``"size"``, or ``"balance"``.
    encoded: top-level fields whose rows are passed as pages to `add_pages`, not in batches.

    Raises UnsupportedTypeError: a column's type cannot be written; nothing has been written then.
    """

    def __init__(
        self,
        sink: Sink,
        schema: LanceSchema | pa.Schema,
        *,
        version: str = DEFAULT_VERSION,
        max_page_bytes: int = PAGE_BYTES,
        checksums: bool = False,
        optimize_for: str = DEFAULT_GOAL,
        encoded: Collection[str] = (),
    ) -> None:
        known = FORMATS.get(version)
        if known is None:
            raise InvalidArgumentError(
                f"Data file version {version!r} cannot be written.",
                hint=f"Use one of {', '.join(FORMATS)}.",
                version=version,
            )
        if max_page_bytes < 1:
            raise InvalidArgumentError(f"max_page_bytes must be positive, got {max_page_bytes}.")
        self._goal = check_goal(optimize_for)
        if isinstance(schema, pa.Schema):
            schema = LanceSchema.from_arrow(schema)
        if version == "2.0":  # readers of 2.0 accept every spelling of the mark
            schema = packed_where(schema, may_be_packed)
        self._schema = schema
        self._arrow = schema.to_arrow()
        self._categories = Categories(self._arrow, version)
        for field in schema.fields:
            check_field(field, version)
        self._format = known
        self._sink = sink
        self._position = 0
        self._num_rows = 0
        self._global_buffers: list[tuple[int, int]] = []
        self._open = True
        self._checksums = ChecksumWriter() if checksums else None
        self._groups = [
            list(columns_of(field, known, self._goal, max_page_bytes, self._write_blobs))
            for field in schema.fields
        ]
        self._columns = [column for group in self._groups for column in group]
        self._plain = [at for at, name in enumerate(self._arrow.names) if name not in encoded]

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises SchemaMismatchError: columns, types or nulls do not fit the schema.
        Raises UnsupportedTypeError: no reader could read the values.
        Raises InvalidArgumentError: text is not UTF-8, or the file is finished.
        """
        self._check_open()
        step()  # reports progress between two batches of any operation
        arrays = {index: self._fitting(batch, index) for index in self._plain}
        if batch.num_columns != len(arrays):
            known = {self._arrow.field(index).name for index in self._plain}
            extra = sorted(set(batch.schema.names) - known)
            raise SchemaMismatchError(f"Columns {extra} are not in the file's schema.")
        if batch.num_rows == 0:
            return
        arrays = self._count_categories(arrays)
        self._num_rows += batch.num_rows
        parts = [part for index, array in arrays.items() for part in self._parts(array, index)]
        self._write_pages(
            (column, page) for column, part in parts for page in column.waiting.add(part)
        )

    def add_pages(self, name: str, columns: Iterable[Iterable[Encoded]], rows: int) -> None:
        """Write all rows of a field listed in `encoded`: the pages of each of its columns."""
        self._check_open()
        group = self._groups[self._arrow.names.index(name)]
        for column, pages in zip(group, columns, strict=True):
            for page in pages:
                step()
                self._add_page(column, page)
        if not self._plain:
            self._num_rows = rows

    def has_room(self, batch: pa.RecordBatch) -> bool:
        """Return True if dictionary keys can distinguish all values of the file and the batch."""
        seen = copy(self._categories)
        return not seen.columns or seen.add_all([batch.select(self._arrow.names)])

    def add_global_buffer(self, data: bytes) -> int:
        """Store a buffer of the caller; return its index, from 1 on (0 is the schema)."""
        self._check_open()
        self._global_buffers.append((self._write_aligned(data), len(data)))
        return len(self._global_buffers)

    def finish(self, metadata: Mapping[str, str] | None = None) -> FileSummary:
        """Write the remaining rows, the schema and the footer; make the file visible.

        metadata: additional entries for the schema's metadata.
        """
        self._check_open()
        self._write_pages(
            (column, page) for column in self._columns for page in column.waiting.rest()
        )
        for column in self._columns:
            if self._num_rows and not len(column.pages):  # no list has an item
                for encoded in column.encode(column.empty):
                    self._add_page(column, encoded)
        descriptor = schema_pb2.FileDescriptor(length=self._num_rows)
        descriptor.schema.fields.extend(schema_to_pb(_as_stored(self._schema, self._format.name)))
        for key, value in {**self._schema.metadata, **(metadata or {})}.items():
            descriptor.schema.metadata[key] = value.encode()
        columns = {column.owner.id: column.pages.metadata() for column in self._columns}
        if self._checksums is not None:
            self._checksums.finish(descriptor, columns)
        # deterministic: otherwise equal tables would become different files in different processes
        stored = descriptor.SerializeToString(deterministic=True)
        global_buffers = [(self._write_aligned(stored), len(stored)), *self._global_buffers]

        columns_at = self._position
        places = []
        for stored in columns.values():
            places.append((self._position, len(stored)))
            self._write(stored)
        table_at = self._position
        self._write(np.array(places, "<u8").tobytes())
        globals_at = self._position
        self._write(np.array(global_buffers, "<u8").tobytes())
        numbers = (columns_at, table_at, globals_at, len(global_buffers), len(places))
        self._write(FOOTER.pack(*numbers, *self._format.footer, MAGIC))
        self._sink.close()
        self._open = False
        return FileSummary(
            num_rows=self._num_rows,
            size_bytes=self._position,
            version=self._format.manifest,
            field_ids=tuple(column.owner.id for column in self._columns),
            column_indices=tuple(range(len(self._columns))),
        )

    def abort(self) -> None:
        """Discard the file; nothing becomes visible."""
        if self._open:
            self._open = False
            self._sink.abort()

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidArgumentError("This file is already finished.", hint="Open a new writer.")

    def _fitting(self, batch: pa.RecordBatch, index: int) -> pa.Array:
        field = self._arrow.field(index)
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            raise SchemaMismatchError(f"Column {field.name!r} is missing.", column=field.name)
        array = batch.column(place)
        blob = is_blob_v2(self._schema.fields[index].metadata)
        if blob and plain_type(array.type) == pa.large_binary():
            return array
        if array.type != field.type and plain_type(array.type) != plain_type(field.type):
            raise SchemaMismatchError(
                f"Column {field.name!r} must be {field.type}, got {array.type}.", column=field.name
            )
        if nulls := forbidden_nulls(array, field):
            raise SchemaMismatchError(
                f"Column {field.name!r} is not nullable, but has {nulls}.", column=field.name
            )
        return array

    def _count_categories(self, arrays: dict[int, pa.Array]) -> dict[int, pa.Array]:
        """Count dictionary values; if there are too many, drop values that no row uses."""
        if self._categories.add(arrays.__getitem__) is None:
            return arrays
        used = {at: without_unused(arrays[at]) for at in self._categories.columns}
        crowded = self._categories.add(used.__getitem__)
        if crowded is not None:
            raise too_many_categories(self._arrow.field(crowded), self._format.name)
        return arrays | used

    def _parts(self, array: pa.Array, index: int) -> Iterator[tuple[WrittenColumn, pa.Array]]:
        """Yield the arrays for each column of a field, after a check of their values."""
        group = self._groups[index]
        old = self._format.name == "2.0"
        if old:
            parts = columns_of_20(array, self._schema.fields[index])
        else:
            parts = (pruned(array, column.path, column.leaf) for column in group)
        for column, part in zip(group, parts, strict=True):
            if column.text:
                check_text(part, 0 if old else len(column.path), column.owner)
            if column.packed:
                check_packed(part, len(column.path), column.owner, self._format.name)
            yield column, part

    def _write_pages(self, pages: Iterable[tuple[WrittenColumn, pa.Array]]) -> None:
        """Encode rows and write their pages, while threads encode the following pages."""
        work = (
            (
                known is None and column.threaded and array.nbytes >= _THREADED_BYTES,
                partial(_encoded, column, array, known),
            )
            for column, array, known in _encoded_together(
                pages, large_chunks=self._format.name == "2.2"
            )
        )
        with closing(ahead(work)) as done:
            for column, parts in done:
                for encoded in parts:
                    self._add_page(column, encoded)

    def _add_page(self, column: WrittenColumn, encoded: Encoded) -> None:
        places = [self._write_aligned(buffer) for buffer in encoded.buffers]
        sizes = [memoryview(buffer).nbytes for buffer in encoded.buffers]
        if self._checksums is not None:
            self._checksums.add_page(column.owner.id, encoded.buffers)
        column.pages.add(encoded, places, sizes)

    def _write_blobs(self, data: Buffer) -> int:
        """Write bytes outside of pages; return their position."""
        place = self._write_aligned(data)
        if self._checksums is not None:
            self._checksums.add_region(place, data)
        return place

    def _write_aligned(self, data: Buffer) -> int:
        """Write one aligned buffer; return its position."""
        if missing := -self._position % ALIGNMENT:
            self._write(bytes(missing))
        place = self._position
        self._write(data)
        return place

    def _write(self, data: Buffer) -> None:
        view = memoryview(data)
        if view.nbytes:
            self._sink.write(view.cast("B"))
            self._position += view.nbytes


def _encoded(
    column: WrittenColumn, array: pa.Array, known: Encoded | None
) -> tuple[WrittenColumn, list[Encoded]]:
    return column, list(column.encode(array)) if known is None else [known]


def _as_stored(schema: LanceSchema, version: str) -> LanceSchema:
    """Return the schema with descriptors in place of blobs."""

    def walk(field: LanceField) -> LanceField:
        if is_blob_v2(field.metadata):
            return descriptor_field(field)
        if not field.children:
            return field
        field = replace(field, children=tuple(map(walk, field.children)))
        if version == "2.0" and field.logical_type != "struct":
            # the mark of a list does not apply to its items, and the reference fails on it
            kept = {key: value for key, value in field.metadata.items() if key not in PACKED}
            field = replace(field, metadata=kept)
        return field

    return replace(schema, fields=tuple(map(walk, schema.fields)))


# ---- small flat pages of numbers, encoded together
#
# A wide table has a page of a few KiB for each of thousands of columns.  The choice of an encoding
# is made for all pages of one width and length together, as a table.  Pages that stay flat differ
# only in their values.

#: Maximum bytes of pages that are buffered for encoding together.
_BUFFER_BYTES = 1 << 20

#: Smaller groups are faster to encode one by one.
_FEW = 4

_WORDS = frozenset({1, 2, 4, 8})


class _Column(Protocol):
    @property
    def encode(self) -> Callable[[pa.Array], Iterable[Encoded]]:
        """Function that encodes a page."""

    @property
    def plain(self) -> bool:
        """True if the version is 2.1 or later and the field is not nested and has no options."""


C = TypeVar("C", bound=_Column)


def _encoded_together(
    pages: Iterable[tuple[C, pa.Array]], *, large_chunks: bool
) -> Iterator[tuple[C, pa.Array, Encoded | None]]:
    """Yield pages in order, with the encoded page if it was encoded together with others."""
    buffered: list[tuple[C, pa.Array]] = []
    size = 0
    for page in pages:
        buffered.append(page)
        # `nbytes` of number arrays would be too slow
        width = byte_width(page[1].type)
        size += page[1].nbytes if width is None else width * len(page[1])
        if size > _BUFFER_BYTES:
            yield from _encode_groups(buffered, large_chunks)
            buffered, size = [], 0
    yield from _encode_groups(buffered, large_chunks)


def _encode_groups(
    pages: Sequence[tuple[C, pa.Array]], large_chunks: bool
) -> Iterator[tuple[C, pa.Array, Encoded | None]]:
    by_shape: dict[tuple[int, int], list[int]] = {}
    for place, (column, array) in enumerate(pages):
        width, rows = byte_width(array.type) or 0, len(array)
        # a page of one chunk with at least two values
        fits = width in _WORDS and 1 < rows <= CHUNK[large_chunks] // width
        if fits and column.plain and not ak.null_count(array):
            by_shape.setdefault((width, rows), []).append(place)
    found: dict[int, Encoded | None] = {}
    for places in by_shape.values():
        if len(places) >= _FEW:
            arrays = [pages[place][1] for place in places]
            made = _encode_plain(arrays, pages[places[0]][0].encode, large_chunks)
            found.update(zip(places, made, strict=True))
    for place, (column, array) in enumerate(pages):
        yield column, array, found.get(place)


def _encode_plain(
    arrays: Sequence[pa.Array], encode: Callable[[pa.Array], Iterable[Encoded]], large_chunks: bool
) -> list[Encoded | None]:
    """Encode arrays of equal width and length; ``None`` for arrays that suit another encoding."""
    width, rows = byte_width(arrays[0].type) or 0, len(arrays[0])
    table: Bytes = np.empty((len(arrays), rows * width), np.uint8)
    for line, array in zip(table, arrays, strict=True):
        line[:] = fixed_bytes(array)
    plain = stay_plain(table.view(f"<u{width}"), large_chunks=large_chunks)
    if not plain.any():
        return [None] * len(arrays)
    (first,) = encode(arrays[int(plain.argmax())])
    words, chunk = first.buffers
    return [
        Encoded(rows, first.message, (words, each)) if is_plain else None
        for is_plain, each in zip(
            plain.tolist(), _chunks_like(cast("Bytes", chunk), table), strict=True
        )
    ]


def _chunks_like(chunk: Bytes, table: Bytes) -> Bytes:
    """Return chunks with the header of `chunk` and one row of `table` each."""
    size = table.shape[1]
    header = chunk.size - -(-size // 8) * 8
    chunks: Bytes = np.empty((len(table), chunk.size), np.uint8)
    chunks[:] = chunk
    chunks[:, header : header + size] = table
    return chunks
