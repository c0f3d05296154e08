"""A shard, the schemas of its log and generations, and the types that its primary key may have.

See docs/format/memwal.md, 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

import pyarrow as pa

from lancekit._format.field_marks import is_blob_v2
from lancekit._format.mem_wal.names import LOGS
from lancekit._format.mem_wal.sharding import KEY_TYPES, is_key_type
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._storage.base import Store
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

#: the column that is True in a row that deletes its key
TOMBSTONE = "_tombstone"

#: the metadata key of a field's id in an entry
FIELD_ID = "lance:field_id"


def generation_schema(schema: LanceSchema) -> LanceSchema:
    """Return the schema of generations: the table's fields, nullable outside the key, `_tombstone`.

    Raises InvalidArgumentError: the table has a column named `_tombstone`.
    Raises UnsupportedTypeError: the table has blob v2 columns.

    Examples
    --------
    >>> generation_schema(LanceSchema.from_arrow(pa.schema({"x": pa.int8()}))).fields[-1].id
    1
    """
    if TOMBSTONE in schema:
        raise InvalidArgumentError(
            f"Column {TOMBSTONE!r} of the table clashes with a column of shards.",
            hint="Rename the column.",
            column=TOMBSTONE,
        )
    for one in schema.walk():
        if is_blob_v2(one.metadata):
            raise UnsupportedTypeError(
                f"Blob column {one.name!r} cannot be written to logs.",
                hint="Write rows with blobs with write_dataset or merge_insert.",
                column=one.name,
            )
    last = max((one.id for one in schema.walk()), default=-1)
    mark = LanceField(id=last + 1, name=TOMBSTONE, logical_type="bool", nullable=False)
    nullable = (
        one if one.key_position is not None or one.nullable else replace(one, nullable=True)
        for one in schema.fields
    )
    return replace(schema, fields=(*nullable, mark))


def wal_schema(schema: LanceSchema) -> pa.Schema:
    """Return the schema of log entries: the schema of generations, with field ids as metadata.

    Raises InvalidArgumentError: the table has a column named `_tombstone`.
    Raises UnsupportedTypeError: the table has blob v2 columns.
    """
    *columns, mark = generation_schema(schema).fields
    return replace(schema, fields=(*map(_with_ids, columns), mark)).to_arrow()


def _with_ids(field: LanceField) -> LanceField:
    return replace(
        field,
        metadata={**field.metadata, FIELD_ID: str(field.id)},
        children=tuple(map(_with_ids, field.children)),
    )


def primary_key(schema: LanceSchema) -> tuple[LanceField, ...]:
    """Return the columns of the primary key, in key order; empty if the table has none.

    Raises UnsupportedTypeError: a key column has a type that shards do not support.
    """
    for one in schema.primary_key:
        if one.children or not is_key_type(one.to_arrow().type):
            raise UnsupportedTypeError(
                f"Column {one.name!r} of type {one.to_arrow().type} cannot be a key of shards.",
                hint=f"Supported key types are {KEY_TYPES}.",
                column=one.name,
            )
    return schema.primary_key


# ---- a shard: a folder next to the versions of a branch (docs/format/memwal.md, 1)


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard: its id, and a `store` rooted at its folder."""

    store: Store
    id: UUID


def shard_of(branch_store: Store, shard: UUID) -> Shard:
    """Return a shard of a branch by its id; the shard does not have to exist yet."""
    return Shard(branch_store.child(f"{LOGS}/{shard}"), shard)


def shards_of(branch_store: Store) -> list[Shard]:
    """List the shards of a branch by id; folders with other names are ignored."""
    found = []
    for name in branch_store.list_folders(LOGS):
        try:
            shard = UUID(name)
        except ValueError:
            continue
        if str(shard) == name:
            found.append(shard_of(branch_store, shard))
    return sorted(found, key=lambda one: one.id)
