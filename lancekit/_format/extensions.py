"""Extension types: conversion to their stored form and back.

A data file stores a column of an extension type as its storage type, and the field's metadata name
the extension.  Everything below the public API uses this *stored form*.  `resolved` restores the
types that are registered in this process, at every depth, without copying values.  Only JSON has a
stored form that differs from Arrow's storage: `jsonb`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
from pyarrow import types as pt

from lancekit._format.arrow_parts import items_of, with_children, with_other_items
from lancekit._format.jsonb import from_jsonb, to_jsonb
from lancekit.errors import CorruptFileError, UnsupportedTypeError

EXTENSION_NAME = b"ARROW:extension:name"
EXTENSION_METADATA = b"ARROW:extension:metadata"
EXTENSION = (EXTENSION_NAME, EXTENSION_METADATA)
_ARROW_JSON = b"arrow.json"
LANCE_JSON = b"lance.json"

#: input form of blobs of version 2: their bytes, or the URI of a file with a range
BLOB_INPUT = pa.struct(
    [
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
    ]
)

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


class _ArrowSchema(ctypes.Structure):
    """First members of the `ArrowSchema` struct of the Arrow C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _texts(address: int) -> Iterator[bytes]:
    """Yield keys and values of exported metadata: a count, then each text after its length."""
    count = ctypes.c_int32.from_address(address).value
    address += 4
    for _ in range(2 * count):
        size = ctypes.c_int32.from_address(address).value
        yield ctypes.string_at(address + 4, size)
        address += 4 + size


def _extension_metadata(kind: pa.BaseExtensionType) -> dict[bytes, bytes]:
    """Return the field metadata of an extension type.

    Arrow's built-in types serialise their parameters only on export.
    """
    capsule = pa.field("", kind).__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported = _ArrowSchema.from_address(pointer_of(capsule, b"arrow_schema"))
    texts = list(_texts(exported.metadata))
    return dict(zip(texts[::2], texts[1::2], strict=True))


# ---- to the stored form


def stored_field(field: pa.Field) -> pa.Field:
    """Replace extension types by storage types, which the field's metadata name.

    Examples
    --------
    >>> stored_field(pa.field("u", pa.uuid())).metadata[b"ARROW:extension:name"]
    b'arrow.uuid'
    """
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        field = field.with_type(kind.storage_type).with_metadata(
            {**(field.metadata or {}), **_extension_metadata(kind)}
        )
        return stored_field(field)
    if (field.metadata or {}).get(EXTENSION_NAME) == _ARROW_JSON:
        return field.with_type(pa.large_binary()).with_metadata(_named(field, LANCE_JSON))
    below = [*map(stored_field, _children(kind))]
    return field.with_type(with_children(kind, below)) if below else field


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the stored form of a schema; the same object if it has no extension type.

    Raises UnsupportedTypeError: a type has too many levels of nesting for recursion.
    """
    try:
        fields = [stored_field(field) for field in schema]
    except RecursionError:
        raise UnsupportedTypeError(
            "A column's type is nested too deep.", hint="Types can be stored up to 100 levels deep."
        ) from None
    same = all(a.type.equals(b.type) for a, b in zip(fields, schema, strict=True))
    return schema if same else pa.schema(fields, schema.metadata)


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to its stored form ``schema``; only JSON is copied."""
    plain = [
        stored_values(v, f.type) for v, f in zip(batch.columns, text_schema(schema), strict=True)
    ]
    columns = [_convert(v, f, to_jsonb) for v, f in zip(plain, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


#: list arrays with offsets
_LISTS = (pa.ListArray, pa.LargeListArray, pa.MapArray)


def stored_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values to a type that differs only in extensions and metadata.

    It converts each part, because Arrow's casts of lists of nulls lose items.
    """
    if values.type.equals(kind, check_metadata=True):
        return values
    if isinstance(values, pa.ExtensionArray):
        return stored_values(values.storage, kind)
    below = _children(kind)
    if isinstance(values, pa.StructArray):
        parts = [stored_values(values.field(at), child.type) for at, child in enumerate(below)]
        return pa.StructArray.from_arrays(parts, fields=below, mask=values.is_null())
    if values.type.id == kind.id and isinstance(values, _LISTS):
        return with_other_items(values, kind, stored_values(items_of(values), below[0].type))
    return values.cast(kind)


# ---- JSON


def _named(field: pa.Field, extension: bytes) -> dict[bytes, bytes]:
    return {**(field.metadata or {}), EXTENSION_NAME: extension}


def is_json(field: pa.Field) -> bool:
    """Return True if a field in stored form is a JSON column."""
    # the mark may be set on a column of another type, whose values stay unchanged
    marked = (field.metadata or {}).get(EXTENSION_NAME) == LANCE_JSON
    return marked and bool(pt.is_large_binary(field.type))


def holds_json(field: pa.Field) -> bool:
    """Return True if a field in stored form is JSON or has JSON at any depth."""
    return is_json(field) or any(map(holds_json, _children(field.type)))


def _children(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(at) for at in range(kind.num_fields)]


def text_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema in stored form with JSON as text."""
    return pa.schema([_text_field(field) for field in schema], schema.metadata)


def text_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert a batch in stored form to JSON as text."""
    schema = text_schema(batch.schema)
    columns = [
        stored_values(_convert(values, old, from_jsonb), new.type)
        for values, old, new in zip(batch.columns, batch.schema, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch


def _text_field(field: pa.Field) -> pa.Field:
    if is_json(field):
        return field.with_type(pa.string()).with_metadata(_named(field, _ARROW_JSON))
    if not holds_json(field):
        return field
    return field.with_type(with_children(field.type, [*map(_text_field, _children(field.type))]))


def _convert(
    values: pa.Array, field: pa.Field, convert: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Convert the JSON in a column, at any depth; ``field`` is its stored form."""
    if not holds_json(field):
        return values
    if is_json(field):
        return convert(values)
    below = _children(field.type)
    if isinstance(values, pa.StructArray):
        parts = [_convert(values.field(at), child, convert) for at, child in enumerate(below)]
        fields = [child.with_type(part.type) for child, part in zip(below, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    items = _convert(items_of(values), below[0], convert)
    kind = with_children(field.type, [below[0].with_type(items.type)])
    return with_other_items(values, kind, items)


# ---- from the stored form


def has_extensions(field: pa.Field) -> bool:
    """Return True if a field in stored form, or a field below it, has an extension type."""
    if EXTENSION_NAME in (field.metadata or {}):
        return True
    return any(map(has_extensions, _children(field.type)))


def resolved_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the extension types that are registered in this process.

    Raises CorruptFileError: a registered type rejects the metadata.
    """
    if not any(map(has_extensions, schema)):
        return schema
    try:
        return pa.RecordBatchReader.from_stream(text_schema(schema).empty_table()).schema
    except pa.ArrowInvalid as error:
        raise CorruptFileError(
            f"The schema has an invalid extension type: {error}.",
            hint="The field's metadata are damaged, or written for another release of the type.",
        ) from error


def resolved(rows: Rows) -> Rows:
    """Convert rows in stored form to the registered extension types; only JSON is copied."""
    if not any(map(has_extensions, rows.schema)):
        return rows
    whole = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    resolved_schema(rows.schema)
    schema = text_schema(rows.schema)
    columns = [
        pa.chunked_array(
            [stored_values(_convert(chunk, old, from_jsonb), new.type) for chunk in column.chunks],
            new.type,
        )
        for column, old, new in zip(whole.columns, rows.schema, schema, strict=True)
    ]
    reader = pa.RecordBatchReader.from_stream(pa.table(columns, schema=schema))
    return reader.read_all() if isinstance(rows, pa.Table) else reader.read_next_batch()
