"""The files of an index segment, opened when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._cache import VALUES, found_or_seen, keep, look_up, remembered
from lancekit._file.columns.physical import FileColumn
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.open_files import OpenFiles
from lancekit._file.reader import FileReader
from lancekit._format.index import IndexMetadata
from lancekit._format.names import INDICES
from lancekit._index.kinds import IndexKind
from lancekit._lazy import cached_property
from lancekit._storage.base import Store
from lancekit.errors import CorruptFileError

T = TypeVar("T")
H = TypeVar("H", bound="Cacheable")

#: the name of these entries in cache statistics
_KIND = "indices"
#: bytes of a file that are in memory at a time while it is copied
_COPIED_BYTES = 16 << 20
#: about the bytes of a Python object in an array
_OBJECT_BYTES = 60


class Cacheable(Protocol):
    """A value that is derived from rows of a file and can be cached."""

    @property
    def nbytes(self) -> int:
        """The size of the value in bytes."""

    def owned(self) -> Self:
        """Return a copy that does not keep the file's memory alive."""


class IndexFileReader:
    """A reader of one file of a segment, by column name."""

    def __init__(self, reader: FileReader, store: Store, path: str) -> None:
        self.where = f"{store.uri}/{path}"
        self._reader, self._store, self._path = reader, store, path

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._reader.num_rows

    @property
    def names(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset(self._columns)

    @cached_property
    def _columns(self) -> dict[str, FileColumn]:
        return {column.field.name: column for column in self._reader.columns}

    @cached_property
    def metadata(self) -> dict[str, str]:
        """The metadata of the file's schema."""
        return dict(self._reader.lance_schema.metadata)

    def type(self, name: str) -> pa.DataType:
        """Return the type of a column; `CorruptFileError` if there is no such column."""
        return self._column(name).field.type

    def read(self, name: str, rows: Rows | None = None) -> pa.Array:
        """Read a column, or some of its rows."""
        return self.read_all([name], rows)[0]

    def read_all(self, names: Sequence[str], rows: Rows | None = None) -> list[pa.Array]:
        """Read several columns, or some of their rows."""
        found = self._reader.read([self._column(name) for name in names], rows)
        return [c.chunk(0) if c.num_chunks == 1 else ak.combine_chunks(c) for c in found.columns]

    def table(self) -> pa.Table:
        """Read the whole file."""
        return self._reader.read(self._reader.columns)

    def buffer(self, number: str) -> bytes:
        """Return one of the file's global buffers, by its number in decimals.

        Raises CorruptFileError: there is no buffer with this number.
        """
        container = self._reader.container
        table = container.global_table
        if not (number.isdecimal() and 0 < int(number) < len(table)):
            raise CorruptFileError(f"{self.where} has no global buffer {number!r}.")
        return bytes(container.source.read(*table[int(number)]))

    def remembered(
        self, what: Hashable, make: Callable[[], T], size: Callable[[T], int], kind: str = _KIND
    ) -> T:
        """Return a value derived from the file, from the cache if possible."""
        identity = self._reader.container.source.identity
        return remembered(kind, None if identity is None else (identity, what), make, size)

    def copy_to(self, store: Store, path: str) -> int:
        """Copy or link the file into another segment, and return its size."""
        source = self._reader.container.source
        size = source.size()
        if not store.adopt(path, self._store, self._path):
            sink = store.create(path)
            try:
                for start in range(0, size, _COPIED_BYTES):
                    sink.write(source.read(start, min(_COPIED_BYTES, size - start)))
                sink.close()
            except BaseException:
                sink.abort()
                raise
        return size

    def kept(self, what: Hashable, make: Callable[[], H], size: int) -> H:
        """Return a value derived from many rows of the file; it is cached from its second use on.

        size: the approximate bytes of the value.
        """
        identity = self._reader.container.source.identity
        if identity is None:
            return make()
        key = (identity, what)
        (found,) = found_or_seen(VALUES, [(key, 1, 1)], size)
        if found is False:
            return make()
        if found is not True:
            return cast("H", found)
        made = make().owned()
        return keep(VALUES, key, made, made.nbytes)

    def _column(self, name: str) -> FileColumn:
        column = self._columns.get(name)
        if column is None:
            raise CorruptFileError(f"{self.where} has no column {name!r}.")
        return column


@dataclass(frozen=True, eq=False)
class Segment:
    """An index segment, the store of its dataset's folder, and the open files."""

    index: IndexMetadata
    kind: IndexKind
    store: Store
    open_files: OpenFiles = field(default_factory=OpenFiles)

    def file(self, name: str) -> IndexFileReader:
        """Open one of its files.

        Raises LancekitError, OSError: the file is missing or cannot be read.
        """
        return open_index_file(self.store, self.index, name, self.open_files)

    def remembered(
        self,
        name: str,
        what: Hashable,
        make: Callable[[IndexFileReader], T],
        size: Callable[[T], int],
        kind: str = _KIND,
    ) -> T:
        """Return a value derived from one of its files, from the cache if possible.

        If the value is cached, the file is not opened. Raises the errors of `file` and `make`.
        """
        known = self.store.identity(self._path(name))
        found = None if known is None else look_up(kind, (known, what))
        if found is not None:
            return cast("T", found)
        file = self.file(name)
        return file.remembered(what, lambda: make(file), size, kind)

    def _path(self, name: str) -> str:
        return f"{INDICES}/{self.index.uuid}/{name}"


def open_index_file(
    store: Store, index: IndexMetadata, name: str, open_files: OpenFiles
) -> IndexFileReader:
    """Open a file of an index segment, or return it if it is already open.

    Raises LancekitError, OSError: the file is missing or cannot be read.
    """
    path = f"{INDICES}/{index.uuid}/{name}"
    sizes = {file.path: file.size_bytes for file in index.files}
    reader = open_files.open(store, path, sizes.get(name) or None)
    return IndexFileReader(reader, store, path)


def array_bytes(*arrays: npt.NDArray[np.generic]) -> int:
    """Return about how many bytes of memory some arrays take."""
    return sum(a.nbytes + _OBJECT_BYTES * len(a) * a.dtype.hasobject for a in arrays)
