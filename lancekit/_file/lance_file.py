"""Data files without a dataset, with the names of pylance's ``lance.file``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NoReturn

import numpy as np
import pyarrow as pa

from lancekit._checked import checked_methods, is_writable
from lancekit._file.columns.limits import check_new_marks
from lancekit._file.columns.physical import FileColumn, file_column
from lancekit._file.file_metadata import (
    ColumnStatistics,
    FileStatistics,
    LanceFileMetadata,
    metadata_of,
)
from lancekit._file.kernels.row_selection import Rows, parse_rows
from lancekit._file.reader import FileReader
from lancekit._file.writer import PAGE_BYTES, FileWriter
from lancekit._format.data_file import STORAGE_VERSIONS, check_storage_version
from lancekit._format.paths import by_first, parse_path, pruned
from lancekit._format.schema import LanceSchema
from lancekit._legible import shown, without_secrets
from lancekit._storage.base import Store
from lancekit._storage.places import open_store
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotFoundError, NotOfferedError
from lancekit.options import check_goal, options


def stable_version() -> str:
    """Return the format version that is written by default."""
    return STORAGE_VERSIONS["stable"]


class ReaderResults:
    """Requested rows, available as one table or as a stream of batches."""

    def __init__(
        self,
        schema: pa.Schema,
        table: Callable[[], pa.Table],
        batches: Callable[[], Iterator[pa.RecordBatch]],
    ) -> None:
        self._schema = schema
        self._table = table
        self._batches = batches

    def to_table(self) -> pa.Table:
        """Return all rows as one table; columns are decoded in threads."""
        return self._table()

    def to_batches(self) -> pa.RecordBatchReader:
        """Return a stream of batches that holds about a page of each column in memory."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())


@checked_methods
class LanceFileReader:
    """Reader of one data file.

    Parameters
    ----------
    path
        A local path or a URI.
    storage_options
        Credentials and settings of an object store.
    columns
        Columns to read, all by default; ``s.x`` reads the struct ``s`` with only ``x``.

    Raises
    ------
    NotFoundError
        The file does not exist.
    CorruptFileError, UnsupportedFeatureError
        The file is not a data file, is damaged, or has an unknown version.
    ColumnNotFoundError
        A column does not exist.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/numbers.lance") as writer:
    ...     writer.write_batch(pa.table({"n": [1, 2, None], "s": ["a", "b", "c"]}))
    >>> reader = LanceFileReader("memory://files/numbers.lance", columns=["n"])
    >>> reader.num_rows(), reader.take_rows([0, 2]).to_table().column("n").to_pylist()
    (3, [1, None])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        namespace_client: object = None,
        table_id: object = None,
    ) -> None:
        no_namespace(namespace_client, table_id)
        store, name = _place(path, storage_options)
        try:
            self._reader = FileReader.open(store.open(name))
        except FileNotFoundError as error:
            raise NotFoundError(f"File {os.fspath(path)!r} was not found.", path=path) from error
        self._path = os.fspath(path)
        self._columns = self._wanted(columns)
        self._schema = pa.schema(
            [column.field for column in self._columns], self._reader.schema.metadata
        )

    def _wanted(self, names: Sequence[str] | None) -> tuple[FileColumn, ...]:
        if names is None:
            return self._reader.columns
        schema = self._reader.stored_schema
        below = by_first([name] if name in schema.names else parse_path(name) for name in names)
        fields = [pruned(schema.field(top), rest) for top, rest in below.items()]
        return tuple(file_column(schema, field, self._reader.version) for field in fields)

    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._reader.num_rows

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Read all rows.

        Parameters
        ----------
        batch_size
            Number of rows in a batch of a stream.
        batch_readahead
            Ignored; pylance has it.  A stream reads one page of each column at a time.

        Returns
        -------
        ReaderResults
            The rows; `to_table` and `to_batches` read them.

        Raises
        ------
        InvalidArgumentError
            ``batch_size`` is less than 1, or ``batch_readahead`` is negative.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/all.lance") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2, 3]}))
        >>> LanceFileReader("memory://files/all.lance").read_all().to_table()["n"].to_pylist()
        [1, 2, 3]
        """
        return self._results(None, batch_size, batch_readahead)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Read consecutive rows.

        Parameters
        ----------
        start, num_rows
            The number of the first row, and the number of rows.
        batch_size, batch_readahead
            As in `read_all`.

        Returns
        -------
        ReaderResults
            The rows.

        Raises
        ------
        RowOutOfRangeError
            The range exceeds the file.
        InvalidArgumentError
            ``num_rows`` is negative.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/range.lance") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2, 3]}))
        >>> LanceFileReader("memory://files/range.lance").read_range(1, 2).to_table().to_pydict()
        {'n': [2, 3]}
        """
        if num_rows < 0:
            raise InvalidArgumentError(f"num_rows must not be negative, got {num_rows}.")
        return self._results(range(start, start + num_rows), batch_size, batch_readahead)

    def take_rows(
        self, indices: Sequence[int], *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Read rows by their numbers.

        Parameters
        ----------
        indices
            Row numbers from 0 on, strictly ascending.
        batch_size, batch_readahead
            As in `read_all`.

        Returns
        -------
        ReaderResults
            The rows.

        Raises
        ------
        RowOutOfRangeError
            A number is negative or exceeds the last row.
        InvalidArgumentError
            The numbers do not ascend.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/take.lance") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2, 3]}))
        >>> LanceFileReader("memory://files/take.lance").take_rows([0, 2]).to_table().to_pydict()
        {'n': [1, 3]}
        """
        return self._results(np.asarray(indices), batch_size, batch_readahead)

    def _results(self, rows: Rows | None, batch_size: int, batch_readahead: int) -> ReaderResults:
        counts = {"batch_size": (batch_size, 1), "batch_readahead": (batch_readahead, 0)}
        for name, (value, least) in counts.items():
            if not isinstance(value, int) or value < least:
                raise InvalidArgumentError(
                    f"{name} must be an integer of {least} or more, got {value!r}."
                )
        parse_rows(rows, self._reader.num_rows)
        return ReaderResults(
            self._schema,
            lambda: self._table(rows),
            lambda: self._reader.read_batches(self._columns, rows, batch_size),
        )

    def _table(self, rows: Rows | None) -> pa.Table:
        table = self._reader.read(self._columns, rows)
        # without columns, a table with other metadata would lose its number of rows
        return table.replace_schema_metadata(self._schema.metadata) if self._columns else table

    def metadata(self) -> LanceFileMetadata:
        """Return the file's version and schema, and where and how its values are stored."""
        return metadata_of(self._reader)

    def file_statistics(self) -> FileStatistics:
        """Return the number of pages and bytes of every physical column."""
        columns = self.metadata().columns
        return FileStatistics([ColumnStatistics(len(c.pages), c.size_bytes) for c in columns])

    def read_global_buffer(self, index: int) -> bytes:
        """Return one of the file's global buffers; buffer 0 is the schema.

        Raises
        ------
        InvalidArgumentError
            The buffer does not exist.
        """
        table = self._reader.container.global_table
        if not 0 <= index < len(table):
            raise InvalidArgumentError(
                f"Global buffer {index} does not exist: the file has {len(table)}.", index=index
            )
        data: bytes = self._reader.container.source.read(*table[index]).to_pybytes()
        return data

    def __repr__(self) -> str:
        return without_secrets(f"LanceFileReader({self._path!r}, {self.num_rows():,} rows)")


@checked_methods
class LanceFileWriter:
    """Writer of one data file, which becomes visible when the writer is closed.

    Parameters
    ----------
    path
        A local path or a URI; an existing file is replaced.
    schema
        The schema; by default the schema of the first batch.
    data_cache_bytes
        Arrow bytes that are buffered before pages are written, over all columns; by default
        8 MiB for each column.
    version
        ``"2.0"``, ``"2.1"``, ``"2.2"`` or ``"stable"``, the default.
    storage_options
        Credentials and settings of an object store.
    max_page_bytes
        Arrow bytes of one column in a page.
    optimize_for
        The reading pattern that string encodings are chosen for; see `lancekit.write_dataset`.

    Attributes
    ----------
    size_bytes
        The size of the file in bytes, available after closing.

    Raises
    ------
    UnsupportedTypeError
        This version cannot store the type of a column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/words.lance", version="2.1") as writer:
    ...     writer.write_batch(pa.table({"word": ["north", "wind"]}))
    >>> print(LanceFileReader("memory://files/words.lance").metadata())
    Data file 2.1, 2 rows, 128 bytes
      word: 1 page, 34 bytes, mini-block of strings
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: object = None,
        table_id: object = None,
        max_page_bytes: int | None = None,
        optimize_for: str | None = None,
    ) -> None:
        no_namespace(namespace_client, table_id)
        self._goal = None if optimize_for is None else check_goal(optimize_for)
        self._store, self._name = _place(path, storage_options)
        self._path = os.fspath(path)
        self._version = check_storage_version("version", version) or stable_version()
        sizes = {"data_cache_bytes": data_cache_bytes, "max_page_bytes": max_page_bytes}
        for name, size in sizes.items():
            if size is not None and size < 0:
                raise InvalidArgumentError(f"{name} must not be negative, got {size}.")
        self._cache, self._page = data_cache_bytes, max_page_bytes
        self._metadata: dict[str, str] = {}
        self._writer: FileWriter | None = None
        self._lock = Lock()  # threads may write batches to one file
        self.closed: bool = False
        self.size_bytes: int | None = None
        if schema is not None:
            self._open(schema)

    def __reduce__(self) -> NoReturn:
        raise InvalidTypeError(
            "A file has one writer, which cannot be copied or sent to another process.",
            hint="Send the path, and write another file there.",
        )

    def _open(self, schema: pa.Schema) -> FileWriter:
        if self._writer is None:
            limits = [self._cache // max(1, len(schema)) if self._cache else None, self._page]
            page = min((limit for limit in limits if limit), default=PAGE_BYTES)
            sink = self._store.create_over(self._name)
            try:
                check_new_marks(LanceSchema.from_arrow(schema))
                self._writer = FileWriter(
                    sink,
                    schema,
                    version=self._version,
                    max_page_bytes=page,
                    optimize_for=options.optimize_for if self._goal is None else self._goal,
                )
            except BaseException:
                sink.abort()
                raise
        return self._writer

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; threads can share a writer, which serialises them.

        Raises
        ------
        SchemaMismatchError
            Columns, types or nulls do not fit the schema.
        InvalidArgumentError
            Text is not UTF-8, or the writer is closed.
        """
        with self._lock:
            self._check_open()
            writer = self._open(batch.schema)
            for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
                writer.write(part)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the schema's metadata.

        Parameters
        ----------
        key, value
            Text; an entry of the same key is replaced.

        Raises
        ------
        InvalidArgumentError
            The writer is closed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileWriter
        >>> with LanceFileWriter("memory://files/metadata.lance") as writer:
        ...     writer.add_schema_metadata("unit", "m")
        ...     writer.write_batch(pa.table({"n": [1]}))
        """
        self._check_open()
        self._metadata[key] = value

    def add_global_buffer(self, data: bytes) -> int:
        """Store bytes of the caller; return their index for `read_global_buffer`, from 1 on.

        Raises
        ------
        InvalidArgumentError
            No schema was passed, and no batch has been written.
        """
        self._check_open()
        if self._writer is None:
            raise InvalidArgumentError(
                "The file has no schema yet.", hint="Pass `schema=`, or write a batch first."
            )
        return self._writer.add_global_buffer(data)

    def close(self) -> int | None:
        """Finish the file; return its number of rows, or ``None`` if it was already closed.

        Raises
        ------
        InvalidArgumentError
            No schema was passed, and no batch has been written.
        """
        if self.closed:
            return None
        self.closed = True
        if self._writer is None:
            raise InvalidArgumentError(
                "Schema is unknown and file cannot be created.",
                hint="Pass `schema=`, or write a batch.",
            )
        summary = self._writer.finish(self._metadata)
        self.size_bytes = summary.size_bytes
        return summary.num_rows

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidArgumentError("This file is already closed.", hint="Open a new writer.")

    def __del__(self) -> None:
        # the writer was dropped without a call of `close`
        if not getattr(self, "closed", True):
            self._abort()

    def _abort(self) -> None:
        self.closed = True
        if self._writer is not None:
            self._writer.abort()

    def __enter__(self) -> LanceFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        self._abort()


def _place(
    path: str | os.PathLike[str], storage_options: Mapping[str, str] | None
) -> tuple[Store, str]:
    """Return the store of a file's folder, and the file's name in it."""
    text = os.fspath(path)
    folder, slash, name = text.rpartition("/")
    if not name or not is_writable(text, os.fsencode):
        raise InvalidArgumentError(f"{shown(text)} is not a file path.", path=text)
    return open_store(folder + slash if slash else ".", storage_options), name


def no_namespace(client: object, table_id: object) -> None:
    """Raise ``NotOfferedError`` if a namespace is passed."""
    if client is not None or table_id is not None:
        raise NotOfferedError(
            "Namespaces are not supported.", hint="Pass the path or URI of the file."
        )
