"""Description of a data file's contents, with the class names of pylance's ``lance.file``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lancekit._file.columns.legacy_reader import LegacyFieldReader
from lancekit._file.columns.physical import owner_paths
from lancekit._file.container.footer import VERSIONS, Container, StoredPage
from lancekit._file.container.legacy_tables import LEGACY
from lancekit._file.kernels.compression import SCHEMES
from lancekit._file.kernels.faults import located
from lancekit._file.reader import FileReader
from lancekit._format.pb import encodings_v20_pb2, encodings_v21_pb2
from lancekit._legible import clean

#: footer version numbers that differ from the version in manifests
_FOOTERS = {(2, 0): (0, 3)}


@dataclass(frozen=True, slots=True)
class LanceBufferDescriptor:
    """Position and size of a buffer in the file, in bytes."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class LancePageMetadata:
    """Page of a column: its buffers, and the encoding of its values."""

    buffers: list[LanceBufferDescriptor]
    encoding: str
    num_rows: int
    _message: object = field(repr=False, compare=False)

    @property
    def message(self) -> str:
        """Protobuf message of the encoding, in text form."""
        return str(self._message)


@dataclass(frozen=True, slots=True)
class LanceColumnMetadata:
    """Physical column: its field's path, its pages, and the buffers that the pages share."""

    name: str
    pages: list[LancePageMetadata]
    column_buffers: list[LanceBufferDescriptor] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Size of all pages, in bytes."""
        return sum(buffer.size for page in self.pages for buffer in page.buffers)

    def __str__(self) -> str:
        encodings = list(dict.fromkeys(page.encoding for page in self.pages))
        shown = "; ".join(encodings[:3]) + ("; ..." if len(encodings) > 3 else "")
        pages = "1 page" if len(self.pages) == 1 else f"{len(self.pages)} pages"
        text = f"{clean(self.name)}: {pages}, {self.size_bytes:,} bytes, {shown}"
        return text.removesuffix(", ")


@dataclass(frozen=True, slots=True)
class LanceFileMetadata:
    """Version, schema and storage of a data file; ``str`` shows the encoding of every column.

    The version numbers come from the footer: 0 and 3 in files of version 2.0, 0 and 2 in legacy
    files, whose version is 0.1 in tables.
    """

    schema: pa.Schema
    num_rows: int
    major_version: int
    minor_version: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]

    def __str__(self) -> str:
        version, _ = VERSIONS[self.major_version, self.minor_version]
        title = f"Data file {version}, {self.num_rows:,} rows, {self.num_data_bytes:,} bytes"
        return "\n  ".join([title, *map(str, self.columns)])


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Number of pages of a physical column, and their size in bytes."""

    num_pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """Statistics of every physical column."""

    columns: list[ColumnStatistics]


def metadata_of(reader: FileReader) -> LanceFileMetadata:
    """Return a file's version and schema, and where and how its values are stored."""
    container = reader.container
    buffers = [LanceBufferDescriptor(*place) for place in container.global_table]
    first, *others = buffers
    major, minor = _FOOTERS.get(container.version, container.version)
    paths = owner_paths(reader.stored_schema, container.version)
    if container.version == LEGACY:
        columns = _legacy_columns(reader, paths)
        data_bytes = sum(column.size_bytes for column in columns)
    else:
        columns = [_column(container, index, path) for index, path in enumerate(paths)]
        data_bytes = first.position - sum(buffer.size for buffer in others)
    return LanceFileMetadata(
        schema=reader.schema,
        num_rows=reader.num_rows,
        major_version=major,
        minor_version=minor,
        num_data_bytes=data_bytes,
        # includes the table of their positions
        num_column_metadata_bytes=sum(size + 16 for _, size in container.column_table),
        num_global_buffer_bytes=sum(buffer.size for buffer in buffers),
        global_buffers=buffers,
        columns=columns,
    )


def _legacy_columns(reader: FileReader, paths: list[str]) -> list[LanceColumnMetadata]:
    """Return the columns of a legacy file; a column without a field has no name."""
    columns = [LanceColumnMetadata("", []) for _ in reader.container.column_table]
    names = iter(paths)
    for column in reader.columns:
        field = LegacyFieldReader(reader.container, column.field, column.columns)
        with located(reader.container.source.name, column.field.name):
            for at, part, name in zip(column.columns, field.parts(), names, strict=False):
                pages = zip(part.places(), part.pages.lengths.tolist(), strict=False)
                columns[at] = LanceColumnMetadata(
                    name,
                    [
                        LancePageMetadata(
                            [LanceBufferDescriptor(*place) for place in places],
                            part.encoding,
                            length,
                            "",
                        )
                        for places, length in pages
                    ],
                )
    return columns


def _column(container: Container, index: int, path: str) -> LanceColumnMetadata:
    with located(container.source.name, path):
        pages = container.pages(index)
    return LanceColumnMetadata(path, list(map(_page, pages)))


def _page(stored: StoredPage) -> LancePageMetadata:
    page = stored.page
    places = zip(page.positions, page.sizes, strict=True)
    buffers = [LanceBufferDescriptor(*place) for place in places]
    return LancePageMetadata(
        buffers, _describe(stored.encoding, len(buffers)), page.length, stored.encoding
    )


# ---- descriptions of page encodings in words

_NAMES = {
    "flat": "plain values",
    "variable": "strings",
    "binary": "strings",
    "constant": "nulls",
    "inline_bitpacking": "bit-packed integers",
    "out_of_line_bitpacking": "bit-packed integers",
    "rle": "runs",
    "byte_stream_split": "byte streams",
    "packed_struct": "packed structs",
    "variable_packed_struct": "packed structs",
    "struct": "structs",
    "list": "lists",
}

_LAYOUTS = {"mini_block": "mini-block", "full_zip": "full-zip", "constant": "constant"}


def _describe(
    encoding: encodings_v20_pb2.ArrayEncoding | encodings_v21_pb2.PageLayout, buffers: int = 0
) -> str:
    """Describe a page's encoding, from the outside in; ``buffers`` is its number of buffers.

    Examples
    --------
    >>> from lancekit._format.pb import encodings_v21_pb2 as pb
    >>> flat = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=64))
    >>> _describe(pb.PageLayout(mini_block=pb.MiniBlockLayout(value_compression=flat)))
    'mini-block of plain values'
    """
    if isinstance(encoding, encodings_v20_pb2.ArrayEncoding):
        return _array(encoding)
    name = encoding.WhichOneof("layout") or "unknown layout"
    layout: Any = getattr(encoding, name, None)
    if name == "blob":
        return f"blobs, descriptors in {_describe(encoding.blob.inner_layout)}"
    if name == "constant":
        # a value outside of the message has a separate buffer, in front of two of levels
        return "one value" if layout.HasField("inline_value") or buffers % 2 else "nulls only"
    if name not in _LAYOUTS:
        return str(name)
    values = _values(layout.value_compression)
    if name == "mini_block" and layout.HasField("dictionary"):
        items = _values(layout.dictionary)
        values = f"{values} into a dictionary of {layout.num_dictionary_items} ({items})"
    return f"{_LAYOUTS[name]} of {values}"


def _values(encoding: encodings_v21_pb2.CompressiveEncoding) -> str:
    name = encoding.WhichOneof("compression") or "unknown values"
    match name:
        case "general":
            scheme = SCHEMES.get(encoding.general.compression.scheme, "unknown scheme")
            return f"{_values(encoding.general.values)}, {scheme}"
        case "fsst":
            return f"{_values(encoding.fsst.values)}, fsst"
        case "fixed_size_list":
            lists = encoding.fixed_size_list
            return f"lists of {lists.items_per_value} {_values(lists.values)}"
    return _NAMES.get(name, name)


def _array(encoding: encodings_v20_pb2.ArrayEncoding) -> str:
    name = encoding.WhichOneof("array_encoding") or "unknown values"
    inner: Any = getattr(encoding, name, None)
    match name:
        case "nullable":
            kind = inner.WhichOneof("nullability")
            return "nulls" if kind == "all_nulls" else _array(getattr(inner, kind).values)
        case "fsst":
            return f"{_array(inner.binary)}, fsst"
        case "fixed_size_list":
            return f"lists of {inner.dimension} {_array(inner.items)}"
        case "dictionary":
            items = _array(inner.items)
            return f"indices into a dictionary of {inner.num_dictionary_items} ({items})"
    return _NAMES.get(name, name)
