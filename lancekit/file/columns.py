"""Which physical columns of a file belong to which field (file format, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lancekit.format.schema import LanceField, LanceSchema

__all__ = ["FileColumn", "file_columns", "owning_fields"]


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A top-level field to read, and the physical columns of the file that hold it.

    Every type that is not nested has exactly one.
    """

    field: pa.Field
    columns: tuple[int, ...]


def owning_fields(field: LanceField, version: tuple[int, int]) -> Iterator[LanceField]:
    """Yield the fields that own a physical column, in the order of the columns.

    In 2.0 structs and lists own one too; from 2.1 on only leaves do.  The children of packed
    structs and blobs never do.
    """
    whole = {"lance-encoding:packed", "lance-encoding:blob", "packed"} & set(field.metadata)
    if whole or not field.children or field.logical_type.startswith("fixed_size_list:"):
        nested_items = field.children and not whole and version != (2, 0)
        if not nested_items:
            yield field
            return
    elif version == (2, 0):
        yield field
    for child in field.children:
        yield from owning_fields(child, version)


def file_columns(schema: LanceSchema, version: tuple[int, int]) -> tuple[FileColumn, ...]:
    """Return every top-level field of a file's own schema with its physical columns."""
    columns = []
    first = 0
    for field in schema.fields:
        count = sum(1 for _ in owning_fields(field, version))
        columns.append(FileColumn(field.to_arrow(), tuple(range(first, first + count))))
        first += count
    return tuple(columns)
