"""Nested columns for tests: every type that holds others, in every shape that picks another path.

`nested_columns` makes them, `nested_field` gives a column the field metadata that its name asks
for (packed structs, blobs), and `assert_same_nested` compares to the last bit.  They are many, so
tests with the mark `cover` read one share of them in each version, `share_of`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tests.file.columns import _of_bytes, with_nulls

HUGE = 20_000  # items of the longest row
SHARES = range(3)

_FIXED = (pa.types.is_primitive, pa.types.is_fixed_size_binary, pa.types.is_decimal)

_METADATA = {
    "packed": {"lance-encoding:packed": "true"},
    "blob": {"lance-encoding:blob": "true"},
}


def nested_field(name: str, array: pa.Array) -> pa.Field:
    """Return the field of a column: the first word of its name may ask for metadata."""
    return pa.field(name, array.type, metadata=_METADATA.get(name.split(maxsplit=1)[0]))


def nested_table(rows: int, version: str) -> pa.Table:
    """Return all columns that a version can hold as one table."""
    named = list(nested_columns(rows, version))
    schema = pa.schema([nested_field(name, array) for name, array in named])
    return pa.table([array for _, array in named], schema=schema)


def share_of(table: pa.Table, share: int) -> pa.Table:
    """Return every third column: with a share for each version, all columns are seen once."""
    return table.select(table.column_names[share :: len(SHARES)])


def nested_columns(rows: int, version: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield named columns that files of a version (``"2.0"`` ...) can hold.

    What the reference writes but cannot read back is left out.
    """
    make = _Maker(rows)
    yield from _lists(make)
    yield from _structs(make, nullable=version != "2.0")
    yield from _fixed_size_lists(make)
    yield from _dictionaries(make)
    yield from _packed(make, nullable=version != "2.0", vectors=version != "2.1")
    if version == "2.2":
        yield from _maps(make)
        yield from _lists_of_fixed_size_structs(make)
        yield from _packed_variable(make)
    yield "blob", make.blobs()


class _Maker:
    """Random parts of columns, the same ones for the same number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.rng = np.random.default_rng(rows + 1)

    def mask(self, count: int, share: float = 0.2) -> Any:
        return self.rng.random(count) < share

    def values(self, kind: pa.DataType, count: int, nulls: str = "none") -> pa.Array:
        """Return values of a type that is not nested."""
        if pa.types.is_boolean(kind):
            array = pa.array(self.rng.random(count) < 0.5)
        elif pa.types.is_null(kind):
            return pa.nulls(count)
        elif pa.types.is_dictionary(kind):
            array = self.dictionary(kind, count)
        elif kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
            numbers = self.rng.integers(0, 10**6, count)
            texts = [f"text {n}" if n % 7 > 1 else "" for n in numbers.tolist()]
            array = pa.array(texts, kind)
        elif kind in (pa.int32(), pa.int64()):
            array = pa.array(self.rng.integers(-9, 3000, count), kind)
        else:
            array = _of_bytes(kind, count, self.rng)
        return self.nulls_in(array, nulls)

    def nulls_in(self, array: pa.Array, nulls: str) -> pa.Array:
        return with_nulls(array, nulls)

    def dictionary(self, kind: pa.DictionaryType, count: int, items: pa.Array = None) -> pa.Array:
        if items is None:
            items = self.values(kind.value_type, 9)
        keys = pa.array(self.rng.integers(0, len(items), count), kind.index_type)
        return pa.DictionaryArray.from_arrays(keys, items)

    def shapes(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield names, lengths of lists, and which of the lists are null."""
        rows, rng = self.rows, self.rng
        none = np.zeros(rows, bool)
        some = rng.integers(1, 5, rows)
        runs = np.where(np.arange(rows) // 700 % 2 == 1, 0, some)
        huge = np.where(np.arange(rows) == rows // 2, HUGE, some)
        yield "plain", some, none
        yield "nulls", some, self.mask(rows)
        yield "empties", some * ~self.mask(rows), none
        yield "nulls and empties", some * ~self.mask(rows), self.mask(rows)
        yield "all empty", np.zeros(rows, np.int64), none
        yield "all null", np.zeros(rows, np.int64), ~none
        yield "empty or null", np.zeros(rows, np.int64), self.mask(rows)
        yield "runs of empties", runs, none
        yield "huge row", huge, none
        yield "huge row, nulls and empties", huge * ~self.mask(rows), self.mask(rows, 0.1)

    def lengths(self, count: int) -> tuple[Any, Any]:
        """Return lengths and nulls of lists that are everything."""
        return self.rng.integers(0, 5, count), self.mask(count)

    def lists(self, kind: pa.DataType, count: int, nulls: str = "some") -> pa.Array:
        lengths, null = self.lengths(count)
        return lists_of(lengths, null, self.values(kind, int(lengths.sum()), nulls))

    def struct(self, count: int, nulls: str, null: Any = None) -> pa.Array:
        return struct_of(
            {
                "a": self.values(pa.int64(), count, nulls),
                "b": self.values(pa.string(), count, nulls),
            },
            null,
        )

    def blobs(self) -> pa.Array:
        sizes = self.rng.integers(0, 300, self.rows) * ~self.mask(self.rows)
        values = [bytes(size) if size % 2 else b"blob" * size for size in sizes.tolist()]
        return self.nulls_in(pa.array(values, pa.large_binary()), "some")


def lists_of(lengths: Any, null: Any, values: pa.Array, large: bool = False) -> pa.Array:
    """Return lists over values; null lists may have items, which do not count."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    make, kind = (pa.LargeListArray, pa.int64()) if large else (pa.ListArray, pa.int32())
    mask = pa.array(null) if null is not None and np.any(null) else None
    return make.from_arrays(pa.array(offsets, kind), values, mask=mask)


def struct_of(children: dict[str, pa.Array], null: Any = None) -> pa.Array:
    """Return a struct; what lies under its nulls does not count."""
    mask = pa.array(null) if null is not None and np.any(null) else None
    return pa.StructArray.from_arrays(list(children.values()), list(children), mask=mask)


def _lists(make: _Maker) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    for shape, lengths, null in make.shapes():
        count = int(lengths.sum())
        for kind, nulls in ((pa.int32(), "none"), (pa.int64(), "some"), (pa.string(), "some")):
            items = make.values(kind, count, nulls)
            yield f"list {kind}, {shape}, {nulls} null items", lists_of(lengths, null, items)
    kinds = (
        *(pa.bool_(), pa.uint8(), pa.float32(), pa.float64(), pa.date32(), pa.large_binary()),
        *(pa.decimal128(38, 4), pa.decimal256(60, 2), pa.timestamp("us", "UTC"), pa.binary(3)),
        *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())),
    )
    for kind in kinds:
        for nulls in ("none", "some", "all"):
            yield f"list {kind}, {nulls} null items", make.lists(kind, rows, nulls)
    lengths, null = make.lengths(rows)
    long = pa.array(["long " * int(n) for n in make.rng.integers(0, 200, lengths.sum())])
    yield "list long strings", lists_of(lengths, null, long)
    yield "list long strings, null items", lists_of(lengths, null, with_nulls(long, "some"))
    for nulls in ("none", "some"):
        count = int(lengths.sum())
        vectors = pa.FixedSizeListArray.from_arrays(make.values(pa.float32(), 3 * count), 3)
        yield f"list vectors, {nulls} null", lists_of(lengths, null, with_nulls(vectors, nulls))
        wide = pa.FixedSizeListArray.from_arrays(make.values(pa.float32(), 80 * count), 80)
        yield f"list wide vectors, {nulls} null", lists_of(lengths, null, with_nulls(wide, nulls))
        items = make.values(pa.float32(), 3 * count, "some")
        vectors = pa.FixedSizeListArray.from_arrays(items, 3)
        note = f"list vectors with null items, {nulls} null"
        yield note, lists_of(lengths, null, with_nulls(vectors, nulls))
    yield "large_list", lists_of(lengths, null, make.values(pa.int32(), count), large=True)
    text = make.values(pa.large_string(), count, "some")
    yield "large_list large_string", lists_of(lengths, null, text, large=True)
    inner = make.lists(pa.int32(), count)
    yield "list list", lists_of(lengths, null, inner)
    outer_lengths, outer_null = make.lengths(rows)
    middle_lengths, middle_null = make.lengths(int(outer_lengths.sum()))
    inner = make.lists(pa.string(), int(middle_lengths.sum()))
    middle = lists_of(middle_lengths, middle_null, inner, large=True)
    yield "list list list", lists_of(outer_lengths, outer_null, middle)
    full = np.full(rows, 2)
    inner = lists_of(np.full(2 * rows, 3), None, make.values(pa.int32(), 6 * rows))
    yield "list list, no nulls", lists_of(full, None, inner)
    sparse = make.rng.integers(1, 4, rows) * make.mask(rows, 0.01)
    yield "list sparse", lists_of(sparse, None, make.values(pa.int32(), int(sparse.sum())))


def _structs(make: _Maker, *, nullable: bool) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    for nulls in ("none", "some", "all"):
        yield f"struct, {nulls} null children", make.struct(rows, nulls)
    yield (
        "struct of struct",
        struct_of({"s": make.struct(rows, "some"), "l": make.lists(pa.int8(), rows)}),
    )
    yield "struct empty", pa.array([{}] * rows, pa.struct([]))
    lengths, null = make.lengths(rows)
    count = int(lengths.sum())
    yield "list struct", lists_of(lengths, null, make.struct(count, "some"))
    inner = struct_of(
        {"x": make.lists(pa.int32(), count), "y": make.values(pa.bool_(), count, "some")}
    )
    yield "list struct list", lists_of(lengths, null, inner)
    dictionary = make.values(pa.dictionary(pa.int16(), pa.string()), rows, "some")
    vectors = pa.FixedSizeListArray.from_arrays(make.values(pa.float64(), 2 * rows), 2)
    yield (
        "struct mixed",
        struct_of({"d": dictionary, "v": with_nulls(vectors, "some"), "n": pa.nulls(rows)}),
    )
    if not nullable:
        return
    for nulls in ("none", "some"):
        yield f"struct nullable, {nulls} null children", make.struct(rows, nulls, make.mask(rows))
    yield "struct all null", make.struct(rows, "none", np.ones(rows, bool))
    inner = make.struct(rows, "some", make.mask(rows))
    yield (
        "struct nullable in nullable",
        struct_of({"s": inner, "c": make.values(pa.int8(), rows)}, make.mask(rows)),
    )
    only = struct_of({"s": make.struct(rows, "none", make.mask(rows))})
    yield "struct nullable in plain", only
    lists = {"l": make.lists(pa.int32(), rows), "t": make.values(pa.string(), rows)}
    yield "struct nullable of list", struct_of(lists, make.mask(rows))
    inner = make.struct(count, "some", make.mask(count))
    yield "list struct nullable", lists_of(lengths, null, inner)
    leaf_lengths, leaf_null = make.lengths(count)
    leaves = make.struct(int(leaf_lengths.sum()), "some", make.mask(int(leaf_lengths.sum())))
    inner = struct_of(
        {
            "l": lists_of(leaf_lengths, leaf_null, leaves),
            "z": make.values(pa.int16(), count, "some"),
        },
        make.mask(count),
    )
    deep = lists_of(lengths, null, inner)
    yield "list struct list struct", deep
    yield (
        "struct list struct list struct",
        struct_of({"deep": deep, "k": make.values(pa.int32(), rows)}, make.mask(rows)),
    )


def _fixed_size_lists(make: _Maker) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    for nulls in ("none", "some"):
        items = make.values(pa.float32(), 6 * rows, nulls)
        inner = pa.FixedSizeListArray.from_arrays(items, 3)
        outer = pa.FixedSizeListArray.from_arrays(with_nulls(inner, nulls), 2)
        yield f"vector of vectors, {nulls} null", with_nulls(outer, nulls)
    flags = pa.FixedSizeListArray.from_arrays(make.values(pa.bool_(), 5 * rows, "some"), 5)
    yield "vector of flags", with_nulls(flags, "some")


def _lists_of_fixed_size_structs(make: _Maker) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    for nulls in ("none", "some"):
        plain = make.struct(3 * rows, nulls)
        yield (
            f"vector of structs, {nulls} null children",
            pa.FixedSizeListArray.from_arrays(plain, 3),
        )
    items = make.struct(3 * rows, "some", make.mask(3 * rows))
    yield "vector of nullable structs", pa.FixedSizeListArray.from_arrays(items, 3)
    mask = pa.array(make.mask(rows))
    nullable = pa.FixedSizeListArray.from_arrays(items, 3, mask=mask)
    yield "vector nullable of nullable structs", nullable
    nested = struct_of({"s": items, "a": make.values(pa.int8(), 3 * rows)})
    yield "vector of structs of structs", pa.FixedSizeListArray.from_arrays(nested, 3)
    # the reference cannot read back such a struct with another child beside it
    yield "struct of vector of structs", struct_of({"v": nullable})


def _dictionaries(make: _Maker) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    keys = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64())
    values = (pa.string(), pa.large_string(), pa.binary(), pa.int64(), pa.float64(), pa.uint8())
    for key in keys:
        yield f"dictionary {key} string", make.dictionary(pa.dictionary(key, pa.string()), rows)
    for value in values:
        array = make.dictionary(pa.dictionary(pa.int32(), value), rows)
        yield f"dictionary int32 {value}, null keys", with_nulls(array, "some")
    kind = pa.dictionary(pa.int16(), pa.string())
    items = pa.array(["a", None, "", "ccc", None])
    yield "dictionary null items", make.dictionary(kind, rows, items)
    array = with_nulls(make.dictionary(kind, rows, items), "some")
    yield "dictionary null items, null keys", array
    yield "dictionary all null", pa.nulls(rows, kind)


def _packed(make: _Maker, *, nullable: bool, vectors: bool) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    numbers = {"x": make.values(pa.int32(), rows), "y": make.values(pa.float64(), rows)}
    numbers["z"] = make.values(pa.uint8(), rows)
    yield "packed numbers", struct_of(numbers)
    if nullable:
        yield "packed numbers nullable", struct_of(numbers, make.mask(rows))
    if vectors:
        items = pa.FixedSizeListArray.from_arrays(make.values(pa.float32(), 4 * rows), 4)
        yield "packed vectors", struct_of({"v": items, "k": make.values(pa.int16(), rows)})


def _packed_variable(make: _Maker) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    parts = {
        "k": make.values(pa.int32(), rows),
        "t": make.values(pa.string(), rows),
        "b": make.values(pa.large_binary(), rows),
        "f": make.values(pa.float64(), rows),
    }
    yield "packed strings", struct_of(parts)
    yield "packed strings nullable", struct_of(parts, make.mask(rows))


def _maps(make: _Maker) -> Iterator[tuple[str, pa.Array]]:
    rows = make.rows
    lengths, null = make.lengths(rows)
    count = int(lengths.sum())
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    keys = make.values(pa.string(), count)
    mask = pa.array(null)
    items = {
        "numbers": make.values(pa.int32(), count, "some"),
        "lists": make.lists(pa.string(), count),
        "structs": make.struct(count, "some", make.mask(count)),
    }
    for name, array in items.items():
        yield f"map of {name}", pa.MapArray.from_arrays(offsets, keys, array)
        nullable = pa.MapArray.from_arrays(offsets, keys, array, mask=mask)
        yield f"map nullable of {name}", nullable
    outer_lengths, outer_null = make.lengths(rows)
    inner_lengths, inner_null = make.lengths(int(outer_lengths.sum()))
    inner_count = int(inner_lengths.sum())
    offsets = pa.array(np.concatenate(([0], np.cumsum(inner_lengths))), pa.int32())
    inner = pa.MapArray.from_arrays(
        offsets,
        make.values(pa.int64(), inner_count),
        make.values(pa.float64(), inner_count, "some"),
        mask=pa.array(inner_null),
    )
    yield "list map", lists_of(outer_lengths, outer_null, inner)


def assert_same_nested(actual: pa.Array | pa.ChunkedArray, expected: pa.Array, note: str) -> None:
    """Compare to the last bit: type, validity, list shapes and values at valid places.

    Dictionaries are compared by what they stand for.  Arrow's own full validation runs first.
    """
    actual.validate(full=True)
    assert actual.type == expected.type, f"{note}: {actual.type}, not {expected.type}"
    assert len(actual) == len(expected), f"{note}: {len(actual)} rows, not {len(expected)}"
    got, wanted = _contents(actual), _contents(expected)
    for path, data in wanted.items():
        assert got.get(path, b"") == data, f"{note}: {path} differs"


def _contents(array: pa.Array | pa.ChunkedArray) -> dict[str, bytes]:
    """Return what counts, as bytes for every part of the type."""
    parts: dict[str, list[bytes]] = defaultdict(list)
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        _walk("", chunk, np.arange(len(chunk)), parts)
    return {path: b"".join(data) for path, data in parts.items()}


def _walk(path: str, array: pa.Array, rows: Any, parts: dict[str, list[bytes]]) -> None:
    """Collect the content of ``array`` at ``rows``, descending to what is valid only."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _walk(path, array.storage, rows, parts)
    if pa.types.is_dictionary(kind):
        picked = array.indices.take(pa.array(rows))
        plain = array.dictionary.take(picked)
        return _walk(path, plain, np.arange(len(plain)), parts)
    valid = array.is_valid().to_numpy(zero_copy_only=False)[rows]
    parts[f"{path} validity"].append(valid.tobytes())
    rows = rows[valid]
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _walk(f"{path}.{kind.field(index).name}", array.field(index), rows, parts)
    elif pa.types.is_fixed_size_list(kind):
        inner = (rows + array.offset)[:, None] * kind.list_size + np.arange(kind.list_size)
        _walk(f"{path}[]", array.values, inner.ravel(), parts)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.offsets.to_numpy().astype(np.int64)
        lengths = offsets[rows + 1] - offsets[rows]
        parts[f"{path} lengths"].append(lengths.tobytes())
        before = np.cumsum(lengths) - lengths
        inner = np.arange(int(lengths.sum())) + np.repeat(offsets[rows] - before, lengths)
        if pa.types.is_map(kind):
            _walk(f"{path} keys", array.keys, inner, parts)
            _walk(f"{path} items", array.items, inner, parts)
        else:
            _walk(f"{path}[]", array.values, inner, parts)
    elif not pa.types.is_null(kind):
        _leaf(path, array.take(pa.array(rows)), parts)
    return None


def _leaf(path: str, array: pa.Array, parts: dict[str, list[bytes]]) -> None:
    kind = array.type
    data = memoryview(array.buffers()[-1] or b"")
    if pa.types.is_boolean(kind):
        parts[f"{path} values"].append(array.to_numpy(zero_copy_only=False).tobytes())
    elif any(is_kind(kind) for is_kind in _FIXED):
        width = kind.byte_width
        parts[f"{path} values"].append(bytes(data[array.offset * width :][: len(array) * width]))
    else:
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        offsets = np.frombuffer(array.buffers()[1] or bytes(8), np.int64 if wide else np.int32)
        offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
        parts[f"{path} lengths"].append(np.diff(offsets).tobytes())
        parts[f"{path} values"].append(bytes(data[int(offsets[0]) : int(offsets[-1])]))
