"""The rule of casts as data: what becomes of a value of one family of types in another.

``CAST``, ``TRY_CAST``, ``arrow_cast``, values of ``update`` and ``add_columns``, and
``alter_columns`` follow this table.  Rows that are written follow the table of
`lancekit._pipeline.casts.rules`, which changes no value.  This module has no parser, no compiler
and no kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

__all__ = ["RULES", "CastRule", "Digits", "family_of", "has_rules", "rule_of"]

#: what becomes of digits that the target has no room for
Digits: TypeAlias = Literal["kept", "cut", "rounded", "nearest", "read", "written"]


@dataclass(frozen=True, slots=True)
class CastRule:
    """One row of the table.

    Attributes
    ----------
    source, target
        Families of types, as `family_of` names them.
    digits
        ``"kept"``: the target holds each value, or refuses it.  ``"cut"``: what is finer than the
        target's unit is cut off, toward zero.  ``"rounded"``: to the target's scale, halves away
        from zero.  ``"nearest"``: to the nearest float.  ``"read"``, ``"written"``: from and to
        text.
    beyond
        What becomes of a value beyond the target's range: an error, which ``TRY_CAST`` makes null,
        or an infinite float.  Nothing wraps around.
    via
        The type that the value becomes first, if any.
    alter
        Whether ``alter_columns`` makes this cast, as in pylance.
    """

    source: str
    target: str
    digits: Digits
    beyond: Literal["error", "infinite"] = "error"
    via: pa.DataType | None = None
    alter: bool = False


_FAMILIES: tuple[tuple[str, Callable[[Any], bool]], ...] = (
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
    """Return True for a type of a family; structs, maps and dictionaries are of none."""
    return any(test(kind) for _, test in _FAMILIES)


def family_of(kind: pa.DataType) -> str:
    """Return the family of a type; a type outside of the families is one of its own.

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
    """Return the rule for a cast, ``None`` if there is no such cast; null becomes every type.

    >>> rule_of(pa.timestamp("us"), pa.timestamp("ns")).digits, rule_of(pa.bool_(), pa.date32())
    ('cut', None)
    """
    if pt.is_null(source):
        return CastRule("null", family_of(target), "kept", alter=True)
    return _BY_FAMILIES.get((family_of(source), family_of(target)))
