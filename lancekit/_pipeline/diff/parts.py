"""Struct values with fields that one side renamed, added, dropped or cast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._format.arrow_parts import (
    child_of,
    item_field,
    items_of,
    items_type,
    with_children,
    with_other_items,
)
from lancekit._pipeline.diff.fragments import ColumnPair, retyped
from lancekit._scan.fragments.rebatch import joined

Mask: TypeAlias = npt.NDArray[np.bool_]


def kind_of_parts(kind: pa.DataType, parts: Sequence[ColumnPair]) -> pa.DataType:
    """Return a nested type with other parts: the fields of a struct, or the items of lists."""
    if pt.is_struct(kind):
        return pa.struct([part.new.to_arrow().with_name(part.name).with_type(part.kind)
                          for part in parts])  # fmt: skip
    (items,) = parts
    if pt.is_map(kind):
        return with_children(kind, [pa.field("entries", items.kind, False)])
    return with_children(kind, [item_field(kind).with_type(items.kind)])


def projected(
    values: pa.Array,
    kind: pa.DataType,
    parts: Sequence[ColumnPair],
    *,
    new: bool,
    cast: Callable[[pa.Array, pa.DataType], pa.Array] = retyped,
) -> pa.Array:
    """Convert values of one side to the type of a pair, part by part.

    Parts that the side lacks become null.  `cast` converts the values that are not nested.
    """
    if not parts:
        return cast(values, kind)
    if not pt.is_struct(kind):
        (items,) = parts
        below = items_type(kind)
        changed = projected(items_of(values), below, items.parts, new=new, cast=cast)
        return with_other_items(values, kind, changed)
    children = []
    for part, field in zip(parts, kind, strict=True):
        source = part.new if new else part.old
        if source is None or (new and part.is_lacked):
            children.append(pa.nulls(len(values), field.type))
        else:
            child = child_of(values, source.name)
            children.append(projected(child, field.type, part.parts, new=new, cast=cast))
    return _structs(children, list(kind), flags_of(values.is_valid()))


def common_parts(pair: ColumnPair, like: ColumnPair | None = None) -> ColumnPair:
    """Return a pair with only the parts that both sides of ``like`` (by default itself) have."""
    like = pair if like is None else like
    if not (pair.parts and like.parts):
        return pair
    parts = tuple(
        common_parts(part, other)
        for part, other in zip(pair.parts, like.parts, strict=True)
        if other.old is not None and not other.is_lacked
    )
    return replace(pair, kind=kind_of_parts(pair.kind, parts), parts=parts)


def own_values(values: pa.Array, parts: Sequence[ColumnPair], *, new: bool) -> Mask:
    """Return a mask of the structs with a value in a part that the other side lacks.

    ``values`` come from one side, in the pair's type.
    """
    found = np.zeros(len(values), bool)
    if not pt.is_struct(values.type):
        return found
    for at, part in enumerate(parts):
        child = child_of(values, at)
        if part.old is None if new else part.is_lacked:
            found |= flags_of(child.is_valid())
        else:
            found |= own_values(child, part.parts, new=new)
    return found & flags_of(values.is_valid())


def chosen(old: pa.Array, new: pa.Array, taken: Mask, parts: Sequence[ColumnPair]) -> pa.Array:
    """Return the old side's values where `taken` is True, else the new side's.

    A part that only one side has always comes from that side.
    """
    if not parts or not pt.is_struct(new.type):
        places = np.arange(len(taken)) + np.where(taken, 0, len(taken))
        return ak.take(joined([old, new], old.type), places)
    valid_old, valid_new = (flags_of(side.is_valid()) for side in (old, new))
    children = []
    for at, part in enumerate(parts):
        left, right = child_of(old, at), child_of(new, at)
        if part.old is None:
            children.append(_where(right, valid_new))
        elif part.is_lacked:
            children.append(_where(left, valid_old))
        else:
            children.append(chosen(left, right, taken, part.parts))
    fields = [f.with_type(c.type) for f, c in zip(list(new.type), children, strict=True)]
    return _structs(children, fields, np.where(taken, valid_old, valid_new))


def _where(values: pa.Array, valid: Mask) -> pa.Array:
    return ak.take(values, pa.array(np.arange(len(values)), mask=~valid))


def _structs(children: list[pa.Array], fields: list[pa.Field], valid: Mask) -> pa.Array:
    if not children:  # Arrow takes the length from the first child
        bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
        return pa.Array.from_buffers(pa.struct([]), len(valid), [bits])
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(~valid))
