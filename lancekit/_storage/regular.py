"""Opening files of a local disk to read them: regular files alone, links to some included.

Whoever hands over a dataset can put anything under a file's name.  To open a FIFO would wait for
somebody who writes; a device gives bytes without end.  So nothing is read before it is known to be
a regular file, and never more than the size that it has.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from lancekit.errors import CorruptFileError, LancekitError, StorageError

__all__ = ["opened_file", "reading", "writing"]

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

    Raises
    ------
    CorruptFileError
        It is something else.
    OSError
        It cannot be opened.
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
