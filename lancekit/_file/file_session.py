"""Sessions for data files and other files below one path, like pylance's `LanceFileSession`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from lancekit._checked import checked_methods
from lancekit._file.lance_file import LanceFileReader, LanceFileWriter, no_namespace
from lancekit._legible import shown, without_secrets
from lancekit._storage.base import check_name
from lancekit._storage.places import open_store
from lancekit.errors import InvalidArgumentError, NotFoundError, StorageError

T = TypeVar("T")

#: bytes copied at a time
_PIECE = 8 << 20


@dataclass
class ListResult:
    """Direct entries of a folder: folders without a trailing slash, and files."""

    common_prefixes: list[str]
    objects: list[str]


@checked_methods
class LanceFileSession:
    """Session that opens, lists, copies and removes files below a base path.

    Paths in method calls are relative to the base path.

    Parameters
    ----------
    base_path
        A local path or a URI.
    storage_options
        Credentials and settings of an object store.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.file import LanceFileSession
    >>> session = LanceFileSession("memory://session-example")
    >>> with session.open_writer("new/numbers.lance") as writer:
    ...     writer.write_batch(pa.table({"n": [1, 2]}))
    >>> session.list(), session.open_reader("new/numbers.lance").num_rows()
    (['new/numbers.lance'], 2)
    """

    def __init__(
        self,
        base_path: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        namespace_client: object = None,
        table_id: object = None,
    ) -> None:
        no_namespace(namespace_client, table_id)
        self._base = os.fspath(base_path)
        self._options = storage_options
        self._store = open_store(self._base, storage_options)

    def _path(self, path: str) -> str:
        return f"{self._base.rstrip('/')}/{check_name(path)}"

    def open_reader(self, path: str, columns: Sequence[str] | None = None) -> LanceFileReader:
        """Open a data file to read it.

        Parameters
        ----------
        path
            The file below the base path.
        columns
            Columns to read, all by default.

        Returns
        -------
        LanceFileReader
            The reader.

        Raises
        ------
        NotFoundError, CorruptFileError, UnsupportedFeatureError, ColumnNotFoundError
            As in `LanceFileReader`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileSession
        >>> session = LanceFileSession("memory://open-reader-example")
        >>> with session.open_writer("a.lance") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2], "s": ["a", "b"]}))
        >>> session.open_reader("a.lance", ["n"]).read_all().to_table().to_pydict()
        {'n': [1, 2]}
        """
        return LanceFileReader(self._path(path), self._options, columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """Open a data file to write it.

        Parameters
        ----------
        path
            The file below the base path; an existing file is replaced.
        schema, data_cache_bytes, version, max_page_bytes
            As in `LanceFileWriter`.
        keep_original_array
            Ignored; pylance has it.

        Returns
        -------
        LanceFileWriter
            The writer; close it, or use it in a ``with`` block.

        Raises
        ------
        InvalidArgumentError
            The version is unknown, or a number of bytes is negative.
        UnsupportedTypeError
            The version cannot store the type of a column.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileSession
        >>> session = LanceFileSession("memory://open-writer-example")
        >>> with session.open_writer("a.lance", version="2.1") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2]}))
        """
        del keep_original_array
        return LanceFileWriter(
            self._path(path),
            schema,
            data_cache_bytes=data_cache_bytes,
            version=version,
            storage_options=self._options,
            max_page_bytes=max_page_bytes,
        )

    def contains(self, path: str) -> bool:
        """Return True if the file exists."""
        return self._store.exists(path)

    def list(self, path: str | None = None) -> list[str]:
        """Return the names of all files in a folder and below it, in order."""
        return sorted(found.name for found in self._store.list_tree((path or "").rstrip("/")))

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """Return the direct entries of a folder: subfolders and files."""
        folder = f"{path.rstrip('/')}/" if path else ""
        below = [name.removeprefix(folder) for name in self.list(path)]
        folders = {name.partition("/")[0] for name in below if "/" in name}
        files = [name for name in below if "/" not in name]
        return ListResult(
            sorted(folder + name for name in folders), [folder + name for name in files]
        )

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read some bytes of a file.

        Parameters
        ----------
        path
            The file below the base path.
        offset, length
            The first byte, and the number of bytes.

        Returns
        -------
        bytes
            Exactly ``length`` bytes.

        Raises
        ------
        InvalidArgumentError
            The range exceeds the file.
        NotFoundError
            The file does not exist.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.file import LanceFileSession
        >>> session = LanceFileSession("memory://read-bytes-example")
        >>> with session.open_writer("a.lance") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2]}))
        >>> len(session.read_range("a.lance", 0, 4))
        4
        """
        file = self._found(path, lambda: self._store.open(path))
        if offset < 0 or length < 0 or offset + length > file.size():
            raise InvalidArgumentError(
                f"The range of {length} bytes from {offset} is outside of the file's "
                f"{file.size()} bytes."
            )
        data: bytes = file.read(offset, length).to_pybytes()
        return data

    def delete_file(self, path: str) -> None:
        """Remove a file.

        Raises
        ------
        NotFoundError
            The file does not exist.
        """
        if not self._store.exists(path):
            raise self._missing(path)
        self._store.delete(path)

    def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None:
        """Copy a local file below the base path.

        Parameters
        ----------
        local_path
            The file on this machine.
        remote_path
            The copy below the base path; an existing file is replaced.

        Raises
        ------
        StorageError
            The local file cannot be read, or the copy cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from lancekit.file import LanceFileSession
        >>> session = LanceFileSession("memory://upload-example")
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     session.upload_file(file.name, "copy")
        >>> session.contains("copy")
        True
        """
        try:
            source = Path(local_path).open("rb")  # noqa: SIM115  # closed below
        except OSError as error:
            raise StorageError(
                f"{shown(os.fspath(local_path))} cannot be read: {error}."
            ) from error
        with source:
            sink = self._store.create_over(remote_path)
            try:
                while piece := source.read(_PIECE):
                    sink.write(piece)
                sink.close()
            except BaseException:
                sink.abort()
                raise

    def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None:
        """Copy a file from below the base path to this machine.

        Parameters
        ----------
        remote_path
            The file below the base path.
        local_path
            The copy on this machine; an existing file is replaced.

        Raises
        ------
        NotFoundError
            The file does not exist.
        StorageError
            It cannot be read, or the copy cannot be written.

        Examples
        --------
        >>> import tempfile, pyarrow as pa
        >>> from lancekit.file import LanceFileReader, LanceFileSession
        >>> session = LanceFileSession("memory://download-example")
        >>> with session.open_writer("a.lance") as writer:
        ...     writer.write_batch(pa.table({"n": [1, 2]}))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session.download_file("a.lance", f"{folder}/b.lance")
        ...     LanceFileReader(f"{folder}/b.lance").num_rows()
        2
        """
        file = self._found(remote_path, lambda: self._store.open(remote_path))
        try:
            with Path(local_path).open("wb") as sink:
                for start in range(0, size := file.size(), _PIECE):
                    sink.write(file.read(start, min(_PIECE, size - start)))
        except StorageError:  # from the remote file
            raise
        except OSError as error:
            raise StorageError(
                f"{shown(os.fspath(local_path))} cannot be written: {error}."
            ) from error

    def _found(self, path: str, open_it: Callable[[], T]) -> T:
        try:
            return open_it()
        except FileNotFoundError as error:
            raise self._missing(path) from error

    def _missing(self, path: str) -> NotFoundError:
        return NotFoundError(
            f"File {shown(path)} was not found in {shown(self._store.uri)}.", path=path
        )

    def __repr__(self) -> str:
        return without_secrets(f"LanceFileSession({self._base!r})")
