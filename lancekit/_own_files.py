"""Temporary files and folders that belong to a process, and the cache folder.

A killed process cannot remove its files.  So their names have the process id, and the next Spark
session of the same user removes the files of processes that no longer exist.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"lancekit-[a-z]+-(\d+)-(\d+)-\w+(?:\.[a-z]+)?")


def new_folder(kind: str) -> Path:
    """Create a temporary folder for this process; ``kind`` (letters) names its purpose."""
    return Path(tempfile.mkdtemp(prefix=_prefix(kind)))


def new_file(kind: str, suffix: str) -> Path:
    """Create an empty temporary file for this process."""
    descriptor, path = tempfile.mkstemp(prefix=_prefix(kind), suffix=suffix)
    os.close(descriptor)
    return Path(path)


def sweep() -> None:
    """Remove files of this user's ended processes; ignore files that cannot be removed."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _is_left(entry):
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _prefix(kind: str) -> str:
    return f"lancekit-{kind}-{os.getpid()}-{_namespace()}-"


def _namespace() -> int:
    """Return the id of the process namespace, because containers may share a temporary folder."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _is_left(entry: os.DirEntry[str]) -> bool:
    named = _NAME.fullmatch(entry.name)
    if named is None or int(named[2]) != _namespace():
        return False
    if entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return False
    try:
        os.kill(int(named[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


# ---- the folder of a user's files that can be recreated


def cache_folder() -> Path:
    """Return the cache folder, which may not exist; `RuntimeError` if the user has no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lancekit"
