"""Arrow schemas as JSON, in pylance's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit._checked import NOT_SUCH
from lancekit._format.extensions import resolved_schema, stored_schema
from lancekit._format.logical_types import arrow_type, length, logical_type
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTypeError, type_name

__all__ = ["json_to_schema", "schema_to_json"]

_Made = dict[str, Any]

#: types with parts, by the name that they have here
_NESTED: Mapping[str, Callable[[list[pa.Field], int], pa.DataType]] = {
    "struct": lambda fields, _: pa.struct(fields),
    "list": lambda fields, _: pa.list_(*fields),
    "large_list": lambda fields, _: pa.large_list(*fields),
    "fixed_size_list": lambda fields, length: pa.list_(fields[0], length),
}


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return a schema as what JSON can hold.

    Raises
    ------
    UnsupportedTypeError
        JSON has no form for a type, such as a map.

    Examples
    --------
    >>> schema_to_json(pa.schema([pa.field("x", pa.int32(), False)]))
    {'fields': [{'name': 'x', 'type': {'type': 'int32'}, 'nullable': False}]}
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidTypeError(f"schema has to be a pyarrow.Schema, not {type_name(schema)}.")
    stored = stored_schema(schema)
    return {"fields": [_field(field) for field in stored], **_metadata(stored.metadata)}


def json_to_schema(schema_json: Mapping[str, Any]) -> pa.Schema:
    """Return the schema that `schema_to_json`, here or in pylance, was given.

    Raises
    ------
    InvalidArgumentError
        It is no such thing: something is missing, or a type is not known.
    """
    try:
        fields = [_parsed(field) for field in schema_json["fields"]]
        schema = pa.schema(fields, schema_json.get("metadata"))
        return resolved_schema(schema)
    except NOT_SUCH as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidArgumentError(
            f"{shown(schema_json)} is no schema: {reason}.",
            hint="Pass what schema_to_json() gives.",
        ) from error


def _field(field: pa.Field) -> _Made:
    made = {"name": field.name, "type": _type(field), "nullable": field.nullable}
    return {**made, **_metadata(field.metadata)}


def _metadata(stored: Mapping[bytes, bytes] | None) -> _Made:
    if not stored:
        return {}
    return {"metadata": {key.decode(): value.decode() for key, value in stored.items()}}


def _type(field: pa.Field) -> _Made:
    kind = field.type
    if pt.is_map(kind) or kind in (pa.string_view(), pa.binary_view()):
        raise UnsupportedTypeError(f"Field {field.name!r}: {kind} has no form in JSON.")
    if pt.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    if not pt.is_nested(kind):
        return {"type": logical_type(kind)}
    parts = {"fields": [_field(kind.field(place)) for place in range(kind.num_fields)]}
    if pt.is_struct(kind):
        return {"type": "struct", **parts}
    if pt.is_fixed_size_list(kind):
        return {"type": "fixed_size_list", **parts, "length": kind.list_size}
    return {"type": "large_list" if pt.is_large_list(kind) else "list", **parts}


def _parsed(field: Mapping[str, Any]) -> pa.Field:
    kind = field["type"]
    name = kind["type"]
    if name in _NESTED:
        size = length(kind["length"]) if name == "fixed_size_list" else 0
        made = _NESTED[name]([_parsed(part) for part in kind["fields"]], size)
    elif name == "fixed_size_binary":
        made = pa.binary(length(kind["length"]))
    else:
        made = arrow_type(name)
    return pa.field(field["name"], made, field["nullable"], field.get("metadata"))
