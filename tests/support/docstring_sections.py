"""The sections that docstrings of public functions lack: Parameters, Returns, Raises, Examples."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import lancekit

__all__ = ["lacking", "public_functions"]

_SECTIONS = ("Parameters", "Returns", "Raises", "Examples")

Function = Callable[..., Any]


def public_functions() -> dict[str, tuple[Function, str]]:
    """Return functions of two and more arguments, each by its first name, with its docstring.

    The docstring of a method includes those of the methods that it overrides.
    """
    found: dict[str, tuple[Function, str]] = {}
    seen: set[int] = set()
    modules = [m.name for m in pkgutil.iter_modules(lancekit.__path__) if m.name[:1] != "_"]
    for module in ("lancekit", *(f"lancekit.{name}" for name in modules)):
        for name, function, text in _of_module(module):
            if id(function) not in seen and len(_arguments(function)) > 1:
                seen.add(id(function))
                found[name] = (function, text)
    return found


def lacking(function: Function, text: str) -> list[str]:
    """Return the sections that a docstring lacks; a function without a result needs no Returns."""
    result = inspect.signature(function).return_annotation
    has = {name for name in (*_SECTIONS, "Yields") if f"{name}\n{'-' * len(name)}\n" in text}
    if "Yields" in has or result in (None, "None", inspect.Signature.empty):
        has.add("Returns")
    return [name for name in _SECTIONS if name not in has]


def _of_module(name: str) -> Iterator[tuple[str, Function, str]]:
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        member = getattr(module, public)
        if not str(getattr(member, "__module__", "")).startswith("lancekit"):
            continue
        if inspect.isfunction(member):
            yield f"{name}.{public}", member, inspect.getdoc(member) or ""
        elif inspect.isclass(member):
            yield from _of_class(f"{name}.{public}", member)


def _of_class(name: str, kind: type) -> Iterator[tuple[str, Function, str]]:
    for base in kind.__mro__:
        if not base.__module__.startswith("lancekit"):
            continue
        for member, value in vars(base).items():
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if member[:1] == "_":
                continue
            if inspect.isfunction(function):
                overridden = (vars(one).get(member) for one in kind.__mro__)
                texts = [inspect.getdoc(one) or "" for one in overridden if one is not None]
                yield f"{name}.{member}", function, "\n\n".join(texts)
            elif inspect.isclass(value) and value.__qualname__ == f"{base.__qualname__}.{member}":
                yield from _of_class(f"{name}.{member}", value)


def _arguments(function: Function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
