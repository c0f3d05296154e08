"""Which kernels of Arrow lancekit calls while the tests run, by functions and by methods of arrays.

lancekit calls functions by `lancekit._arrow_compute`; methods of arrays call their kernels by
`pyarrow.compute`: all functions of both are to watch.  This module is imported before the parts of
lancekit that keep some of these functions in tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

import pyarrow.compute as pc

from lancekit import _arrow_compute as arrow_compute

__all__ = ["called"]

#: names of kernels that lancekit called
called: set[str] = set()
_OWN = "lancekit."


def _watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if name not in called and _is_ours(sys._getframe(1)):
            called.add(name)
        return function(*args, **options)

    return call


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(_OWN)


def _watched_by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call_function(name: str, *args: Any, **options: Any) -> Any:
        if name not in called and _is_ours(sys._getframe(1)):
            called.add(name)
        return function(name, *args, **options)

    return call_function


def _watch() -> None:
    kernels = set(pc.list_functions()) & set(dir(pc))
    if kernels & set(vars(arrow_compute)):
        raise ImportError("lancekit holds functions that nobody watches: import this before it")
    for name in kernels:
        for module in (pc, arrow_compute):
            setattr(module, name, _watched(name, getattr(module, name)))
    pc.call_function = _watched_by_name(pc.call_function)


_watch()
