"""Tree of a field: maps the parts of a nested type to physical columns.

Files from 2.1 on have a column for every leaf.  Files of 2.0 have columns for structs and lists,
too, parents first.  Packed structs and blobs are leaves.  The types are storage types: extension
types are added to the finished arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

import pyarrow as pa

from lancekit._file.kernels.row_selection import Rows
from lancekit._file.kernels.values import storage_type
from lancekit._file.layouts.repdef import Layers, Levels
from lancekit._format.arrow_parts import item_field, with_children
from lancekit._format.field_marks import is_blob, is_packed, texts


@dataclass(frozen=True, slots=True)
class Path:
    """Types from a leaf outwards, and the list size of each fixed-size list (1 for other types)."""

    kinds: tuple[pa.DataType, ...]
    sizes: tuple[int, ...]

    @property
    def group(self) -> int:
        """Number of column entries in one row, if there are no variable-size lists."""
        return prod(self.sizes)

    @property
    def lists(self) -> int:
        """Number of variable-size lists among the types."""
        return sum(map(is_list, self.kinds))


def is_list(kind: pa.DataType) -> bool:
    """Return True for lists of variable size, including maps."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


@dataclass(frozen=True, slots=True)
class Node:
    """Part of a field: its storage type, and its children unless they share its column."""

    name: str
    kind: pa.DataType
    children: tuple[Node, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """True if the node has no children, so that one column has all its values."""
        return not self.children

    def walk(self) -> Iterator[Node]:
        """Yield this node and all of its descendants, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Node]:
        """Yield the leaves from left to right."""
        return (node for node in self.walk() if node.is_leaf)


def tree(field: pa.Field, name: str | None = None) -> Node:
    """Return the tree of a field; its metadata marks packed structs and blobs."""
    kind = storage_type(field.type)
    name = field.name if name is None else name
    if not pa.types.is_nested(kind):
        return Node(name, kind)
    marks = texts(field.metadata)
    if is_blob(marks) or (pa.types.is_struct(kind) and is_packed(marks)):
        return Node(name, _storage(kind))
    parts: list[pa.Field] = []
    if pa.types.is_struct(kind):
        parts = [kind.field(place) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        parts = [pa.field("entries", entries, nullable=False)]
    elif is_list(kind) or (
        pa.types.is_fixed_size_list(kind) and pa.types.is_struct(storage_type(kind.value_type))
    ):
        parts = [item_field(kind)]
    if not parts:
        return Node(name, _storage(kind))
    children = tuple(tree(part, f"{name}.{part.name}") for part in parts)
    return Node(name, _over(kind, parts, [child.kind for child in children]), children)


def _storage(kind: pa.DataType) -> pa.DataType:
    """Return a leaf's type with extension types replaced by their storage types."""
    kind = storage_type(kind)
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([field.with_type(_storage(field.type)) for field in fields])
    if pa.types.is_fixed_size_list(kind):
        item = kind.value_field
        return pa.list_(item.with_type(_storage(item.type)), kind.list_size)
    return kind


def _over(kind: pa.DataType, parts: list[pa.Field], kinds: list[pa.DataType]) -> pa.DataType:
    """Return the type ``kind`` with other child types."""
    fields = [part.with_type(child) for part, child in zip(parts, kinds, strict=True)]
    return with_children(kind, fields)


def paths(node: Node) -> Iterator[tuple[Node, Path]]:
    """Yield every leaf with its path.

    A path represents a map as a list of structs, because it has either keys or values.
    """
    if node.is_leaf:
        yield node, Path((node.kind,), (1,))
        return
    size = node.kind.list_size if pa.types.is_fixed_size_list(node.kind) else 1
    for place, child in enumerate(node.children):
        for leaf, path in paths(child):
            yield (
                leaf,
                Path((*path.kinds, _single(node, place, path.kinds[-1])), (*path.sizes, size)),
            )


def _single(node: Node, place: int, child: pa.DataType) -> pa.DataType:
    """Return the type of a node reduced to the child at ``place``, of type ``child``."""
    kind = node.kind
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(place).with_type(child)])
    if pa.types.is_map(kind):
        return pa.list_(pa.field("entries", child, nullable=False))
    return _over(kind, [item_field(kind)], [child])


# ---- decoded pages, before levels become validity and lists


@dataclass(frozen=True, slots=True)
class Leaf:
    """Decoded rows of a 2.1+ page, before levels become validity and lists.

    `values` belong to the visible entries.  They have no nulls, unless all are null.
    """

    values: pa.Array
    layers: Layers
    levels: Levels


class PageDecoder(Protocol):
    """Decoder of one 2.1+ page; it keeps data for later reads, such as the chunks' positions.

    With lists, rows are the rows of the outermost list; otherwise rows are entries.
    """

    def leaf(self, rows: Rows) -> Leaf:
        """Return decoded rows with their levels."""
