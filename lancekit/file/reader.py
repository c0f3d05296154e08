"""Reading one data file: columns and rows in, Arrow out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.errors import UnsupportedTypeError
from lancekit.file.columns import FileColumn, file_columns
from lancekit.file.constant import ConstantPage
from lancekit.file.container import Container, StoredPage, open_container
from lancekit.file.faults import Unsupported, located, require
from lancekit.file.fullzip import FullZipPage
from lancekit.file.memory import starts_of
from lancekit.file.miniblock import MiniBlockPage
from lancekit.file.page import Page, PageDecoder
from lancekit.file.pages20 import ArrayPage
from lancekit.file.parallel import Piece, divide, run
from lancekit.file.raw import storage_type
from lancekit.file.selection import Rows, Selection, cut, parse_rows, split
from lancekit.format.pb import encodings_v20_pb2
from lancekit.format.schema import LanceSchema, schema_from_pb
from lancekit.storage.base import RandomAccess

__all__ = ["LanceFileReader"]

_LAYOUTS: dict[str, Callable[[Page, Any, pa.DataType], PageDecoder]] = {
    "mini_block": MiniBlockPage,
    "full_zip": FullZipPage,
    "constant": ConstantPage,
}


def _decoder(stored: StoredPage, kind: pa.DataType) -> PageDecoder:
    """Return the decoder of one page."""
    encoding = stored.encoding
    if isinstance(encoding, encodings_v20_pb2.ArrayEncoding):
        return ArrayPage(stored.page, encoding, kind)
    name = encoding.WhichOneof("layout") or "unknown"
    make = _LAYOUTS.get(name)
    if make is None:
        raise Unsupported(f"page layout {name!r}")
    return make(stored.page, getattr(encoding, name), kind)


class _Column:
    """One physical column as values of one type; pages keep what they learned for later reads."""

    def __init__(self, container: Container, name: str, kind: pa.DataType, column: int) -> None:
        self._file = container.source.name
        self._name = name
        self._kind = kind
        self._storage = storage_type(kind)
        with located(self._file, name):
            self._stored = container.pages(column)
            rows = int(container.descriptor.length)
            lengths = [stored.page.length for stored in self._stored]
            require(sum(lengths) == rows, f"its pages hold {sum(lengths)} rows, not {rows}")
            self.firsts = starts_of(np.array(lengths, np.int64))
        self._decoders: dict[int, PageDecoder] = {}

    def read_page(self, index: int, rows: Selection) -> pa.Array:
        """Decode rows of one page."""
        with located(self._file, self._name, index):
            decoder = self._decoders.get(index)
            if decoder is None:
                decoder = _decoder(self._stored[index], self._kind)
                self._decoders[index] = decoder
            array = decoder.read(rows)
            require(
                len(array) == len(rows) and array.type == self._storage,
                f"it decodes to {len(array)} values of {array.type}, not {len(rows)}",
            )
        if self._storage is not self._kind:
            return pa.ExtensionArray.from_storage(self._kind, array)
        return array

    def pieces(self, rows: Selection) -> list[Piece]:
        """Return what to decode for some rows of all pages, in order."""
        return [
            piece
            for page, part in split(rows, self.firsts)
            for piece in divide(self._stored[page], page, part)
        ]


class LanceFileReader:
    """A data file opened for reading.

    Opening reads the end of the file; a column's metadata is parsed when the column is first read,
    and only the pages and chunks that hold wanted rows are fetched.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.file import LanceFileReader, LanceFileWriter
    >>> from lancekit.storage import open_store
    >>> store = open_store("memory://")
    >>> batch = pa.record_batch({"n": [1, 2, None]})
    >>> writer = LanceFileWriter(store.create("a.lance"), batch.schema)
    >>> writer.write(batch)
    >>> writer.finish().num_rows
    3
    >>> reader = LanceFileReader.open(store.open("a.lance"))
    >>> reader.read(reader.columns, slice(1, 3)).column("n").to_pylist()
    [2, None]
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self._columns: dict[tuple[int, str, pa.DataType], _Column] = {}
        self._lance_schema: LanceSchema | None = None

    @classmethod
    def open(cls, source: RandomAccess) -> LanceFileReader:
        """Open a file.

        Raises
        ------
        CorruptFileError
            Not a Lance data file, or a damaged one.
        UnsupportedFeatureError
            A version of the format that this release does not read.
        """
        with located(source.name):
            return cls(open_container(source))

    @property
    def version(self) -> tuple[int, int]:
        """The format version as manifests name it: (2, 0), (2, 1) or (2, 2)."""
        return self._container.version

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self._container.descriptor.length)

    @property
    def num_columns(self) -> int:
        """The number of physical columns."""
        return len(self._container.column_table)

    @property
    def lance_schema(self) -> LanceSchema:
        """The file's own schema, with field ids."""
        if self._lance_schema is None:
            with located(self._container.source.name):
                stored = self._container.descriptor.schema
                self._lance_schema = schema_from_pb(stored.fields, stored.metadata)
        return self._lance_schema

    @property
    def schema(self) -> pa.Schema:
        """The file's own schema."""
        with located(self._container.source.name):
            return self.lance_schema.to_arrow()

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """Every field of the file's own schema."""
        with located(self._container.source.name):
            return file_columns(self.lance_schema, self.version)

    def read(self, columns: Sequence[FileColumn], rows: Rows = None) -> pa.Table:
        """Read rows of some columns.

        Parameters
        ----------
        columns
            The fields wanted, with the physical columns that hold them.
        rows
            ``None`` for all rows, a ``slice`` or ``range``, or strictly ascending positions.

        Returns
        -------
        A table of exactly the fields asked for, one or more chunks for each page touched.

        Raises
        ------
        CorruptFileError, UnsupportedFeatureError, UnsupportedTypeError
            Naming file, column and page.
        RowOutOfRangeError
            A position outside of the file.
        """
        selection = parse_rows(rows, self.num_rows)
        schema = pa.schema([column.field for column in columns])
        if not columns:
            return _no_columns(len(selection))
        work: list[tuple[int, Callable[[], pa.Array]]] = []
        counts = []
        for column in map(self._column, columns):
            pieces = column.pieces(selection)
            counts.append(len(pieces))
            work += [(p.cost, partial(column.read_page, p.page, p.rows)) for p in pieces]
        arrays = iter(run(work))
        return pa.Table.from_arrays(
            [
                pa.chunked_array(list(islice(arrays, count)), field.type)
                for count, field in zip(counts, schema, strict=True)
            ],
            schema=schema,
        )

    def read_batches(
        self, columns: Sequence[FileColumn], rows: Rows = None, batch_size: int = 8192
    ) -> Iterator[pa.RecordBatch]:
        """Read rows as a stream of batches, holding about one decoded page for each column.

        Parameters
        ----------
        batch_size
            Rows of every batch but the last.
        """
        selection = parse_rows(rows, self.num_rows)
        schema = pa.schema([column.field for column in columns])
        if not columns:
            for start in range(0, len(selection), batch_size):
                yield from _no_columns(len(cut(selection, start, start + batch_size))).to_batches()
            return
        streams = [_Stream(self._column(column), selection) for column in columns]
        for start in range(0, len(selection), batch_size):
            count = min(batch_size, len(selection) - start)
            yield pa.RecordBatch.from_arrays([s.next(count) for s in streams], schema=schema)

    def _column(self, column: FileColumn) -> _Column:
        kind = column.field.type
        _check_type(self._container.source.name, column.field)
        (physical,) = column.columns
        key = (physical, column.field.name, kind)
        known = self._columns.get(key)
        if known is None:
            known = _Column(self._container, column.field.name, kind, physical)
            self._columns[key] = known
        return known


class _Stream:
    """The rows of one column, page by page, handed out in any number."""

    def __init__(self, column: _Column, selection: Selection) -> None:
        self._pages = split(selection, column.firsts)
        self._column = column
        self._rest: list[pa.Array] = []
        self._available = 0

    def next(self, count: int) -> pa.Array:
        while self._available < count:
            page, rows = next(self._pages)
            self._rest.append(self._column.read_page(page, rows))
            self._available += len(rows)
        parts = []
        missing = count
        while missing:
            array = self._rest[0]
            if len(array) <= missing:
                parts.append(self._rest.pop(0))
            else:
                parts.append(array.slice(0, missing))
                self._rest[0] = array.slice(missing)
            missing -= len(parts[-1])
        self._available -= count
        if len(parts) == 1:
            return parts[0]
        return pa.chunked_array(parts).combine_chunks()


def _no_columns(num_rows: int) -> pa.Table:
    """Return a table that has rows and no columns."""
    return pa.table({"": pa.nulls(num_rows)}).select([])


def _check_type(file: str, field: pa.Field) -> None:
    """Refuse nested types before anything is read."""
    kind = storage_type(field.type)
    while pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind):
        raise UnsupportedTypeError(
            f"{file}, column {field.name!r}: reading {field.type} is not supported yet.",
            hint="Leave the column out with `columns=`.",
            file=file,
            column=field.name,
            type=str(field.type),
        )
