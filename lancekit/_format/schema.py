"""Schemas with field ids: conversion between Arrow, `LanceSchema` and the flat `Field` list.

See docs/format/table.md, 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lancekit._format.column_names import check_column_name, check_distinct, column_not_found
from lancekit._format.extensions import EXTENSION_NAME, LANCE_JSON, stored_schema
from lancekit._format.field_marks import OF_POLARS, is_set
from lancekit._format.logical_types import (
    arrow_type,
    is_nested,
    legacy_encoding,
    length,
    logical_type,
)
from lancekit._format.pb import schema_pb2 as pb
from lancekit._format.unknown_fields import put_unknown, take_unknown
from lancekit._lazy import cached_property
from lancekit._legible import shown
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LancekitError,
    UnsupportedTypeError,
)

#: Arrow field metadata that marks a primary-key column, and its position (from 1) in the key
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"

#: id of the parts of a blob descriptor, which are not fields of their own
_NO_ID = -1
_LAST_FIELD_ID = (1 << 31) - 1

#: cached properties of a field
_CACHED = frozenset({"_arrow", "_message"})

#: maximum nesting depth: far more than any real type has, and safe for recursion
_MOST_LEVELS = 100


@dataclass(frozen=True, kw_only=True)
class LanceField:
    """Field of a schema: a column, or a part of a nested column.

    `key_position` is ``None`` for a field outside of the primary key.  It is 0 for a key field
    whose position follows the schema's order, and otherwise its position from 1 on.
    """

    id: int
    name: str
    logical_type: str
    nullable: bool = True
    parent_id: int = -1
    metadata: Mapping[str, str] = field(default_factory=dict)
    children: tuple[LanceField, ...] = ()
    key_position: int | None = None
    unknown: bytes = b""

    def walk(self) -> Iterator[LanceField]:
        """Yield this field and all of its descendants, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field with its metadata, except Polars' marks for one frame."""
        return self._arrow

    def __getstate__(self) -> dict[str, object]:
        # cached properties are recomputed after unpickling
        return {name: value for name, value in vars(self).items() if name not in _CACHED}

    # cached: a scan or a commit of a wide table requests each field several times
    @cached_property
    def _message(self) -> pb.Field:
        return _field_to_pb(self)

    @cached_property
    def _arrow(self) -> pa.Field:
        try:
            kind = self._arrow_type()
            metadata = {k: v for k, v in self.metadata.items() if not k.startswith(OF_POLARS)}
            if self.logical_type == "json":  # releases up to 2 kept the name of Arrow's type
                metadata[EXTENSION_NAME.decode()] = LANCE_JSON.decode()
            return pa.field(self.name, kind, self.nullable, metadata or None)
        except LancekitError:
            raise
        except (ValueError, TypeError) as error:  # e.g. a non-nullable column of type null
            raise CorruptFileError(
                f"Field {self.name!r} has an invalid type {self.logical_type}: {error}.",
                field=self.name,
            ) from error

    def _arrow_type(self) -> pa.DataType:
        kind = self.logical_type
        if not is_nested(kind):
            return arrow_type(kind)
        children = [child.to_arrow() for child in self.children]
        if kind == "struct":
            return pa.struct(children)
        if len(children) != 1:
            raise CorruptFileError(
                f"Field {self.name!r} of type {kind!r} must have one child, got {len(children)}.",
                field=self.name,
            )
        (item,) = children
        if kind.startswith("fixed_size_list:"):
            return pa.list_(item, length(kind.rsplit(":", 1)[1]))
        if kind == "map":
            if not pa.types.is_struct(item.type) or item.type.num_fields != 2:
                raise CorruptFileError(
                    f"Map {self.name!r} must have entries of a key and a value, got {item.type}.",
                    field=self.name,
                )
            return pa.map_(item.type.field(0), item.type.field(1))
        return pa.large_list(item) if kind.startswith("large_") else pa.list_(item)


@dataclass(frozen=True)
class LanceSchema:
    """Schema of a dataset: top-level fields with ids, and the schema's own metadata."""

    fields: tuple[LanceField, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_arrow(cls, schema: pa.Schema, first_id: int = 0) -> LanceSchema:
        """Assign field ids to an Arrow schema, depth-first from ``first_id``.

        Raises UnsupportedTypeError: Lance cannot store a type.
        Raises InvalidArgumentError: two fields of a struct have one name, a name or a primary-key
            mark is invalid, or there are no ids left.
        """
        counter = iter(range(first_id, _LAST_FIELD_ID + 1))
        schema = stored_schema(schema)
        check_distinct(schema, "the schema")
        for name in schema.names:
            check_column_name(name)

        def next_id() -> int:
            for number in counter:
                return number
            raise InvalidArgumentError(
                f"The field ids are exhausted: the last one, {_LAST_FIELD_ID}, is in use.",
                hint="Write the rows to a new dataset, whose field ids start again.",
            )

        fields = tuple(_from_arrow(f, -1, next_id, f.name) for f in schema)
        return cls(fields, _decode(schema.metadata))

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema, with field and schema metadata."""
        return pa.schema([f.to_arrow() for f in self.fields], dict(self.metadata) or None)

    def walk(self) -> Iterator[LanceField]:
        """Yield every field, parents first."""
        for top in self.fields:
            yield from top.walk()

    @property
    def names(self) -> list[str]:
        """Names of the top-level fields."""
        return [f.name for f in self.fields]

    @cached_property
    def by_name(self) -> Mapping[str, LanceField]:
        """Top-level fields by name."""
        return {f.name: f for f in reversed(self.fields)}

    @cached_property
    def by_id(self) -> Mapping[int, LanceField]:
        """Fields of all levels by id, except parts of blob descriptors, which have none."""
        return {f.id: f for f in self.walk() if f.id >= 0}

    def ids_below(self, ids: Collection[int]) -> frozenset[int]:
        """Return the ids of fields and of all their children."""
        own = frozenset(ids)
        return own.union(f.id for top in self.walk() if top.id in own for f in top.walk())

    def __contains__(self, name: object) -> bool:
        """Return True if there is a top-level field with this name."""
        return name in self.by_name

    def field(self, name: str) -> LanceField:
        """Return a top-level field; raise ``ColumnNotFoundError`` if it does not exist."""
        found = self.by_name.get(name)
        if found is None:
            raise column_not_found(name, self.names)
        return found

    @property
    def primary_key(self) -> tuple[LanceField, ...]:
        """Key fields in key order: by position, then in the schema's order."""
        keys = [f for f in self.walk() if f.key_position is not None]
        return tuple(sorted(keys, key=lambda f: (not f.key_position, f.key_position)))

    def with_primary_key(self, columns: Sequence[str]) -> LanceSchema:
        """Return the schema with ``columns`` as its primary key, in this order.

        Fields of an earlier key, at any depth, lose their marks.
        """
        marks = {
            self.field(name).id: {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: str(position)}
            for position, name in enumerate(columns, start=1)
        }

        def mark(field: LanceField) -> LanceField:
            own = marks.get(field.id, {})
            kept = {k: v for k, v in field.metadata.items() if not k.startswith(PRIMARY_KEY)}
            return replace(
                field,
                nullable=field.nullable and not own,
                key_position=int(own[PRIMARY_KEY_POSITION]) if own else None,
                metadata={**kept, **own},
                children=tuple(map(mark, field.children)),
            )

        return replace(self, fields=tuple(map(mark, self.fields)))


def with_field_metadata(field: LanceField, metadata: Mapping[str, str]) -> LanceField:
    """Return a field with other metadata, which must keep its primary-key mark.

    Raises InvalidArgumentError: the primary-key mark would change, or is invalid.
    """
    position = _key_position(field.to_arrow(), metadata, field.name)
    marks = [(k, v) for k, v in field.metadata.items() if k in (PRIMARY_KEY, PRIMARY_KEY_POSITION)]
    changed = position != field.key_position or any(metadata.get(k) != v for k, v in marks)
    if field.key_position is not None and changed:
        raise InvalidArgumentError(
            f"Column {field.name!r} is part of the primary key, which cannot be changed once set.",
            hint=f"Keep {PRIMARY_KEY} and {PRIMARY_KEY_POSITION} unchanged, or overwrite the "
            "dataset.",
            column=field.name,
        )
    return replace(field, metadata=metadata, key_position=position)


def check_key_type(key: LanceField) -> None:
    """Raise ``InvalidArgumentError`` if a column's values cannot be compared as keys."""
    if key.children or key.logical_type.startswith("fixed_size_list:"):
        raise InvalidArgumentError(
            f"Column {key.name!r} of type {key.to_arrow().type} cannot be a key.",
            hint="Use columns with plain values.",
            column=key.name,
        )


def _decode(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"Schema metadata must be text, got {shown(error.object)}.",
            hint="Encode bytes as text first, for example with base64.",
        ) from error


def _key_position(arrow: pa.Field, metadata: Mapping[str, str], path: str) -> int | None:
    position = metadata.get(PRIMARY_KEY_POSITION)
    marked = is_set(metadata.get(PRIMARY_KEY, ""))
    if position is None and not marked:
        return None
    if position is not None and not position.isdecimal():
        raise InvalidArgumentError(
            f"{PRIMARY_KEY_POSITION} of column {path!r} must be a number, got {position!r}.",
            hint="Use 1, 2, ... in the key's order.",
            column=path,
        )
    if arrow.nullable:
        raise InvalidArgumentError(
            f"Primary-key column {path!r} is nullable.",
            hint="Mark the field as not nullable, or pass `primary_key=` to write_dataset.",
            column=path,
        )
    return int(position) if position is not None else 0


def _children(arrow: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(arrow):
        return [arrow.field(i) for i in range(arrow.num_fields)]
    if pa.types.is_map(arrow):
        entries = pa.struct([arrow.key_field, arrow.item_field])
        return [pa.field("entries", entries, nullable=False)]
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return [arrow.value_field]
    if pa.types.is_fixed_size_list(arrow) and pa.types.is_struct(arrow.value_type):
        return [arrow.value_field]
    return []


def _from_arrow(
    arrow: pa.Field, parent_id: int, next_id: Callable[[], int], path: str
) -> LanceField:
    metadata = _decode(arrow.metadata)
    try:
        is_json = (arrow.metadata or {}).get(EXTENSION_NAME) == LANCE_JSON
        logical = "json" if is_json else logical_type(arrow.type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(
            f"Column {path!r}: {error.message}", hint=error.hint, column=path, **error.context
        ) from None
    own = next_id()
    children = _children(arrow.type)
    if logical == "struct":
        check_distinct(children, f"struct {path!r}")
    return LanceField(
        id=own,
        name=arrow.name,
        logical_type=logical,
        nullable=arrow.nullable,
        parent_id=parent_id,
        metadata=metadata,
        children=tuple(_from_arrow(c, own, next_id, f"{path}.{c.name}") for c in children),
        key_position=_key_position(arrow, metadata, path),
    )


def schema_to_pb(schema: LanceSchema) -> list[pb.Field]:
    """Return the flat `Field` list, parents first; its messages are shared: do not change them."""
    return [f._message for f in schema.walk()]


def _field_to_pb(f: LanceField) -> pb.Field:
    message = pb.Field(
        name=f.name,
        id=f.id,
        parent_id=f.parent_id,
        logical_type=f.logical_type,
        nullable=f.nullable,
        encoding=legacy_encoding(f.logical_type),  # type: ignore[arg-type]  # an enum's number
        extension_name=f.metadata.get("ARROW:extension:name", ""),
        metadata={k: v.encode() for k, v in f.metadata.items()},
        unenforced_primary_key=f.key_position is not None,
        unenforced_primary_key_position=f.key_position or 0,
    )
    if f.logical_type.startswith("dict:"):
        message.dictionary.SetInParent()
    put_unknown(message, f.unknown)
    return message


def schema_from_pb(
    fields: Iterable[pb.Field], metadata: Mapping[str, bytes] | None = None
) -> LanceSchema:
    """Rebuild a schema from the flat `Field` list.

    Raises CorruptFileError: a field's parent is not listed before it, two fields have one id, or
        the nesting is too deep.
    """
    children: dict[int, list[pb.Field]] = {-1: []}
    depths = {-1: 0}
    last = -1
    for message in fields:
        own = message.id
        # parts of a blob descriptor follow it, without its id or ids of their own
        parent = last if own == _NO_ID else message.parent_id
        siblings = children.get(parent)
        if siblings is None:
            raise CorruptFileError(
                f"Field {message.name!r} (id {own}) names parent {message.parent_id}, "
                "which is not listed before it.",
                field=message.name,
            )
        siblings.append(message)
        if own != _NO_ID:
            if own in children:  # a cycle would never end
                raise CorruptFileError(
                    f"Field {message.name!r} has id {own}, which another field has, too.",
                    field=message.name,
                )
            last = own
            children[own] = []
            depths[own] = depths[parent] + 1
            if depths[own] > _MOST_LEVELS:
                raise CorruptFileError(
                    f"Field {message.name!r} is nested more than {_MOST_LEVELS} levels deep.",
                    field=message.name,
                )

    def build(message: pb.Field) -> LanceField:
        own = message.id
        below = () if own == _NO_ID else children[own]
        position = message.unenforced_primary_key_position
        metadata = message.metadata
        # all attributes at once: a frozen class's constructor takes longer than the rest of this
        result = object.__new__(LanceField)
        vars(result).update(
            id=own,
            name=message.name,
            logical_type=message.logical_type,
            nullable=message.nullable,
            parent_id=message.parent_id,
            metadata=_texts(metadata) if metadata else {},
            children=tuple(map(build, below)) if below else (),
            key_position=position if message.unenforced_primary_key or position > 0 else None,
            unknown=take_unknown(message),
        )
        return result

    top = tuple(map(build, children[-1]))
    return LanceSchema(top, _texts(metadata or {}))


def _texts(metadata: Mapping[str, bytes]) -> dict[str, str]:
    return {key: value.decode(errors="replace") for key, value in metadata.items()}
