"""Constants of a statement: what stands in its text, and the values of its parameters."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit._statements.kinds import BIGINT, DOUBLE, INSTANT, TEXT, TIMESTAMP, family
from lancekit._statements.tree import Expr

__all__ = ["constant", "is_constant", "negated", "number", "retyped"]

_INT64 = 1 << 63
#: beyond the whole numbers of the widest decimal
_WIDE = 10**38
_BELOW_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")


def is_constant(expr: Expr) -> bool:
    """Tell whether an expression is a constant."""
    return expr.op == "literal"


def number(text: str) -> int | Decimal | None:
    """Return the number that a text is, ``None`` if it is none."""
    try:
        return int(text) if text.isdigit() else Decimal(text)
    except (InvalidOperation, ValueError):
        return None


def constant(value: object, place: int = 0) -> Expr | None:
    """Return a value as a constant, ``None`` if statements have no such values.

    Fractions are doubles, as in filters; that they were written exactly is kept, for decimals.

    Examples
    --------
    >>> constant(1).kind, constant("a").kind, constant(object())
    (DataType(int64), DataType(string), None)
    """
    value = _plain(value)
    kind: pa.DataType
    match value:
        case None:
            kind = pa.null()
        case bool():
            kind = pa.bool_()
        case int() if -_INT64 <= value < _INT64:
            kind = BIGINT
        case int() if abs(value) < _WIDE:
            kind, value = pa.decimal128(38, 0), Decimal(value)
        case float() | Decimal():
            kind = DOUBLE
            if isinstance(value, Decimal) and not value.is_finite():
                return None
        case str():
            kind = TEXT
        case bytes():
            kind = pa.binary()
        case dt.datetime() if not getattr(value, "nanosecond", 0):
            kind = TIMESTAMP if value.tzinfo is None else INSTANT
        case dt.date() if not isinstance(value, dt.datetime):
            kind = pa.date32()
        case _:
            return None
    return Expr("literal", (), kind, value, place)


def negated(value: Any) -> Any:
    """Return a number with the other sign, all its digits, and the sign of a zero."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _plain(value: object) -> Any:
    """Return a value of NumPy or pandas as one of Python if that has it: it has no nanoseconds."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        return value.item()
    if hasattr(value, "to_pydatetime") and not getattr(value, "nanosecond", 0):
        return value.to_pydatetime()
    return value


def retyped(expr: Expr, kind: pa.DataType) -> Expr | None:
    """Return a constant as one of a type, ``None`` if its value is none of that type's.

    Examples
    --------
    >>> retyped(constant("2020-01-31"), pa.date32()).value
    datetime.date(2020, 1, 31)
    >>> retyped(constant(300), pa.int8()) is None
    True
    """
    if expr.kind == kind:
        return expr
    value = expr.value
    if value is not None:
        value = _as(value, kind)
        if value is None:
            return None
    return replace(expr, kind=kind, value=value)


def _as(value: object, kind: pa.DataType) -> Any:
    match family(kind), value:
        case _, bool():
            return value if pt.is_boolean(kind) else None
        case "integer", int():
            half = 1 << (kind.bit_width - 1)
            return value if -half <= value < half else None
        case "fraction", int() | Decimal() | float():
            return float(value) if pt.is_float64(kind) else None
        case "decimal", int() | Decimal():
            return _decimal(Decimal(value), kind)
        case (("date" | "timestamp" | "instant"), str()):
            return _moment(value, kind)
        case "timestamp", dt.date() if not isinstance(value, dt.datetime):
            return dt.datetime(value.year, value.month, value.day)
    return None


def _decimal(value: Decimal, kind: Any) -> Decimal | None:
    digits = value.as_tuple()
    scale = max(-int(digits.exponent), 0)
    fits = scale <= kind.scale and value.adjusted() < kind.precision - kind.scale
    return value if fits or value.is_zero() else None


def _moment(text: str, kind: pa.DataType) -> dt.date | None:
    """Read a text as ISO's; an instant needs an offset, and others have none.

    Statements have microseconds: Python would cut off what is finer.
    """
    if _BELOW_MICROSECONDS.search(text):
        return None
    try:
        if pt.is_date(kind):
            return dt.date.fromisoformat(text)
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if (found.tzinfo is None) is (kind == TIMESTAMP) else None


def spelled(expr: Expr) -> str:
    """Return a number, a moment or a truth as the engines read it: no text of a user's is in it."""
    value = expr.value
    match family(expr.kind), value:
        case "condition", bool():
            return str(value).lower()
        case "fraction", _:
            found = float(value)
            return repr(found) if math.isfinite(found) else _NOT_FINITE[str(found)]
        case (("integer" | "decimal"), _):
            return format(Decimal(value), "f")
        case "date", dt.date():
            return value.isoformat()
        case "timestamp", dt.datetime():
            return value.isoformat(" ")
        case "instant", dt.datetime():
            return value.astimezone(dt.UTC).isoformat(" ")
    raise AssertionError(expr)


__all__ += ["spelled"]
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
