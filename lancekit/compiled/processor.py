"""Which processor this is, for code that is compiled for it alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["processor"]

_TOLD = Path("/proc/cpuinfo")
#: what of it differs between kinds of processors, and not from one moment to the next
_FACTS = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
    }
)
#: the first of many processors fits in it
_ENOUGH = 1 << 14


def processor() -> list[str]:
    """Return what tells this kind of processor from others."""
    found = [sys.platform, *_told()]
    if len(found) > 1:
        return [*found, os.uname().machine]
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    return [binding.get_process_triple(), binding.get_host_cpu_name(), features]


def _told() -> Iterator[str]:
    """Yield what Linux says of the first processor; it takes a hundredth of importing llvmlite."""
    with suppress(OSError), _TOLD.open(encoding="utf-8", errors="replace") as file:
        for line in file.read(_ENOUGH).partition("\n\n")[0].splitlines():
            if line.partition(":")[0].strip() in _FACTS:
                yield line
