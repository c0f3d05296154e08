"""A store on a local disk, which other machines cannot access."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial

import pyarrow as pa

from lancekit._storage.base import (
    METADATA_BYTES,
    SETTLED_SECONDS,
    TEMPORARY_PREFIX,
    Bytes,
    Listing,
    ObjectInfo,
    Store,
    check_folder,
    check_name,
    file_identity,
    too_large,
)
from lancekit._storage.durable import (
    FileSink,
    ReplacingSink,
    link_file,
    link_if_absent,
    replace_file,
    write_over,
)
from lancekit._storage.folders import (
    flush_folder,
    leads_away,
    opened,
    remove_empty,
    remove_tree,
    walk,
)
from lancekit._storage.mapped import MappedFile, opened_file, reading
from lancekit.errors import StorageError
from lancekit.options import options


class LocalStore:
    """A folder on a local disk.

    Reads follow links; writes and removals do not (`folders`).

    root: the folder; made absolute.  It need not exist.
    folder: the folder of this store below the root.  Below the root, no part of a path may be a
        link.
    fsync: whether writes are made durable; ``None`` follows ``lancekit.options.fsync``.  Pickling
        the store includes the current value.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = LocalStore(folder)
    ...     store.put_if_absent("a/b", b"first"), store.put_if_absent("a/b", b"second")
    (True, False)
    """

    def __init__(
        self, root: str | os.PathLike[str], *, folder: str = "", fsync: bool | None = None
    ) -> None:
        self._root = os.path.abspath(os.path.expanduser(os.fspath(root)))
        self._inner = check_folder(folder)
        self._place = f"{self._root}/{folder}" if folder else self._root
        self._fsync = fsync

    @property
    def uri(self) -> str:
        """The folder as an absolute path."""
        return self._place

    @property
    def fsync(self) -> bool:
        """True if writes are made durable."""
        return bool(options.fsync) if self._fsync is None else self._fsync

    def child(self, folder: str) -> LocalStore:
        """Return a store rooted at a sub-folder."""
        return LocalStore(self._root, folder=self._below(check_folder(folder)), fsync=self._fsync)

    def open(self, name: str, size: int | None = None) -> MappedFile:  # noqa: ARG002
        """Map a file for ranged reads; its size is read from the disk, at no cost."""
        return MappedFile(self._path(name))

    def read(self, name: str, most: int = METADATA_BYTES) -> pa.Buffer:
        """Return a whole file."""
        path = self._path(name)
        with reading("read", path), opened_file(path) as (descriptor, status):
            size = status.st_size
            if size > most:
                raise too_large(path, size, most)
            return pa.py_buffer(os.pread(descriptor, size, 0))

    def tail(self, name: str, length: int) -> tuple[pa.Buffer, int]:
        """Return the last ``length`` bytes and the whole size."""
        data, size, _ = self.identified_tail(name, length)
        return data, size

    def identified_tail(self, name: str, length: int) -> tuple[pa.Buffer, int, Hashable | None]:
        """Return the last ``length`` bytes, the whole size, and the identity of the open file."""
        path = self._path(name)
        with reading("read", path), opened_file(path) as (descriptor, status):
            size = status.st_size
            start = max(0, size - length)
            data = pa.py_buffer(os.pread(descriptor, size - start, start))
            return data, size, file_identity(status)

    def identity(self, name: str, mark: str | None = None) -> Hashable | None:  # noqa: ARG002
        """Return the identity of a name's current file."""
        try:
            return file_identity(os.stat(self._path(name)))
        except OSError:
            return None

    def put(self, name: str, data: Bytes) -> None:
        """Write a temporary file, and move it over the name."""
        replace_file(self._root, self._named(name), data, fsync=self.fsync)

    def put_if_absent(self, name: str, data: Bytes) -> bool:
        """Write a temporary file, and link it to the name if that is free."""
        return link_if_absent(self._root, self._named(name), data, fsync=self.fsync)

    def flush(self, name: str) -> None:
        """Flush a file, and the folder that has its name."""
        path = self._path(name)
        if self.fsync:
            with reading("flush", path), opened_file(path) as (descriptor, _):
                os.fsync(descriptor)
            with opened(self._root, self._named(name).rpartition("/")[0]) as folder:
                flush_folder(folder)

    def put_hint(self, name: str, data: Bytes) -> None:
        """Write an optional file in place; a reader may find it half written."""
        named = self._named(name)
        with suppress(OSError):
            write_over(self._root, named, data)

    def create(self, name: str) -> FileSink:
        """Start streaming a new file."""
        return FileSink(self._root, self._named(name), fsync=self.fsync)

    def create_over(self, name: str) -> ReplacingSink:
        """Start streaming a file that takes its name when it is closed."""
        return ReplacingSink(self._root, self._named(name), fsync=self.fsync)

    def adopt(self, name: str, source: Store, source_name: str) -> bool:
        """Give a file of another folder a name here, by a hard link on the same disk."""
        named = self._named(name)
        if not isinstance(source, LocalStore):
            return False
        other = source._root, source._named(source_name)
        return link_file(self._root, named, *other, fsync=self.fsync)

    def list_names(self, folder: str) -> list[str]:
        """Return the bare names in ``folder``."""
        return [name for name in self._listed(folder) if not name.startswith(TEMPORARY_PREFIX)]

    def list_folders(self, folder: str) -> list[str]:
        """Return the bare names of the folders in ``folder``."""
        path = self._folder(folder)
        try:
            with reading("list", path), os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def first_names(self, folder: str) -> Listing:
        """Return all names in ``folder``: a disk does not list in order."""
        return Listing(self._listed(folder), whole=True)

    def stamp(self, folder: str) -> tuple[int, ...] | None:
        """Return the folder's identity and modification time, once the time is old enough."""
        now = time.time()
        try:
            status = os.stat(self._folder(folder))
        except OSError:
            return None
        if now - status.st_mtime < SETTLED_SECONDS:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns

    def mark(self, name: str) -> str | None:
        """Return the file's inode, size and modification time."""
        try:
            status = os.stat(self._path(name))
        except OSError:
            return None
        return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"

    # on a disk, one call returns all of this
    look = mark_of_put = mark

    def list_tree(self, folder: str = "") -> list[ObjectInfo]:
        """Return every file at or below ``folder``, without following links."""
        path = self._folder(folder)
        try:
            with reading("list", path):
                inner = self._below(folder)
                return list(walk(self._root, inner, f"{folder}/" if folder else ""))
        except FileNotFoundError:
            return []
        except StorageError as error:
            if not leads_away(error):
                raise
            return [ObjectInfo(folder, 0, 0.0, regular=False)]

    def exists(self, name: str) -> bool:
        """Return True if the file exists."""
        return os.path.isfile(self._path(name))

    def delete(self, name: str) -> None:
        """Remove a file, or a link in its place."""
        path, (above, _, bare) = self._path(name), self._named(name).rpartition("/")
        with (
            suppress(FileNotFoundError),
            reading("delete", path),
            opened(self._root, above) as folder,
        ):
            os.unlink(bare, dir_fd=folder)

    def delete_tree(self, folder: str) -> None:
        """Remove a folder and its contents."""
        path = self._folder(folder)
        with suppress(FileNotFoundError), reading("delete", path):
            remove_tree(self._root, self._below(folder))

    def prune(self) -> None:
        """Remove folders without any file, including the root."""
        with suppress(FileNotFoundError), reading("delete", self._root):
            remove_empty(self._root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __repr__(self) -> str:
        return f"LocalStore({self._place!r})"

    def __reduce__(self) -> tuple[object, ...]:
        _check_sent(self._place)
        return partial(LocalStore, folder=self._inner, fsync=self.fsync), (self._root,)

    def _listed(self, folder: str) -> list[str]:
        path = self._folder(folder)
        try:
            with reading("list", path):
                return os.listdir(path)
        except FileNotFoundError:
            return []

    def _path(self, name: str) -> str:
        return f"{self._place}/{check_name(name)}"

    def _named(self, name: str) -> str:
        return self._below(check_name(name))

    def _below(self, name: str) -> str:
        """Return the path of a name below the root."""
        return f"{self._inner}/{name}".strip("/")

    def _folder(self, folder: str) -> str:
        return f"{self._place}/{folder}" if check_folder(folder) else self._place


# ---- stores that are sent to other machines, which cannot access this machine's disk
#
# Code that pickles work for tasks declares their place with `sent_to`.  A store on a local disk
# then raises, with the reason, unless ``lancekit.options.shared_folders`` lists it.

_destination: ContextVar[str | None] = ContextVar("lancekit_sent_to", default=None)


@contextmanager
def sent_to(place: str | None) -> Iterator[None]:
    """Declare where objects pickled in this block will be used; ``None`` is this machine."""
    token = _destination.set(place)
    try:
        yield
    finally:
        _destination.reset(token)


def _check_sent(folder: str) -> None:
    """Refuse a local folder that other machines cannot access.

    Raises StorageError: the tasks run elsewhere, and the folder is not listed as shared.
    """
    place = _destination.get()
    if place is None or any(_is_below(folder, shared) for shared in options.shared_folders):
        return
    raise StorageError(
        f"{folder} is on the disk of this machine, but the tasks of {place} run on other machines.",
        hint="Keep the dataset in an object store. If all machines see this folder at this path, "
        f"set lancekit.options.shared_folders = [{folder!r}].",
        path=folder,
        session=place,
    )


def _is_below(folder: str, shared: str) -> bool:
    root = os.path.abspath(os.path.expanduser(shared.removeprefix("file://")))
    return os.path.commonpath([root, folder]) == root
