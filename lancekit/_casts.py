"""Rules of casts as data, and checked versions of Arrow's casts that change values.

``CAST``, ``TRY_CAST``, ``arrow_cast``, values of ``update`` and ``add_columns``, and
``alter_columns`` follow this table.  Written rows follow the table of
`lancekit._pipeline.casts.rules`, which changes no value.  This module imports no parser, compiler
or kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Literal, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._format.arrow_parts import decimal_size, unit_and_zone, unit_of

#: treatment of digits that the target type cannot store
Digits: TypeAlias = Literal["kept", "cut", "rounded", "nearest", "read", "written"]


@dataclass(frozen=True, slots=True)
class CastRule:
    """One row of the table.

    Attributes
    ----------
    source, target
        Type families, as returned by `family_of`.
    digits
        ``"kept"``: the target stores each value, or it is an error.  ``"cut"``: digits below
        the target's unit are cut off, toward zero.  ``"rounded"``: to the target's scale,
        halves away from zero.  ``"nearest"``: to the nearest float.  ``"read"``, ``"written"``:
        from and to text.
    beyond
        Result for a value outside of the target's range: an error, which ``TRY_CAST`` makes
        null, or an infinite float.  No value wraps around.
    via
        The type to which the value is cast first, if any.
    alter
        True if ``alter_columns`` supports this cast, as in pylance.
    """

    source: str
    target: str
    digits: Digits
    beyond: Literal["error", "infinite"] = "error"
    via: pa.DataType | None = None
    alter: bool = False


_FAMILIES: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("null", pt.is_null),
    ("boolean", pt.is_boolean),
    ("integer", pt.is_integer),
    ("float", pt.is_floating),
    ("decimal", pt.is_decimal),
    ("text", lambda kind: pt.is_string(kind) or pt.is_large_string(kind)),
    (
        "bytes",
        lambda kind: (
            pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)
        ),
    ),
    ("date", pt.is_date),
    ("timestamp", pt.is_timestamp),
    ("time", pt.is_time),
    ("duration", pt.is_duration),
    (
        "list",
        lambda kind: pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind),
    ),
)


def has_rules(kind: pa.DataType) -> bool:
    """Return True for a type of a family; structs, maps and dictionaries have none."""
    return any(test(kind) for _, test in _FAMILIES)


def family_of(kind: pa.DataType) -> str:
    """Return the family of a type; a type without family is its own.

    >>> family_of(pa.int8()), family_of(pa.timestamp("ns", "UTC")), family_of(pa.struct([]))
    ('integer', 'timestamp', 'struct<>')
    """
    return next((name for name, test in _FAMILIES if test(kind)), str(kind))


_COUNT = pa.int64()
_COUNTED = ("date", "time", "timestamp", "duration")

RULES: tuple[CastRule, ...] = (
    # numbers
    CastRule("boolean", "integer", "kept"),
    CastRule("boolean", "float", "kept"),
    CastRule("integer", "boolean", "kept"),
    CastRule("float", "boolean", "kept"),
    CastRule("integer", "integer", "kept", alter=True),
    CastRule("integer", "float", "nearest", "infinite"),
    CastRule("integer", "decimal", "kept"),
    CastRule("float", "integer", "cut"),
    CastRule("float", "float", "nearest", "infinite", alter=True),
    CastRule("float", "decimal", "rounded"),
    CastRule("decimal", "integer", "cut"),
    CastRule("decimal", "float", "nearest", "infinite"),
    CastRule("decimal", "decimal", "rounded", alter=True),
    # moments, times and durations
    CastRule("date", "date", "cut", alter=True),
    CastRule("date", "timestamp", "kept", alter=True),
    CastRule("timestamp", "date", "cut", alter=True),
    CastRule("timestamp", "timestamp", "cut", alter=True),
    CastRule("timestamp", "time", "cut", alter=True),
    CastRule("time", "time", "cut", alter=True),
    CastRule("duration", "duration", "cut", alter=True),
    # the count of a unit as a number, and back
    *(CastRule(kind, "integer", "kept", via=_COUNT) for kind in _COUNTED),
    *(CastRule("integer", kind, "kept", via=_COUNT) for kind in _COUNTED),
    *(CastRule(kind, "float", "nearest", "infinite", _COUNT) for kind in _COUNTED[2:]),
    *(CastRule(kind, "decimal", "kept", via=_COUNT) for kind in _COUNTED[2:]),
    *(CastRule("float", kind, "cut", via=_COUNT) for kind in _COUNTED[2:]),
    *(CastRule("decimal", kind, "cut", via=_COUNT) for kind in _COUNTED[2:]),
    # text and bytes
    CastRule("text", "text", "kept", alter=True),
    CastRule("bytes", "bytes", "kept", alter=True),
    CastRule("text", "bytes", "kept"),
    CastRule("bytes", "text", "kept"),
    *(
        CastRule("text", target, "read")
        for target in ("boolean", "integer", "float", "decimal", "date", "timestamp", "time")
    ),
    *(
        CastRule(source, "text", "written")
        for source in (
            *("boolean", "integer", "float", "decimal", "date"),
            *("timestamp", "time", "duration", "list"),
        )
    ),
    # items one by one
    CastRule("list", "list", "kept", alter=True),
)

_BY_FAMILIES = {(rule.source, rule.target): rule for rule in RULES}


def rule_of(source: pa.DataType, target: pa.DataType) -> CastRule | None:
    """Return the rule for a cast, or ``None`` if the cast is not allowed; null casts to every type.

    >>> rule_of(pa.timestamp("us"), pa.timestamp("ns")).digits, rule_of(pa.bool_(), pa.date32())
    ('cut', None)
    """
    if pt.is_null(source):
        return CastRule("null", family_of(target), "kept", alter=True)
    return _BY_FAMILIES.get((family_of(source), family_of(target)))


# ---- Arrow's casts that change values, with checks against wrap-around
#
# ``pyarrow.compute.cast(safe=False)`` cuts digits off and wraps values out of range.  No other
# module calls it: `cut` and `nearest` check their values first.
# `rounded` and `nearest` also correct Arrow, which rounds 256-bit decimals to wrong numbers, and
# multiplies by 0.01 instead of dividing by 100 to make a double.

Value = TypeVar("Value", pa.Array, pa.Scalar, pa.Array | pa.Scalar)
Numbers = TypeVar("Numbers", pa.Array, pa.ChunkedArray, pa.Scalar, pa.Array | pa.Scalar)

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400


def _unit(kind: pa.DataType) -> int:
    """Return the number of units per second of a temporal type; 0 for date32, in whole days."""
    if pt.is_date32(kind):
        return 0
    return _PER_SECOND["ms" if pt.is_date64(kind) else unit_of(kind)]


def cut(value: Value, kind: pa.DataType) -> Value:
    """Cast a date, timestamp, time or duration; finer digits are cut off.

    A value outside of the type's range raises ``ArrowInvalid``.

    >>> cut(pa.scalar(1999, "timestamp[ms]"), pa.timestamp("s")).value
    1
    """
    source = value.type
    if source == kind:
        return value
    if not pt.is_timestamp(kind):
        check_local(value)
    if pt.is_time(kind) and pt.is_timestamp(source) and _unit(source) < _PER_SECOND["us"]:
        _check_first_day(value)
    if pt.is_date64(kind) and pt.is_timestamp(source):
        return pc.cast(cut(value, pa.date32()), kind)
    if _unit(source) <= _unit(kind) or pt.is_date32(source):
        return pc.cast(value, kind)  # Arrow raises an error on overflow
    if pt.is_date32(kind) and _unit(source) < _PER_SECOND["us"]:
        _check_days(value)
    return pc.cast(value, kind, safe=False)  # a coarser unit has a wider range


def check_local(value: Value) -> None:
    """Raise for timestamps with time zone whose local time may exceed their type's range."""
    if not pt.is_timestamp(value.type) or unit_and_zone(value.type)[1] is None:
        return
    room = (1 << 63) - _unit(value.type) * _DAY
    counts = pc.cast(value, pa.int64())
    beyond = pc.or_(pc.greater_equal(counts, room), pc.less(counts, -room))
    _refuse(value, beyond, pa.timestamp(unit_of(value.type)))


def _check_days(value: Value) -> None:
    """Raise for timestamps whose day does not fit 32 bits."""
    unit = _unit(value.type) * _DAY
    counts = pc.cast(value, pa.int64())
    # one day less at both ends: the local day in a time zone may differ
    beyond = pc.or_(
        pc.greater_equal(counts, ((1 << 31) - 1) * unit), pc.less(counts, (1 - (1 << 31)) * unit)
    )
    _refuse(value, beyond, pa.date32())


def _check_first_day(value: Value) -> None:
    """Raise for timestamps on the first day of their range, whose time of day Arrow gets wrong."""
    end = _unit(value.type) * _DAY - (1 << 63)
    _refuse(value, pc.less(pc.cast(value, pa.int64()), end), pa.time64("ns"))


def _refuse(value: Any, beyond: pa.BooleanArray | pa.BooleanScalar, kind: pa.DataType) -> None:
    bad: Any = None
    if isinstance(beyond, pa.Scalar):
        bad = value if beyond.as_py() else None
    elif (at := pc.index(beyond, True).as_py()) >= 0:
        bad = value[at]
    if bad is not None:
        raise pa.ArrowInvalid(f"Casting {bad.value} from {value.type} to {kind} is out of range")


def nearest(value: Numbers, kind: pa.DataType) -> Numbers:
    """Cast numbers to the nearest float of a width; values beyond the range become infinite."""
    if not pt.is_floating(kind):
        raise TypeError(f"{kind} is not a float type")
    return pc.cast(_doubles(value) if pt.is_decimal(value.type) else value, kind, safe=False)


def _doubles(value: Any) -> Any:
    """Return the nearest doubles of decimals whose digits are a whole number below 2**53.

    >>> _doubles(pa.scalar(Decimal("127.99"))).as_py()
    127.99
    """
    if isinstance(value, pa.ChunkedArray):
        return pa.chunked_array([_doubles(chunk) for chunk in value.chunks], pa.float64())
    if isinstance(value, pa.Scalar):
        return _doubles(pa.array([value.as_py()], value.type))[0]
    precision, scale = decimal_size(value.type)
    if pt.is_decimal256(value.type):  # Arrow does not return the nearest double
        return pa.array([v if v is None else float(v) for v in value.to_pylist()], pa.float64())
    if pt.is_decimal128(value.type) and scale > 0:
        digits = pc.cast(value.view(pa.decimal128(precision, 0)), pa.float64())
        return pc.divide(digits, 10.0**scale)
    return pc.cast(value, pa.float64())


#: Arrow's names of rounding modes -> Python's
_ROUNDINGS: Mapping[str, str] = {"half_towards_infinity": ROUND_HALF_UP, "towards_zero": ROUND_DOWN}
_ROOM = Context(prec=160)


def rounded(value: Value, scale: int, mode: str) -> Value:
    """Round decimals to a scale, in a type that can store the result.

    Parameters
    ----------
    mode
        ``"half_towards_infinity"`` or ``"towards_zero"``.
    """
    own = decimal_size(value.type)[1]
    if scale >= own:
        return value
    try:
        # Arrow divides 256-bit decimals wrongly
        return pc.round(pc.cast(value, pa.decimal128(38, own)), scale, round_mode=mode)
    except pa.ArrowInvalid:
        last = Decimal(1).scaleb(-scale)
    given = [value.as_py()] if isinstance(value, pa.Scalar) else value.to_pylist()
    digits = [v if v is None else v.quantize(last, _ROUNDINGS[mode], _ROOM) for v in given]
    found = pa.array(digits, pa.decimal256(76, scale))
    return found[0] if isinstance(value, pa.Scalar) else found


def changed_by_float(values: pa.Array, floats: pa.Array) -> pa.Array:
    """Return a flag for each number, True if its float has a different value."""
    source = values.type
    back = pc.cast(floats, source, safe=False)
    changed = pc.not_equal(back, values)
    if pt.is_floating(source):
        return pc.and_not(changed, pc.and_(pc.is_nan(back), pc.is_nan(values)))
    # the conversion of a float out of range depends on the processor
    end = 2.0 ** (source.bit_width - pt.is_signed_integer(source))
    return pc.or_(changed, pc.greater_equal(pc.cast(floats, pa.float64()), end))
