"""Which classes of Python's, NumPy's and pandas' hold values of one kind."""

from __future__ import annotations

import array
import datetime as dt
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from types import NoneType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

__all__ = ["MIXED", "class_name", "family_of"]

#: the special before the general: a bool is an int, a datetime a date, NumPy's spans integers
_FAMILIES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((NoneType, type(np.ma.masked)), "missing"),
    ((bool, np.bool_), "bool"),
    ((dt.timedelta, np.timedelta64), "duration"),
    ((int, np.integer), "int"),
    ((float, np.float16, np.float32, np.float64), "float"),
    ((str,), "text"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((dt.datetime, np.datetime64), "datetime"),
    ((dt.date,), "date"),
    ((dt.time,), "time"),
    ((Decimal,), "decimal"),
    ((UUID,), "uuid"),
    ((pa.Scalar,), "scalar"),
    ((Mapping, pa.MapScalar), "struct"),
    (
        (list, tuple, set, frozenset, deque, range, np.ndarray, array.array, pa.Array),
        "list",
    ),
)
#: of pandas', which need not be installed; NaT is a datetime to Python
_BY_NAME = {"NaTType": "missing", "NAType": "missing", "Series": "list", "Index": "list"}

#: families whose values one type holds together
MIXED: Mapping[frozenset[Any], str] = {
    frozenset({"int", "float"}): "float",
    frozenset({"int", "decimal"}): "decimal",
    frozenset({"date", "datetime"}): "datetime",
}


@lru_cache(maxsize=1024)
def family_of(cls: Any) -> str | None:
    """Return the kind of value that a class holds, ``None`` if no column holds such.

    Examples
    --------
    >>> family_of(bool), family_of(np.float32), family_of(object)
    ('bool', 'float', None)
    """
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "pandas" and base.__name__ in _BY_NAME:
            return _BY_NAME[base.__name__]
    return next((family for classes, family in _FAMILIES if issubclass(cls, classes)), None)


def class_name(value: object) -> str:
    """Return the name of a value's class as a user would write it.

    Examples
    --------
    >>> class_name(1), class_name(np.int8(1))
    ('int', 'numpy.int8')
    """
    cls = type(value)
    module = cls.__module__.partition(".")[0]
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"
