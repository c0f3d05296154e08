"""Workarounds for Arrow kernels that fail or return wrong results for some arrays.

All other modules call these kernels here, which tests/project/test_kernel_calls.py checks.  Faults
of Arrow 26, and the workarounds:

- ``take`` and ``filter`` of fixed-size lists of fixed-size lists return other rows, or memory
  outside of the array, if lists at any level have an offset, e.g. in a slice.  There is no error,
  so the type decides: such lists are moved to offset 0 before each call.  ``filter`` of a chunked
  array creates slices if the mask has other chunks, so its chunks are filtered one by one.
- ``null_count`` and ``drop_null`` see nulls in the indices of a dictionary, but not in its values;
  ``is_null`` and ``is_valid`` see both.
- ``list_parent_indices`` counts the items below null lists, and ``list_flatten`` omits them.
- ``ascii_lower``, ``ascii_upper`` and ``ascii_swapcase`` return other bytes, or foreign memory, if
  the first text of an array at offset 0 does not begin at byte 0.
- ``max_element_wise`` and ``min_element_wise`` ignore the offsets of fixed-size binary arrays.
- ``cast`` to the same type reads null items of a slice beyond their end, rejects null structs with
  non-nullable fields, or kills the process.  So does a cast of structs and lists with such parts.
  Parts of the same type are passed on without a cast.
- ``cast`` of decimals to a larger scale wraps values with too many digits; here they are an error.
- Half floats and dictionaries cannot be sorted, and half floats cannot be ranked.
- Kernels that join chunks (``take`` of several, ``concat_arrays``, ``combine_chunks``,
  ``concat_batches``, sorting) fail for dictionaries with null values, and for empty arrays with an
  offset, which the C stream leaves without a buffer.  After the error both are rewritten, and the
  kernel is called again.

Values are copied only in these cases.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from operator import is_
from typing import Any, TypeAlias, TypeVar, overload
from typing import cast as cast_type

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import arrow_of, booleans_of

_Rows = TypeVar("_Rows", bound=pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table)
_Column = TypeVar("_Column", pa.Array, pa.ChunkedArray, pa.Array | pa.ChunkedArray)
_Tabular = TypeVar("_Tabular", bound=pa.RecordBatch | pa.Table)
_Values = TypeVar("_Values", pa.Array, pa.ChunkedArray, pa.Scalar, pa.Array | pa.Scalar)
_Out = TypeVar("_Out")
_Decimals: TypeAlias = pa.Decimal32Type | pa.Decimal64Type | pa.Decimal128Type | pa.Decimal256Type

_HALF = pa.float16().id
_NULL = pa.null().id
_LARGE_STRING = pa.large_string().id
_TEXTS = frozenset({pa.string().id, _LARGE_STRING})
_FIXED_BYTES = pa.binary(1).id
_DICTIONARY = pa.dictionary(pa.int8(), pa.null()).id
_FIXED = pa.list_(pa.null(), 1).id
#: ids of types with child types; a lookup by id is faster than by type
_WITH_PARTS = frozenset(
    kind.id
    for kind in (
        *(pa.list_(pa.null()), pa.large_list(pa.null()), pa.list_(pa.null(), 1)),
        *(pa.map_(pa.int8(), pa.null()), pa.struct([]), pa.uuid()),
    )
)
_COLUMNS = (pa.Array, pa.ChunkedArray)
_JOINING_ERRORS = (pa.ArrowInvalid, pa.ArrowIndexError)


def take(
    rows: _Rows, indices: pa.Array | pa.ChunkedArray | NDArray[np.generic] | Sequence[int] | range
) -> _Rows:
    """Return the rows at positions, which are an Arrow or NumPy array; a null gives a null."""
    places = arrow_of(indices) if isinstance(indices, np.ndarray) else indices
    result: _Rows = _joined(lambda sound: pc.take(sound, places), _at_offset_0(rows))
    return result


def filter(  # noqa: A001  # Arrow's name
    rows: _Rows, mask: pa.Array | pa.ChunkedArray | NDArray[np.bool_]
) -> _Rows:
    """Return the rows that a mask, an Arrow or NumPy array, selects."""
    if isinstance(mask, np.ndarray):
        mask = booleans_of(mask)
    found: Any = _at_offset_0(rows)
    if found is rows or not isinstance(found, pa.ChunkedArray | pa.Table):
        found = pc.filter(found, mask)
    else:
        flags = combine_chunks(mask) if isinstance(mask, pa.ChunkedArray) else pa.array(mask)
        found = _filtered_by_chunk(found, flags)
    kept: _Rows = found
    return kept


def _filtered_by_chunk(
    rows: pa.ChunkedArray | pa.Table, flags: pa.Array
) -> pa.ChunkedArray | pa.Table:
    """Filter chunks one by one: for a mask with other chunks, Arrow would slice them."""
    if isinstance(rows, pa.Table):
        columns = [filter(column, flags) for column in rows.columns]
        return pa.Table.from_arrays(columns, schema=rows.schema)
    starts = np.cumsum([0, *map(len, rows.chunks)]).tolist()
    chunks = [
        pc.filter(chunk, flags.slice(start, len(chunk)))
        for start, chunk in zip(starts, rows.chunks, strict=False)
    ]
    return pa.chunked_array(chunks, rows.type)


def drop_null(rows: _Rows) -> _Rows:
    """Return the values that are not null, or the rows of a table without any null."""
    columns: Any = [rows] if isinstance(rows, _COLUMNS) else rows.columns
    if any(_nests_fixed(c.type) or isinstance(c.type, pa.DictionaryType) for c in columns):
        both: Any = pc.and_
        return filter(rows, functools.reduce(both, [pc.is_valid(_rewritten(c)) for c in columns]))
    kept: _Rows = pc.drop_null(rows)
    return kept


def null_count(values: pa.Array | pa.ChunkedArray) -> int:
    """Return the number of nulls, including null values of dictionaries."""
    if values.type.id != _DICTIONARY:
        return values.null_count
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    coded = cast_type("list[pa.DictionaryArray]", chunks)
    return sum(without_null_values(chunk).null_count for chunk in coded)


def without_null_values(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Move nulls from a dictionary's values to its indices."""
    if not values.dictionary.null_count:
        return values
    there = pc.is_valid(values.dictionary).to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(there) - 1, values.type.index_type, mask=~there)
    return pa.DictionaryArray.from_arrays(
        pc.take(places, values.indices),
        pc.drop_null(values.dictionary),
        ordered=values.type.ordered,
    )


def without_unused_values(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Reduce a dictionary to the values in use, in their order."""
    used = pc.drop_null(pc.unique(values.indices))
    used = pc.take(used, pc.sort_indices(used))
    return pa.DictionaryArray.from_arrays(
        pc.cast(pc.index_in(values.indices, value_set=used), values.type.index_type),
        take(values.dictionary, used),
        ordered=values.type.ordered,
    )


def concat_arrays(arrays: Iterable[pa.Array], memory_pool: pa.MemoryPool | None = None) -> pa.Array:
    """Concatenate arrays of one type; always copies."""
    joined: pa.Array = _joined(lambda parts: pa.concat_arrays(parts, memory_pool), list(arrays))
    return joined


def concat_batches(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches of one schema; always copies."""
    joined: pa.RecordBatch = _joined(pa.concat_batches, list(batches))
    return joined


@overload
def combine_chunks(rows: pa.ChunkedArray) -> pa.Array: ...
@overload
def combine_chunks(rows: pa.Table) -> pa.Table: ...
def combine_chunks(rows: pa.ChunkedArray | pa.Table) -> pa.Array | pa.Table:
    """Combine the chunks of a column to one array, or of each column of a table to one chunk."""
    joined: pa.Array | pa.Table = _joined(lambda parts: parts.combine_chunks(), rows)
    return joined


def sort_by(rows: _Tabular, sorting: str | list[tuple[str, str]]) -> _Tabular:
    """Sort rows by some columns."""
    ordered: _Tabular = _joined(lambda sound: sound.sort_by(sorting), _at_offset_0(rows))
    return ordered


def ascii_lower(texts: _Values) -> _Values:
    """Convert the ASCII letters of texts to lower case: an array, a chunked array, or a scalar."""
    return pc.ascii_lower(_from_byte_0(texts))


def ascii_upper(texts: _Values) -> _Values:
    """Convert the ASCII letters of texts to upper case: an array, a chunked array, or a scalar."""
    return pc.ascii_upper(_from_byte_0(texts))


def cast(rows: _Rows, kind: pa.DataType | pa.Schema) -> _Rows:
    """Cast values to a type, or rows to a schema with the same names."""
    found: Any = rows
    if isinstance(kind, pa.Schema):
        found = _cast_rows(found, kind)
    elif isinstance(rows, pa.ChunkedArray):
        found = pa.chunked_array([_cast_array(chunk, kind) for chunk in rows.chunks], kind)
    else:
        found = _cast_array(found, kind)
    done: _Rows = found
    return done


def cast_decimals(values: _Values, kind: pa.DataType) -> _Values:
    """Cast decimals, an array or a scalar, to another decimal type without changing values."""
    own, new = cast_type("_Decimals", values.type), cast_type("_Decimals", kind)
    whole, most = own.precision - own.scale, new.precision - new.scale
    if new.scale > own.scale and most < whole:
        if own.bit_width < 128:  # Arrow has no abs for these
            return cast_decimals(pc.cast(values, pa.decimal128(own.precision, own.scale)), kind)
        end = pa.scalar(Decimal(1).scaleb(max(most, -own.scale)), own)
        beyond = pc.greater_equal(pc.abs(values), end)
        if (beyond if isinstance(beyond, pa.Scalar) else pc.any(beyond)).as_py():
            raise pa.ArrowInvalid(f"a value of type {own} has too many digits for {kind}")
    return pc.cast(values, kind)


def sortable(values: _Column) -> _Column:
    """Convert values to a type that Arrow can sort: half floats to floats, dictionaries decoded."""
    if isinstance(values.type, pa.DictionaryType):
        return pc.cast(values, values.type.value_type)
    return pc.cast(values, pa.float32()) if values.type.id == _HALF else values


def rank(values: pa.Array, tiebreaker: str) -> pa.Array:
    """Return the ranks of values, from 1 on."""
    return pc.rank(sortable(values), tiebreaker=tiebreaker)


def sort_indices(
    rows: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table,
    sort_keys: Sequence[tuple[str, str]] = (),
) -> pa.Array:
    """Return the positions of values, or of rows by ``sort_keys``, in sorted order."""
    if isinstance(rows, _COLUMNS):
        return pc.sort_indices(sortable(rows))
    columns = [sortable(column) for column in rows.columns]
    return pc.sort_indices(pa.table(columns, rows.column_names), sort_keys=sort_keys)


def max_element_wise(*values: object, skip_nulls: bool = True) -> Any:
    """Return the element-wise maximum of arrays and scalars."""
    return pc.max_element_wise(*map(_bytes_from_0, values), skip_nulls=skip_nulls)


def min_element_wise(*values: object, skip_nulls: bool = True) -> Any:
    """Return the element-wise minimum of arrays and scalars."""
    return pc.min_element_wise(*map(_bytes_from_0, values), skip_nulls=skip_nulls)


def list_parents(lists: pa.Array) -> pa.Array:
    """Return the row of the list for each item that ``list_flatten`` returns."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return pa.array(np.repeat(np.arange(len(lists)), lengths))


# ---- casts


def _cast_rows(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table | pa.RecordBatch:
    if rows.schema.names != schema.names:
        return rows.cast(schema)  # raises an error that names the difference
    pairs = zip(rows.columns, schema.types, strict=True)
    columns: list[Any] = [cast(column, kind) for column, kind in pairs]  # type: ignore[type-var]
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and null_count(column):
            raise ValueError(f"Casting field {field.name!r} with null values to non-nullable")
    return type(rows).from_arrays(columns, schema=schema)


def _cast_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    own = array.type
    if own.equals(kind, check_metadata=True):
        return array
    if pt.is_decimal(own) and pt.is_decimal(kind):
        return cast_decimals(array, kind)
    if not _is_cast_wrongly(own) or own.id != kind.id or own.num_fields != kind.num_fields:
        return pc.cast(array, kind)
    if isinstance(array, pa.StructArray):
        names = [own.field(place).name for place in range(own.num_fields)]
        if names != [kind.field(place).name for place in range(own.num_fields)]:
            return pc.cast(array, kind)
        if own != kind:
            _refuse_nulls(array, kind)
        parts = [array.field(place) for place in range(own.num_fields)]
        return _at_0(array, kind, _cast_parts(parts, kind))
    if isinstance(array, pa.ExtensionArray):
        return pc.cast(array, kind)
    items: pa.Array = array.values  # type: ignore[attr-defined]  # all others are lists
    if isinstance(array, pa.FixedSizeListArray) and isinstance(kind, pa.FixedSizeListType):
        size = array.type.list_size
        if size != kind.list_size:
            return pc.cast(array, kind)
        items = items.slice(array.offset * size, len(array) * size)
        return _at_0(array, kind, _cast_parts([items], kind))
    new = _cast_array(items, kind.field(0).type)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], -1, array.offset, [new])


def _cast_parts(parts: list[pa.Array], kind: pa.DataType) -> list[pa.Array]:
    return [_cast_array(part, kind.field(place).type) for place, part in enumerate(parts)]


def _refuse_nulls(structs: pa.StructArray, kind: pa.DataType) -> None:
    """Raise if a field that becomes non-nullable has a null in a struct that is not null."""
    for place in range(kind.num_fields):
        field = kind.field(place)
        if not field.nullable and structs.type.field(place).nullable:
            there = pc.filter(structs.field(place), pc.is_valid(structs))
            if null_count(there):
                raise pa.ArrowInvalid(f"field {field.name!r} has nulls, but is not nullable")


def _is_cast_wrongly(kind: pa.DataType) -> bool:
    """Return True if values have decimals, parts of null type, or non-nullable fields."""
    if pt.is_decimal(kind):
        return True
    if kind.id not in _WITH_PARTS:
        return False
    fields = [kind.field(place) for place in range(kind.num_fields)]
    required = isinstance(kind, pa.StructType) and not all(field.nullable for field in fields)
    return required or any(f.type.id == _NULL or _is_cast_wrongly(f.type) for f in fields)


# ---- rewritten inputs of kernels


def _joined(kernel: Callable[[Any], _Out], rows: object) -> _Out:
    """Call a kernel that joins chunks; if Arrow raises an error, rewrite the chunks and retry."""
    try:
        return kernel(rows)
    except _JOINING_ERRORS:
        return kernel(list(map(_rewritten, rows)) if isinstance(rows, list) else _rewritten(rows))


def _from_byte_0(texts: _Values) -> _Values:
    """Rewrite texts at offset 0 to begin at byte 0."""
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array(map(_from_byte_0, texts.chunks), texts.type)
    if not isinstance(texts, pa.Array) or texts.offset or not len(texts):
        return texts
    if texts.type.id not in _TEXTS:
        return texts  # the kernel raises the error
    validity, borders, data = texts.buffers()
    width: type[np.signedinteger] = np.int64 if texts.type.id == _LARGE_STRING else np.int32
    offsets = np.frombuffer(borders or b"", width, len(texts) + 1)
    if not offsets[0]:
        return texts
    data = data and data.slice(int(offsets[0]))
    buffers = [validity, pa.py_buffer(offsets - offsets[0]), data]
    return pa.Array.from_buffers(texts.type, len(texts), buffers)


def _bytes_from_0(values: object) -> Any:
    """Remove the offset of fixed-size binary values; return other values unchanged."""
    if not isinstance(values, _COLUMNS) or values.type.id != _FIXED_BYTES:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array(map(_bytes_from_0, values.chunks), values.type)
    return concat_arrays([values]) if values.offset else values


def _at_offset_0(rows: _Rows) -> _Rows:
    """Move nested fixed-size lists to offset 0; without such lists, return the same object."""
    if isinstance(rows, _COLUMNS):
        return _rewritten(rows) if _nests_fixed(rows.type) else rows
    return _rewritten(rows) if any(map(_nests_fixed, rows.schema.types)) else rows


def _nests_fixed(kind: pa.DataType) -> bool:
    """Return True if a type contains fixed-size lists of fixed-size lists."""
    if kind.id not in _WITH_PARTS:
        return False
    if isinstance(kind, pa.BaseExtensionType):
        return _nests_fixed(kind.storage_type)
    return _nests_directly(kind) or any(
        _nests_fixed(kind.field(place).type) for place in range(kind.num_fields)
    )


def _nests_directly(kind: pa.DataType) -> bool:
    if not isinstance(kind, pa.FixedSizeListType):
        return False
    inner = kind.value_type
    while isinstance(inner, pa.BaseExtensionType):
        inner = inner.storage_type
    return inner.id == _FIXED


def _rewritten(rows: Any) -> Any:
    """Rewrite rows as arrays that all kernels read correctly."""
    if isinstance(rows, pa.Array):
        return _rewritten_array(rows)
    if isinstance(rows, pa.ChunkedArray):
        return pa.chunked_array(map(_rewritten_array, rows.chunks), rows.type)
    if not rows.num_columns:
        return rows
    columns = [_rewritten(column) for column in rows.columns]
    return type(rows).from_arrays(columns, schema=rows.schema)


def _rewritten_array(array: pa.Array) -> pa.Array:
    """Rewrite an array that kernels read wrongly; return the same object if it needs no change.

    Empty arrays lose offsets, fixed-size lists begin at offset 0, dictionaries have no null values.
    """
    kind = array.type
    if not len(array):
        return pa.nulls(0, kind)
    if isinstance(array, pa.DictionaryArray):
        return without_null_values(array)
    if kind.id not in _WITH_PARTS:
        return array
    if isinstance(array, pa.ExtensionArray):
        storage = _rewritten_array(old := array.storage)
        return array if storage is old else array.type.wrap_array(storage)
    if isinstance(array, pa.StructArray):
        return _with_parts(array, [array.field(place) for place in range(kind.num_fields)])
    items: pa.Array = array.values  # type: ignore[attr-defined]  # all others are lists
    if isinstance(array, pa.FixedSizeListArray):
        size = array.type.list_size
        if array.offset:
            items = items.slice(array.offset * size, len(array) * size)
        return _with_parts(array, [items])
    new = _rewritten_array(items)
    if new is items:
        return array
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), buffers, -1, array.offset, [new])


def _with_parts(array: pa.Array, parts: list[pa.Array]) -> pa.Array:
    """Move structs or fixed-size lists, and their rewritten parts, to offset 0."""
    new = [_rewritten_array(part) for part in parts]
    if not array.offset and all(map(is_, new, parts)):
        return array
    return _at_0(array, array.type, new)


def _at_0(array: pa.Array, kind: pa.DataType, parts: list[pa.Array]) -> pa.Array:
    """Return structs or fixed-size lists at offset 0 with other parts."""
    validity = None
    if array.null_count:
        flags = pc.is_valid(array).to_numpy(zero_copy_only=False)
        validity = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return pa.Array.from_buffers(kind, len(array), [validity], array.null_count, children=parts)
