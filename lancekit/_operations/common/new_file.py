"""Files and folders that appear whole: written beside their place, then renamed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lancekit._display import Displayed
from lancekit._legible import shown
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit.errors import DatasetExistsError, InvalidArgumentError, LancekitError, StorageError
from lancekit.options import options

#: the age of temporary files of killed processes, from which on they are removed
_LEFT_SECONDS = 24 * 3600.0


@dataclass(frozen=True, kw_only=True, repr=False)
class WrittenFiles(Displayed):
    """Result of `export` and `pack`: the file or folder that was written.

    Attributes
    ----------
    path
        The file or the folder; the result itself can be used as a path, too.
    num_rows
        The rows that it has.
    num_files
        The files of the folder, or the entries of the zip file; else 1.
    num_bytes
        The size on disk.
    waiting
        Counts of the rows of shards that were not written; None if such rows were written.
    """

    path: Path
    num_rows: int
    num_files: int
    num_bytes: int
    waiting: WaitingRows | None = None

    def __fspath__(self) -> str:
        return str(self.path)

    def _plain(self) -> str:
        return f"WrittenFiles({str(self.path)!r}, num_rows={self.num_rows})"


def local_path(place: str | os.PathLike[str], call: str) -> Path:
    """Return a path on the local disk.

    Raises InvalidArgumentError: the place is a URI, or its folder does not exist.
    """
    text = os.fspath(place)
    if "://" in text or not text:
        raise InvalidArgumentError(
            f"{call} needs a path on the local disk, got {shown(text)}.",
            hint="Copy the file from or to other places yourself.",
        )
    path = Path(text).expanduser()
    if not path.parent.is_dir():
        raise InvalidArgumentError(f"There is no folder {str(path.parent)!r}.", hint="Create it.")
    return path


@contextmanager
def written_aside(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a new name beside a path; its file or folder is renamed to the path at the end.

    If the block fails, nothing is left.  An existing folder is never replaced by a file, nor a file
    by a folder.

    Raises DatasetExistsError: the path exists, also if it appeared meanwhile.
    Raises StorageError: the disk refused.
    """
    _check_free(path, overwrite)
    stem = f".{path.name[:100]}."
    remove_leftovers(path.parent, rf"{re.escape(stem)}[0-9a-f]{{16}}\.(tmp|old)")
    aside = path.with_name(f"{stem}{secrets.token_hex(8)}.tmp")
    try:
        yield aside
        _publish(aside, path, overwrite=overwrite)
    except OSError as error:
        if isinstance(error, LancekitError):
            raise
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        _remove(aside)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove temporary files and folders that a killed process left a day ago or earlier.

    names: a pattern of their names.
    """
    with suppress(OSError):
        for file in folder.iterdir():
            # a rename changes this time, too
            if re.fullmatch(names, file.name) and (
                time.time() - file.lstat().st_ctime > _LEFT_SECONDS
            ):
                _remove(file)


def _check_free(path: Path, overwrite: bool) -> None:
    if not overwrite and (path.exists() or path.is_symlink()):
        raise DatasetExistsError(
            f"{str(path)!r} exists already.", hint="Pass overwrite=True, or another name."
        )


def _publish(aside: Path, path: Path, *, overwrite: bool) -> None:
    files = sorted(aside.iterdir()) if aside.is_dir() else [aside]
    for file in [*files, aside]:
        _flush(file)
    if aside.is_dir():
        _check_free(path, overwrite)
        before = aside.with_suffix(".old")
        with suppress(FileNotFoundError):
            path.rename(before)
        try:
            aside.rename(path)
        except OSError:
            with suppress(OSError):
                before.rename(path)
            raise
        _remove(before)
    elif overwrite:
        aside.replace(path)
    else:
        try:
            os.link(aside, path)
        except FileExistsError:
            _check_free(path, overwrite)
            raise
        except OSError:  # a disk without hard links
            _check_free(path, overwrite)
            aside.rename(path)
    _flush(path.parent)


def _flush(path: Path) -> None:
    if not options.fsync:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
