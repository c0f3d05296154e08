"""Decision when this process loads compiled kernels: once they would have saved their loading time.

The time that kernels would have saved is added up.  When it reaches the loading time, the process
loads them.  If they are not compiled and the lost time reaches `BUILD`, a background process
compiles them, once.  Forks and Spark's workers never compile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lancekit._machine import links_quickly
from lancekit.options import options

if TYPE_CHECKING:
    from lancekit._compiled.linking import Code

#: nanoseconds lost before the process first tries to load kernels: about the loading time
LOAD = 3e6 if links_quickly() else 5e7
#: nanoseconds lost before kernels are compiled, which takes some seconds in the background
BUILD = 5e8


@dataclass(slots=True)
class Process:
    """State of compiled kernels in this process."""

    code: Code | None = None
    lost: float = 0
    next_attempt: float = LOAD
    may_build: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)


process = Process()


def is_possible() -> bool:
    """Return True if Numba and llvmlite are installed."""
    return all(find_spec(name) is not None for name in ("numba", "llvmlite"))


def wanted(saved: float) -> Code | None:
    """Return the loaded kernels for work that takes `saved` nanoseconds less with them.

    ``None`` if kernels are switched off or not loaded yet.
    """
    if not options.kernels:
        return None
    if process.code is None:
        process.lost += saved  # a race between threads may lose counts, which does no harm
        if process.lost >= process.next_attempt:
            _load_or_build()
    return process.code


def load() -> None:
    """Load the kernels now, if they are compiled, without waiting for work that needs them."""
    from lancekit._compiled import store

    with process.lock:
        if process.code is None and is_possible():
            process.code = store.load()


def compile_nothing() -> None:
    """Forbid this process to compile kernels."""
    process.may_build = False


def _load_or_build() -> None:
    """Load the kernels or start compiling them; return at once if another thread does so."""
    if not process.lock.acquire(blocking=False):
        return
    try:
        if process.code is not None:
            return
        process.next_attempt = 2 * process.lost
        if not is_possible():
            process.next_attempt = float("inf")
            return
        from lancekit._compiled import store

        if (code := store.load()) is not None:
            process.code = code
        elif process.may_build and process.lost >= BUILD:
            process.may_build = False
            thread = threading.Thread(target=_build, args=(store.build,), daemon=True)
            thread.name = "lancekit-kernels"
            thread.start()
    finally:
        process.lock.release()


def _build(build: Callable[[], object]) -> None:
    # NumPy still works: a failed build is no error for a user who did not request it
    if build():
        process.next_attempt = 0


def _after_fork() -> None:
    process.lock = threading.Lock()
    process.may_build = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
