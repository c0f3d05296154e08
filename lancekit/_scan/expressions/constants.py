"""Constants and types of Python, NumPy, pandas and Arrow as syntax nodes of expressions."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import singledispatch

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit._checked import is_writable
from lancekit._format.arrow_parts import unit_and_zone, unit_of
from lancekit._legible import shown
from lancekit._scan.expressions.syntax import Syntax, TypeName
from lancekit.errors import InvalidArgumentError, InvalidTypeError

#: the most digits of a decimal
_DIGITS = 38
#: from here on, the language reads integers as decimals
_LONG = 10**99
_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
#: floats below are compared as integers if they have no fraction
_WHOLE = 1 << 53


class Constant(str):
    """The SQL text of a constant that a column must be able to hold as it is."""

    __slots__ = ()


def compared(value: object) -> Syntax:
    """Return a constant that is compared with a column; a number without fraction is an integer."""
    tree = constant(value)
    if isinstance(tree.value, Decimal) and -_WHOLE < tree.value < _WHOLE:
        whole = int(tree.value)
        return Syntax("literal", value=whole) if whole == tree.value else tree
    return tree


def typed(value: object) -> Syntax:
    """Return a constant with a type of its own: a decimal keeps its digits without a column."""
    if isinstance(value, pa.Scalar) and pt.is_decimal(value.type):
        value = value.as_py()
    tree = constant(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        return tree
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale)
    if precision > _DIGITS:
        return tree  # a double
    sizes = str(precision), str(scale)
    return Syntax("CAST", (tree,), TypeName("decimal", sizes, f"decimal({', '.join(sizes)})"))


# ---- constants, with all their digits


@singledispatch
def constant(value: object) -> Syntax:
    """Return a constant of Python, NumPy, pandas or Arrow as a syntax node, with all its digits.

    Raises InvalidTypeError: SQL has no such constant.

    Examples
    --------
    >>> constant(np.float32(0.5)).value, constant(timedelta(0)).parts[0].value, constant(None).value
    (Decimal('0.5'), 0, None)
    """
    if value is None or type(value).__name__ == "NAType":  # of pandas
        return Syntax("literal")
    hint = "Pass a number, a text, bytes, a bool, a date, a time, a duration or None."
    if isinstance(value, Mapping):
        hint = "Use the fields of a struct one by one: lk.col('s').field('a') == 1."
    raise InvalidTypeError(
        f"{shown(value)} is not a constant of SQL.", hint=of_others(value) or hint
    )


def of_others(value: object) -> str:
    """Return a hint for an expression of Polars or Spark, or an empty text."""
    library = type(value).__module__.partition(".")[0]
    is_other = type(value).__name__ in ("Expr", "Column") and library in ("polars", "pyspark")
    return f"Use lk.col('x') in place of a column of {library}." if is_other else ""


def _typed(text: str, name: str) -> Syntax:
    return Syntax("CAST", (Syntax("literal", value=text),), TypeName(name, (), name))


@constant.register
def _(value: bool) -> Syntax:
    return Syntax("literal", value=value)


@constant.register
def _(value: int) -> Syntax:
    return Syntax("literal", value=int(value) if abs(value) < _LONG else Decimal(value))


@constant.register
def _(value: Decimal) -> Syntax:
    return Syntax("literal", value=value) if value.is_finite() else constant(float(value))


@constant.register
def _(value: float) -> Syntax:
    text = float.__repr__(value)
    return constant(Decimal(text)) if math.isfinite(value) else _typed(text, "double")


@constant.register
def _(value: str) -> Syntax:
    if not is_writable(value):
        raise InvalidArgumentError(f"{shown(value)} has an unpaired surrogate, which is no text.")
    return Syntax("literal", value=str.__str__(value))


@constant.register(bytes)
@constant.register(bytearray)
@constant.register(memoryview)
def _(value: bytes) -> Syntax:
    return Syntax("literal", value=bytes(value))


@constant.register
def _(value: date) -> Syntax:
    return _typed(value.isoformat(), "date")


@constant.register
def _(value: datetime) -> Syntax:
    if type(value).__name__ == "NaTType":  # of pandas
        return Syntax("literal")
    if value.utcoffset() is not None:
        value = value.astimezone(UTC)
    return _typed(value.isoformat(" "), "timestamp")


@constant.register
def _(value: time) -> Syntax:
    if value.tzinfo is not None:
        raise InvalidTypeError("A time of day in SQL has no time zone.", hint="Remove the zone.")
    return _typed(value.isoformat(), "time")


@constant.register
def _(value: timedelta) -> Syntax:
    nanoseconds = getattr(value, "nanoseconds", None)  # of pandas
    if nanoseconds is None:
        return _duration(value // timedelta(microseconds=1), "us")
    whole = (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000
    return _duration(whole + nanoseconds, "ns")


@constant.register
def _(value: list | tuple) -> Syntax:  # type: ignore[type-arg]
    return Syntax("list", tuple(map(constant, value)))


@constant.register
def _(value: np.ndarray) -> Syntax:
    return constant([*value] if value.ndim else value[()])


@constant.register
def _(value: np.generic) -> Syntax:
    return constant(value.item())


@constant.register
def _(value: np.datetime64) -> Syntax:
    if np.isnat(value):
        return Syntax("literal")
    unit = np.datetime_data(value.dtype)[0]
    if unit in ("Y", "M", "W", "D"):
        return _typed(str(value.astype("datetime64[D]")), "date")
    if unit not in (*_UNITS, "h", "m"):
        raise InvalidTypeError(f"{shown(value)} is finer than nanoseconds.")
    seconds = value if unit in _UNITS else value.astype("datetime64[s]")
    return _typed(str(seconds).replace("T", " "), "timestamp")


@constant.register
def _(value: np.timedelta64) -> Syntax:
    if np.isnat(value):
        return Syntax("literal")
    unit = np.datetime_data(value.dtype)[0]
    if unit not in (*_UNITS, "m", "h", "D", "W"):
        raise InvalidTypeError(f"{shown(value)} is no number of seconds to nanoseconds.")
    counted = value if unit in _UNITS else value.astype("timedelta64[s]")
    return _duration(int(counted.astype(np.int64)), unit if unit in _UNITS else "s")


@constant.register
def _(value: pa.Scalar) -> Syntax:
    kind = value.type
    if pt.is_timestamp(kind) and value.is_valid:
        unit, zone = unit_and_zone(kind)
        moment = np.int64(value.cast(pa.int64()).as_py()).view(f"datetime64[{unit}]")
        text = str(moment).replace("T", " ")
        return _typed(text + ("+00:00" if zone else ""), "timestamp")
    if pt.is_duration(kind) and value.is_valid:
        return _duration(value.cast(pa.int64()).as_py(), unit_of(kind))
    return constant(value.as_py())


def _duration(count: int, unit: str) -> Syntax:
    name = Syntax("literal", value=f"Duration({_UNITS[unit]})")
    return Syntax("call", (Syntax("literal", value=count), name), "arrow_cast")


# ---- functions of NumPy, and types

#: the operators and methods for NumPy's functions: of the left operand, and of the right one
UFUNCS: Mapping[str, str] = {
    **{"add": "__add__ __radd__", "subtract": "__sub__ __rsub__", "power": "__pow__ __rpow__"},
    **{"multiply": "__mul__ __rmul__", "divide": "__truediv__ __rtruediv__"},
    **{"remainder": "__mod__ __rmod__", "equal": "__eq__ __eq__", "not_equal": "__ne__ __ne__"},
    **{"less": "__lt__ __gt__", "less_equal": "__le__ __ge__", "greater": "__gt__ __lt__"},
    **{"greater_equal": "__ge__ __le__", "bitwise_and": "__and__ __rand__", "invert": "__invert__"},
    **{"bitwise_or": "__or__ __ror__", "negative": "__neg__", "absolute": "abs", "sqrt": "sqrt"},
    **{"exp": "exp", "log": "log", "floor": "floor", "ceil": "ceil", "isnan": "is_nan"},
}
_PYTHON: Mapping[object, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: pa.timestamp("us"),
}


def arrow_type_of(kind: object) -> object:
    """Return the Arrow type for a type of Python, NumPy or Polars, and other values unchanged."""
    with suppress(TypeError, ValueError, pa.ArrowException):  # no alias, or no key
        if isinstance(kind, str):
            return pa.type_for_alias(kind)
        if isinstance(kind, np.dtype) or (isinstance(kind, type) and issubclass(kind, np.generic)):
            return pa.from_numpy_dtype(np.dtype(kind))
        if str(getattr(kind, "__module__", "")).startswith("polars."):
            return sys.modules["polars"].Series([], dtype=kind).to_arrow().type
        return _PYTHON.get(kind, kind)
    return kind


def cast_to(tree: Syntax, kind: object) -> Syntax:
    """Return the cast of a node to a type of SQL, Arrow or Python.

    Raises InvalidTypeError: there is no such type.

    Examples
    --------
    >>> cast_to(constant(1), "double").kind, cast_to(constant(1), pa.int8()).parts[1].value
    ('CAST', 'Int8')
    """
    if isinstance(kind, str):
        from lancekit._scan.expressions.parser import type_name

        if (named := type_name(kind)) is not None:
            return Syntax("CAST", (tree,), named)
    found = arrow_type_of(kind)
    if not isinstance(found, pa.DataType):
        raise InvalidTypeError(
            f"An expression cannot be cast to {shown(kind)}.",
            hint="Pass a type of SQL ('double'), Arrow (pa.int8()) or Python (int).",
        )
    from lancekit._scan.expressions.kernels.casts import arrow_name

    name = Syntax("literal", value=arrow_name(found))
    return Syntax("call", (tree, name), "arrow_cast")
