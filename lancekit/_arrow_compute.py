"""Arrow kernels with the names of `pyarrow.compute`, without its import time.

`pyarrow.compute` generates documentation for 300 kernels at import, which takes 40 ms; a first
filter takes 5 ms.  This module wraps a kernel at its first use.  `pyarrow.compute` is the fallback
for names that are not kernels, and for a pyarrow whose internals have other names.

Methods of arrays (`filter`, `take`, `cast`, `is_valid`, `fill_null`) import `pyarrow.compute`, too.
Code that runs for a first filter calls the kernel instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._arrow_values import scalar_of

try:
    from pyarrow import _compute  # type: ignore[attr-defined]
except ImportError:
    _compute = None

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow.compute import *  # noqa: F403

#: kernels that have another name in Python, and functions that `pyarrow.compute` implements itself
_WRITTEN = {"and_": "and", "or_": "or"}
_IN_PYTHON = {"index", "random"}


def __getattr__(name: str) -> object:
    if name.startswith("_"):  # Python looks for optional names in modules
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _of_arrow(name)
    return found


def _of_arrow(name: str) -> object:
    if hasattr(_compute, "get_function") and name not in _IN_PYTHON:
        if name[0].isupper() and hasattr(_compute, name):
            return getattr(_compute, name)
        if name in _PLAIN:
            return _PLAIN[name]
        try:
            return _wrapped(_compute.get_function(_WRITTEN.get(name, name)))
        except (AttributeError, KeyError):
            pass
    import pyarrow.compute

    return getattr(pyarrow.compute, name)


def _wrapped(function: Any) -> Callable[..., object]:
    """Return a function that passes values to a kernel, and options by position or by name."""
    options_class = getattr(_compute, function._doc.options_class or "", None)
    arity = None if function.arity is Ellipsis else function.arity

    def call(
        *args: object, options: object = None, memory_pool: object = None, **settings: object
    ) -> object:
        values, rest = args[:arity], args[len(args) if arity is None else arity :]
        if options_class is not None and (rest or settings):
            options = options_class(*rest, **settings)
        elif rest or settings:
            raise TypeError(f"{function.name} has no options, and got {[*rest, *settings]}")
        return function.call(values, options, memory_pool)

    call.__name__ = call.__qualname__ = function.name
    return call


def _cast(values: object, target_type: object = None, safe: bool | None = None) -> object:
    make = _compute.CastOptions.unsafe if safe is False else _compute.CastOptions.safe
    return _compute.call_function("cast", [values], make(target_type))


def _fill_null(values: pa.Array | pa.ChunkedArray | pa.Scalar, fill_value: object) -> object:
    if not isinstance(fill_value, pa.Scalar | pa.Array | pa.ChunkedArray):
        fill_value = scalar_of(fill_value, values.type)
    elif fill_value.type != values.type:
        fill_value = _cast(fill_value, values.type)
    return _compute.call_function("coalesce", [values, fill_value])


def _take(rows: object, indices: object) -> object:
    return _compute.call_function("take", [rows, indices], _compute.TakeOptions())


#: functions that `pyarrow.compute` defines in Python and a first filter calls
_PLAIN = {"cast": _cast, "fill_null": _fill_null, "take": _take}
