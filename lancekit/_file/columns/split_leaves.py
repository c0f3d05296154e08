"""Division of a batch into physical columns (docs/format/data-files.md, 3).

From 2.1 on a column is a leaf with all of its parents: `pruned` reduces a nested array to one path.
In 2.0 structs and lists have columns of their own, and lists pass on their items:
`columns_of_20`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import list_items, list_offsets, null_flags, validity_bits
from lancekit._format.arrow_parts import (
    child_of,
    flattened,
    item_field,
    items_of,
    with_children,
    with_other_items,
)
from lancekit._format.field_marks import holds_blobs, is_packed
from lancekit._format.schema import LanceField
from lancekit.errors import UnsupportedTypeError


@dataclass(frozen=True, slots=True)
class Leaf:
    """Field that owns a column, and its path: the index of each child on it.

    `items_per_row` is the number of structs in a row of the fixed-size lists on the path.
    """

    field: LanceField
    path: tuple[int, ...]
    items_per_row: int = 1


def is_whole(field: LanceField) -> bool:
    """Return True if a field and its children are stored in one column."""
    if field.logical_type != "struct":  # the mark of a list does not apply to its items
        return False
    return holds_blobs(field.metadata) or is_packed(field.metadata)


def leaves_of(field: LanceField) -> Iterator[Leaf]:
    """Yield the leaves of a field that own a column from 2.1 on, in order."""
    if not field.children or is_whole(field):
        yield Leaf(field, ())
        return
    size = 1
    if field.logical_type.startswith("fixed_size_list:"):
        size = int(field.logical_type.rsplit(":", 1)[1])
    for place, child in enumerate(field.children):
        for leaf in leaves_of(child):
            yield Leaf(leaf.field, (place, *leaf.path), size * leaf.items_per_row)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the stored type: without extension types and names of list items."""
    if isinstance(kind, pa.BaseExtensionType):  # extension types defined in Python cannot be hashed
        return plain_type(kind.storage_type)
    return _plain_nested(kind) if pa.types.is_nested(kind) else kind


@lru_cache(maxsize=4096)
def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(plain_type(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type), kind.list_size)
    return kind


def pruned(
    array: pa.Array, path: tuple[int, ...], leaf: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Reduce an array to one path, with ``leaf`` applied to the leaf: the input of `shred`."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not path:
        return leaf(array)
    if isinstance(array, pa.StructArray):
        child = pruned(array.field(path[0]), path[1:], leaf)
        validity = validity_bits(array)
        buffer = None if validity is None else pa.py_buffer(validity)
        struct = pa.struct([pa.field("", child.type)])
        return pa.Array.from_buffers(struct, len(array), [buffer], children=[child])
    child = pruned(items_of(array), path[1:], leaf)
    item, kind = pa.field("item", child.type), array.type
    kind = pa.list_(item) if pa.types.is_map(kind) else with_children(kind, [item])
    return with_other_items(array, kind, child)


def stored(array: pa.Array) -> pa.Array:
    """Return a leaf's storage: no extension types, and no null items in dictionaries."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return stored(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _without_null_items(array)
    if plain_type(kind) != kind and pa.types.is_nested(kind):
        return _cast_nested(array, plain_type(kind))
    return array


def _without_null_items(array: pa.DictionaryArray) -> pa.DictionaryArray:
    items = array.dictionary
    if isinstance(items, pa.ExtensionArray):
        array = pa.DictionaryArray.from_arrays(
            array.indices, items.storage, ordered=array.type.ordered
        )
    return ak.without_null_values(array)


def _cast_nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Remove extension types within a packed struct or fixed-size lists."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(kind):
        children = [
            _cast_nested(child_of(array, i), kind.field(i).type) for i in range(kind.num_fields)
        ]
        validity = validity_bits(array)
        buffer = None if validity is None else pa.py_buffer(validity)
        return pa.Array.from_buffers(kind, len(array), [buffer], children=children)
    if pa.types.is_fixed_size_list(kind):
        return with_other_items(array, kind, _cast_nested(items_of(array), kind.value_type))
    return array


def columns_of_20(array: pa.Array, field: LanceField) -> Iterator[pa.Array]:
    """Yield the arrays for the columns of version 2.0.

    A struct's array has only nulls.  A list's array has its lengths, null and 0 for null lists.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if (not field.children and field.logical_type != "struct") or is_whole(field):
        yield stored(array)
        return
    if isinstance(array, pa.StructArray):
        if ak.null_count(array):
            raise UnsupportedTypeError(
                f"Column {field.name!r} has null structs, which files of version 2.0 cannot hold.",
                hint="Use data_storage_version 2.1 or later, or fill the nulls.",
                column=field.name,
                type=str(array.type),
                version="2.0",
            )
        yield pa.nulls(len(array))
        for place, child in enumerate(field.children):
            yield from columns_of_20(array.field(place), child)
        return
    lengths = np.diff(list_offsets(array)).astype(np.int64)
    null = null_flags(array)
    if null is not None:
        lengths[null] = 0
    validity = validity_bits(array)
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(lengths)]
    yield pa.Array.from_buffers(pa.int64(), len(array), buffers)
    yield from columns_of_20(list_items(array, lengths), field.children[0])


def forbidden_nulls(values: pa.Array | pa.ChunkedArray, field: pa.Field) -> str:
    """Describe the nulls in values whose field allows none; return "" without nulls."""
    count = 0 if field.nullable else ak.null_count(values)
    if count:
        return f"{count} null{'s'[: count > 1]}"
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    if any(_has_forbidden_nulls(chunk, field.type) for chunk in chunks):
        return f"nulls in a non-nullable field: {field.type}"
    return ""


def _has_forbidden_nulls(array: pa.Array, kind: pa.DataType) -> bool:
    """Return True if non-nullable parts of a nested array have nulls outside of null parents."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not _has_required_parts(kind):
        return False
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(kind):
        if ak.null_count(array):
            array = ak.filter(array, array.is_valid())
        parts = [(child_of(array, i), kind.field(i)) for i in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        entries = with_other_items(array, pa.list_(items_of(array).type), items_of(array))
        parts = [(child_of(flattened(entries), 1), kind.item_field)]
    else:
        parts = [(flattened(array), item_field(kind))]
    return any(
        (not field.nullable and ak.null_count(part) > 0) or _has_forbidden_nulls(part, field.type)
        for part, field in parts
    )


@lru_cache(maxsize=4096)
def _has_required_parts(kind: pa.DataType) -> bool:
    """Return True if a part of a type is not nullable, apart from the keys of maps."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_map(kind):
        parts = [kind.item_field]
    elif pa.types.is_struct(kind):
        parts = list(kind)
    elif pa.types.is_nested(kind):
        parts = [item_field(kind)]
    else:
        return False
    return any(not part.nullable or _has_required_parts(part.type) for part in parts)
