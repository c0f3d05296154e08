"""Writes on a local disk after which a crash or a full disk leaves old or new bytes, never half.

The order matters: a file's bytes are flushed before its final name exists.  The name is flushed
(with its folder) before the call returns.  So a commit can rely on every file that its manifest
names.  ``fsync=False`` omits the flushes, and keeps the atomicity.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from lancekit._machine import open_flags
from lancekit._storage.base import Bytes, temporary_name
from lancekit._storage.folders import flush_folder, opened, opened_for
from lancekit._storage.mapped import reading, writing
from lancekit.errors import StorageError

#: small pieces are buffered; larger ones are written directly
BUFFER_BYTES = 1 << 16

NEW_FILE = open_flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_CLOEXEC")
IN_PLACE = open_flags("O_WRONLY", "O_CREAT", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")

#: opens a file without a name; Linux supports this on most of its file systems
_UNNAMED = open_flags("O_TMPFILE")

NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def open_new(folder: int, name: str) -> BinaryIO:
    """Open a file that must not exist yet."""
    descriptor = os.open(name, NEW_FILE, 0o666, dir_fd=folder)
    return open(descriptor, "wb", buffering=BUFFER_BYTES)


def finish(file: BinaryIO, *, fsync: bool) -> None:
    """Flush and close a file."""
    with file:
        file.flush()
        if fsync:
            os.fsync(file.fileno())


def remove(folder: int, name: str) -> None:
    """Remove a file if possible; ignore errors."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _write_all(descriptor: int, data: Bytes) -> None:
    """Write complete data without a buffer."""
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def written_aside(folder: int, name: str, data: Bytes, *, fsync: bool) -> Iterator[str]:
    """Write ``data`` to a temporary file next to ``name``; yield its name, and remove it after."""
    aside = temporary_name(name)
    try:
        descriptor = os.open(aside, NEW_FILE, 0o666, dir_fd=folder)
        try:
            _write_all(descriptor, data)
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield aside
    finally:
        remove(folder, aside)


def replace_file(root: str, name: str, data: Bytes, *, fsync: bool) -> None:
    """Put ``data`` at ``name`` atomically, and replace an existing file."""
    with (
        writing("write", f"{root}/{name}"),
        opened_for(root, name, fsync=fsync) as (folder, bare),
        written_aside(folder, bare, data, fsync=fsync) as aside,
    ):
        os.replace(aside, bare, src_dir_fd=folder, dst_dir_fd=folder)
        if fsync:
            flush_folder(folder)


def link_if_absent(root: str, name: str, data: Bytes, *, fsync: bool) -> bool:
    """Put ``data`` at ``name`` only if the name is free; ``False`` if it is taken.

    A hard link is the only call that gives a finished file its name and also fails if that name is
    taken.  Creating the file in place (``O_EXCL``) would show readers a half-written file.
    """
    path = f"{root}/{name}"
    with writing("write", path), opened_for(root, name, fsync=fsync) as (folder, bare):
        if _exists(folder, bare):  # a lost race needs no flush
            return False
        linked = _link_unnamed(folder, bare, data, fsync=fsync)
        if linked is not None:
            if linked and fsync:
                flush_folder(folder)
            return linked
        with written_aside(folder, bare, data, fsync=fsync) as aside:
            try:
                os.link(aside, bare, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in NO_HARD_LINKS:
                    raise _no_hard_links(path, error) from error
                raise
            if fsync:
                flush_folder(folder)
            return True


def _link_unnamed(folder: int, name: str, data: Bytes, *, fsync: bool) -> bool | None:
    """Write a file without a name, and link it to one; ``False`` if the name is taken.

    This changes the folder two times less than a temporary file does, and a killed process leaves
    nothing.  ``None`` if the system does not support it, or if it failed.
    """
    if not _UNNAMED:
        return None
    try:
        descriptor = os.open(".", _UNNAMED | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError:
        return None
    try:
        _write_all(descriptor, data)
        if fsync:
            os.fsync(descriptor)
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError:
        return False
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return True


def link_file(root: str, name: str, source_root: str, source: str, *, fsync: bool) -> bool:
    """Give a file a second name, which must be free; ``False`` if that is impossible.

    Both names then have the current time, so that a cleanup does not take the file for an orphan.
    """
    above, _, old = source.rpartition("/")
    with (
        reading("link", f"{root}/{name}"),
        opened(source_root, above) as origin,
        opened_for(root, name, fsync=fsync) as (folder, bare),
    ):
        if not stat.S_ISREG(os.stat(old, dir_fd=origin, follow_symlinks=False).st_mode):
            return False
        try:
            os.link(old, bare, src_dir_fd=origin, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in NO_HARD_LINKS | {errno.EXDEV, errno.EMLINK, errno.EACCES}:
                return False
            raise
        try:
            os.utime(bare, dir_fd=folder, follow_symlinks=False)
        except PermissionError:  # another user's file keeps its time, so it must be copied
            remove(folder, bare)
            return False
        if fsync:
            flush_folder(folder)
        return True


def _exists(folder: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _no_hard_links(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot commit {path}: its file system has no hard links ({error.strerror}).",
        hint="Keep the dataset on a file system with hard links (ext4, xfs, btrfs, apfs, ntfs) or "
        "in an object store.",
        path=path,
        errno=error.errno,
    )


def write_over(root: str, name: str, data: Bytes) -> None:
    """Write a small file in place, without any guarantee.

    A file system that moves a new file over an old one first flushes the new one, even without
    fsync, which takes longer than the rest of a commit.  An existing file is overwritten only if
    that changes no other file: a link, a FIFO or a second name of another file is removed first.
    """
    above, _, bare = name.rpartition("/")
    with opened(root, above) as folder:
        descriptor = _to_write_over(folder, bare)
        try:
            os.write(descriptor, data)
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)


def _to_write_over(folder: int, name: str) -> int:
    with suppress(OSError):
        descriptor = os.open(name, IN_PLACE, 0o666, dir_fd=folder)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            return descriptor
        os.close(descriptor)
    remove(folder, name)
    return os.open(name, NEW_FILE, 0o666, dir_fd=folder)


class FileSink:
    """A new file under its final name, which nothing refers to before ``close``.

    It is written in place, so that every Lance implementation's cleanup finds a crashed writer's
    file where it looks for unreferenced files.
    """

    def __init__(self, root: str, name: str, *, fsync: bool) -> None:
        self._root = root
        self._name = name
        self._path = f"{root}/{name}"
        self._fsync = fsync
        self._written = 0
        with writing("create", self._path), opened_for(root, name, fsync=fsync) as (folder, bare):
            self._file = open_new(folder, bare)

    def write(self, data: Bytes) -> None:
        """Append ``data``."""
        try:
            self._written += self._file.write(data)
        except OSError:
            self.abort()
            with writing("write", self._path):
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
                    with opened(self._root, self._name.rpartition("/")[0]) as folder:
                        flush_folder(folder)
        except StorageError:
            self._remove()
            raise

    def abort(self) -> None:
        """Remove the unfinished file."""
        if self._file.closed:
            return
        with suppress(OSError):
            self._file.close()
        self._remove()

    def _remove(self) -> None:
        above, _, bare = self._name.rpartition("/")
        with suppress(OSError), opened(self._root, above) as folder:
            remove(folder, bare)


class ReplacingSink(FileSink):
    """A temporary file that takes its final name at ``close``, and replaces an existing file."""

    def __init__(self, root: str, name: str, *, fsync: bool) -> None:
        super().__init__(root, temporary_name(name), fsync=fsync)
        self._final = name

    def close(self) -> None:
        """Make the file durable under its final name."""
        if self._file.closed:
            return
        super().close()
        above, _, aside = self._name.rpartition("/")
        final = self._final.rpartition("/")[2]
        try:
            with (
                writing("write", f"{self._root}/{self._final}"),
                opened(self._root, above) as folder,
            ):
                os.replace(aside, final, src_dir_fd=folder, dst_dir_fd=folder)
                if self._fsync:
                    flush_folder(folder)
        except StorageError:
            self._remove()
            raise
