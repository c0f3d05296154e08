"""Columns of every type, in every pattern of nulls and values, for files of other releases.

A column takes the values at some places of a pool: the pool is of the type, the places are the
pattern.  So every pattern is there for every type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["KINDS", "NULLS", "PATTERNS", "column", "field_of", "table"]

Rng = np.random.Generator
#: count, random numbers, share of nulls inside of the values
Pool = Callable[[int, Rng, float], pa.Array]

NULLS = ("none", "some", "few", "blocks", "all", "inside")
PATTERNS = ("random", "sorted", "runs", "short runs", "few", "constant", "small")

_DAY = 86_400


def _masked(array: pa.Array, share: float, rng: Rng) -> pa.Array:
    if not share:
        return array
    places = np.arange(len(array))
    return array.take(pa.array(places, mask=rng.random(len(array)) < share))


def _fixed(kind: pa.DataType, most: int | None = None, step: int = 1) -> Pool:
    """Numbers of any bits, or up to a limit, in steps."""

    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        width = kind.bit_width // 8
        if most is None:
            data = rng.integers(0, 256, count * width, dtype=np.uint8)
        else:
            numbers = rng.integers(0, most, count) * step
            data = np.zeros((count, width), np.uint8)
            data[:, : min(width, 8)] = (
                numbers.astype("<i8").view(np.uint8).reshape(-1, 8)[:, : min(width, 8)]
            )
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data.tobytes())])

    return make


def _bools(count: int, rng: Rng, inner: float) -> pa.Array:
    return pa.array(rng.random(count) < 0.5)


def _bytes(kind: pa.DataType, lengths: Callable[[int, Rng], Any], alphabet: bytes) -> Pool:
    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        sizes = lengths(count, rng)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        letters = np.frombuffer(alphabet, np.uint8)
        data = letters[rng.integers(0, len(letters), int(offsets[-1]))]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), count, buffers).cast(kind)

    return make


def _short(count: int, rng: Rng) -> Any:
    return rng.integers(0, 12, count)


def _middle(count: int, rng: Rng) -> Any:
    return rng.integers(0, 400, count)


def _long(count: int, rng: Rng) -> Any:
    return np.where(rng.random(count) < 0.3, rng.integers(0, 70_000, count), 3)


def _empty(count: int, rng: Rng) -> Any:
    return np.zeros(count, np.int64)


def _dictionary(key: pa.DataType, items: Pool) -> Pool:
    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        values = items(min(count, 90), rng, 0).unique()
        keys = pa.array(rng.integers(0, len(values), count), key)
        return pa.DictionaryArray.from_arrays(keys, values)

    return make


def _fixed_list(items: Pool, size: int) -> Pool:
    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        values = _masked(items(count * size, rng, inner), inner, rng)
        return pa.FixedSizeListArray.from_arrays(values, size)

    return make


def _list(items: Pool, *, large: bool = False, longest: int = 6) -> Pool:
    """Lists, a third of them empty; few are very long where ``longest`` is above six."""

    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        lengths = rng.integers(0, 6, count) * (rng.random(count) > 0.3)
        if longest > 6:
            lengths = np.where(rng.random(count) < 0.2, rng.integers(0, longest, count), lengths)
        values = _masked(items(int(lengths.sum()), rng, inner), inner, rng)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if large:
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)

    return make


def _empty_lists(count: int, rng: Rng, inner: float) -> pa.Array:
    offsets = pa.array(np.zeros(count + 1), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array([], pa.int32()))


def _struct(**children: Pool) -> Pool:
    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        arrays = [_masked(child(count, rng, inner), inner, rng) for child in children.values()]
        return pa.StructArray.from_arrays(arrays, list(children))

    return make


def _packed(count: int, rng: Rng, inner: float) -> pa.Array:
    """Structs whose fields have no nulls: none can be stored."""
    parts = {"x": pa.int32(), "y": pa.float64(), "z": pa.uint8()}
    arrays = [_fixed(kind)(count, rng, 0) for kind in parts.values()]
    return pa.StructArray.from_arrays(arrays, list(parts))


def _map(keys: Pool, items: Pool) -> Pool:
    def make(count: int, rng: Rng, inner: float) -> pa.Array:
        lengths = rng.integers(0, 4, count)
        total = int(lengths.sum())
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
        values = _masked(items(total, rng, inner), inner, rng)
        return pa.MapArray.from_arrays(offsets, keys(total, rng, 0), values)

    return make


def _json(count: int, rng: Rng, inner: float) -> pa.Array:
    numbers = rng.integers(0, 1000, count).tolist()
    return pa.array([f'{{"a":{n},"b":["x",null,{n % 3}]}}' for n in numbers])


_UTF8 = b"abcdefghijkl mnop"
_INT32, _INT64, _FLOAT = _fixed(pa.int32()), _fixed(pa.int64()), _fixed(pa.float32())
_TEXT = _bytes(pa.string(), _short, _UTF8)
_POINT = _struct(x=_INT32, t=_TEXT)

#: name of a type -> its values, and how many rows one counts for
KINDS: dict[str, tuple[Pool, int]] = {
    **{
        str(kind): (_fixed(kind), 1)
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16()),
            *(pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32()),
            *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
            *(pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
            *(pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")),
            *(pa.binary(1), pa.binary(3), pa.binary(16), pa.binary(300)),
        )
    },
    "bool": (_bools, 1),
    "null": (lambda count, rng, inner: pa.nulls(count), 1),
    "date64": (_fixed(pa.date64(), 40_000, _DAY * 1000), 1),
    "time32[s]": (_fixed(pa.time32("s"), _DAY), 1),
    "time32[ms]": (_fixed(pa.time32("ms"), _DAY * 10**3), 1),
    "time64[us]": (_fixed(pa.time64("us"), _DAY * 10**6), 1),
    "time64[ns]": (_fixed(pa.time64("ns"), _DAY * 10**9), 1),
    "decimal128(9, 2)": (_fixed(pa.decimal128(9, 2), 10**9), 1),
    "decimal128(38, 10)": (_fixed(pa.decimal128(38, 10), 2**62), 1),
    "decimal256(60, 5)": (_fixed(pa.decimal256(60, 5), 2**62), 2),
    **{
        f"{kind} {name}": (_bytes(kind, lengths, letters), weight)
        for kind, letters in (
            *((pa.string(), _UTF8), (pa.large_string(), _UTF8)),
            *((pa.binary(), bytes(range(256))), (pa.large_binary(), bytes(range(256)))),
        )
        for name, lengths, weight in (
            *(("short", _short, 1), ("middle", _middle, 4)),
            *(("long", _long, 60), ("empty", _empty, 1)),
        )
    },
    **{
        f"dictionary {key} {name}": (_dictionary(key, items), 1)
        for key, name, items in (
            *((pa.int8(), "string", _TEXT), (pa.int16(), "string", _TEXT)),
            *((pa.int32(), "string", _TEXT), (pa.uint32(), "string", _TEXT)),
            (pa.int16(), "large_string", _bytes(pa.large_string(), _middle, _UTF8)),
            (pa.int32(), "binary", _bytes(pa.binary(), _short, bytes(range(256)))),
            *((pa.int32(), "int64", _INT64), (pa.int8(), "float32", _FLOAT)),
        )
    },
    **{
        f"vector {name}[{size}]": (_fixed_list(items, size), max(1, size // 8))
        for name, items, size in (
            *(("float", _FLOAT, 4), ("float", _FLOAT, 128), ("int64", _INT64, 1)),
            *(("halffloat", _fixed(pa.float16()), 16), ("uint8", _fixed(pa.uint8()), 3)),
            *(("bool", _bools, 8), ("double", _fixed(pa.float64()), 40)),
        )
    },
    "vector of vectors": (_fixed_list(_fixed_list(_FLOAT, 3), 2), 1),
    "list int32": (_list(_INT32), 1),
    "list int32 long": (_list(_INT32, longest=5000), 100),
    "list empty": (_empty_lists, 1),
    "list small": (_list(_fixed(pa.int64(), 9)), 1),
    "list bool": (_list(_bools), 1),
    "list string": (_list(_TEXT), 1),
    "list string long": (_list(_bytes(pa.string(), _middle, _UTF8), longest=300), 100),
    "list decimal": (_list(_fixed(pa.decimal128(20, 3), 10**15)), 1),
    "list timestamp": (_list(_fixed(pa.timestamp("us", "UTC"))), 1),
    "list dictionary": (_list(_dictionary(pa.int16(), _TEXT)), 1),
    "list vector": (_list(_fixed_list(_FLOAT, 4)), 1),
    "list list": (_list(_list(_INT32)), 1),
    "list list list": (_list(_list(_list(_TEXT))), 4),
    "large_list int64": (_list(_INT64, large=True), 1),
    "large_list large_binary": (
        _list(_bytes(pa.large_binary(), _short, bytes(range(256))), large=True),
        1,
    ),
    "struct": (_POINT, 1),
    "struct many": (_struct(b=_bools, f=_FLOAT, l=_list(_INT32), d=_fixed(pa.date32())), 1),
    "struct of struct": (_struct(s=_POINT, n=_INT64), 1),
    "list struct": (_list(_POINT), 1),
    "list struct list": (_list(_struct(a=_INT32, l=_list(_TEXT))), 2),
    "map": (_map(_TEXT, _INT32), 1),
    "map struct": (_map(_INT64, _POINT), 1),
    "list map": (_list(_map(_TEXT, _INT32)), 2),
    "vector of structs": (_fixed_list(_POINT, 3), 2),
    "packed": (_packed, 1),
    "json": (_json, 2),
    "blob": (_bytes(pa.large_binary(), _middle, bytes(range(256))), 8),
}

_METADATA = {
    "packed": {"lance-encoding:packed": "true"},
    "json": {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""},
    "blob": {"lance-encoding:blob": "true"},
}


def field_of(kind: str, name: str, array: pa.Array) -> pa.Field:
    """Return the field of a column, with the metadata of its kind."""
    return pa.field(name, array.type, metadata=_METADATA.get(kind))


def _places(pattern: str, rows: int, rng: Rng) -> Any:
    """Return places in a pool of as many values as there are rows."""
    match pattern:
        case "runs" | "short runs":
            longest = 4 if pattern == "short runs" else int(rng.choice([40, 300, 1200]))
            lengths = rng.integers(1, longest + 1, rows)
            return np.repeat(np.arange(rows), lengths)[:rows]
        case "few":
            return rng.integers(0, min(rows, 7), rows)
        case "constant":
            return np.zeros(rows, np.int64)
        case "small":
            return rng.integers(0, min(rows, 200), rows)
        case _:
            return np.arange(rows)


def _null_rows(nulls: str, rows: int, rng: Rng) -> Any:
    match nulls:
        case "some" | "inside":
            return rng.random(rows) < 0.2
        case "few":
            return rng.random(rows) < 0.005
        case "blocks":
            return np.arange(rows) // int(rng.integers(5, 700)) % 2 == 0
        case "all":
            return np.ones(rows, bool)
        case _:
            return np.zeros(rows, bool)


def _sortable(kind: pa.DataType) -> bool:
    others = (pa.types.is_nested, pa.types.is_dictionary, pa.types.is_null, pa.types.is_float16)
    return not any(test(kind) for test in others)


def column(kind: str, nulls: str, pattern: str, rows: int, rng: Rng) -> pa.Array:
    """Return one column."""
    make, _ = KINDS[kind]
    pool = make(rows, rng, 0.2 if nulls == "inside" else 0.0)
    if pattern == "small" and pa.types.is_integer(pool.type):
        pool = _fixed(pool.type, 100)(rows, rng, 0)
    if pattern == "sorted" and _sortable(pool.type):
        pool = pool.take(pc.sort_indices(pool))
    places = pa.array(_places(pattern, rows, rng), mask=_null_rows(nulls, rows, rng))
    return pool.take(places)


def table(kind: str, nulls: str, rows: int, rng: Rng, patterns: Any = PATTERNS) -> pa.Table:
    """Return a table of all patterns of a type, and a column ``id``."""
    columns = {pattern: column(kind, nulls, pattern, rows, rng) for pattern in patterns}
    fields = [field_of(kind, name, array) for name, array in columns.items()]
    schema = pa.schema([pa.field("id", pa.int64()), *fields])
    return pa.table([pa.array(np.arange(rows)), *columns.values()], schema=schema)
