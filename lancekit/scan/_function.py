"""What a function of the filter language is, and the ways to make one from a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancekit.scan._kernels import Value

__all__ = ["ANY_NUMBER", "Function", "constant_of", "per_value", "unary", "with_constant"]

#: as many arguments as are written
ANY_NUMBER = 99


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the filter language.

    ``families`` are those that each argument may be of, the last one standing for all further
    arguments; an empty string allows any.  ``same`` marks arguments that share one type.
    """

    kernel: Callable[..., Value]
    families: tuple[str, ...]
    least: int
    most: int
    same: bool = False


def unary(kernel: Callable[..., Value], wanted: str) -> Function:
    """Make a function of one argument."""
    return Function(kernel, (wanted,), 1, 1)


def constant_of(value: Value) -> Any:
    """Return the value of an argument that has to be the same for all rows."""
    if not isinstance(value, pa.Scalar):
        raise pa.ArrowNotImplementedError("the last arguments have to be constants")
    return value.as_py()


def with_constant(kernel: Callable[..., Value]) -> Callable[..., Value]:
    """Wrap a kernel whose second argument is an option: null there makes everything null."""

    def call(value: Value, pattern: Value, **options: Any) -> Value:
        text = constant_of(pattern)
        if text is None:
            return pc.and_(pc.is_null(value), pa.scalar(None, pa.bool_()))
        return kernel(value, str(text), **options)

    return call


def per_value(function: Callable[..., Any], kind: pa.DataType) -> Callable[..., Value]:
    """Make a kernel of what Arrow has none for: called once for each distinct set of arguments.

    It gives null where an argument is null.
    """

    def call(*args: Value) -> Value:
        columns = [arg for arg in args if not isinstance(arg, pa.Scalar)]
        if not columns:
            return pa.scalar(_call(function, [arg.as_py() for arg in args]), kind)
        code = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            distinct = pc.unique(column)
            places = pc.index_in(column, value_set=distinct).to_numpy(zero_copy_only=False)
            # numbered anew after each column, so that the numbers stay small
            code = np.unique(code * len(distinct) + places, return_inverse=True)[1]
        _, first, each = np.unique(code, return_index=True, return_inverse=True)
        rows = pa.array(first)
        sets = [
            [arg.as_py()] * len(first) if isinstance(arg, pa.Scalar) else arg.take(rows).to_pylist()
            for arg in args
        ]
        results = [_call(function, values) for values in zip(*sets, strict=True)]
        return pa.array(results, kind).take(pa.array(each))

    return call


def _call(function: Callable[..., Any], values: Any) -> Any:
    return None if any(value is None for value in values) else function(*values)
