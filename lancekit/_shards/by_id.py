"""Rows of a log in today's schema of the table: columns are found by their ids.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import child_of
from lancekit._shards.entry import Entry, damaged
from lancekit._shards.schema import FIELD_ID, TOMBSTONE

__all__ = ["by_id", "entry_rows", "lacking_columns"]

_ID = FIELD_ID.encode()


def by_id(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of an entry in the form of today's log.

    A column that the entry does not have is null, one that the table no longer has is left out,
    and without `_tombstone` all rows are live.  Entries without ids go by names.

    Parameters
    ----------
    batch
        Rows as an entry has them.
    schema
        What `wal_schema` makes of the table's schema.

    Examples
    --------
    >>> from lancekit._format.schema import LanceSchema
    >>> from lancekit._shards.schema import wal_schema
    >>> schema = wal_schema(LanceSchema.from_arrow(pa.schema({"x": pa.int8()})))
    >>> renamed = pa.field("old", pa.int8(), metadata={"lance:field_id": "0"})
    >>> by_id(pa.record_batch([[1]], pa.schema([renamed])), schema).to_pydict()
    {'x': [1], '_tombstone': [False]}
    """
    given, rows = batch.schema, batch.num_rows
    same = given.remove_metadata().equals(schema.remove_metadata(), check_metadata=True)
    if same or (given.types == schema.types and _ids(given) == _ids(schema)):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    has_ids = any(_ID in (field.metadata or {}) for field in given)
    columns = _matched(batch.columns, list(given), list(schema)[:-1], rows, by_name=not has_ids)
    at = given.get_field_index(TOMBSTONE)
    gone = batch.column(at) if at >= 0 else pa.array(np.zeros(rows, bool))
    return pa.RecordBatch.from_arrays([*columns, gone], schema=schema)


def entry_rows(entry: Entry, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the rows of an entry in the form of today's log.

    Parameters
    ----------
    entry
        The entry.
    schema
        What `wal_schema` makes of the table's schema.

    Raises
    ------
    CorruptFileError
        The entry has no checksum, and its rows cannot be rows of the table.
    """
    batches = [batch for batch in entry.batches if batch.num_rows]
    if entry.checked:
        return [by_id(batch, schema) for batch in batches]
    if batches and (why := _of_another_type(batches[0].schema, schema)):
        raise damaged(entry.position, entry.file, why)
    try:
        rows = [by_id(batch, schema) for batch in batches]
    except (pa.ArrowException, ValueError) as error:
        raise damaged(entry.position, entry.file, str(error)) from error
    for place, field in enumerate(schema):
        if not field.nullable and any(ak.null_count(batch.column(place)) for batch in rows):
            why = f"a row has no value in column {field.name!r}, which is of the primary key"
            raise damaged(entry.position, entry.file, why)
    return rows


def _of_another_type(given: pa.Schema, schema: pa.Schema) -> str:
    """Return which column is of another type under its id: a cast makes another column of one."""
    ids = [(field.metadata or {}).get(_ID) for field in schema]
    types = {id_: field.type for id_, field in zip(ids, schema, strict=True) if id_ is not None}
    for field in given:
        wanted = types.get((field.metadata or {}).get(_ID, b""), field.type)
        if _is_plain(field.type) and _is_plain(wanted) and not field.type.equals(wanted):
            return f"its column {field.name!r} is of {field.type}, and the table's of {wanted}"
    return ""


def _is_plain(kind: pa.DataType) -> bool:
    """Tell whether a type is of numbers or of bool, which every library calls the same."""
    return bool(pt.is_primitive(kind) and not pt.is_temporal(kind))


def lacking_columns(given: pa.Schema, schema: pa.Schema) -> frozenset[str]:
    """Return the columns of today's log that rows of an entry do not have.

    Parameters
    ----------
    given
        The schema of the entry.
    schema
        What `wal_schema` makes of the table's schema.
    """
    has_ids = any(_ID in (field.metadata or {}) for field in given)

    def key(field: pa.Field) -> object:
        return (field.metadata or {}).get(_ID) if has_ids else field.name

    known = set(map(key, given))
    return frozenset(f.name for f in schema if key(f) not in known and f.name != TOMBSTONE)


def _ids(fields: Iterable[pa.Field]) -> list[bytes | None]:
    """Return the ids of fields and of all below them."""
    found = []
    for field in fields:
        found.append((field.metadata or {}).get(_ID))
        found += _ids(_children(field.type))
    return found


def _children(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(place) for place in range(kind.num_fields)] if pt.is_nested(kind) else []


def _matched(
    columns: Sequence[pa.Array],
    given: Sequence[pa.Field],
    wanted: Sequence[pa.Field],
    rows: int,
    *,
    by_name: bool,
) -> list[pa.Array]:
    def key(field: pa.Field) -> object:
        return field.name if by_name else (field.metadata or {}).get(_ID)

    places = {key(field): place for place, field in enumerate(given)}
    found = []
    for field in wanted:
        place = places.get(key(field))
        if place is None:
            found.append(pa.nulls(rows, field.type))
        else:
            found.append(_as(columns[place], given[place], field, by_name=by_name))
    return found


def _as(values: pa.Array, given: pa.Field, wanted: pa.Field, *, by_name: bool) -> pa.Array:
    """Return values of a field in its type of today: parts of structs may have come or gone."""
    same = by_name or _ids(_children(given.type)) == _ids(_children(wanted.type))
    if same and values.type.equals(wanted.type):
        return values
    if pt.is_struct(given.type) and pt.is_struct(wanted.type):
        before, after = _children(given.type), _children(wanted.type)
        parts = [child_of(values, place) for place in range(len(before))]
        matched = _matched(parts, before, after, len(values), by_name=by_name)
        mask = values.is_null() if ak.null_count(values) else None
        return pa.StructArray.from_arrays(matched, fields=after, mask=mask)
    return values.cast(wanted.type)
