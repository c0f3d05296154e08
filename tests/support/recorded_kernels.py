"""Which kernels of Arrow lancekit calls while the tests run, by functions and by methods of arrays.

Methods of arrays call their kernels by `pyarrow.compute`, too, so its functions are all to watch.
This module is imported before lancekit, which keeps some of these functions in tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

import pyarrow.compute as pc

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
    ours = [module for name, module in sys.modules.items() if name.startswith(_OWN)]
    if any(getattr(module, "pc", None) is pc for module in ours):
        raise ImportError("lancekit holds functions that nobody watches: import this before it")
    kernels = set(pc.list_functions())
    for name in kernels & set(dir(pc)):
        setattr(pc, name, _watched(name, getattr(pc, name)))
    pc.call_function = _watched_by_name(pc.call_function)


_watch()
