"""Assembly of nested Arrow arrays from decoded leaves.

Each leaf column first becomes an array of its *path*: the type of the whole field with only that
leaf, such as ``struct<l: list<struct<x>>>``.  Then the paths of a field are merged.  Their pages
begin at different rows, so all paths are sliced at all page borders, without copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice, pairwise
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of, numbers_of
from lancekit._file.kernels import bits
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.memory import Ints, Offsets, starts_of
from lancekit._file.kernels.values import Variable, to_arrow, with_validity
from lancekit._file.layouts.field_tree import Leaf, Node, Path, is_list
from lancekit._file.layouts.repdef import Items, Layers, Lists, Shape, unravel
from lancekit._format.arrow_parts import child_of, fixed_items, item_field, items_of
from lancekit._format.pb import encodings_v21_pb2 as pb

#: Fewer bytes than this are concatenated into one chunk.
_SMALL = 1 << 20


def nest(leaf: Leaf, path: Path, rows: int) -> pa.Array:
    """Nest a leaf's rows in an array of the path's outermost type.

    Raises Damaged: the levels do not fit the type or the values.
    """
    kinds = path.kinds
    array, levels = leaf.values, leaf.levels
    layers = _without_values_layer(leaf.layers, kinds)
    if len(layers.kinds) != len(kinds):
        raise Damaged(f"{len(layers.kinds)} layers instead of {kinds[-1]}")
    if len(kinds) == 1 and levels.repetition is None and levels.definition is None:
        require(len(array) == levels.count == rows, "a page's values do not match its rows")
        return array
    shapes = unravel(levels, layers, rows, path.sizes)
    if len(array) != shapes[0].count:
        raise Damaged(f"{len(array)} values for {shapes[0].count} entries")
    validity = shapes[0].validity
    # a page of nulls has no values to mark as valid; a page of empty structs, which the reference
    # marks as null, has only such values
    if validity is not None and not array.null_count and kinds[0] != pa.struct([]):
        array = with_validity(array, validity)
    for kind, shape in zip(kinds[1:], shapes[1:], strict=True):
        array = _enclose(kind, shape, array)
    return array


def _without_values_layer(layers: Layers, kinds: tuple[pa.DataType, ...]) -> Layers:
    """Drop the meaningless layer for values that releases up to 8 write for packed structs."""
    packed = pa.types.is_struct(kinds[0]) and len(layers.kinds) == len(kinds) + 1
    if packed and layers.kinds[0] == pb.ALL_VALID_ITEM:
        return Layers.of(layers.kinds[1:])
    return layers


def _enclose(kind: pa.DataType, shape: Shape, inner: pa.Array) -> pa.Array:
    """Wrap an array in the structs or lists of type ``kind``."""
    if is_list(kind):
        if not isinstance(shape, Lists):
            raise Damaged(f"items instead of lists for {kind}")
        return nested_in(kind, shape, inner)
    if not isinstance(shape, Items):
        raise Damaged(f"lists instead of items for {kind}")
    size = kind.list_size if pa.types.is_fixed_size_list(kind) else 1
    require(len(inner) == shape.count * size, "a struct and its children differ in length")
    buffer = None if shape.validity is None else pa.py_buffer(shape.validity)
    return pa.Array.from_buffers(kind, shape.count, [buffer], children=[inner])


def nested_in(kind: pa.DataType, lists: Lists, items: pa.Array) -> pa.Array:
    """Build lists of type ``kind``; raise `Damaged` if the number of items does not match."""
    require(lists.offsets[0] == 0 and lists.offsets[-1] == len(items), "lists without their items")
    large = pa.types.is_large_list(kind)
    require(large or len(items) < 2**31, f"more than 2^31 items in a page of {kind}")
    offsets = lists.offsets.astype(np.int64 if large else np.int32, copy=False)
    buffers = [
        None if lists.validity is None else pa.py_buffer(lists.validity),
        pa.py_buffer(offsets),
    ]
    return pa.Array.from_buffers(kind, lists.count, buffers, children=[items])


def aligned(columns: Sequence[Sequence[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Slice chunked columns of equal length at the chunk borders of all columns."""
    if len(columns) == 1:
        for array in columns[0]:
            yield [array]
        return
    lengths = [[len(chunk) for chunk in chunks] for chunks in columns]
    totals = {sum(column) for column in lengths}
    require(len(totals) == 1, "the children of a struct differ in length")
    borders = sorted({border for column in lengths for border in accumulate(column)})
    cursors = [iter(chunks) for chunks in columns]
    rest: list[pa.Array | None] = [None] * len(columns)
    for start, stop in pairwise([0, *(border for border in borders if border)]):
        parts = []
        for place, cursor in enumerate(cursors):
            left = rest[place]
            while left is None or len(left) == 0:
                left = next(cursor)
            parts.append(left.slice(0, stop - start))
            rest[place] = left.slice(stop - start)
        yield parts


def struct_of(kind: pa.DataType, children: Sequence[pa.Array], like: pa.Array | None) -> pa.Array:
    """Build a struct array from one or more children, null where ``like`` is null."""
    require(len({len(child) for child in children}) == 1, "children of a struct differ in length")
    fields = [kind.field(place) for place in range(kind.num_fields)]
    mask = pc.is_null(like) if like is not None and like.null_count else None
    return pa.StructArray.from_arrays(list(children), fields=fields, mask=mask)


def shape_of(lists: pa.Array) -> tuple[Offsets, pa.Array]:
    """Return offsets from 0 on, and their items, of a list array that may be sliced."""
    offsets = numbers_of(cast("pa.ListArray", lists).offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    items = items_of(lists)
    if (first, last) != (0, len(items)):
        items = items.slice(first, last - first)
    return offsets - offsets.dtype.type(first) if first else offsets, items


def lists_over(
    kind: pa.DataType, lengths: Ints, null: NDArray[np.bool_], items: list[pa.Array]
) -> list[pa.Array]:
    """Build lists of type ``kind`` over chunked items.

    The lists are divided at the chunk borders of the items, which avoids copies.  A list that
    crosses a border becomes a separate chunk.
    """
    stops = np.cumsum(lengths)
    borders = starts_of(np.array([len(chunk) for chunk in items], np.int64))
    require(borders[-1] == stops[-1], "lists without their items")
    ends = np.array([0, len(lengths)])
    if sum(chunk.nbytes for chunk in items) <= _SMALL:
        with suppress(Unsupported):
            return _cut_lists(kind, lengths, null, items, ends)
    whole = np.searchsorted(stops, borders[1:-1], "right")
    across = whole + (stops[whole] - lengths[whole] < borders[1:-1])
    cuts = np.unique(np.concatenate((ends, whole, across)))
    return _cut_lists(kind, lengths, null, items, cuts)


def texts_over(
    kind: pa.DataType, lengths: Ints, null: NDArray[np.bool_], content: list[pa.Array]
) -> list[pa.Array]:
    """Build strings of type ``kind`` over chunked bytes; like `lists_over`."""
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    lists = lists_over((pa.large_list if large else pa.list_)(pa.uint8()), lengths, null, content)
    return [_text(kind, cast("pa.ListArray", chunk)) for chunk in lists]


def _text(kind: pa.DataType, lists: pa.ListArray) -> pa.Array:
    values = Variable(numbers_of(lists.offsets), numbers_of(lists.values))
    validity = bits.pack(flags_of(pc.is_valid(lists))) if lists.null_count else None
    return to_arrow(values, kind, validity)


def _cut_lists(
    kind: pa.DataType, lengths: Ints, null: NDArray[np.bool_], items: list[pa.Array], cuts: Ints
) -> list[pa.Array]:
    """Build lists of type ``kind``, one chunk between each two of ``cuts``."""
    borders = starts_of(np.array([len(chunk) for chunk in items], np.int64))
    before = starts_of(lengths)
    chunks = []
    for first, last in pairwise(cuts.tolist()):
        size, absent = lengths[first:last], null[first:last]
        part = _concat_items(items, borders, int(before[first]), int(before[last]), kind)
        validity = bits.pack(~absent) if absent.any() else None
        chunks.append(nested_in(kind, Lists(starts_of(size), validity), part))
    return chunks


def _concat_items(
    chunks: list[pa.Array], borders: Ints, start: int, stop: int, kind: pa.DataType
) -> pa.Array:
    """Concatenate the items from ``start`` to ``stop`` of chunks that begin at ``borders``."""
    first = int(np.searchsorted(borders, start, "right")) - 1
    last = int(np.searchsorted(borders, stop, "left"))
    parts = []
    for place in range(first, last):
        begin = max(start - int(borders[place]), 0)
        end = min(stop, int(borders[place + 1])) - int(borders[place])
        if begin < end:
            parts.append(chunks[place].slice(begin, end - begin))
    if not parts:
        return pa.nulls(0, item_field(kind).type)
    return joined(parts)


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays of one type; unify dictionaries that differ.

    Raises Unsupported: there are more values than the type's keys or offsets can address.
    """
    if len(parts) == 1:
        return parts[0]
    kind = parts[0].type
    try:
        try:
            return ak.concat_arrays(parts)
        except pa.ArrowInvalid:
            if not pa.types.is_dictionary(kind):
                raise
        # the type may still fit the values that are in use
        coded = cast("Sequence[pa.DictionaryArray]", parts)
        used = ak.concat_arrays([ak.take(part.dictionary, part.indices) for part in coded])
        return pc.cast(pc.dictionary_encode(used), kind)
    except pa.ArrowInvalid as error:
        raise Unsupported(f"an array of {kind} with too many values ({error})") from error


def merge(node: Node, parts: Sequence[pa.Array], above: pa.Array | None = None) -> pa.Array:
    """Merge arrays of the same rows, one for each leaf's path, to an array of the node's type.

    above: validity of the enclosing structs; ``None`` if all are valid.  Under a null struct the
        paths may differ, because each page stores there what its layout allows.

    Raises Damaged: the paths differ in the lengths or nulls of a shared parent.
    """
    first = parts[0]
    if len(parts) == 1 and first.type.equals(node.kind):
        return first
    require(all(_agree(first, part, above) for part in parts[1:]), "the leaves differ in nulls")
    kind = node.kind
    if pa.types.is_struct(kind):
        valid = pc.is_valid(first) if first.null_count else None
        within = above if valid is None else valid if above is None else pc.and_(valid, above)
        children = []
        remaining = iter(parts)
        for child in node.children:
            mine = islice(remaining, sum(1 for _ in child.leaves()))
            children.append(merge(child, [child_of(part, 0) for part in mine], within))
        return struct_of(kind, children, first)
    (child,) = node.children
    if pa.types.is_fixed_size_list(kind):
        items = [fixed_items(part) for part in parts]
        within = above
        if above is not None:
            repeated = pa.py_buffer(bits.pack(np.repeat(flags_of(above), kind.list_size)))
            count = len(above) * kind.list_size
            within = pa.Array.from_buffers(pa.bool_(), count, [None, repeated])
        return _fixed_like(kind, merge(child, items, within), first)
    shapes = [shape_of(part) for part in parts]
    offsets = shapes[0][0]
    require(
        all(np.array_equal(offsets, other) for other, _ in shapes[1:]), "the leaves differ in lists"
    )
    return lists_like(kind, offsets, merge(child, [items for _, items in shapes]), first)


def _agree(first: pa.Array, other: pa.Array, above: pa.Array | None) -> bool:
    """Return True if two paths have the same nulls, ignoring rows under null structs."""
    if other.null_count == first.null_count:
        return True
    if above is None:
        return False
    left, right = (pc.and_(above, array.is_null()) for array in (first, other))
    return bool(left.equals(right))


def _fixed_like(kind: pa.DataType, items: pa.Array, like: pa.Array) -> pa.Array:
    mask = pc.is_null(like) if like.null_count else None
    return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)


def wrap(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert an array of storage types to ``kind``, which may contain extension types."""
    if array.type.equals(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, wrap(array, kind.storage_type))
    if pa.types.is_struct(kind):
        children = [
            wrap(child_of(array, place), kind.field(place).type) for place in range(kind.num_fields)
        ]
        return struct_of(kind, children, array)
    if pa.types.is_fixed_size_list(kind):
        return _fixed_like(kind, wrap(fixed_items(array), kind.value_type), array)
    offsets, items = shape_of(array)
    if pa.types.is_map(kind):
        item: pa.DataType = pa.struct([kind.key_field, kind.item_field])
    else:
        item = item_field(kind).type
    return lists_like(kind, offsets, wrap(items, item), array)


def lists_like(kind: pa.DataType, offsets: Offsets, items: pa.Array, like: pa.Array) -> pa.Array:
    """Build lists of type ``kind`` that are null where ``like`` is null."""
    buffer = None
    if like.null_count:
        buffer = pa.py_buffer(bits.pack(flags_of(pc.is_valid(like))))
    return pa.Array.from_buffers(kind, len(like), [buffer, pa.py_buffer(offsets)], children=[items])
