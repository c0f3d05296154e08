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

from lancekit.errors import CorruptFileError

__all__ = ["opened_file"]

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
