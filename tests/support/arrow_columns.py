"""Columns of every type that rows may have, drawn by hypothesis, whose values Python can hold."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["LEAVES", "columns"]

Draw = Callable[[st.SearchStrategy[Any]], Any]
_SECONDS = 250_000_000_000 // 10  # on both sides of 1970, within the years that Python knows


def _counted(kind: pa.DataType, most: int, step: int = 1, least: int | None = None) -> Any:
    """Return a strategy for values of a type that counts something."""
    low = -(most // step) if least is None else least
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return st.integers(low, most // step).map(lambda n: pa.scalar(n * step, width).cast(kind))


def _moments(unit: str, per_second: int, zone: str | None = None) -> Any:
    return _counted(pa.timestamp(unit, zone), min(_SECONDS * per_second, 9 * 10**18))


def _plain(values: st.SearchStrategy[Any], kind: pa.DataType) -> Any:
    return values.map(lambda value: pa.scalar(value, kind))


def _float(width: int) -> st.SearchStrategy[Any]:
    return st.floats(width=width, allow_nan=False)


def _decimal(digits: int, scale: int) -> st.SearchStrategy[Any]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: Decimal(f"{n}E-{scale}"))


def _integers(kind: pa.DataType) -> Any:
    limits = np.iinfo(kind.to_pandas_dtype())
    return _plain(st.integers(int(limits.min), int(limits.max)), kind)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
_DAY = 24 * 3600

#: the types without parts, and strategies for scalars of each
LEAVES: dict[pa.DataType, Any] = {
    pa.bool_(): _plain(st.booleans(), pa.bool_()),
    **{
        kind: _integers(kind)
        for make in (pa.int8, pa.int16, pa.int32, pa.int64)
        for kind in (make(), getattr(pa, f"u{make.__name__}")())
    },
    pa.float16(): _float(16).map(lambda value: pa.scalar(np.float16(value), pa.float16())),
    pa.float32(): _plain(_float(32), pa.float32()),
    pa.float64(): _plain(_float(64), pa.float64()),
    pa.decimal128(20, 3): _plain(_decimal(20, 3), pa.decimal128(20, 3)),
    pa.decimal256(60, 10): _plain(_decimal(60, 10), pa.decimal256(60, 10)),
    pa.string(): _plain(_TEXT, pa.string()),
    pa.large_string(): _plain(_TEXT, pa.large_string()),
    pa.binary(): _plain(st.binary(max_size=5), pa.binary()),
    pa.large_binary(): _plain(st.binary(max_size=5), pa.large_binary()),
    pa.binary(3): _plain(st.binary(min_size=3, max_size=3), pa.binary(3)),
    pa.date32(): _counted(pa.date32(), _SECONDS // _DAY),
    pa.date64(): _counted(pa.date64(), _SECONDS * 1000, _DAY * 1000),
    pa.timestamp("s"): _moments("s", 1),
    pa.timestamp("ms"): _moments("ms", 1000),
    pa.timestamp("us"): _moments("us", 10**6),
    pa.timestamp("ns"): _moments("ns", 10**9),
    pa.timestamp("us", "Europe/Berlin"): _moments("us", 10**6, "Europe/Berlin"),
    pa.timestamp("ns", "UTC"): _moments("ns", 10**9, "UTC"),
    pa.time32("s"): _counted(pa.time32("s"), _DAY - 1, least=0),
    pa.time32("ms"): _counted(pa.time32("ms"), _DAY * 1000 - 1, least=0),
    pa.time64("us"): _counted(pa.time64("us"), _DAY * 10**6 - 1, least=0),
    # Python's times have no nanoseconds, and Arrow cuts them on the way out
    pa.time64("ns"): _counted(pa.time64("ns"), _DAY * 10**9 - 1000, 1000, least=0),
    pa.duration("s"): _counted(pa.duration("s"), 9 * 10**12),
    pa.duration("ms"): _counted(pa.duration("ms"), 9 * 10**15),
    pa.duration("us"): _counted(pa.duration("us"), 9 * 10**18),
    pa.duration("ns"): _counted(pa.duration("ns"), 9 * 10**18),
}
_EXTENSIONS: dict[pa.DataType, Any] = {
    pa.uuid(): st.integers(0, 2**128 - 1).map(lambda n: uuid.UUID(int=n).bytes),
    pa.json_(): st.sampled_from(["{}", '{"a":[1,2.5,null]}', '"x"', "null"]),
    pa.bool8(): st.integers(0, 1),
    pa.opaque(pa.binary(), "x", "y"): st.binary(max_size=3),
}


def _scalars(draw: Draw, values: Any, count: int) -> list[Any]:
    return draw(st.lists(st.none() | values, min_size=count, max_size=count))


def _leaf(draw: Draw, count: int) -> pa.Array:
    kind = draw(st.sampled_from(list(LEAVES)))
    return pa.array(_scalars(draw, LEAVES[kind], count), kind)


def _extension(draw: Draw, count: int) -> pa.Array:
    kind = draw(st.sampled_from(list(_EXTENSIONS)))
    stored = pa.array(_scalars(draw, _EXTENSIONS[kind], count), kind.storage_type)
    return pa.ExtensionArray.from_storage(kind, stored)


def _dictionary(draw: Draw, count: int) -> pa.Array:
    index = draw(st.sampled_from([pa.int8(), pa.int32()]))
    texts = _scalars(draw, st.sampled_from(["a", "b", "ä"]), count)
    return pa.array(texts, pa.dictionary(index, pa.string()))


def _mask(draw: Draw, count: int) -> pa.Array:
    return pa.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), pa.bool_())


def _struct(draw: Draw, count: int, depth: int) -> pa.Array:
    parts = [_array(draw, count, depth - 1) for _ in range(draw(st.integers(1, 2)))]
    return pa.StructArray.from_arrays(
        parts, names=list("ab")[: len(parts)], mask=_mask(draw, count)
    )


def _starts(draw: Draw, count: int) -> list[int]:
    lengths = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return [0, *np.cumsum(lengths).tolist()]


def _list(draw: Draw, count: int, depth: int) -> pa.Array:
    make, width = draw(
        st.sampled_from([(pa.ListArray, pa.int32()), (pa.LargeListArray, pa.int64())])
    )
    starts = _starts(draw, count)
    elements = _array(draw, starts[-1], depth - 1)
    return make.from_arrays(pa.array(starts, width), elements, mask=_mask(draw, count))


def _fixed(draw: Draw, count: int, depth: int) -> pa.Array:
    elements = _array(draw, 2 * count, depth - 1)
    return pa.FixedSizeListArray.from_arrays(elements, 2, mask=_mask(draw, count))


def _map(draw: Draw, count: int, depth: int) -> pa.Array:
    starts = _starts(draw, count)
    keys = pa.array([f"k{at}" for at in range(starts[-1])], pa.string())
    items = _array(draw, starts[-1], depth - 1)
    kind = pa.map_(pa.string(), items.type)
    offsets = pa.array(starts, pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=_mask(draw, count))


_NESTED = (_struct, _list, _fixed, _map)


def _array(draw: Draw, count: int, depth: int) -> pa.Array:
    kinds = 3 + (len(_NESTED) if depth else 0)
    at = draw(st.integers(0, kinds - 1))
    if at < 3:
        return (_leaf, _extension, _dictionary)[at](draw, count)
    return _NESTED[at - 3](draw, count, depth)


@st.composite
def columns(draw: Draw, most_rows: int = 4, depth: int = 2) -> pa.Array:
    """Draw a column."""
    return _array(draw, draw(st.integers(0, most_rows)), depth)
