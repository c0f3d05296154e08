"""Operators of public classes that raise errors with the line that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from lancekit.errors import InvalidTypeError

T = TypeVar("T")


def hinting_operators(names: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that adds operators to a class; each raises an error with a line."""

    def add(kind: type[T]) -> type[T]:
        for name in names.split():
            setattr(kind, name, _refused(kind, name))
        return kind

    return add


def _refused(kind: type, name: str) -> Callable[..., object]:
    def refused(self: object, *others: object, **given: object) -> object:
        from lancekit._guesses import line_for

        if name == "__array__" and (others or (given.get("dtype"),))[0] in (object, np.dtype("O")):
            array = np.empty((), object)  # as an item of an array of objects
            array[()] = self
            return array
        if name in ("__eq__", "__ne__") and isinstance(others[0], kind):
            return NotImplemented  # compared by identity
        shown = {"item": str(others[0]), "shown": repr(others[0])} if others else {}
        if others and isinstance(others[-1], str | int):
            shown["value"] = repr(others[-1])
        symbol = _SYMBOLS.get(name, "")
        if others and symbol:
            value = f"'{others[0]}'" if isinstance(others[0], str) else str(others[0])
            shown |= {"symbol": symbol, "operand": value}
            if (path := getattr(self, "path", None)) and symbol in _COMPARISONS:
                shown["condition"] = f"{path} {_COMPARISONS[symbol]} {value}"
        line = line_for(kind.__name__, name, self, **shown)
        what = _OPERATIONS.get(name) or symbol or name.strip("_")
        raise InvalidTypeError(
            f"'{kind.__name__}' object does not support {what}.",
            hint=f"Use {line}.",
            operator=name,
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raise an error with the line that does it."
    return refused


#: what an operator does, for errors
_OPERATIONS: Mapping[str, str] = {
    "__iter__": "iteration",
    "__call__": "calls",
    "__array__": "conversion to a NumPy array or a pandas DataFrame",
    "__enter__": "with: it needs no closing",
    "__delitem__": "del of an item",
    "__setitem__": "assignment to an item",
    "__getitem__": "access to an item",
    "__len__": "len()",
    "__contains__": "in",
}
#: operators of Python, and the comparisons of SQL
_SYMBOLS: Mapping[str, str] = {
    f"__{name}__": symbol
    for symbol, names in {
        **{">": "gt", "<": "lt", ">=": "ge", "<=": "le", "==": "eq", "!=": "ne", "%": "mod"},
        **{"+": "add radd iadd", "-": "sub rsub isub", "*": "mul rmul imul"},
        "/": "truediv rtruediv itruediv",
    }.items()
    for name in names.split()
}
_COMPARISONS = {">": ">", "<": "<", ">=": ">=", "<=": "<=", "==": "=", "!=": "<>"}
