"""Schemas with field ids (`LanceSchema`, `LanceField`), and Arrow schemas as JSON.

Names follow ``lance.schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit._checked import NOT_SUCH, checked_methods
from lancekit._format.extensions import resolved_schema, stored_schema
from lancekit._format.logical_types import arrow_type, length, logical_type
from lancekit._format.paths import parse_path
from lancekit._format.schema import LanceField as StoredField
from lancekit._format.schema import LanceSchema as StoredSchema
from lancekit._legible import clean, shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTypeError, type_name

_CLUSTERING_POSITION = "lance-schema:unenforced-clustering-key:position"


@dataclass(frozen=True, slots=True)
class LanceField:
    """A field of a schema: a column, or a nested field."""

    _stored: StoredField

    def __repr__(self) -> str:
        return clean(f"LanceField(id={self.id()}, {self.to_arrow()})")

    def id(self) -> int:
        """Return the field's id, which never changes."""
        return self._stored.id

    def name(self) -> str:
        """Return the field's name, without its path."""
        return self._stored.name

    def children(self) -> list[LanceField]:
        """Return the child fields of a nested field."""
        return [LanceField(child) for child in self._stored.children]

    @property
    def metadata(self) -> dict[str, str]:
        """The field's key-value metadata."""
        return dict(self._stored.metadata)

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field, with its metadata."""
        return self._stored.to_arrow()

    def is_unenforced_primary_key(self) -> bool:
        """Return True if the field is part of the primary key."""
        return self._stored.key_position is not None

    def unenforced_primary_key_position(self) -> int | None:
        """Return the field's position in the key, from 1 on; ``None`` if it is in schema order."""
        return self._stored.key_position or None

    def is_unenforced_clustering_key(self) -> bool:
        """Return True if the field is part of the clustering key."""
        return self.unenforced_clustering_key_position() is not None

    def unenforced_clustering_key_position(self) -> int | None:
        """Return the field's position in the clustering key, from 1 on."""
        position = self._stored.metadata.get(_CLUSTERING_POSITION, "")
        return int(position) if position.isdecimal() else None


@checked_methods
@dataclass(frozen=True, slots=True)
class LanceSchema:
    """A schema with field ids; operations accept it in place of an Arrow schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = LanceSchema.from_pyarrow(pa.schema({"a": pa.int64(), "b": pa.string()}))
    >>> [(field.name(), field.id()) for field in schema.fields()]
    [('a', 0), ('b', 1)]
    """

    __lance_schema__: StoredSchema

    def __repr__(self) -> str:
        return f"LanceSchema({', '.join(map(repr, self.fields()))})"

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """Convert an Arrow schema, and number its fields depth-first from 0."""
        return LanceSchema(StoredSchema.from_arrow(schema))

    def to_pyarrow(self) -> pa.Schema:
        """Return the Arrow schema, with its metadata."""
        return resolved_schema(self.__lance_schema__.to_arrow())

    @property
    def metadata(self) -> Mapping[str, str]:
        """The schema's key-value metadata."""
        return dict(self.__lance_schema__.metadata)

    def fields(self) -> list[LanceField]:
        """Return the top-level fields."""
        return _views(self.__lance_schema__.fields)

    def field(self, name: str) -> LanceField | None:
        """Return the field at a path such as ``"s.x"``, or ``None``."""
        return self._found(name, str)

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """Return the field at a path, ignoring case, or ``None``; an exact match is preferred."""
        return self._found(name, str) or self._found(name, str.lower)

    def _found(self, path: str, spelling: Callable[[str], str]) -> LanceField | None:
        fields, found = self.fields(), None
        for part in map(spelling, parse_path(path)):
            found = next((field for field in fields if spelling(field.name()) == part), None)
            if found is None:
                return None
            fields = found.children()
        return found

    def unenforced_primary_key(self) -> list[LanceField]:
        """Return the fields of the primary key, in its order."""
        return _views(self.__lance_schema__.primary_key)

    def unenforced_clustering_key(self) -> list[LanceField]:
        """Return the fields of the clustering key, in its order."""
        placed = [
            (place, field)
            for field in _views(self.__lance_schema__.walk())
            if (place := field.unenforced_clustering_key_position()) is not None
        ]
        return [field for _, field in sorted(placed, key=lambda pair: pair[0])]


def _views(fields: Iterable[StoredField]) -> list[LanceField]:
    return [LanceField(field) for field in fields]


# ---- Arrow schemas as JSON, in pylance's form

_Made = dict[str, object]

#: constructors of nested types, by their name in JSON
_NESTED: Mapping[str, Callable[[list[pa.Field], int], pa.DataType]] = {
    "struct": lambda fields, _: pa.struct(fields),
    "list": lambda fields, _: pa.list_(*fields),
    "large_list": lambda fields, _: pa.large_list(*fields),
    "fixed_size_list": lambda fields, length: pa.list_(fields[0], length),
}


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Convert an Arrow schema to objects that JSON supports.

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
        raise InvalidTypeError(f"schema must be a pyarrow.Schema, got {type_name(schema)}.")
    stored = stored_schema(schema)
    return {"fields": [_field(field) for field in stored], **_metadata(stored.metadata)}


def json_to_schema(schema_json: Mapping[str, Any]) -> pa.Schema:
    """Convert the output of `schema_to_json`, lancekit's or pylance's, back to a schema.

    Raises
    ------
    InvalidArgumentError
        A part is missing, or a type is unknown.
    """
    try:
        fields = [_parsed(field) for field in schema_json["fields"]]
        return resolved_schema(pa.schema(fields, schema_json.get("metadata")))
    except NOT_SUCH as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidArgumentError(
            f"{shown(schema_json)} is not a schema as JSON: {reason}.",
            hint="Pass the result of schema_to_json().",
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
        raise UnsupportedTypeError(f"Field {field.name!r} of type {kind} cannot be stored as JSON.")
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
