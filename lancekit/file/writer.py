"""Writing one data file: batches in, pages out in a single pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from lancekit.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedTypeError
from lancekit.file import encode20, encode21
from lancekit.file.columns import owning_fields
from lancekit.file.container import (
    ALIGNMENT,
    ARRAY_ENCODING,
    COLUMN_ENCODING,
    FOOTER,
    MAGIC,
    PAGE_LAYOUT,
)
from lancekit.file.plain import Encoded, byte_width, is_variable
from lancekit.file.raw import storage_type
from lancekit.format.pb import encodings_v20_pb2, file2_pb2, schema_pb2
from lancekit.format.schema import LanceSchema, schema_to_pb
from lancekit.storage.base import Sink

__all__ = ["DEFAULT_VERSION", "FileSummary", "LanceFileWriter"]

DEFAULT_VERSION = "2.2"

#: Arrow bytes of a column that make a page.
_PAGE_BYTES = 8 << 20

#: The widest row of booleans of which eight still fit into a chunk of 2.1.
_MAX_BOOLEANS = 8192


@dataclass(frozen=True, slots=True)
class _Format:
    """How one version is written: footer and manifest numbers, page message, page encoder."""

    footer: tuple[int, int]
    manifest: tuple[int, int]
    type_url: str
    encode: Callable[[pa.Array], Encoded]


_FORMATS = {
    "2.0": _Format((0, 3), (2, 0), ARRAY_ENCODING, encode20.encode_page),
    "2.1": _Format((2, 1), (2, 1), PAGE_LAYOUT, partial(encode21.encode_page, large=False)),
    "2.2": _Format((2, 2), (2, 2), PAGE_LAYOUT, partial(encode21.encode_page, large=True)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    """What a manifest says about a finished data file.

    `version` is (2, 0), (2, 1) or (2, 2); `field_ids` are the fields that own a physical column,
    `column_indices` their columns.
    """

    num_rows: int
    size_bytes: int
    version: tuple[int, int]
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]


class LanceFileWriter:
    """A data file being written.

    Batches are collected column by column; a column whose rows fill a page is encoded and written
    at once, so that memory is bounded by one page for each column.

    Parameters
    ----------
    sink
        Where the bytes go; nothing is visible before `finish`.
    schema
        The schema with the dataset's field ids, or an Arrow schema that gets ids from 0 on.
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    max_page_bytes
        Arrow bytes of one column that make a page.

    Raises
    ------
    UnsupportedTypeError
        A column's type cannot be written; nothing has been written then.
    """

    def __init__(
        self,
        sink: Sink,
        schema: LanceSchema | pa.Schema,
        *,
        version: str = DEFAULT_VERSION,
        max_page_bytes: int = _PAGE_BYTES,
    ) -> None:
        known = _FORMATS.get(version)
        if known is None:
            raise InvalidArgumentError(
                f"Data file version {version!r} cannot be written.",
                hint=f"Use one of {', '.join(_FORMATS)}.",
                version=version,
            )
        if max_page_bytes < 1:
            raise InvalidArgumentError(f"max_page_bytes is {max_page_bytes}; it must be positive.")
        if isinstance(schema, pa.Schema):
            schema = LanceSchema.from_arrow(schema)
        self._schema = schema
        self._arrow = schema.to_arrow()
        for field in self._arrow:
            _check_type(field)
        self._format = known
        self._sink = sink
        self._position = 0
        self._num_rows = 0
        self._open = True
        self._columns = [_Column(max_page_bytes) for _ in self._arrow]

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises
        ------
        SchemaMismatchError
            Columns, types or nulls that do not fit the schema.
        """
        self._check_open()
        arrays = [self._fitting(batch, index) for index in range(len(self._arrow))]
        if batch.num_columns != len(arrays):
            extra = sorted(set(batch.schema.names) - set(self._arrow.names))
            raise SchemaMismatchError(f"Columns {extra} are not in the file's schema.")
        if batch.num_rows == 0:
            return
        self._num_rows += batch.num_rows
        for column, array in zip(self._columns, arrays, strict=True):
            for page in column.add(array):
                self._write_page(column, page)

    def finish(self) -> FileSummary:
        """Write what is left, the schema and the footer; make the file visible."""
        self._check_open()
        for column in self._columns:
            for page in column.rest():
                self._write_page(column, page)
        descriptor = schema_pb2.FileDescriptor(length=self._num_rows)
        descriptor.schema.fields.extend(schema_to_pb(self._schema))
        for key, value in self._schema.metadata.items():
            descriptor.schema.metadata[key] = value.encode()
        stored = descriptor.SerializeToString()
        global_buffers = [(self._write_aligned(stored), len(stored))]

        columns_at = self._position
        places = []
        for column in self._columns:
            metadata = column.metadata().SerializeToString()
            places.append((self._position, len(metadata)))
            self._write(metadata)
        table_at = self._position
        self._write(np.array(places, "<u8").tobytes())
        globals_at = self._position
        self._write(np.array(global_buffers, "<u8").tobytes())
        numbers = (columns_at, table_at, globals_at, len(global_buffers), len(places))
        self._write(FOOTER.pack(*numbers, *self._format.footer, MAGIC))
        self._sink.close()
        self._open = False
        owners = [
            owner.id
            for field in self._schema.fields
            for owner in owning_fields(field, self._format.manifest)
        ]
        return FileSummary(
            num_rows=self._num_rows,
            size_bytes=self._position,
            version=self._format.manifest,
            field_ids=tuple(owners),
            column_indices=tuple(range(len(owners))),
        )

    def abort(self) -> None:
        """Give up; nothing becomes visible."""
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
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if not array.type.equals(field.type):
            raise SchemaMismatchError(
                f"Column {field.name!r} is {array.type}, not {field.type}.", column=field.name
            )
        if array.null_count and not field.nullable:
            raise SchemaMismatchError(
                f"Column {field.name!r} must not hold nulls, and has {array.null_count}.",
                column=field.name,
            )
        return array

    def _write_page(self, column: _Column, array: pa.Array) -> None:
        encoded = self._format.encode(array)
        places = [self._write_aligned(buffer) for buffer in encoded.buffers]
        sizes = [memoryview(buffer).nbytes for buffer in encoded.buffers]
        column.wrote(encoded, self._format.type_url, places, sizes)

    def _write_aligned(self, data: Any) -> int:
        """Write one buffer; return where it starts."""
        self._write(b"\0" * (-self._position % ALIGNMENT))
        place = self._position
        self._write(data)
        return place

    def _write(self, data: Any) -> None:
        view = memoryview(data)
        if view.nbytes:
            self._sink.write(view.cast("B"))
            self._position += view.nbytes


class _Column:
    """Rows of one column that wait for a page, and the pages written so far."""

    def __init__(self, max_page_bytes: int) -> None:
        self._max = max_page_bytes
        self._waiting: list[pa.Array] = []
        self._bytes = 0
        self._rows = 0
        self._pages: list[file2_pb2.Page] = []

    def add(self, array: pa.Array) -> list[pa.Array]:
        """Take rows; return what fills pages now."""
        self._waiting.append(array)
        self._bytes += array.nbytes
        return self.rest() if self._bytes >= self._max else []

    def rest(self) -> list[pa.Array]:
        """Return everything that waits, in pages."""
        if not self._waiting:
            return []
        one = len(self._waiting) == 1
        array = self._waiting[0] if one else pa.concat_arrays(self._waiting)
        count = min(len(array), max(1, round(self._bytes / self._max)))
        self._waiting, self._bytes = [], 0
        borders = [len(array) * i // count for i in range(count + 1)]
        return [array.slice(a, b - a) for a, b in pairwise(borders)]

    def wrote(self, encoded: Encoded, type_url: str, places: list[int], sizes: list[int]) -> None:
        """Note a page that has been written."""
        self._pages.append(
            file2_pb2.Page(
                buffer_offsets=places,
                buffer_sizes=sizes,
                length=encoded.rows,
                encoding=_wrap(type_url, encoded.message),
                priority=0 if type_url == ARRAY_ENCODING else self._rows,
            )
        )
        self._rows += encoded.rows

    def metadata(self) -> file2_pb2.ColumnMetadata:
        """Return the column's entry in the file."""
        values = encodings_v20_pb2.ColumnEncoding(values=encodings_v20_pb2.Nothing())
        encoding = _wrap(COLUMN_ENCODING, values)
        return file2_pb2.ColumnMetadata(encoding=encoding, pages=self._pages)


def _wrap(type_url: str, message: Any) -> file2_pb2.Encoding:
    wrapped = AnyMessage(type_url=type_url, value=message.SerializeToString())
    return file2_pb2.Encoding(direct=file2_pb2.Direct(encoding=wrapped.SerializeToString()))


def _check_type(field: pa.Field) -> None:
    """Raise unless columns of this field can be written."""
    kind = storage_type(field.type)
    metadata = field.metadata or {}
    if metadata.get(b"lance-encoding:blob") == b"true":
        problem = "blob columns"
    elif pa.types.is_fixed_size_list(kind):
        item = kind.value_type
        booleans = pa.types.is_boolean(item) and kind.list_size <= _MAX_BOOLEANS
        if kind.list_size > 0 and (booleans or byte_width(item)):
            return
        problem = str(field.type)
    elif (
        pa.types.is_null(kind) or pa.types.is_boolean(kind) or is_variable(kind) or byte_width(kind)
    ):
        return
    else:
        problem = str(field.type)
    raise UnsupportedTypeError(
        f"Column {field.name!r}: writing {problem} is not supported.",
        hint="Supported are null, booleans, numbers, decimals, dates, times, timestamps, "
        "durations, strings, binary, and fixed-size lists of numbers or booleans.",
        column=field.name,
        type=str(field.type),
    )
