"""Compiled kernels beside the NumPy code that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from lancekit._compiled.kernel import Kernel
from lancekit.options import options

__all__ = ["Counted", "agreed"]


class Counted:
    """How often a kernel was called, and how often it found nothing wrong."""

    def __init__(self, patch: Any, *kernels: Kernel) -> None:
        self.calls = self.good = 0
        for kernel in kernels:
            patch.setattr(kernel, "_calls", _Watched(kernel, self))


class _Watched(dict[str, Any]):
    """The machine code of a kernel, counted."""

    def __init__(self, kernel: Kernel, counted: Counted) -> None:
        super().__init__(kernel._calls)
        self._counted = counted

    def __getitem__(self, kind: str) -> Any:
        call, kinds = super().__getitem__(kind)

        def watched(*arguments: int) -> int:
            found: int = call(*arguments)
            self._counted.calls += 1
            self._counted.good += found >= 0
            return found

        return watched, kinds


def agreed(work: Callable[[], Any]) -> Any:
    """Do work with NumPy and with kernels; what comes out, or the error, has to be the same."""
    with options(kernels=False):
        known = _outcome(work)
    with options(kernels=True):
        found = _outcome(work)
    assert found == known
    return known


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return _plain(work())
    except Exception as error:
        return type(error), str(error)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value):
        return tuple(_plain(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return value
