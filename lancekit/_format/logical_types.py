"""Lance logical types: the strings that stand for Arrow types in a schema.

See docs/format/table.md, 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lancekit._format.arrow_parts import one_of
from lancekit.errors import UnsupportedFeatureError, UnsupportedTypeError

_BFLOAT16 = "lance.bfloat16"

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "json": pa.large_binary(),
    _BFLOAT16: pa.binary(2),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
}
_NAMES = {arrow: name for name, arrow in _SIMPLE.items() if name not in {"json", _BFLOAT16}}
# views are stored as plain strings and binary
_NAMES[pa.string_view()] = "string"
_NAMES[pa.binary_view()] = "binary"

#: logical types whose Arrow type depends on the field's children
_NESTED = frozenset({"struct", "list", "large_list", "list.struct", "large_list.struct", "map"})


def length(given: str | int) -> int:
    """Return a fixed length; ``ValueError`` if negative, which Arrow interprets as variable."""
    number = int(given)
    if number < 0:
        raise ValueError(f"a length of {number}")
    return number


def _parse_timestamp(rest: str) -> pa.DataType:
    unit, zone = rest.split(":", 1)  # a zone may contain a colon
    return pa.timestamp(unit, None if zone == "-" else zone)


def _parse_decimal(rest: str) -> pa.DataType:
    bits, precision, scale = rest.split(":")
    make = {"128": pa.decimal128, "256": pa.decimal256}[bits]
    return make(int(precision), int(scale))


def _parse_fixed_size_list(rest: str) -> pa.DataType:
    item, size = rest.rsplit(":", 1)
    extension = {b"ARROW:extension:name": item.encode()} if item == _BFLOAT16 else None
    return pa.list_(pa.field("item", arrow_type(item), metadata=extension), length(size))


def _parse_dictionary(rest: str) -> pa.DataType:
    value, index, _ordered = rest.rsplit(":", 2)
    return pa.dictionary(arrow_type(index), arrow_type(value))


#: maximum number of parameters: far more than any type has, and safe for recursion
_MOST_PARTS = 64

_PARAMETRIC: dict[str, Callable[[str], pa.DataType]] = {
    "timestamp": _parse_timestamp,
    "decimal": _parse_decimal,
    "fixed_size_binary": lambda rest: pa.binary(length(rest)),
    "fixed_size_list": _parse_fixed_size_list,
    "dict": _parse_dictionary,
}


def arrow_type(logical: str) -> pa.DataType:
    """Return the Arrow type of a logical type that has no child fields.

    Raises UnsupportedFeatureError: this release does not know the name.

    Examples
    --------
    >>> arrow_type("timestamp:us:+05:30")
    TimestampType(timestamp[us, tz=+05:30])
    """
    simple = _SIMPLE.get(logical)
    if simple is not None:
        return simple
    head, _, rest = logical.partition(":")
    bounded = logical.count(":") <= _MOST_PARTS
    try:
        return _PARAMETRIC[head if bounded else ""](rest)
    except (KeyError, ValueError, OverflowError) as error:
        raise UnsupportedFeatureError(
            f"Unknown logical type {logical!r}.",
            hint="The schema is damaged, or was written by a newer release.",
            logical_type=logical,
        ) from error


def is_nested(logical: str) -> bool:
    """Return True if the Arrow type depends on child fields."""
    return logical in _NESTED or logical.startswith("fixed_size_list:struct:")


def logical_type(arrow: pa.DataType) -> str:
    """Return the logical type of an Arrow type in stored form, nested or not.

    Raises UnsupportedTypeError: Lance has no logical type for it.

    Examples
    --------
    >>> logical_type(pa.list_(pa.float32(), 128))
    'fixed_size_list:float:128'
    """
    name = _NAMES.get(arrow)
    if name is not None:
        return name
    if pa.types.is_timestamp(arrow):
        return f"timestamp:{arrow.unit}:{arrow.tz or '-'}"
    if pa.types.is_decimal128(arrow) or pa.types.is_decimal256(arrow):
        return f"decimal:{arrow.bit_width}:{arrow.precision}:{arrow.scale}"
    if pa.types.is_fixed_size_binary(arrow):
        return f"fixed_size_binary:{arrow.byte_width}"
    if pa.types.is_struct(arrow):
        return "struct"
    if pa.types.is_map(arrow) and not arrow.keys_sorted:
        return "map"
    if pa.types.is_list(arrow):
        return "list.struct" if pa.types.is_struct(arrow.value_type) else "list"
    if pa.types.is_large_list(arrow):
        return "large_list.struct" if pa.types.is_struct(arrow.value_type) else "large_list"
    if pa.types.is_fixed_size_list(arrow):
        return f"fixed_size_list:{_item_type(arrow)}:{arrow.list_size}"
    if pa.types.is_dictionary(arrow):
        if not may_be_category(arrow.value_type):
            hint = (
                f"Cast the column to {arrow.value_type}: no release could read a dictionary of it."
            )
            raise _not_stored(arrow, hint)
        value, index = logical_type(arrow.value_type), logical_type(arrow.index_type)
        return f"dict:{value}:{index}:false"
    raise _not_stored(arrow)


def may_be_category(kind: pa.DataType) -> bool:
    """Return True if dictionaries may have this value type: its logical name has no parameters.

    The reference ends the name at the first colon.
    """
    return ":" not in _NAMES.get(kind, ":")


def _item_type(arrow: pa.FixedSizeListType) -> str:
    """Return the logical item type of a fixed-size list: fixed width, without child fields."""
    kind = arrow.value_type
    metadata = arrow.value_field.metadata or {}
    extension: str = metadata.get(b"ARROW:extension:name", b"").decode()
    if extension:
        if extension != _BFLOAT16:
            raise _not_stored(
                arrow, f"Use a list: a fixed-size list loses extension type {extension}."
            )
        return extension
    of_structs = pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type)
    fixed = pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind) or _has_width(kind)
    if of_structs or not fixed:
        raise _not_stored(arrow, "Use a list.")
    return logical_type(kind)


_has_width = one_of(pa.types.is_fixed_size_binary, pa.types.is_decimal, pa.types.is_primitive)


def _not_stored(arrow: pa.DataType, hint: str = "") -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"Arrow type {arrow} cannot be stored in a Lance dataset.",
        hint=hint or "Cast the column to a supported type first.",
        type=str(arrow),
    )


def legacy_encoding(logical: str) -> int:
    """Return the `Field.encoding` number that writers store: none, plain, var-binary, dictionary.

    Readers of 2.x files ignore it; older readers need it.
    """
    head = logical.partition(":")[0]
    if head in {"null", "struct"}:
        return 0
    if head in {"string", "large_string", "binary", "large_binary", "json"}:
        return 2
    return 3 if head == "dict" else 1
