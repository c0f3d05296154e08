"""File of compiled kernels in the user's cache folder: name, checks, loading, compilation.

The file is machine code, so whoever can write it can run code as this user.  It is read only if
the file and its folder belong to this user, nobody else can write to them, and neither is a link.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from xxhash import xxh3_128

from lancekit._compiled.linking import Code, linked
from lancekit._hooks import hooks
from lancekit._own_files import cache_folder
from lancekit._version import __version__

PACKAGE = Path(__file__).parents[1]
PROGRAM = "import sys; from lancekit._compiled.build import main; main(*sys.argv[1:])"
#: a compilation takes about ten seconds of CPU time
BUILD_SECONDS = 600
#: bytes of the checksum that detects a truncated file; hashlib takes too long to import
_DIGEST = 16


class BuildError(RuntimeError):
    """The kernels could not be compiled."""


@cache
def _name(modules: tuple[str, ...]) -> str:
    """Return the file name for these sources, these library versions and this processor."""
    digest = xxh3_128()
    facts = [__version__, _release("numba"), _release("llvmlite"), sys.implementation.cache_tag]
    digest.update("\n".join([*map(str, facts), *_processor()]).encode())
    package = str(PACKAGE)  # strings: `Path` would double the time of this function
    own = sorted(path.name for path in PACKAGE.joinpath("_compiled").glob("*.py"))
    kernel_modules = [home.partition(".")[2].replace(".", "/") + ".py" for home in modules]
    for source in [*(f"_compiled/{name}" for name in own), *kernel_modules]:
        with open(f"{package}/{source}", "rb") as file:  # noqa: PTH123
            digest.update(file.read())
    return f"{__version__}-{digest.hexdigest()[:24]}"


def _release(package: str) -> str:
    """Return a text that identifies a package's release; package metadata takes longer to read."""
    found = find_spec(package)
    if found is not None and found.origin is not None:
        with suppress(OSError):
            return Path(found.origin).with_name("_version.py").read_text(encoding="utf-8")
    from importlib.metadata import version  # loads email, csv and zipfile

    return version(package)


def file_of_kernels() -> Path:
    """Return the path of the kernel file, whether or not it exists."""
    return cache_folder() / "kernels" / _name(hooks.kernels)


def load() -> Code | None:
    """Return the compiled kernels, or ``None`` if no trusted, loadable file exists."""
    try:
        content = _content(file_of_kernels())
        return None if content is None else linked(content)
    except (OSError, RuntimeError):  # from the system, from llvmlite, or a user without home folder
        return None


def build(*, wait: bool = False, again: bool = False) -> bool:
    """Compile the kernels in a separate process; return False if that fails.

    wait: wait for another process that compiles them, and raise `BuildError` on failure.
    again: compile them even if the file exists.
    """
    import subprocess

    try:
        path = file_of_kernels()
        with locked(path, wait=wait) as lock:
            if again or _content(path) is None:
                _compile(path, lock)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        if wait:
            raise BuildError(str(error)) from error
        return False
    return True


def _compile(path: Path, lock: int) -> None:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(path), *hooks.kernels],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
        pass_fds=(lock,),  # the child keeps the lock even if this process ends
        start_new_session=True,
        env=_environment(),
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["no reason was given"]
        raise BuildError(reason[-1])


def put(path: Path, content: bytes) -> None:
    """Write the file atomically, with its checksum in front."""
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(aside, flags, 0o600), "wb") as file:  # noqa: PTH123
            file.write(xxh3_128(content).digest() + content)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _environment() -> dict[str, str]:
    """Return environment variables that give a child process this process's import path."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")}
    path = [str(PACKAGE.parent), *filter(None, sys.path)]
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


def _content(path: Path) -> bytes | None:
    """Return the machine code, or ``None`` if it is missing, truncated or not only this user's."""
    try:
        folder = _opened(path.parent)
    except OSError:
        return None
    try:
        with open(  # noqa: PTH123
            os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb"
        ) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _is_mine(found):
                return None
            content = file.read()
    except OSError:
        return None
    finally:
        os.close(folder)
    whole = xxh3_128(content[_DIGEST:]).digest() == content[:_DIGEST]
    return content[_DIGEST:] if whole else None


def _opened(folder: Path) -> int:
    """Open the folder, unless it is a link or other users can change its entries."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if not _is_mine(os.fstat(opened)):
        os.close(opened)
        raise PermissionError(f"{folder} can be changed by others; remove it")
    return opened


def _is_mine(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[int]:
    """Create the folder and hold the build lock; `BlockingIOError` if another process holds it."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    folder = _opened(path.parent)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        lock = os.open(f"{path.name}.lock", flags, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    import fcntl  # not on Windows

    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


# ---- processor identity, because the code is compiled for one kind of processor

_CPUINFO = Path("/proc/cpuinfo")
#: lines that differ between kinds of processors and never change at run time
_FACTS = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
    }
)
#: bytes that contain the first processor's entry
_FIRST_BYTES = 1 << 14


def _processor() -> list[str]:
    """Return texts that identify this kind of processor."""
    found = [sys.platform, *_processor_facts()]
    if len(found) > 1:
        return [*found, os.uname().machine]
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    return [binding.get_process_triple(), binding.get_host_cpu_name(), features]


def _processor_facts() -> Iterator[str]:
    """Yield Linux's facts on the first processor; importing llvmlite takes 100 times as long."""
    with suppress(OSError), _CPUINFO.open(encoding="utf-8", errors="replace") as file:
        for line in file.read(_FIRST_BYTES).partition("\n\n")[0].splitlines():
            if line.partition(":")[0].strip() in _FACTS:
                yield line
