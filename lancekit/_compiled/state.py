"""When this process uses compiled kernels: once loading them costs less than doing without did.

Work that kernels would have made quicker is counted.  When that comes to what loading takes, they
are loaded; if nobody has compiled them, and enough time is lost, a process in the background does,
once.  Forks and Spark's workers compile nothing.
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

#: nanoseconds lost before kernels are looked for: about what loading them takes
LOAD = 3e6 if links_quickly() else 5e7
#: nanoseconds lost before they are compiled, which takes some seconds in the background
BUILD = 5e8


@dataclass(slots=True)
class Process:
    """What this process knows of compiled kernels."""

    code: Code | None = None
    lost: float = 0
    next_look: float = LOAD
    may_build: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)


process = Process()


def is_possible() -> bool:
    """Tell whether what compiles and loads kernels is installed."""
    return all(find_spec(name) is not None for name in ("numba", "llvmlite"))


def wanted(saved: float) -> Code | None:
    """Return the kernels for work that takes so many nanoseconds less with them, if it may."""
    if not options.kernels:
        return None
    if process.code is None:
        process.lost += saved  # threads may lose some of each other's, which does no harm
        if process.lost >= process.next_look:
            _look()
    return process.code


def load() -> None:
    """Load the kernels without waiting for work that profits, if they are there."""
    from lancekit._compiled import store

    with process.lock:
        if process.code is None and is_possible():
            process.code = store.load()


def compile_nothing() -> None:
    """Leave it to others to compile kernels."""
    process.may_build = False


def _look() -> None:
    """Load the kernels, or have them compiled; nobody waits for somebody who does."""
    if not process.lock.acquire(blocking=False):
        return
    try:
        if process.code is not None:
            return
        process.next_look = 2 * process.lost
        if not is_possible():
            process.next_look = float("inf")
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
    # what goes wrong concerns nobody who did not ask for it: NumPy goes on
    if build():
        process.next_look = 0


def _after_fork() -> None:
    process.lock = threading.Lock()
    process.may_build = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
