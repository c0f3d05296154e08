"""Casts of nested values: dictionaries, lists, structs and maps.

``inner`` casts the child arrays. It is `rules.cast_array`, so children can be nested, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import flattened, item_field, items_of
from lancekit._pipeline.casts.values import LossError, first, plain_cast, value_at

Cast: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]


def decode_dictionary(inner: Cast, array: pa.Array, target: pa.DataType) -> pa.Array:
    """Decode a dictionary array, and cast its values to the target type."""
    return inner(_decoded(cast("pa.DictionaryArray", array)), target)


def _decoded(values: pa.DictionaryArray) -> pa.Array:
    dictionary = values.dictionary
    if pt.is_string_view(dictionary.type) or pt.is_binary_view(dictionary.type):
        # Polars' categories; Arrow cannot take rows from views.
        plain = pa.string() if pt.is_string_view(dictionary.type) else pa.binary()
        values = pa.DictionaryArray.from_arrays(values.indices, dictionary.cast(plain))
    return values.dictionary_decode()


def encode_dictionary(inner: Cast, values: pa.Array, target: pa.DataType) -> pa.Array:
    """Dictionary-encode an array as the target dictionary type."""
    wanted = cast("pa.DictionaryType", target)
    most = np.iinfo(wanted.index_type.to_pandas_dtype()).max
    if isinstance(values, pa.DictionaryArray):
        try:
            dictionary = inner(values.dictionary, wanted.value_type)
        except LossError:  # only the rows show whether the value is used, and where
            return encode_dictionary(inner, _decoded(values), target)
        encoded = pa.DictionaryArray.from_arrays(values.indices, dictionary)
        if len(dictionary) > most + 1:
            encoded = ak.without_unused_values(encoded)
    else:
        encoded = inner(values, wanted.value_type).dictionary_encode()
    dictionary, indices = encoded.dictionary, encoded.indices
    try:
        indices = indices.cast(wanted.index_type)
    except pa.ArrowInvalid as error:
        at = first(pc.greater(indices, most)) or 0
        reason = (
            f"has no key left: {len(dictionary)} different values are too many for "
            f"{wanted.index_type}"
        )
        value = dictionary[indices[at].as_py()].as_py()
        raise LossError(at, value, reason, crowded=True) from error
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=wanted.ordered)


def _no_nulls(values: pa.Array, field: pa.Field) -> None:
    if not field.nullable and ak.null_count(values):
        index = first(values.is_null())
        raise LossError(index or 0, None, f"is null in {field.name!r}, which is not nullable")


def cast_lists(inner: Cast, values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast the elements, and rebuild the lists as the target's list type."""
    lengths, elements, missing = _list_parts(inner, values, item_field(target))
    if pt.is_fixed_size_list(target):
        return _fixed_lists(elements, lengths, missing, values, target)
    large = pt.is_large_list(target)
    starts = _starts(lengths, pa.int64() if large else pa.int32())
    kind = pa.LargeListArray if large else pa.ListArray
    return kind.from_arrays(starts, elements, type=target, mask=missing)


def _list_parts(
    inner: Cast, values: pa.Array, element: pa.Field
) -> tuple[NDArray[np.int64], pa.Array, pa.Array | None]:
    """Return the length of each list, all elements in the new type, and the lists' null mask."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    missing = values.is_null() if ak.null_count(values) else None
    if missing is not None:
        lengths[missing.to_numpy(zero_copy_only=False)] = 0
    try:
        elements = inner(flattened(values), element.type)
        _no_nulls(elements, element)
    except LossError as loss:
        parent = int(np.searchsorted(np.cumsum(lengths), loss.index, side="right"))
        raise LossError(parent, loss.value, loss.reason, crowded=loss.crowded) from loss
    return lengths, elements, missing


def _starts(lengths: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    return plain_cast(pa.array(np.concatenate([[0], np.cumsum(lengths)])), kind)


def _fixed_lists(
    elements: pa.Array,
    lengths: NDArray[np.int64],
    missing: pa.Array | None,
    values: pa.Array,
    target: pa.FixedSizeListType,
) -> pa.Array:
    size = target.list_size
    valid = np.ones(len(lengths), bool)
    if missing is not None:
        valid = ~missing.to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(valid & (lengths != size))
    if len(wrong):
        index = int(wrong[0])
        raise LossError(
            index, value_at(values, index), f"has {lengths[index]} elements, not {size}"
        )
    if missing is not None:
        # A null fixed-size list still occupies its elements' slots.
        places = np.repeat(valid, size)
        numbers = np.cumsum(places) - 1
        elements = ak.take(elements, pa.array(numbers, mask=~places))
    return pa.FixedSizeListArray.from_arrays(elements, type=target, mask=missing)


def cast_structs(inner: Cast, values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast structs field by field; fields are matched by name."""
    missing = values.is_null() if ak.null_count(values) else None
    children = []
    fields = list(cast("pa.StructType", target))
    for field in fields:
        child = inner(pc.struct_field(values, [field.name]), field.type)
        # Below a null struct, a child is null even if its field is not nullable.
        _no_nulls(child if missing is None else ak.filter(child, values.is_valid()), field)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=missing)


def cast_maps(inner: Cast, values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast the keys and items of maps."""
    entries = items_of(values)
    own, kind = cast("pa.StructType", entries.type), cast("pa.MapType", target)
    wanted = pa.struct(
        [kind.key_field.with_name(own[0].name), kind.item_field.with_name(own[1].name)]
    )
    # Arrow's own cast to a list refuses a null struct with a child that is not nullable.
    shape = (len(values), values.buffers()[:2], ak.null_count(values), values.offset)
    lists = pa.Array.from_buffers(pa.list_(own), *shape, [entries])
    lengths, entries, missing = _list_parts(inner, lists, pa.field("entries", wanted))
    keys, items = cast("pa.StructArray", entries).flatten()
    starts = _starts(lengths, pa.int32())
    return pa.MapArray.from_arrays(starts, keys, items, type=target, mask=missing)
