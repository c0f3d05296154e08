"""Writing files on a local disk so that a crash or a full disk leaves old bytes or new, never half.

The order matters: a file's bytes are flushed before its final name exists, and the name is flushed
(by flushing its folder) before the call returns.  A commit can therefore rely on every file that
its manifest names.  ``fsync=False`` leaves the flushing out and keeps the atomicity.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lancekit.errors import StorageError
from lancekit.storage.base import Bytes, temporary_name
from lancekit.storage.disk_errors import writing

__all__ = ["FileSink", "link_if_absent", "replace_file", "write_over"]

BUFFER_BYTES = 1 << 20

NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def flush_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: str, *, fsync: bool) -> None:
    """Create a folder and its parents; each new name is made durable in its own parent."""
    missing = []
    path = Path(folder)
    while not path.exists():
        missing.append(path)
        path = path.parent
    for new in reversed(missing):
        # Another writer may be creating the same folder; it may not have flushed it yet.
        new.mkdir(exist_ok=True)
        if fsync:
            flush_folder(str(new.parent))


def open_new(path: str, *, fsync: bool) -> BinaryIO:
    """Open a file that must not exist yet, creating its folder when that is missing."""
    try:
        return open(path, "xb", buffering=BUFFER_BYTES)
    except FileNotFoundError:
        make_folders(os.path.dirname(path), fsync=fsync)
        return open(path, "xb", buffering=BUFFER_BYTES)


def finish(file: BinaryIO, *, fsync: bool) -> None:
    """Flush and close a file."""
    with file:
        file.flush()
        if fsync:
            os.fsync(file.fileno())


def remove(path: str) -> None:
    """Remove a file as far as possible, on a way out that already has its own error."""
    with suppress(OSError):
        os.unlink(path)


@contextmanager
def written_aside(path: str, data: Bytes, *, fsync: bool) -> Iterator[str]:
    """Write ``data`` to a temporary file next to ``path``; it is gone when the block ends."""
    aside = temporary_name(path)
    try:
        file = open_new(aside, fsync=fsync)
        with file:
            file.write(data)
            finish(file, fsync=fsync)
        yield aside
    finally:
        remove(aside)


def replace_file(path: str, data: Bytes, *, fsync: bool) -> None:
    """Put ``data`` at ``path`` atomically, over what is there."""
    with writing("write", path), written_aside(path, data, fsync=fsync) as aside:
        os.replace(aside, path)
        if fsync:
            flush_folder(os.path.dirname(path))


def link_if_absent(path: str, data: Bytes, *, fsync: bool) -> bool:
    """Put ``data`` at ``path`` only if nothing is there; ``False`` if something is.

    A hard link is the one call that both gives a finished file its name and fails if that name is
    taken.  Creating the file in place (``O_EXCL``) would show readers a half-written one.
    """
    with writing("write", path), written_aside(path, data, fsync=fsync) as aside:
        try:
            os.link(aside, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in NO_HARD_LINKS:
                raise _no_hard_links(path, error) from error
            raise
        if fsync:
            flush_folder(os.path.dirname(path))
        return True


def _no_hard_links(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot commit {path}: its file system has no hard links ({error.strerror}).",
        hint="Keep the dataset on a file system that has them (ext4, xfs, btrfs, apfs, ntfs) "
        "or in an object store.",
        path=path,
        errno=error.errno,
    )


def write_over(path: str, data: Bytes) -> None:
    """Write a small file in place, whatever happens to it.

    A file system that moves a new file over an old one first flushes the new one, fsync or not,
    which takes longer than the rest of a commit.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


class FileSink:
    """A new file written under its final name, which nothing refers to before ``close``.

    Writing in place (and not aside) leaves a crashed writer's file where every Lance
    implementation's cleanup looks for unreferenced files.
    """

    def __init__(self, path: str, *, fsync: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._written = 0
        with writing("create", path):
            self._file = open_new(path, fsync=fsync)

    def write(self, data: Bytes) -> None:
        """Append ``data``."""
        try:
            with writing("write", self._path):
                self._written += self._file.write(data)
        except StorageError:
            self.abort()
            raise

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._written

    def close(self) -> None:
        """Make the file and its name durable."""
        if self._file.closed:
            return
        try:
            with writing("write", self._path):
                finish(self._file, fsync=self._fsync)
                if self._fsync:
                    flush_folder(os.path.dirname(self._path))
        except StorageError:
            remove(self._path)
            raise

    def abort(self) -> None:
        """Give up and remove the file."""
        if self._file.closed:
            return
        with suppress(OSError):
            self._file.close()
        remove(self._path)
