"""Files in the temporary folder that belong to a process and go when it does; the cache folder.

A process that is killed leaves them.  So their names say whose they are, and the next Spark session
of the same user removes those of processes that are gone.
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
    """Make a folder for this process; ``kind`` are letters that say what for."""
    return Path(tempfile.mkdtemp(prefix=_prefix(kind)))


def new_file(kind: str, suffix: str) -> Path:
    """Make an empty file for this process."""
    descriptor, path = tempfile.mkstemp(prefix=_prefix(kind), suffix=suffix)
    os.close(descriptor)
    return Path(path)


def sweep() -> None:
    """Remove what processes of this user have left that are gone; what cannot be removed stays."""
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
    """Return which processes this one sees: containers may share a temporary folder."""
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


# ---- the folder of what is made once on a machine, for one user, and can be made again


def cache_folder() -> Path:
    """Return the folder, which need not be there; `RuntimeError` if the user has no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lancekit"
