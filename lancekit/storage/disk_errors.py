"""What the operating system says about a disk, as the package's own errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from lancekit.errors import LancekitError, StorageError

__all__ = ["reading", "writing"]

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
