"""The type of functions of the filter language, and wrappers that make one from a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._scan.expressions.kernels.operators import Value

#: for functions of any number of arguments
ANY_NUMBER = 99


class Refused(ValueError):  # noqa: N818  # the text has the reason
    """A function does not accept its arguments; the text is the whole message."""


class TooLarge(Refused):
    """The texts of all rows together would take too much memory."""


#: most bytes of text that a function returns for many rows at once, and for one row
_AT_ONCE, _LARGEST = 1 << 28, 1 << 29


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the filter language.

    ``families`` has the type family of each argument; the last one applies to all further
    arguments, and an empty string accepts any. ``same`` marks functions whose arguments share one
    type. ``size`` bounds the bytes of a result that may be much larger than the arguments.
    """

    kernel: Callable[..., Value]
    families: tuple[str, ...]
    least: int
    most: int
    same: bool = False
    size: Callable[..., float] | None = None

    def run(self, name: str, *args: Value) -> Value:
        """Compute the function, unless its result would be too large."""
        if self.size is not None:
            rows = max((len(arg) for arg in args if isinstance(arg, pa.Array)), default=1)
            size = self.size(*args)
            if size > (_LARGEST if rows == 1 else _AT_ONCE):
                raise TooLarge(
                    f"{name} would give up to {size:,.0f} bytes of text in one row, but the limit "
                    f"is {_LARGEST:,}"
                )
        return self.kernel(*args)


def unary(kernel: Callable[..., Value], wanted: str) -> Function:
    """Return a function of one argument."""
    return Function(kernel, (wanted,), 1, 1)


def constant_of(value: Value) -> Any:
    """Return the value of an argument that must be a constant."""
    if not isinstance(value, pa.Scalar):
        raise pa.ArrowNotImplementedError("the last arguments must be constants")
    return value.as_py()


def with_constant(kernel: Callable[..., Value]) -> Callable[..., Value]:
    """Wrap a kernel whose second argument is a constant; null there gives null for every row."""

    def call(value: Value, pattern: Value, **options: object) -> Value:
        text = constant_of(pattern)
        if text is None:
            return pc.and_(pc.is_null(value), scalar_of(None, pa.bool_()))
        return kernel(value, str(text), **options)

    return call


def _groups(columns: Sequence[pa.Array]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first row of each distinct combination, and each row's combination number."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        distinct = pc.unique(column)
        places = pc.index_in(column, value_set=distinct).to_numpy(zero_copy_only=False)
        # renumbered after each column, so that the numbers stay small
        code = np.unique(code * len(distinct) + places, return_inverse=True)[1]
    _, first, each = np.unique(code, return_index=True, return_inverse=True)
    return first, each


def _sets(args: Sequence[Value], first: NDArray[np.generic]) -> Iterator[tuple[object, ...]]:
    rows = pa.array(first)
    values = [
        [arg.as_py()] * len(first) if isinstance(arg, pa.Scalar) else ak.take(arg, rows).to_pylist()
        for arg in args
    ]
    return zip(*values, strict=True)


def per_value(function: Callable[..., object], kind: pa.DataType) -> Callable[..., Value]:
    """Return a kernel that calls a Python function once for each distinct combination of arguments.

    It gives null where an argument is null.
    """

    def call(*args: Value) -> Value:
        columns = [arg for arg in args if isinstance(arg, pa.Array)]
        if not columns:
            return scalar_of(_call(function, [constant_of(arg) for arg in args]), kind)
        first, each = _groups(columns)
        results = [_call(function, values) for values in _sets(args, first)]
        return ak.take(pa.array(results, kind), each)

    return call


def _call(function: Callable[..., object], values: Sequence[object]) -> object:
    return None if any(value is None for value in values) else function(*values)


def per_option(kernel: Callable[..., pa.Array], kind: pa.DataType | None) -> Callable[..., Value]:
    """Wrap a kernel whose arguments after the first are constants.

    If they are columns, the kernel is called once for each distinct combination. The result
    is null where an option or the first argument is null. Without a ``kind``, the result has the
    type of the first argument.
    """

    def one(values: pa.Array, options: Sequence[object], given: pa.DataType) -> pa.Array:
        if any(option is None for option in options):
            return pa.nulls(len(values), given)
        return kernel(values, *options)

    def call(value: Value, *options: Value) -> Value:
        given = kind or value.type
        columns = [option for option in options if isinstance(option, pa.Array)]
        if not columns:
            constants = [constant_of(option) for option in options]
            if isinstance(value, pa.Scalar):
                return one(pa.array([value.as_py()], value.type), constants, given)[0]
            return one(value, constants, given)
        values = pa.repeat(value, len(columns[0])) if isinstance(value, pa.Scalar) else value
        if ak.null_count(values):  # an invalid option for a null value is not an error
            known = pc.is_valid(values)
            rest = [o if isinstance(o, pa.Scalar) else ak.filter(o, known) for o in options]
            found = call(ak.filter(values, known), *rest)
            return pc.replace_with_mask(pa.nulls(len(values), given), known, found)
        first, each = _groups(columns)
        order = np.argsort(each, kind="stable")
        rows = np.split(order, np.cumsum(np.bincount(each))[:-1]) if len(first) else []
        parts = [
            one(ak.take(values, some), constants, given)
            for some, constants in zip(rows, _sets(options, first), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return ak.take(ak.concat_arrays([pa.nulls(0, given), *parts]), back)

    return call
