"""Mapping of fields to a file's physical columns (docs/format/data-files.md, 3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from lancekit._file.container.legacy_tables import LEGACY
from lancekit._file.kernels.faults import Damaged
from lancekit._format.field_marks import PACKED, PACKINGS, Metadata, is_blob, is_packed
from lancekit._format.paths import show_path
from lancekit._format.schema import LanceField, LanceSchema

#: Logical types that have two columns in 2.0's first form, and the id that stands for the second
#: column, which belongs to no field: it follows the first.
_TEXTS = ("string", "binary", "large_string", "large_binary")
_CONTENT = -2


@dataclass(frozen=True, slots=True)
class FileColumn:
    """Top-level field to read, with its physical columns.

    The field's type and the columns leave out unrequested children.  The order is depth-first.  In
    2.0 files structs and lists have a column of their own, before the columns of their children.
    Every type that is not nested has exactly one.

    The type decides how blobs (``large_binary`` fields with ``lance-encoding:blob``) are read: as
    bytes, or as descriptors if it is `lancekit._file.layouts.blob_descriptors.DESCRIPTOR`.
    """

    field: pa.Field
    columns: tuple[int, ...]


def owning_fields(field: LanceField, version: tuple[int, int]) -> Iterator[LanceField]:
    """Yield the fields that own a physical column, in the order of the columns.

    Up to 2.0 structs and lists own a column, too; from 2.1 on only leaves do.  The children of
    packed structs and blobs never do.
    """
    if field.children and not _shares_a_column(field):
        if version <= (2, 0):
            yield field
        for child in field.children:
            yield from owning_fields(child, version)
    else:
        yield field


def _shares_a_column(field: LanceField) -> bool:
    """Return True if a field's children are stored in its own column."""
    marks = field.metadata
    return is_blob(marks) or (field.logical_type == "struct" and is_packed(marks))


def packed_where(schema: LanceSchema, packs: Callable[[Metadata], bool]) -> LanceSchema:
    """Return the schema with structs marked as packed if ``packs`` is True for their metadata."""
    return replace(schema, fields=tuple(_with_packing(field, packs) for field in schema.fields))


def with_packing(schema: LanceSchema, version: tuple[int, int], columns: int) -> LanceSchema:
    """Return a file's own schema, with the marks of packed structs that match its columns.

    Writers disagree on the values of a mark, so the number of columns decides.

    Raises Damaged: no reading of the marks gives this number: a part of the schema is lost.
    """
    if version == LEGACY:  # no packed structs; ids without a field have columns, too
        return packed_where(schema, lambda _: False)
    found = _of_columns(schema, version, columns)
    if found is None and version == (2, 0):
        first_form = replace(schema, fields=tuple(map(_with_content, schema.fields)))
        found = _of_columns(first_form, version, columns)
    if found is None:
        raise Damaged(f"the schema is not one of {columns} columns")
    return found


def _of_columns(schema: LanceSchema, version: tuple[int, int], columns: int) -> LanceSchema | None:
    for packs in PACKINGS:
        found = packed_where(schema, packs)
        if columns == sum(1 for field in found.fields for _ in owning_fields(field, version)):
            return found
    return None


def _with_content(field: LanceField) -> LanceField:
    """Give strings a child for the second column that they have in 2.0's first form."""
    if field.logical_type not in _TEXTS or is_blob(field.metadata):
        return replace(field, children=tuple(map(_with_content, field.children)))
    content = LanceField(id=_CONTENT, name="bytes", logical_type="uint8", parent_id=field.id)
    return replace(field, children=(content,))


def _with_packing(field: LanceField, packs: Callable[[Metadata], bool]) -> LanceField:
    children = tuple(_with_packing(child, packs) for child in field.children)
    return repacked(replace(field, children=children), packed=packs(field.metadata))


def repacked(field: LanceField, *, packed: bool) -> LanceField:
    """Set or remove a struct's marks for being packed."""
    marks = field.metadata
    if field.logical_type != "struct" or is_blob(marks) or is_packed(marks) == packed:
        return field
    plain = {key: value for key, value in marks.items() if key not in PACKED}
    return replace(field, metadata={**plain, PACKED[0]: "true"} if packed else plain)


def in_one_column(field: LanceField, ids: Collection[int]) -> bool:
    """Return True if a file with columns for ``ids`` stores the field as one column."""
    below = (part.id for child in field.children for part in child.walk())
    return field.id in ids and all(part not in ids for part in below)


def column_owners(
    schema: LanceSchema, version: tuple[int, int]
) -> Iterator[tuple[int, LanceField]]:
    """Yield the physical columns of a file's own schema with the fields that own them.

    In 0.1 the column's number is the field's id minus the lowest id.
    """
    owners = (owner for field in schema.fields for owner in owning_fields(field, version))
    if version != LEGACY:
        yield from enumerate(owners)
        return
    first = min((field.id for field in schema.walk()), default=0)
    yield from ((owner.id - first, owner) for owner in owners)


def file_columns(schema: LanceSchema, version: tuple[int, int]) -> tuple[FileColumn, ...]:
    """Return every top-level field of a file's own schema with its physical columns."""
    columns = column_owners(schema, version)
    found = []
    for field in schema.fields:
        count = sum(1 for _ in owning_fields(field, version))
        own = (at for at, owner in islice(columns, count) if owner.id != _CONTENT)
        found.append(FileColumn(field.to_arrow(), tuple(own)))
    return tuple(found)


def file_column(schema: LanceSchema, wanted: LanceField, version: tuple[int, int]) -> FileColumn:
    """Return a field of a file's own schema, possibly pruned, with its physical columns."""
    places = {owner.id: at for at, owner in column_owners(schema, version)}
    owners = (owner.id for owner in owning_fields(wanted, version))
    return FileColumn(wanted.to_arrow(), tuple(places[id_] for id_ in owners if id_ != _CONTENT))


def owner_paths(schema: LanceSchema, version: tuple[int, int]) -> list[str]:
    """Return the path of every field that owns a physical column, in the order of the columns."""
    owners = {owner.id for field in schema.fields for owner in owning_fields(field, version)}
    paths: list[str] = []

    def walk(field: LanceField, above: tuple[str, ...]) -> None:
        names = (*above, field.name)
        if field.id in owners:
            paths.append(show_path(names))
        for child in field.children:
            walk(child, names)

    for field in schema.fields:
        walk(field, ())
    return paths
