"""Fields that are split over several files of a fragment: structs with fields added later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.columns.physical import in_one_column, repacked
from lancekit._file.kernels.bounds import null_bytes
from lancekit._format.arrow_parts import child_of, flattened
from lancekit._format.schema import LanceField
from lancekit.errors import MemoryLimitError, UnsupportedFeatureError
from lancekit.options import options


def stored_part(
    field: LanceField, ids: Collection[int], taken: Collection[int] = ()
) -> LanceField | None:
    """Return the part of a field in a file that has columns for ``ids``; ``None`` for no part.

    Leaf fields that an earlier file has, `taken`, are read from there, as in the reference. The
    columns decide whether a struct is packed: the schema's metadata may be newer.

    Raises UnsupportedFeatureError: a file holds a part of a map.
    """
    if not field.children and field.logical_type != "struct":  # the common case
        return field if field.id in ids and field.id not in taken else None
    if in_one_column(field, ids):
        return None if field.id in taken else repacked(field, packed=True)
    children = [stored_part(child, ids, taken) for child in field.children]
    present = tuple(child for child in children if child is not None)
    if not present:
        return None
    if field.logical_type not in _JOINED and present != field.children:
        raise UnsupportedFeatureError(
            f"Column {field.name!r} of type {field.logical_type} has its fields in several files.",
            hint="Leave the column out.",
            column=field.name,
        )
    return repacked(replace(field, children=present), packed=False)


def as_stored(field: LanceField, files: Sequence[Collection[int]]) -> LanceField:
    """Return a field with each struct marked as packed that is packed in one of the files."""
    if not field.children:
        return field
    children = tuple(as_stored(child, files) for child in field.children)
    packed = any(in_one_column(field, ids) for ids in files)
    field = replace(field, children=children)
    return repacked(field, packed=True) if packed else field


#: the types whose parts can be joined
_JOINED = frozenset({"struct", "list", "list.struct", "large_list", "large_list.struct"})


def joined(field: LanceField, parts: Sequence[pa.ChunkedArray], rows: int) -> pa.ChunkedArray:
    """Return a field, joined from its parts in each file; a part that no file has is null."""
    kind = field.to_arrow().type
    if not parts:
        return pa.chunked_array([nulls_of(field.to_arrow(), rows)])
    if len(parts) == 1 and parts[0].type.equals(kind):
        return parts[0]
    return pa.chunked_array([_join(field, [ak.combine_chunks(part) for part in parts])], kind)


def _join(field: LanceField, parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1 and parts[0].type.equals(field.to_arrow().type):
        return parts[0]
    if field.logical_type != "struct":
        return _join_lists(field, parts)
    children, names = [], [set(cast("pa.StructType", part.type).names) for part in parts]
    for child in field.children:
        present = [part for part, own in zip(parts, names, strict=True) if child.name in own]
        if present:
            children.append(_join(child, [child_of(part, child.name) for part in present]))
        else:
            children.append(nulls_of(child.to_arrow(), len(parts[0])))
    fields = [child.to_arrow() for child in field.children]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(parts[0]))


def _join_lists(field: LanceField, parts: Sequence[pa.Array]) -> pa.Array:
    first, (item,) = parts[0], field.children
    items = _join(item, [flattened(part) for part in parts])
    lengths = pc.fill_null(pc.list_value_length(first), 0).to_numpy()
    kind = field.to_arrow().type
    large = pa.types.is_large_list(kind)
    starts = pa.array(
        np.concatenate([[0], np.cumsum(lengths)]), pa.int64() if large else pa.int32()
    )
    make = pa.LargeListArray if large else pa.ListArray
    return make.from_arrays(starts, items, type=kind, mask=pc.is_null(first))


# ---- columns without stored values: nulls, unless one takes more memory than a page may


def nulls_of(field: pa.Field, rows: int) -> pa.Array:
    """Return the nulls of a column without stored values.

    Raises MemoryLimitError: one null would take more memory than a page may. A damaged schema can
        have such nulls in any field.
    """
    each = null_bytes(field.type)
    if rows and each > options.page_memory_bytes:
        raise MemoryLimitError(
            f"One value of column {field.name!r} of {field.type} would take {each:,} bytes: "
            f"lancekit.options.page_memory_bytes is {options.page_memory_bytes:,}.",
            hint="Leave the column out. If you trust the source of the schema, set "
            f"lancekit.options.page_memory_bytes = {each} or more.",
            column=field.name,
            needed=each,
        )
    return pa.nulls(rows, field.type)
