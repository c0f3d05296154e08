"""A file on a local disk, mapped into memory."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident

import pyarrow as pa

from lancekit._machine import open_flags
from lancekit._storage.base import file_identity
from lancekit.errors import CorruptFileError, LancekitError, StorageError

#: views of at least `_LARGE` bytes are released once later ones have `_KEPT` bytes together
_LARGE, _KEPT = 1 << 20, 4 << 20

#: without this advice on the system, no memory is released
_ADVICE: int | None = getattr(mmap, "MADV_DONTNEED", None)
_LIBRARY = None if _ADVICE is None else ctypes.CDLL(None)

#: True if an open file can be opened again by its descriptor number
_NAMED_BY_NUMBER = os.path.isdir("/dev/fd")


class MappedFile:
    """A file mapped into memory, from which ranges are read without a copy.

    A buffer keeps the mapping alive but not the descriptor.  So a table over thousands of files
    does not run out of descriptors, and a file that cleanup removes stays readable.
    """

    # Lance files are never changed in place.  So the hazard of a mapping (a crash of the process
    # when the file shrinks) needs someone who truncates a live file by hand.

    # Pages of a mapping that were read count as memory of this process until they are released,
    # although the system shares them and can evict them at any time.

    def __init__(self, path: str) -> None:
        with reading("open", path), opened_file(path) as (descriptor, status):
            # Arrow opens files by name; this name refers to the open file, even if its path now
            # refers to another file
            named = f"/dev/fd/{descriptor}" if _NAMED_BY_NUMBER else path
            with pa.memory_map(named, "r") as file:
                self._data = file.read_buffer()
        self.identity = file_identity(status) if _NAMED_BY_NUMBER else None
        self._path = path
        self._size = int(self._data.size)
        self._large: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        #: about how many bytes were read, repeated reads included
        self.seen = 0

    @property
    def name(self) -> str:
        """The full path."""
        return self._path

    @property
    def gap(self) -> int:
        """Unlimited, because bytes that are not accessed are not read."""
        return sys.maxsize

    def size(self) -> int:
        """Return the file's size in bytes."""
        return self._size

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``, as a view of the file.

        The memory of a long range is released after others have been read.
        """
        data = self._view(start, length)
        if length >= _LARGE:
            self._release_earlier(start, length)
        return data

    def _view(self, start: int, length: int) -> pa.Buffer:
        if start < 0 or length < 0 or start + length > self._size:
            raise CorruptFileError(
                f"{self._path} is truncated: it has {self._size} bytes, but bytes {start} to "
                f"{start + length} were requested.",
                path=self._path,
                start=start,
                length=length,
                size=self._size,
            )
        self.seen += length
        return self._data.slice(start, length)

    def _release_earlier(self, start: int, length: int) -> None:
        """Release what this thread has read before, except for the last `_KEPT` bytes."""
        large = self._large[get_ident()]
        large.append((start, length))
        while len(large) > 1 and sum(size for _, size in large) > _KEPT:
            release_memory(self._data.slice(*large.popleft()))

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one view per ``(start, length)``, whose memory is not released."""
        return [self._view(start, length) for start, length in ranges]


def release_memory(mapped: pa.Buffer) -> None:
    """Release the memory of a view of a file; later reads load its bytes again.

    Must never be called for memory that is not mapped from a file, whose content would be lost.
    """
    page = mmap.PAGESIZE
    first = -(-mapped.address // page) * page
    size = (mapped.address + mapped.size) // page * page - first
    if _LIBRARY is not None and size > 0:
        # only advice: a system that ignores it uses more memory, and has the right bytes
        _LIBRARY.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _ADVICE)


# ---- opening files of a local disk for reading: only regular files, and links to them
#
# Anyone who supplies a dataset can put anything under a file's name.  Opening a FIFO would wait for
# a writer, and a device returns bytes without end.  So nothing is read before the file is known to
# be regular, and never more than its size.

# without O_NONBLOCK, opening a FIFO waits
_READ = open_flags("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


@contextmanager
def opened_file(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file; yield its descriptor and its status.

    Raises CorruptFileError: it is not a regular file.
    Raises OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            _check(os.stat(path), path)  # anything but a regular file
        if error.errno == errno.ELOOP:
            raise _refused(path, "a loop of symbolic links") from error
        raise
    try:
        status = os.fstat(descriptor)
        _check(status, path)
        yield descriptor, status
    finally:
        os.close(descriptor)


def _check(status: os.stat_result, path: str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise _refused(path, _KINDS.get(kind, "no file"))


def _refused(path: str, what: str) -> CorruptFileError:
    return CorruptFileError(
        f"{path} is {what}, not a regular file.",
        hint="It was not read, because no writer of Lance datasets creates such a file. Do not "
        "trust its source.",
        path=path,
        what=what,
    )


# ---- errors of the operating system, as the package's own errors

HINTS = {
    errno.ENOSPC: "Free some space and try again.",
    errno.EDQUOT: "The quota is used up: free some space and try again.",
    errno.EFBIG: "The file is larger than this disk, or this process's limit, allows.",
    errno.EACCES: "Check the permissions of the file and its folders.",
    errno.EPERM: "Check the permissions of the file and its folders.",
    errno.EROFS: "The disk is mounted read-only: choose another place.",
    errno.EMFILE: "Too many files are open: raise the limit (ulimit -n).",
    errno.ENAMETOOLONG: "Choose a shorter path.",
    errno.ENOTDIR: "A part of the path is a file, not a folder.",
    errno.EISDIR: "A folder is where a file should be.",
    errno.EEXIST: "Choose another name.",
    errno.EIO: "The disk reports damage: check it.",
}


@contextmanager
def reading(action: str, path: str) -> Iterator[None]:
    """Convert ``OSError`` to ``StorageError``, or ``FileNotFoundError`` for a missing file."""
    try:
        yield
    except LancekitError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(errno.ENOENT, "No such file", path) from error
    except OSError as error:
        raise _storage_error(action, path, error) from error


@contextmanager
def writing(action: str, path: str) -> Iterator[None]:
    """Convert every ``OSError`` to ``StorageError``."""
    try:
        yield
    except LancekitError:
        raise
    except OSError as error:
        raise _storage_error(action, path, error) from error


def _storage_error(action: str, path: str, error: OSError) -> StorageError:
    code = error.errno or 0
    what = os.strerror(code) if code else str(error)
    return StorageError(
        f"cannot {action} {path}: {what}.", hint=HINTS.get(code, ""), path=path, errno=code
    )
