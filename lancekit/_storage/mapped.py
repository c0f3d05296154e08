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

from lancekit._storage.base import file_identity
from lancekit.errors import CorruptFileError, LancekitError, StorageError

#: ranges of at least so many bytes are let go of once later ones have so many together
_LARGE, _KEPT = 1 << 20, 4 << 20

#: where the system has no such advice to take, nothing is let go of
_ADVICE: int | None = getattr(mmap, "MADV_DONTNEED", None)
_LIBRARY = None if _ADVICE is None else ctypes.CDLL(None)

#: whether an open file can be opened again by the number of its descriptor
_NAMED_BY_NUMBER = os.path.isdir("/dev/fd")


class MappedFile:
    """One file mapped into memory: reading a range copies nothing.

    A buffer keeps the mapping alive but not the descriptor, so a table over thousands of files
    does not run out of descriptors, and a file that cleanup removes stays readable.
    """

    # Lance files are never changed in place, so the hazard of a mapping (a fault in the process
    # when the file shrinks under it) needs somebody who truncates a live file by hand.

    # What was looked at of a mapping counts as memory of this process until it is let go, although
    # the system holds it for all and gives it up for others at any time.

    def __init__(self, path: str) -> None:
        with reading("open", path), opened_file(path) as (descriptor, status):
            # Arrow opens files by their names: this one is that of the open file, wherever its own
            # name may lead by now
            named = f"/dev/fd/{descriptor}" if _NAMED_BY_NUMBER else path
            with pa.memory_map(named, "r") as file:
                self._data = file.read_buffer()
        self.identity = file_identity(status) if _NAMED_BY_NUMBER else None
        self._path = path
        self._size = int(self._data.size)
        self._large: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        #: about how many bytes were looked at, some of them again
        self.seen = 0

    @property
    def name(self) -> str:
        """The full path."""
        return self._path

    @property
    def gap(self) -> int:
        """Any number of bytes: what is not looked at is not read."""
        return sys.maxsize

    def size(self) -> int:
        """Return the file's size in bytes."""
        return self._size

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``, as a view of the file.

        A long range is let go of once others have been read after it.
        """
        data = self._view(start, length)
        if length >= _LARGE:
            self._let_go_of_others(start, length)
        return data

    def _view(self, start: int, length: int) -> pa.Buffer:
        if start < 0 or length < 0 or start + length > self._size:
            raise CorruptFileError(
                f"{self._path} is too short: bytes {start} to {start + length} were asked for, "
                f"it has {self._size}.",
                path=self._path,
                start=start,
                length=length,
                size=self._size,
            )
        self.seen += length
        return self._data.slice(start, length)

    def _let_go_of_others(self, start: int, length: int) -> None:
        """Let go of what this thread has read before, but for `_KEPT` of it."""
        large = self._large[get_ident()]
        large.append((start, length))
        while len(large) > 1 and sum(size for _, size in large) > _KEPT:
            let_go(self._data.slice(*large.popleft()))

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one view per ``(start, length)``, none of which is let go of."""
        return [self._view(start, length) for start, length in ranges]


def let_go(mapped: pa.Buffer) -> None:
    """Give back the memory of a view of a file, whose bytes are there again when they are read.

    Never to be called for memory that is not a mapped file's: what was in it would be gone.
    """
    page = mmap.PAGESIZE
    first = -(-mapped.address // page) * page
    size = (mapped.address + mapped.size) // page * page - first
    if _LIBRARY is not None and size > 0:
        # advice: what does not take it has more memory in use, and the right bytes
        _LIBRARY.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _ADVICE)


# ---- opening files of a local disk to read them: regular files alone, links to some included
#
# Whoever hands over a dataset can put anything under a file's name.  To open a FIFO would wait for
# somebody who writes; a device gives bytes without end.  So nothing is read before it is known to
# be a regular file, and never more than the size that it has.

# without O_NONBLOCK the opening of a FIFO waits
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


@contextmanager
def opened_file(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file; gives its descriptor and what the disk says of it.

    Raises CorruptFileError: it is something else.
    Raises OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            _check_regular(path)
        if error.errno == errno.ELOOP:
            raise _refused(path, "a circle of symbolic links") from error
        raise
    try:
        status = os.fstat(descriptor)
        _check(status, path)
        yield descriptor, status
    finally:
        os.close(descriptor)


def _check_regular(path: str) -> None:
    """Raise `CorruptFileError` if there is something else than a regular file."""
    _check(os.stat(path), path)


def _check(status: os.stat_result, path: str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise _refused(path, _KINDS.get(kind, "no file"))


def _refused(path: str, what: str) -> CorruptFileError:
    return CorruptFileError(
        f"{path} is {what}, not a regular file.",
        hint="Nothing that writes Lance datasets makes such a thing: do not trust its source. "
        "It was not read.",
        path=path,
        what=what,
    )


# ---- what the operating system says about a disk, as the package's own errors

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
    errno.EEXIST: "Choose a fresh name.",
    errno.EIO: "The disk reports damage: check it.",
}


@contextmanager
def reading(action: str, path: str) -> Iterator[None]:
    """Turn an ``OSError`` into a ``StorageError``, or ``FileNotFoundError`` if nothing is there."""
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
    """Turn every ``OSError`` into a ``StorageError``."""
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
