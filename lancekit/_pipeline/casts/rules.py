"""The table of lossless casts, which drives the code and is rendered in the docs.

A rule either accepts every value, or checks each and reports the first that would change.  The
children of nested types (`nested`) are cast by the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias, cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit._format.arrow_parts import IsKind, item_field, one_of
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

_Accepts: TypeAlias = Callable[[pa.DataType, pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: source types, target types, and the condition on the values."""

    source: str
    target: str
    condition: str
    accepts: _Accepts
    cast: Callable[[pa.Array, pa.DataType], pa.Array]


def find_rule(source: pa.DataType, target: pa.DataType) -> Rule | None:
    """Return the rule for a cast, or ``None`` if no lossless cast exists."""
    if any(isinstance(kind, pa.BaseExtensionType) for kind in (source, target)):
        return _find_rule.__wrapped__(source, target)  # users' extension types have no hash
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


def _between(*tests: IsKind) -> _Accepts:
    """Return a test that accepts casts between any two types of one family."""
    is_one = one_of(*tests)
    return lambda source, target: is_one(source) and is_one(target)


def _from_to(source: IsKind, target: IsKind) -> _Accepts:
    return lambda s, t: source(s) and target(t)


TEXT_TYPES = (pt.is_string, pt.is_large_string, pt.is_string_view)
BYTE_TYPES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)
LIST_TYPES = (
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


def _lists_to(*tests: IsKind) -> _Accepts:
    """Return a test that accepts casts of lists if a rule casts their elements."""
    return lambda source, target: (
        one_of(*LIST_TYPES)(source)
        and one_of(*tests)(target)
        and _castable(item_field(source).type, item_field(target).type)
    )


#: the words of the page about casts for conditions and types
ALWAYS = "always"
EXACT = "when every value stays exactly the same"
TEXT = "string, large_string, string_view"
BYTES = "binary, large_binary, binary_view"
LISTS = "list, large_list, fixed_size_list, list_view, whatever the element is called"

RULES: tuple[Rule, ...] = (
    Rule(
        "any type",
        "the same type",
        ALWAYS,
        lambda s, t: s.equals(t, check_metadata=True),
        lambda values, _target: values,
    ),
    Rule(
        "null",
        "any type",
        ALWAYS,
        lambda s, _t: pt.is_null(s),
        lambda values, target: pa.nulls(len(values), target),
    ),
    Rule(
        "any type, or dictionary of it",
        "dictionary",
        "when the values cast, and are not more than the index type can count",
        lambda s, t: (
            pt.is_dictionary(t)
            and _castable(s.value_type if pt.is_dictionary(s) else s, t.value_type)
        ),
        partial(encode_dictionary, cast_array),
    ),
    Rule(
        "dictionary",
        "any type that its values cast to",
        "as for the values",
        lambda s, t: pt.is_dictionary(s) and _castable(s.value_type, t),
        partial(decode_dictionary, cast_array),
    ),
    Rule(TEXT, TEXT, ALWAYS, _between(*TEXT_TYPES), plain_cast),
    Rule(BYTES, BYTES, ALWAYS, _between(*BYTE_TYPES), plain_cast),
    Rule(
        "fixed_size_binary",
        "binary, large_binary",
        ALWAYS,
        _from_to(pt.is_fixed_size_binary, one_of(pt.is_binary, pt.is_large_binary)),
        plain_cast,
    ),
    Rule(
        BYTES,
        "fixed_size_binary",
        "when every value has that many bytes",
        _from_to(one_of(*BYTE_TYPES), pt.is_fixed_size_binary),
        to_fixed_binary,
    ),
    Rule("integer", "integer", EXACT, _between(pt.is_integer), exact),
    Rule("float", "float", EXACT, _between(pt.is_floating), exact),
    Rule("integer", "float", EXACT, _from_to(pt.is_integer, pt.is_floating), exact),
    Rule("float", "integer", EXACT, _from_to(pt.is_floating, pt.is_integer), float_to_integer),
    Rule("integer", "decimal", EXACT, _from_to(pt.is_integer, pt.is_decimal), integer_to_decimal),
    Rule("decimal", "decimal", EXACT, _between(pt.is_decimal), exact),
    Rule("decimal", "integer", EXACT, _from_to(pt.is_decimal, pt.is_integer), exact),
    Rule("date32", "date64", ALWAYS, _from_to(pt.is_date32, pt.is_date64), plain_cast),
    Rule(
        "date64, timestamp without a time zone",
        "date32, date64",
        "when every value is at midnight",
        _from_to(one_of(pt.is_date64, _naive), pt.is_date),
        to_midnight,
    ),
    Rule(
        "date32, date64",
        "timestamp without a time zone",
        "as midnight; when in the range of the unit",
        _from_to(pt.is_date, _naive),
        exact,
    ),
    Rule(
        "timestamp without a time zone",
        "timestamp without a time zone, another unit",
        EXACT,
        _between(_naive),
        exact,
    ),
    Rule(
        "timestamp with a time zone",
        "timestamp with a time zone, another zone or unit",
        "when every value stays exactly the same instant",
        _between(_aware),
        exact,
    ),
    Rule("time32, time64", "time32, time64", EXACT, _between(pt.is_time), exact),
    Rule("duration", "duration", EXACT, _between(pt.is_duration), exact),
    Rule(
        LISTS,
        "list, large_list",
        "as for the elements",
        _lists_to(pt.is_list, pt.is_large_list),
        partial(cast_lists, cast_array),
    ),
    Rule(
        LISTS,
        "fixed_size_list",
        "when every list has that many elements, and as for the elements",
        _lists_to(pt.is_fixed_size_list),
        partial(cast_lists, cast_array),
    ),
    Rule(BYTES, "blob", ALWAYS, _from_to(one_of(*BYTE_TYPES), is_blob_struct), bytes_to_blobs),
    Rule(
        "blob",
        "blob, with or without ranges of files",
        "when no range is lost",
        _between(is_blob_struct),
        cast_blobs,
    ),
    Rule(
        "struct",
        "struct with the same fields in any order",
        "as for the fields",
        lambda s, t: pt.is_struct(s) and pt.is_struct(t) and _same_children(s, t),
        partial(cast_structs, cast_array),
    ),
    Rule(
        "map",
        "map",
        "as for the keys and items",
        lambda s, t: (
            pt.is_map(s)
            and pt.is_map(t)
            and _castable(s.key_type, t.key_type)
            and _castable(s.item_type, t.item_type)
        ),
        partial(cast_maps, cast_array),
    ),
)
