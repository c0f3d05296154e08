"""What something takes of memory at its peak, and what a fork shares of it; Linux only."""

from __future__ import annotations

import ctypes
import math
import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

__all__ = ["own_memory", "rise"]

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def _peak() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", _STATUS.read_text())
    assert found
    return int(found[1])


def rise(run: Callable[[], object]) -> float:
    """Return by how many KiB running it raises the peak of this process, whose own is lowered."""
    try:
        _RESET.write_text("5")  # to what it holds now
        before = _peak()
    except OSError:
        run()
        return math.nan
    made = run()
    after = _peak()
    del made
    return float(after - before)


def own_memory() -> None:
    """Give a process that was forked its own copy of all memory that it shares with its parent.

    Else the first call in it copies each page that it touches, some thousand of them for a library
    in Python, which takes longer than some calls; in a process that has imported a library itself
    nothing is copied.  Memory that nobody has used yet stays so.
    """
    library = ctypes.CDLL(None, use_errno=True)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with suppress(OSError):
        for start, size in list(_private_pages()):
            # where the system is too old to know this, the pages stay shared
            library.madvise(start, size, _MADV_POPULATE_WRITE)


_MADV_POPULATE_WRITE = 23
_PRESENT = np.uint64(63)


def _private_pages() -> Iterator[tuple[int, int]]:
    """Yield where there are pages that may be written, and of how many bytes."""
    page = mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as table:
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights[1] != "w" or rights[3] != "p":
                continue
            begin, end = (int(border, 16) for border in span.split("-"))
            table.seek(begin // page * 8)
            entries = np.frombuffer(table.read((end - begin) // page * 8), np.uint64)
            there = (entries >> _PRESENT).astype(np.int8)
            edges = np.flatnonzero(np.diff(there, prepend=0, append=0)).reshape(-1, 2)
            for first, last in edges.tolist():
                yield begin + first * page, (last - first) * page
