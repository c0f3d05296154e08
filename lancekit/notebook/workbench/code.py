"""Calls as code that can be copied: strange strings are spelled out, secrets are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lancekit.legible import code

__all__ = ["called", "chained", "spelled"]

#: how long a line may be
_WIDTH = 100


def spelled(value: Any) -> str:
    """Return a value as Python spells it.

    Examples
    --------
    >>> print(spelled({"a": ("x", 1), "b": [("y",)]}))
    {'a': ('x', 1), 'b': [('y',)]}
    """
    match value:
        case str():
            return code(value)
        case Mapping():
            return f"{{{', '.join(f'{spelled(k)}: {spelled(v)}' for k, v in value.items())}}}"
        case tuple():
            return f"({', '.join(map(spelled, value))}{',' * (len(value) == 1)})"
        case list():
            return f"[{', '.join(map(spelled, value))}]"
    return repr(value)


def called(name: str, *arguments: Any, **named: Any) -> str:
    """Return a call as code."""
    listed = [*map(spelled, arguments), *(f"{key}={spelled(one)}" for key, one in named.items())]
    return f"{name}({', '.join(listed)})"


def chained(first: str, calls: Sequence[str]) -> str:
    """Return calls one after the other, in one line if that is not too long.

    Examples
    --------
    >>> chained("ds", ["to_table()"])
    'ds.to_table()'
    """
    line = ".".join([first, *calls])
    if len(line) <= _WIDTH or len(calls) == 1:
        return line
    head, *rest = calls
    return "\n".join([f"({first}.{head}", *(f"    .{call}" for call in rest)]) + ")"
