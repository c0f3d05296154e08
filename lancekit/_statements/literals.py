"""Constants of a statement, casts, and type coercion."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import reduce

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lancekit._format.arrow_parts import decimal_size
from lancekit._statements.scope import Scope
from lancekit._statements.tree import BIGINT, DOUBLE, INSTANT, TEXT, TIMESTAMP, Expr, common, family

_INT64 = 1 << 63
#: the first integer beyond the widest decimal type
_BEYOND_DECIMAL = 10**38
_BELOW_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")


def is_constant(expr: Expr) -> bool:
    """Return True if an expression is a constant."""
    return expr.op == "literal"


def number(text: str) -> int | Decimal | None:
    """Parse a number; return ``None`` if the text is not a number."""
    try:
        return int(text) if text.isdigit() else Decimal(text)
    except (InvalidOperation, ValueError):
        return None


def constant(value: object, place: int = 0) -> Expr | None:
    """Return a Python value as a constant; ``None`` if statements lack its type.

    Fractions have the type double, as in filters, but keep their exact value for decimals.

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
        case int() if abs(value) < _BEYOND_DECIMAL:
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


def negated(value: int | Decimal) -> int | Decimal:
    """Return the exact negation of a number; negates the sign of a zero, too."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _plain(value: object) -> object:
    """Convert a NumPy or pandas scalar to Python, except one with nanoseconds."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        return value.item()
    if hasattr(value, "to_pydatetime") and not getattr(value, "nanosecond", 0):
        return value.to_pydatetime()
    return value


def retyped(expr: Expr, kind: pa.DataType) -> Expr | None:
    """Return a constant in another type; ``None`` if the type lacks its value.

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


def _as(value: object, kind: pa.DataType) -> object:
    """Return a value as a type needs it; ``None`` if the type lacks it."""
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


def _decimal(value: Decimal, kind: pa.DataType) -> Decimal | None:
    scale = max(-int(value.as_tuple().exponent), 0)
    precision, most = decimal_size(kind)
    fits = scale <= most and value.adjusted() < precision - most
    return value if fits or value.is_zero() else None


def _moment(text: str, kind: pa.DataType) -> dt.date | None:
    """Parse an ISO date or time; instants need an offset, and other types must have none.

    Return ``None`` for digits below microseconds, which Python would cut off.
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
    """Format a number, moment or boolean for the engines, without any text of the user."""
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


_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}

# ---- casts that mean the same on both engines

_TYPES: Mapping[exp.DataType.Type, pa.DataType] = {
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: BIGINT,
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.TEXT: TEXT,
    exp.DataType.Type.VARCHAR: TEXT,
    exp.DataType.Type.BINARY: pa.binary(),
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,  # what Spark's dialect parses TIMESTAMP to
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: INSTANT,
}
#: pairs of type families whose cast has the same result on both engines
_PAIRS = {
    ("integer", "integer"),
    ("integer", "fraction"),
    ("integer", "decimal"),
    ("integer", "text"),
    ("integer", "condition"),
    ("condition", "integer"),
    ("condition", "text"),
    ("fraction", "integer"),
    ("fraction", "fraction"),
    ("decimal", "fraction"),
    ("decimal", "decimal"),
    ("date", "text"),
    ("date", "timestamp"),
    ("timestamp", "date"),
}
_SIZE = re.compile(r"[0-9]{1,2}")


def type_of(tree: exp.Expression) -> pa.DataType | None:
    """Return the type of a type name; ``None`` if statements lack the type."""
    if tree.this == exp.DataType.Type.DECIMAL:
        sizes = [size.name for size in tree.expressions] or ["10", "0"]
        if len(sizes) > 2 or not all(map(_SIZE.fullmatch, sizes)):
            return None
        digits, scale = (int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0)
        return pa.decimal128(digits, scale) if 0 <= scale <= digits <= 38 and digits else None
    return None if tree.expressions else _TYPES.get(tree.this)


def target(tree: exp.Expression, scope: Scope) -> pa.DataType:
    """Return the target type of a CAST."""
    kind = type_of(tree.to)
    if kind is None:
        raise scope.text.fail(tree, f"there is no cast to {tree.to.sql()}:")
    return kind


def cast(value: Expr, kind: pa.DataType, tree: exp.Expression, scope: Scope) -> Expr:
    """Return the cast of a value; the cast of a constant is a constant.

    Raises PredicateError: the engines would cast some values differently.
    """
    if value.kind == kind:
        return value
    word = "TRY_CAST" if isinstance(tree, exp.TryCast) else "CAST"
    if is_constant(value) and word == "CAST":
        found = retyped(value, kind)
        if found is None and kind == TIMESTAMP:
            found = retyped(value, INSTANT)  # a text with an offset is an instant, as in filters
        if found is not None:
            return found
        if isinstance(value.value, str):
            raise scope.text.fail(
                tree,
                f"{value.value!r} is not a value of {kind}:",
                "Write DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'."
                if pt.is_temporal(kind)
                else "",
            )
    pair = family(value.kind), family(kind)
    if word == "CAST" and (pair[0] == "null" or pair in _PAIRS):
        return Expr("cast", (value,), kind)
    name = tree.this.name if isinstance(tree.this, exp.Column) else "x"
    column = {"y": f"{word}({name} AS {tree.to.sql('spark')})"}
    raise scope.text.fail(
        tree,
        f"a {word} of {value.kind} to {kind} gives different results on different engines:",
        "Cast it in update(), delete(), or a scan whose rows can be queried: "
        f"to_table({column}) of the dataset."
        if value.kind == TEXT
        else "Cast the column in its source, or in a data frame.",
    )


# ---- coercion of the arguments of an operator or function to one type


def widened(expr: Expr, kind: pa.DataType) -> Expr:
    """Return an expression cast to a wider type."""
    if expr.kind == kind:
        return expr
    if is_constant(expr) and (found := retyped(expr, kind)) is not None:
        return found
    return Expr("cast", (expr,), kind, place=expr.place)


def coerce(args: Sequence[Expr], what: str, tree: exp.Expression, scope: Scope) -> list[Expr]:
    """Coerce expressions to their common type.

    A constant takes the type of the others if it has its value: text beside a date, a number beside
    a decimal.

    Raises PredicateError: there is no common type.
    """
    variable: list[pa.DataType | None] = [arg.kind for arg in args if not is_constant(arg)]
    kinds = variable or [arg.kind for arg in args]
    base = reduce(_common, kinds[1:], kinds[0])
    for arg in args if variable else ():
        if base is not None and is_constant(arg):
            base = _with_constant(base, arg)
    if base is None:
        shown = " and ".join(dict.fromkeys(str(arg.kind) for arg in args))
        hint = "Write a CAST on one side."
        if TEXT in kinds:
            hint = "Cast the other side to STRING, or query to_table({'y': 'CAST(x AS BIGINT)'})."
        raise scope.text.fail(tree, f"{what} cannot compare {shown}:", hint, kinds=shown)
    return [_coerced(arg, base, scope) for arg in args]


def _common(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    return None if one is None or other is None else common(one, other)


def _with_constant(base: pa.DataType, arg: Expr) -> pa.DataType | None:
    if retyped(arg, base) is not None:
        return base
    families = family(base), family(arg.kind)
    if families[0] in ("date", "timestamp", "instant") and families[1] == "text":
        return base  # text that is no moment raises later, with its position
    if families == ("integer", "integer"):
        return BIGINT
    if families == ("decimal", "fraction") and isinstance(arg.value, Decimal):
        scale = max(-int(arg.value.as_tuple().exponent), base.scale)  # type: ignore[attr-defined]
        wider = pa.decimal128(38, scale)
        return wider if scale <= 18 and retyped(arg, wider) is not None else DOUBLE
    return common(base, arg.kind)


def _coerced(arg: Expr, kind: pa.DataType, scope: Scope) -> Expr:
    if is_constant(arg):
        found = retyped(arg, kind)
        if found is None:
            raise scope.text.fail(
                arg,
                f"{arg.value!r} is not a value of {kind}, the type of the other operand:",
                "Write dates and times like '2020-01-31' and '2020-01-31 12:00:00', for columns "
                "with a time zone with an offset such as +00:00."
                if isinstance(arg.value, str)
                else "",
            )
        return found
    return widened(arg, kind)
