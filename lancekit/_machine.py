"""Resources of the machine, or of the container of this process."""

from __future__ import annotations

import os
import sys
from functools import reduce
from operator import or_
from pathlib import Path

#: more threads would only compete for memory bandwidth
_DECODING_THREADS = 8


def open_flags(*names: str) -> int:
    """Return flags of `os.open` by name, without flags that this system does not have."""
    return reduce(or_, (getattr(os, name, 0) for name in names))


def processors() -> int:
    """Return the number of threads that this process can run in parallel.

    A container or a batch system may allow fewer than the machine has.
    """
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def decoding_threads() -> int:
    """Return the number of threads for decoding."""
    return min(processors(), _DECODING_THREADS)


def links_quickly() -> bool:
    """Return True if machine code for this system can be linked without llvmlite."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def total_memory() -> int:
    """Return the bytes of memory of this machine, or of its container."""
    return min([_physical_memory(), *_limits_of_groups()])


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # unknown on this system
        return sys.maxsize


def _limits_of_groups(
    mine: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """Return the memory limits of this process's control groups, of both versions."""
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
