"""Folders of a store on a local disk, opened part by part, without following links below the root.

Anyone who supplies a dataset can put links into it.  So writes and removals never use a whole path,
in which the system would follow links.  They start at the root, and open each folder within the
one before.  A folder that is replaced by a link after a check is refused like any other link.
Links above the root, and the root itself, belong to the user.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lancekit._machine import open_flags
from lancekit._storage.base import ObjectInfo
from lancekit.errors import StorageError

DEEPEST = 100
"""The most nested folders: more than any dataset needs, fewer than exhaust a recursive walk.

The name of a branch has few enough parts: it is also a file's name, of at most 255 bytes.
"""

_FOLDER = open_flags("O_RDONLY", "O_DIRECTORY", "O_CLOEXEC")
#: attempts to empty a folder that others fill meanwhile
_TRIES = 5


@contextmanager
def opened(root: str, folder: str) -> Iterator[int]:
    """Open a folder below a root; yield its descriptor.

    Raises StorageError: a part of the path is a link.  `leads_away` recognises this error.
    """
    descriptor = _open(root, folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_for(root: str, name: str, *, fsync: bool) -> Iterator[tuple[int, str]]:
    """Open or create the folder of a file to write; yield its descriptor and the bare name."""
    folder, _, bare = name.rpartition("/")
    try:
        descriptor = _open(root, folder)
    except FileNotFoundError:
        _make_folders(root, folder, fsync=fsync)
        descriptor = _open(root, folder)
    try:
        yield descriptor, bare
    finally:
        os.close(descriptor)


def _open(root: str, folder: str) -> int:
    descriptor = os.open(root, _FOLDER)
    try:
        for part in folder.split("/") if folder else ():
            above, descriptor = descriptor, _enter(descriptor, part, f"{root}/{folder}")
            os.close(above)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def leads_away(error: BaseException) -> bool:
    """Return True for the error that refuses a link."""
    return isinstance(error, StorageError) and "link" in error.context


def flush_folder(descriptor: int) -> None:
    """Make the names in a folder durable."""
    os.fsync(descriptor)


def remove_tree(root: str, folder: str) -> None:
    """Remove a folder and its contents; links are removed, but not their targets."""
    if not folder:
        with opened(root, "") as descriptor:
            _empty(descriptor, root, 0)
        remove_empty(root)
        return
    above, _, bare = folder.rpartition("/")
    with opened(root, above) as descriptor:
        if _kind(bare, descriptor) == stat.S_IFLNK:
            os.unlink(bare, dir_fd=descriptor)
        else:
            _remove_folder(descriptor, bare, f"{root}/{folder}", 0)


def remove_empty(root: str) -> None:
    """Remove folders that contain only folders, possibly including the root.

    A root that is a link belongs to the user, and is removed with its target folder.
    """
    with opened(root, "") as descriptor:
        _prune(descriptor, 0)
    with _unless_filled():
        os.rmdir(os.path.realpath(root))
        if os.path.islink(root):
            os.unlink(root)


def walk(root: str, folder: str, prefix: str) -> Iterator[ObjectInfo]:
    """Yield every file at or below a folder; links and special files are not followed."""
    with opened(root, folder) as descriptor:
        yield from _walk(descriptor, prefix, 0)


def _make_folders(root: str, folder: str, *, fsync: bool) -> None:
    """Create a root and a folder below it; flush each new name in its parent."""
    missing = []
    path = Path(root)
    while not path.exists():
        missing.append(path)
        path = path.parent
    for new in reversed(missing):
        # Another writer may be creating the same folder, and may not have flushed it yet.
        new.mkdir(exist_ok=True)
        if fsync:
            with opened(str(new.parent), "") as parent:
                flush_folder(parent)
    parts = folder.split("/") if folder else []
    for depth, part in enumerate(parts):
        with opened(root, "/".join(parts[:depth])) as parent:
            if _kind(part, parent) is None:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=parent)
                if fsync:
                    flush_folder(parent)


def _enter(above: int, part: str, where: str) -> int:
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        # systems refuse a link with different errors, which do not mention links
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _kind(part, above) == stat.S_IFLNK:
            raise StorageError(
                f"{where} was not changed: {part!r} is a link, and lancekit neither writes nor "
                "removes anything through links.",
                hint="Replace the link with the folder itself. To keep data files on another "
                "disk, give the dataset base paths: write_dataset(..., initial_bases=..., "
                "target_bases=...).",
                path=where,
                link=part,
            ) from error
        raise


def _kind(name: str, folder: int) -> int | None:
    """Return the file type of a name, ``None`` if it is free."""
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _remove_folder(above: int, name: str, where: str, depth: int) -> None:
    for last in (False,) * (_TRIES - 1) + (True,):
        below = _enter(above, name, where)
        try:
            _empty(below, where, depth)
        finally:
            os.close(below)
        try:
            os.rmdir(name, dir_fd=above)
        except OSError as error:
            if last or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return


def _empty(folder: int, where: str, depth: int) -> None:
    if depth > DEEPEST:
        raise StorageError(
            f"{where} has more than {DEEPEST} nested folders, which no dataset needs.",
            hint="Check it, and remove it by hand.",
            path=where,
        )
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        # another process may have removed it
        with suppress(FileNotFoundError):
            if is_folder:
                _remove_folder(folder, name, f"{where}/{name}", depth + 1)
            else:
                os.unlink(name, dir_fd=folder)


def _walk(folder: int, prefix: str, depth: int) -> Iterator[ObjectInfo]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = prefix + entry.name
        # A file that is removed during the walk is not an error.
        with suppress(FileNotFoundError, NotADirectoryError):
            if not entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                regular = stat.S_ISREG(status.st_mode)
                yield ObjectInfo(name, status.st_size, status.st_mtime, regular)
            elif depth < DEEPEST:
                below = _enter(folder, entry.name, name)
                try:
                    yield from _walk(below, f"{name}/", depth + 1)
                finally:
                    os.close(below)
            else:
                yield ObjectInfo(name, 0, 0.0, regular=False)


def _prune(folder: int, depth: int) -> None:
    with os.scandir(folder) as entries:
        found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for name in found:
        with _unless_filled():
            below = _enter(folder, name, name)
            try:
                if depth < DEEPEST:
                    _prune(below, depth + 1)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=folder)


@contextmanager
def _unless_filled() -> Iterator[None]:
    """Ignore that a folder is not empty, or gone, or replaced by a link."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise
    except StorageError as error:
        if not leads_away(error):
            raise
