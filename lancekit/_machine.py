"""What the machine has, or the container that this process is in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: more than these only compete for memory
_DECODING_THREADS = 8


def processors() -> int:
    """Return how many threads this process can run at once.

    A container or a batch system may allow fewer than the machine has.
    """
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def decoding_threads() -> int:
    """Return how many threads are to decode at a time."""
    return min(processors(), _DECODING_THREADS)


def links_quickly() -> bool:
    """Return whether machine code for this system is linked without llvmlite."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def total_memory() -> int:
    """Return how many bytes of memory this machine, or the container around it, has."""
    total = _physical_memory()
    return min([total, *_limits_of_groups()])


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not told by this system
        return sys.maxsize


def _limits_of_groups(
    mine: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """Return the limits of the control groups, of both versions, that this process is in."""
    found = []
    for line in _text(mine).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            base, name = str(root), "memory.max"
        elif "memory" in controllers.split(","):
            base, name = f"{root}/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            limit = _text("/".join([base, *parts[:depth], name])).strip()
            if limit.isdecimal():
                found.append(int(limit))
    return found


def _text(path: Path | str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""
