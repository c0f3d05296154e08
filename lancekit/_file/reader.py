"""Reader of one data file: returns rows of columns as Arrow tables or batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._file.columns.blocks import BlockBounds
from lancekit._file.columns.field_reader import FieldReader
from lancekit._file.columns.physical import FileColumn, file_columns, with_packing
from lancekit._file.columns.work import decoded
from lancekit._file.container.checksums import BlobSource
from lancekit._file.container.footer import Container, open_container
from lancekit._file.container.legacy_tables import LEGACY
from lancekit._file.container.prefetch import PrefetchedSource, with_prefetch
from lancekit._file.kernels.faults import Unsupported, located
from lancekit._file.kernels.row_selection import Rows, parse_rows
from lancekit._file.layouts.assemble import aligned, joined
from lancekit._format.schema import LanceSchema, schema_from_pb
from lancekit._lazy import cached_property
from lancekit._storage.base import RandomAccess

if TYPE_CHECKING:
    from lancekit._file.columns.legacy_reader import LegacyFieldReader

#: Columns of a local file that are read at once.  With more, the objects for thousands of columns
#: would live at the same time, and the garbage collector would scan the whole process repeatedly.
_AT_ONCE = 256


class FileReader:
    """Data file opened for reading.

    Opening reads the end of the file.  A column's metadata is parsed when the column is first read.
    Only pages and chunks with requested rows are fetched.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit._file.reader import FileReader
    >>> from lancekit._file.writer import FileWriter
    >>> from lancekit._storage.places import open_store
    >>> store = open_store("memory://")
    >>> batch = pa.record_batch({"n": [1, 2, None]})
    >>> writer = FileWriter(store.create("a.lance"), batch.schema)
    >>> writer.write(batch)
    >>> writer.finish().num_rows
    3
    >>> reader = FileReader.open(store.open("a.lance"))
    >>> reader.read(reader.columns, range(1, 3)).column("n").to_pylist()
    [2, None]
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self._fields: dict[tuple[tuple[int, ...], pa.Field], FieldReader | LegacyFieldReader] = {}
        self._lance_schema: LanceSchema | None = None

    @classmethod
    def open(cls, source: RandomAccess, *, compared: bool = False) -> FileReader:
        """Open a file; for `compared` see `open_container`.

        Raises CorruptFileError: the file is damaged or not a Lance data file.
        Raises UnsupportedFeatureError: this release does not read the format version.
        """
        with located(source.name):
            return cls(open_container(with_prefetch(source), compared=compared))

    def check_blobs(self) -> None:
        """Compare the bytes of all blobs with their checksums, if the file is read with checksums.

        Raises CorruptFileError: the bytes do not match.
        """
        container = self._container
        if container.checksums is not None:
            with located(container.source.name):
                container.checksums.check_regions(container.source)

    @property
    def blob_source(self) -> RandomAccess:
        """Source for reading blobs by position; compares checksums if the reader has them."""
        container = self._container
        if container.checksums is None:
            return container.source
        return BlobSource(container.source, container.checksums)

    @property
    def container(self) -> Container:
        """Container of the file: the positions of its parts."""
        return self._container

    @property
    def version(self) -> tuple[int, int]:
        """Format version as in manifests: (0, 2), (2, 0), (2, 1) or (2, 2)."""
        return self._container.version

    @property
    def storage_version(self) -> str:
        """Format version as in table settings, such as ``"2.1"``."""
        return "0.1" if self.version == LEGACY else "{}.{}".format(*self.version)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self._container.descriptor.length)

    @property
    def num_columns(self) -> int:
        """Number of physical columns."""
        return len(self._container.column_table)

    @property
    def lance_schema(self) -> LanceSchema:
        """Lance schema in the file, with field ids."""
        if self._lance_schema is None:
            with located(self._container.source.name):
                stored = self._container.descriptor.schema
                self._lance_schema = schema_from_pb(stored.fields, stored.metadata)
        return self._lance_schema

    @property
    def stored_schema(self) -> LanceSchema:
        """Lance schema in the file, with the marks of packed structs that match its columns."""
        schema = self.lance_schema
        with located(self._container.source.name):
            return with_packing(schema, self.version, self.num_columns)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the file."""
        with located(self._container.source.name):
            return self.lance_schema.to_arrow()

    @cached_property
    def columns(self) -> tuple[FileColumn, ...]:
        """Fields of the file's schema with their physical columns."""
        with located(self._container.source.name):
            return file_columns(self.stored_schema, self.version)

    def read(self, columns: Sequence[FileColumn], rows: Rows | None = None) -> pa.Table:
        """Read rows of some columns.

        columns: the requested fields with their physical columns.
        rows: ``None`` for all rows, a ``range``, or strictly ascending positions.

        Returns
        -------
        A table with exactly the requested fields.  Small pages with the same encoding share a
        chunk; a large page may have several.

        Raises CorruptFileError, UnsupportedFeatureError, MemoryLimitError: name file, column, page.
        Raises RowOutOfRangeError: a position is outside of the file.
        """
        selection = parse_rows(rows, self.num_rows)
        schema = pa.schema([column.field for column in columns])
        if not columns:
            return _no_columns(len(selection))
        step = len(columns) if self._is_remote else _AT_ONCE
        arrays: list[pa.ChunkedArray] = []
        for start in range(0, len(columns), step):
            arrays += self._read(columns[start : start + step], selection)
        return pa.Table.from_arrays(arrays, schema=schema)

    def _read(self, columns: Sequence[FileColumn], selection: Rows) -> list[pa.ChunkedArray]:
        # a whole local file will hardly be read again; a remote one would need requests
        keep = self._is_remote or len(selection) < self.num_rows
        with self._ahead(self._metadata_of(columns)):
            plans = [self._field(column, keep).plan(selection) for column in columns]
        pages = (each for plan in plans for each in plan.prefetch)
        with self._ahead(place for group, part in pages for place in group.prefetch_ranges(part)):
            results = iter(decoded([piece for plan in plans for piece in plan.work]))
        return [
            pa.chunked_array(plan.finish(list(islice(results, len(plan.work)))), column.field.type)
            for plan, column in zip(plans, columns, strict=True)
        ]

    def bounds(self, column: FileColumn, rows: range) -> Iterator[tuple[range, BlockBounds | None]]:
        """Yield consecutive ranges of rows, each with the bounds of its values if cached."""
        return self._field(column).bounds(rows)

    def read_batches(
        self, columns: Sequence[FileColumn], rows: Rows | None = None, batch_size: int = 8192
    ) -> Iterator[pa.RecordBatch]:
        """Read rows as a stream of batches, which holds about one decoded page for each column.

        batch_size: number of rows in a batch.  The last batch may have fewer.  So may a batch whose
            values do not fit into one array, e.g. if a dictionary has too few keys for them.
        """
        selection = parse_rows(rows, self.num_rows)
        schema = pa.schema([column.field for column in columns])
        if not columns:
            for start in range(0, len(selection), batch_size):
                yield from _no_columns(len(selection[start : start + batch_size])).to_batches()
            return
        with self._ahead(self._metadata_of(columns)):
            streams = [_Stream(self._field(column), selection) for column in columns]
        for start in range(0, len(selection), batch_size):
            count = min(batch_size, len(selection) - start)
            parts = [stream.next(count) for stream in streams]
            try:
                batches = [[joined(arrays) for arrays in parts]]
            except Unsupported:
                batches = list(aligned(parts))
            for arrays in batches:
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _ahead(self, places: Iterable[tuple[int, int]]) -> AbstractContextManager[None]:
        """Prefetch small ranges together if requests cost more than bytes."""
        source = self._container.source
        return source.prefetch(places) if isinstance(source, PrefetchedSource) else nullcontext()

    @property
    def _is_remote(self) -> bool:
        return isinstance(self._container.source, PrefetchedSource)

    def _metadata_of(self, columns: Iterable[FileColumn]) -> Iterator[tuple[int, int]]:
        """Yield the ranges of column metadata that have not been parsed."""
        for column in columns:
            if (column.columns, column.field) not in self._fields:
                yield from self._container.metadata_places(column.columns)

    def _field(self, column: FileColumn, keep: bool = True) -> FieldReader | LegacyFieldReader:
        key = (column.columns, column.field)
        known = self._fields.get(key)
        if known is None:
            known = self._reader_of_fields()(self._container, column.field, column.columns)
            if keep:
                self._fields[key] = known
        return known

    def _reader_of_fields(self) -> type[FieldReader | LegacyFieldReader]:
        if self.version != LEGACY:
            return FieldReader
        from lancekit._file.columns.legacy_reader import LegacyFieldReader

        return LegacyFieldReader


class _Stream:
    """Stream of one field's rows, decoded in units and returned in any number."""

    def __init__(self, field: FieldReader | LegacyFieldReader, selection: Rows) -> None:
        self._units = field.units(selection)
        self._field = field
        self._rest: list[pa.Array] = []
        self._available = 0

    def next(self, count: int) -> list[pa.Array]:
        """Return the next rows, as one or more arrays."""
        while self._available < count:
            rows = next(self._units)
            plan = self._field.plan(rows)
            self._rest += plan.finish(decoded(plan.work))
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
        return parts


def _no_columns(num_rows: int) -> pa.Table:
    """Return a table with rows but no columns."""
    return pa.table({"": pa.nulls(num_rows)}).select([])
