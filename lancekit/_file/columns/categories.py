"""Dictionaries with small keys: limits on the number of distinct values in a file.

A file may have a dictionary for each page.  The reference unifies the dictionaries of a file when
it reads, and fails if 8- or 16-bit keys are too few for all their values.  Pages of version 2.0
store null as one more value, with a key of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.columns.limits import too_many_categories
from lancekit._file.kernels.values import storage_type
from lancekit._format.arrow_parts import items_of, with_leaves

#: Larger keys than this have room for any number of values.
_SMALL_BITS = 16

#: Index of a column, then of each child down to a dictionary.
_Path = tuple[int, ...]
_Values: TypeAlias = dict[_Path, pa.Array]


class Categories:
    """Distinct values of all dictionaries with small keys in one file of a format version.

    Examples
    --------
    >>> letters = pa.array(["a", "b"]).dictionary_encode().cast(pa.dictionary("int8", "string"))
    >>> seen = Categories(pa.schema({"c": letters.type}), "2.1")
    >>> seen.add(lambda place: letters) is None
    True
    """

    def __init__(self, schema: pa.Schema, version: str) -> None:
        self._counts_null = version == "2.0"
        self._most = {
            (place, *path): most
            for place, kind in enumerate(schema.types)
            for path, most in _paths(kind, ())
        }
        self._values: _Values = {}

    @property
    def columns(self) -> set[int]:
        """Indices of the columns with such dictionaries."""
        return {path[0] for path in self._most}

    def add(self, column: Callable[[int], pa.Array]) -> int | None:
        """Add the values of some rows; if a column's do not fit, return its index and add none."""
        of_paths = {path: _at(column(path[0]), path[1:]) for path in self._most}
        return self._merge({path: self._items(values) for path, values in of_paths.items()})

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> bool:
        """Add the values of batches, or only the used ones; return False if they do not fit."""
        return all(self.add_used(batch) is None for batch in batches)

    def add_used(self, batch: pa.RecordBatch) -> int | None:
        """Add the values of a batch, or only the used ones; return what `add` returns."""
        if self.add(batch.column) is None:
            return None
        return self.add({at: without_unused(batch.column(at)) for at in self.columns}.__getitem__)

    def join(self, other: Categories) -> int | None:
        """Add the values of another object for the same schema, like `add`."""
        return self._merge(other._values)

    def _items(self, values: pa.DictionaryArray) -> pa.Array:
        items = storage_of(values.dictionary)
        if self._counts_null and ak.null_count(values):
            return ak.concat_arrays([items, pa.nulls(1, items.type)])
        return items

    def _merge(self, found: _Values) -> int | None:
        merged = dict(self._values)
        for path, items in found.items():
            known = merged.get(path)
            if known is None or not known.equals(items):
                parts = [items] if known is None else [known, items]
                known = pc.unique(pa.chunked_array(parts))
                known = known if self._counts_null else ak.drop_null(known)
            if len(known) > self._most[path]:
                return path[0]
            merged[path] = known
        self._values = merged
        return None


def check_each_row(batch: pa.RecordBatch, version: str) -> None:
    """Check that a file of a version can hold each row.

    Raises UnsupportedTypeError: the lists of a row have too many values for the keys.
    """
    crowded = Categories(batch.schema, version).add_used(batch)
    if crowded is None:
        return
    if batch.num_rows == 1:
        raise too_many_categories(batch.schema.field(crowded), version)
    half = batch.num_rows // 2
    check_each_row(batch.slice(0, half), version)
    check_each_row(batch.slice(half), version)


def _paths(kind: pa.DataType, above: _Path) -> Iterator[tuple[_Path, int]]:
    """Yield the path of each dictionary with small keys, and the number of values they allow."""
    kind = storage_type(kind)
    if pa.types.is_dictionary(kind):
        if kind.index_type.bit_width <= _SMALL_BITS:
            yield above, int(np.iinfo(kind.index_type.to_pandas_dtype()).max) + 1
    elif pa.types.is_nested(kind):
        for place in range(kind.num_fields):
            yield from _paths(kind.field(place).type, (*above, place))


def _at(array: pa.Array, path: _Path) -> pa.DictionaryArray:
    array = storage_of(array)
    if not path:
        return cast("pa.DictionaryArray", array)
    inner = array.field(path[0]) if isinstance(array, pa.StructArray) else items_of(array)
    return _at(inner, path[1:])


def without_unused(array: pa.Array) -> pa.Array:
    """Return the array with dictionaries reduced to the values that its rows use."""
    if pa.types.is_nested(array.type):  # copied, so that lists have no items of other rows
        array = ak.take(array, np.arange(len(array)))
    return with_leaves(array, _without_unused)


def _without_unused(part: pa.Array, _kind: pa.DataType) -> pa.Array:
    return ak.without_unused_values(part) if isinstance(part, pa.DictionaryArray) else part


def storage_of(array: pa.Array) -> pa.Array:
    """Return the storage of an extension array; other arrays unchanged."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array
