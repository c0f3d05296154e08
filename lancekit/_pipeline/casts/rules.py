"""The casts that lose nothing, as one table: it drives the code and is rendered for the docs.

A rule either takes every value, or checks each and reports the first that would change.  Nested
types are taken apart (`nested`), and their parts cast by the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias, cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit._format.arrow_parts import item_field
from lancekit._pipeline.casts.nested import (
    cast_lists,
    cast_maps,
    cast_structs,
    decode_dictionary,
    encode_dictionary,
)
from lancekit._pipeline.casts.values import (
    BLOB_STRUCT,
    LossError,
    bytes_to_blobs,
    cast_blobs,
    exact,
    float_to_integer,
    integer_to_decimal,
    is_blob_struct,
    plain_cast,
    to_fixed_binary,
    to_midnight,
)

__all__ = ["BLOB_STRUCT", "RULES", "LossError", "Rule", "cast_array", "find_rule"]

_IsKind: TypeAlias = Callable[[pa.DataType], bool]
_Accepts: TypeAlias = Callable[[pa.DataType, pa.DataType], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: from which types, to which, under what condition on the values."""

    source: str
    target: str
    condition: str
    accepts: Callable[[pa.DataType, pa.DataType], bool]
    cast: Callable[[pa.Array, pa.DataType], pa.Array]


def find_rule(source: pa.DataType, target: pa.DataType) -> Rule | None:
    """Return the rule for a cast, or ``None`` where no cast keeps everything."""
    if any(isinstance(kind, pa.BaseExtensionType) for kind in (source, target)):
        return _find_rule.__wrapped__(source, target)  # those of users have no hash
    return _find_rule(source, target)


@lru_cache(maxsize=4096)
def _find_rule(source: pa.DataType, target: pa.DataType) -> Rule | None:
    return next((rule for rule in RULES if rule.accepts(source, target)), None)


def cast_array(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast an array by the rule for its type.

    Raises LossError: the first value that would change.
    """
    if values.type.equals(target, check_metadata=True):
        return values
    rule = find_rule(values.type, target)
    if rule is None:
        raise LossError(0, None, f"{values.type} does not become {target}")
    return rule.cast(values, target)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    return find_rule(source, target) is not None


def _same_children(one: pa.DataType, other: pa.DataType) -> bool:
    source, target = cast("pa.StructType", one), cast("pa.StructType", other)
    names = [f.name for f in source]
    return sorted(names) == sorted(f.name for f in target) and all(
        _castable(source.field(f.name).type, f.type) for f in target
    )


# ---- the table


def _between(*tests: _IsKind) -> _Accepts:
    """Accept casts between any two types of one family."""
    return lambda source, target: _is(*tests)(source) and _is(*tests)(target)


def _is(*tests: _IsKind) -> _IsKind:
    return lambda kind: any(test(kind) for test in tests)


def _from_to(source: _IsKind, target: _IsKind) -> _Accepts:
    return lambda s, t: source(s) and target(t)


_TEXT = (pt.is_string, pt.is_large_string, pt.is_string_view)
_BYTES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)
_LISTS = (
    pt.is_list,
    pt.is_large_list,
    pt.is_fixed_size_list,
    pt.is_list_view,
    pt.is_large_list_view,
)


def _naive(kind: pa.DataType) -> bool:
    return pt.is_timestamp(kind) and kind.tz is None


def _aware(kind: pa.DataType) -> bool:
    return pt.is_timestamp(kind) and kind.tz is not None


ALWAYS = "always"
EXACT = "when every value stays exactly the same"

RULES: tuple[Rule, ...] = (
    Rule(
        source="any type",
        target="the same type",
        condition=ALWAYS,
        accepts=lambda s, t: s.equals(t, check_metadata=True),
        cast=lambda values, _target: values,
    ),
    Rule(
        source="null",
        target="any type",
        condition=ALWAYS,
        accepts=lambda s, _t: pt.is_null(s),
        cast=lambda values, target: pa.nulls(len(values), target),
    ),
    Rule(
        source="any type, or dictionary of it",
        target="dictionary",
        condition="when the values cast, and are not more than the index type can count",
        accepts=lambda s, t: (
            pt.is_dictionary(t)
            and _castable(s.value_type if pt.is_dictionary(s) else s, t.value_type)
        ),
        cast=partial(encode_dictionary, cast_array),
    ),
    Rule(
        source="dictionary",
        target="any type that its values cast to",
        condition="as for the values",
        accepts=lambda s, t: pt.is_dictionary(s) and _castable(s.value_type, t),
        cast=partial(decode_dictionary, cast_array),
    ),
    Rule(
        source="string, large_string, string_view",
        target="string, large_string, string_view",
        condition=ALWAYS,
        accepts=_between(*_TEXT),
        cast=plain_cast,
    ),
    Rule(
        source="binary, large_binary, binary_view",
        target="binary, large_binary, binary_view",
        condition=ALWAYS,
        accepts=_between(*_BYTES),
        cast=plain_cast,
    ),
    Rule(
        source="fixed_size_binary",
        target="binary, large_binary",
        condition=ALWAYS,
        accepts=_from_to(pt.is_fixed_size_binary, _is(pt.is_binary, pt.is_large_binary)),
        cast=plain_cast,
    ),
    Rule(
        source="binary, large_binary, binary_view",
        target="fixed_size_binary",
        condition="when every value has that many bytes",
        accepts=_from_to(_is(*_BYTES), pt.is_fixed_size_binary),
        cast=to_fixed_binary,
    ),
    Rule(
        source="integer",
        target="integer",
        condition=EXACT,
        accepts=_between(pt.is_integer),
        cast=exact,
    ),
    Rule(
        source="float",
        target="float",
        condition=EXACT,
        accepts=_between(pt.is_floating),
        cast=exact,
    ),
    Rule(
        source="integer",
        target="float",
        condition=EXACT,
        accepts=_from_to(pt.is_integer, pt.is_floating),
        cast=exact,
    ),
    Rule(
        source="float",
        target="integer",
        condition=EXACT,
        accepts=_from_to(pt.is_floating, pt.is_integer),
        cast=float_to_integer,
    ),
    Rule(
        source="integer",
        target="decimal",
        condition=EXACT,
        accepts=_from_to(pt.is_integer, pt.is_decimal),
        cast=integer_to_decimal,
    ),
    Rule(
        source="decimal",
        target="decimal",
        condition=EXACT,
        accepts=_between(pt.is_decimal),
        cast=exact,
    ),
    Rule(
        source="decimal",
        target="integer",
        condition=EXACT,
        accepts=_from_to(pt.is_decimal, pt.is_integer),
        cast=exact,
    ),
    Rule(
        source="date32",
        target="date64",
        condition=ALWAYS,
        accepts=_from_to(pt.is_date32, pt.is_date64),
        cast=plain_cast,
    ),
    Rule(
        source="date64, timestamp without a time zone",
        target="date32, date64",
        condition="when every value is at midnight",
        accepts=_from_to(_is(pt.is_date64, _naive), pt.is_date),
        cast=to_midnight,
    ),
    Rule(
        source="date32, date64",
        target="timestamp without a time zone",
        condition="as midnight; when in the range of the unit",
        accepts=_from_to(pt.is_date, _naive),
        cast=exact,
    ),
    Rule(
        source="timestamp without a time zone",
        target="timestamp without a time zone, another unit",
        condition=EXACT,
        accepts=_between(_naive),
        cast=exact,
    ),
    Rule(
        source="timestamp with a time zone",
        target="timestamp with a time zone, another zone or unit",
        condition="when every value stays exactly the same instant",
        accepts=_between(_aware),
        cast=exact,
    ),
    Rule(
        source="time32, time64",
        target="time32, time64",
        condition=EXACT,
        accepts=_between(pt.is_time),
        cast=exact,
    ),
    Rule(
        source="duration",
        target="duration",
        condition=EXACT,
        accepts=_between(pt.is_duration),
        cast=exact,
    ),
    Rule(
        source="list, large_list, fixed_size_list, list_view, whatever the element is called",
        target="list, large_list",
        condition="as for the elements",
        accepts=lambda s, t: (
            _is(*_LISTS)(s)
            and _is(pt.is_list, pt.is_large_list)(t)
            and _castable(item_field(s).type, item_field(t).type)
        ),
        cast=partial(cast_lists, cast_array),
    ),
    Rule(
        source="list, large_list, fixed_size_list, list_view, whatever the element is called",
        target="fixed_size_list",
        condition="when every list has that many elements, and as for the elements",
        accepts=lambda s, t: (
            _is(*_LISTS)(s)
            and pt.is_fixed_size_list(t)
            and _castable(item_field(s).type, item_field(t).type)
        ),
        cast=partial(cast_lists, cast_array),
    ),
    Rule(
        source="binary, large_binary, binary_view",
        target="blob",
        condition=ALWAYS,
        accepts=_from_to(_is(*_BYTES), is_blob_struct),
        cast=bytes_to_blobs,
    ),
    Rule(
        source="blob",
        target="blob, with or without ranges of files",
        condition="when no range is lost",
        accepts=_between(is_blob_struct),
        cast=cast_blobs,
    ),
    Rule(
        source="struct",
        target="struct with the same fields in any order",
        condition="as for the fields",
        accepts=lambda s, t: pt.is_struct(s) and pt.is_struct(t) and _same_children(s, t),
        cast=partial(cast_structs, cast_array),
    ),
    Rule(
        source="map",
        target="map",
        condition="as for the keys and items",
        accepts=lambda s, t: (
            pt.is_map(s)
            and pt.is_map(t)
            and _castable(s.key_type, t.key_type)
            and _castable(s.item_type, t.item_type)
        ),
        cast=partial(cast_maps, cast_array),
    ),
)
