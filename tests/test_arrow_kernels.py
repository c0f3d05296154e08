"""Kernels of Arrow give what Python's lists would, for arrays that Arrow alone gets wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit import _arrow_kernels as ak

PAIRS = pa.FixedSizeListArray.from_arrays(pa.array(range(240), pa.int16()), 2)
NESTED = pa.FixedSizeListArray.from_arrays(PAIRS, 3)


def _within_lists(values: pa.Array) -> pa.Array:
    offsets = pa.array([0, *range(0, len(values), 2)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values)


def _within_maps(values: pa.Array) -> pa.Array:
    keys = pa.array([f"k{at}" for at in range(len(values))])
    offsets = pa.array(range(len(values) + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, values)


SLICED = {
    "outer": NESTED.slice(5, 20),
    "inner": pa.FixedSizeListArray.from_arrays(PAIRS.slice(3, 60), 3),
    "both": pa.FixedSizeListArray.from_arrays(PAIRS.slice(3, 60), 3).slice(2),
    "with nulls": pa.FixedSizeListArray.from_arrays(
        PAIRS.slice(0, 60), 3, mask=pa.array([at % 3 == 1 for at in range(20)])
    ).slice(3),
    "thrice": pa.FixedSizeListArray.from_arrays(NESTED, 2).slice(4),
    "bytes": pa.array([[[b"ab", b"cd"]] * 3, [[b"ef", b"gh"]] * 3] * 4).cast(
        pa.list_(pa.list_(pa.binary(2), 2), 3)
    )[1:],
    "structs": pa.StructArray.from_arrays([NESTED], names=["x"]).slice(5, 20),
    "structs with nulls": pa.StructArray.from_arrays(
        [NESTED], names=["x"], mask=pa.array([at % 4 == 2 for at in range(40)])
    ).slice(5, 20),
    "lists": _within_lists(NESTED.slice(6)),
    "sliced lists": _within_lists(NESTED.slice(6)).slice(2),
    "maps": _within_maps(NESTED.slice(6)),
    "extension": pa.ExtensionArray.from_storage(
        pa.opaque(NESTED.type, "x", "y"), NESTED.slice(5, 20)
    ),
    "tensors": pa.FixedSizeListArray.from_arrays(
        pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int16(), [2]), PAIRS), 3
    ).slice(5),
}

FORMS: dict[str, Any] = {
    "array": lambda values: values,
    "one chunk": lambda values: pa.chunked_array([values]),
    "chunks": lambda values: pa.chunked_array([values[:4], values[4:4], values[4:]]),
    "batch": lambda values: pa.record_batch([values], names=["x"]),
    "table": lambda values: pa.table({"x": values}),
}


def _values(rows: Any) -> list[Any]:
    rows.validate(full=True)
    column = rows if isinstance(rows, pa.Array | pa.ChunkedArray) else rows.column("x")
    return [tuple(map(str, row)) if isinstance(row, list) else row for row in column.to_pylist()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SLICED)
def test_nested_fixed_size_lists_of_slices_stay_with_their_rows(name: str, form: str) -> None:
    rows = FORMS[form](SLICED[name])
    values = _values(rows)
    places = [1, len(values) - 1, 1, 0]
    assert _values(ak.take(rows, pa.array(places))) == [values[at] for at in places]
    assert _values(ak.take(rows, pa.array([2, None]))) == [values[2], None]
    mask = [at % 3 == 1 for at in range(len(values))]
    kept = [value for value, wanted in zip(values, mask, strict=True) if wanted]
    assert _values(ak.filter(rows, pa.array(mask))) == kept
    assert _values(ak.drop_null(rows)) == [value for value in values if value is not None]


def test_rows_are_sorted_with_their_nested_lists() -> None:
    rows = pa.table({"key": list(range(20))[::-1], "x": SLICED["outer"]})
    assert _values(ak.sort_by(rows, "key")) == _values(rows)[::-1]


@pytest.mark.parametrize("values", [NESTED, pa.array([1, 2]), pa.array(["a"] * 3)[1:]])
def test_what_arrow_reads_as_it_is_stays_the_same_object(values: pa.Array) -> None:
    assert ak._rewritten(values) is values


def _with_null_value(text: str) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array([text, None]))


CODED: dict[str, Any] = {
    "dictionaries": _with_null_value,
    "within lists": lambda text: pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), _with_null_value(text)
    ),
    "within fixed-size lists": lambda text: pa.FixedSizeListArray.from_arrays(
        _with_null_value(text), 3
    ),
    "within structs": lambda text: pa.StructArray.from_arrays(
        [_with_null_value(text)], names=["d"], mask=pa.array([False, False, True])
    ),
    "empty": lambda text: _with_null_value(text)[:0],
}


@pytest.mark.parametrize("name", CODED)
def test_dictionaries_with_nulls_are_joined(name: str) -> None:
    chunks = [CODED[name](text) for text in "ab"]
    column = pa.chunked_array(chunks)
    values = column.to_pylist()
    batches = [pa.record_batch([chunk], names=["x"]) for chunk in chunks]
    joined = [
        ak.concat_arrays(chunks),
        ak.combine_chunks(column),
        ak.combine_chunks(pa.table({"x": column}))["x"],
        ak.concat_batches(batches)["x"],
        ak.take(column, pa.array(range(len(values)), pa.int64())),
    ]
    for found in joined:
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (column.type, values)


def test_nulls_among_the_values_of_dictionaries_are_dropped() -> None:
    column = pa.chunked_array([_with_null_value(text) for text in "ab"])
    assert ak.drop_null(column).to_pylist() == ["a", "b"]
    assert ak.drop_null(pa.table({"x": column, "y": range(6)}))["y"].to_pylist() == [0, 3]


def _through_the_c_stream(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.RecordBatchReader.from_stream(pa.table({"x": column})).read_all()["x"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3], pa.int64()),
        pa.array(["a", "b", "c"]).dictionary_encode(),
        pa.ListArray.from_arrays(pa.array([0, 0, 0, 0], pa.int32()), pa.array([1, 2]).slice(2)),
    ],
)
def test_empty_arrays_of_streams_are_joined(values: pa.Array) -> None:
    column = _through_the_c_stream(pa.chunked_array([values, values.slice(3), values.slice(1)]))
    wanted = [*values.to_pylist(), *values.to_pylist()[1:]]
    assert ak.combine_chunks(column).to_pylist() == wanted
    assert ak.take(column, pa.array([4, 0])).to_pylist() == [wanted[4], wanted[0]]


def test_wrong_places_stay_an_error() -> None:
    with pytest.raises(pa.ArrowIndexError, match="out of bounds"):
        ak.take(pa.array([1]), pa.array([1]))
    with pytest.raises(pa.ArrowIndexError, match="out of bounds"):
        ak.take(pa.table({"x": [1]}), np.array([1]))


def _texts(kind: pa.DataType, width: type, first: int, nulls: bool) -> pa.Array:
    offsets = np.array([first, first + 2, first + 4, first + 4], width)
    buffers = [pa.py_buffer(b"\x05") if nulls else None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, 3, [*buffers, pa.py_buffer(b"xxxxABcd")])


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("first", [0, 2, 4])
@pytest.mark.parametrize(
    ("kind", "width"), [(pa.string(), np.int32), (pa.large_string(), np.int64)]
)
def test_texts_that_do_not_begin_at_byte_0(
    kind: pa.DataType, width: type, first: int, nulls: bool
) -> None:
    texts = _texts(kind, width, first, nulls)
    values = texts.to_pylist()
    for given in (texts, texts[1:], texts[:0], pa.chunked_array([texts, texts[1:]])):
        words = given.to_pylist()
        lower, upper = ak.ascii_lower(given), ak.ascii_upper(given)
        assert lower.to_pylist() == [word and word.lower() for word in words]
        assert upper.to_pylist() == [word and word.upper() for word in words]
    assert texts.to_pylist() == values
    assert ak.ascii_upper(pa.scalar("a", kind)).as_py() == "A"


@pytest.mark.parametrize("start", [0, 1])
def test_rows_of_the_items_of_lists(start: int) -> None:
    nulls = pa.array([True, False, False, True])
    offsets = pa.array([0, 2, 3, 5, 6], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(range(6)), mask=nulls)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(range(8)), 2, mask=nulls)
    for values in (lists.slice(start), lists.cast(pa.large_list(pa.int64())), fixed.slice(start)):
        rows = [row for row, items in enumerate(values.to_pylist()) for _ in items or ()]
        assert ak.list_parents(values).to_pylist() == rows
        assert len(pc.list_flatten(values)) == len(rows)


def test_nulls_among_the_values_of_dictionaries_are_counted() -> None:
    values = _with_null_value("a")
    assert ak.null_count(values) == ak.null_count(values[1:]) == 2
    assert ak.null_count(pa.chunked_array([values, values[:1]])) == 2
    assert ak.null_count(pa.array(["a", None]).dictionary_encode()) == 1
    assert ak.null_count(pa.array([1, None])) == 1


NULLS = pa.list_(pa.null())
REQUIRED = pa.struct([pa.field("a", pa.int32(), nullable=False)])
WIDER = pa.struct([pa.field("a", pa.int64(), nullable=False)])


def _structs(values: pa.Array, number: pa.DataType) -> pa.Array:
    numbers = pa.array(range(len(values)), number)
    return pa.StructArray.from_arrays([values, numbers], names=["x", "y"])


#: arrays, and types that they become without a loss
CASTS: dict[str, tuple[pa.Array, pa.DataType]] = {
    "lists": (pa.array([[None] * 3, None, [None]], NULLS), NULLS),
    "large lists": (pa.array([[None] * 3, None, [None]], NULLS), pa.large_list(pa.null())),
    "fixed-size lists": (
        pa.array([[None] * 2, None, [None] * 2], pa.list_(pa.null(), 2)),
        pa.list_(pa.null(), 2),
    ),
    "maps": (
        pa.array([[("a", None)], None, [("b", None)]], pa.map_(pa.string(), pa.null())),
        pa.map_(pa.string(), pa.null()),
    ),
    "lists beside numbers": (
        _structs(pa.array([[None] * 3, None, [None]], NULLS), pa.int8()),
        pa.struct([("x", NULLS), ("y", pa.int16())]),
    ),
    "fields without nulls": (pa.nulls(3, REQUIRED), REQUIRED),
    "wider fields without nulls": (pa.nulls(3, REQUIRED), WIDER),
    "lists of these": (pa.array([[None, {"a": 1}], None, []], pa.list_(REQUIRED)), pa.list_(WIDER)),
    "null fields": (
        _structs(pa.nulls(4)[1:], pa.int8()),
        pa.struct([("x", pa.null()), ("y", pa.int8())]),
    ),
}


@pytest.mark.parametrize("start", [0, 1, 2, 3])
@pytest.mark.parametrize("name", CASTS)
def test_casts_of_nulls_within_parts(name: str, start: int) -> None:
    values, kind = CASTS[name]
    values = values.slice(start)
    forms: list[Any] = [values, pa.chunked_array([values, values[1:]])]
    for given in forms:
        found = ak.cast(given, kind)
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (kind, given.to_pylist())
    schema = pa.schema([pa.field("x", kind, metadata={"a": "b"})])
    for rows in (pa.table({"x": forms[1]}), pa.record_batch([values], names=["x"])):
        cast = ak.cast(rows, schema)
        cast.validate(full=True)
        assert cast.schema.equals(schema, check_metadata=True)
        assert cast.to_pydict() == rows.to_pydict()


def test_casts_refuse_what_arrow_refuses() -> None:
    structs = pa.array([{"x": None, "y": 1}], pa.struct([("x", pa.null()), ("y", pa.int32())]))
    required = pa.struct([pa.field("x", pa.int8(), nullable=False), ("y", pa.int32())])
    with pytest.raises(pa.ArrowInvalid, match="'x' has nulls"):
        ak.cast(structs, required)
    schema = pa.schema([pa.field("s", structs.type, nullable=False)])
    with pytest.raises(ValueError, match="'s' with null values to non-nullable"):
        ak.cast(pa.table({"s": pa.nulls(1, structs.type)}), schema)
    with pytest.raises(ValueError, match="names"):
        ak.cast(pa.table({"s": structs}), pa.schema([("t", structs.type)]))


def test_half_floats_and_dictionaries_are_sorted() -> None:
    halves = pa.array([np.float16(2), None, np.float16(1)], pa.float16())
    assert ak.sort_indices(halves).to_pylist() == [2, 0, 1]
    assert ak.rank(halves, "dense").to_pylist() == [2, 3, 1]
    texts = pa.array(["b", None, "a"]).dictionary_encode()
    assert ak.sort_indices(texts).to_pylist() == [2, 0, 1]
    assert ak.rank(texts, "dense").to_pylist() == [2, 3, 1]
    rows = pa.table({"h": halves, "t": texts})
    for name in rows.column_names:
        assert ak.sort_indices(rows, [(name, "descending")]).to_pylist() == [0, 2, 1]


def test_maps_whose_entries_begin_at_an_offset(tmp_path: Path) -> None:
    """Arrow's `to_pylist` reads these from position 0; its kernels and lancekit do not."""
    kind = pa.map_(pa.string(), pa.int64())
    entries = pa.array([{"key": k, "value": n} for n, k in enumerate("abcdef")], kind.field(0).type)
    buffers = [None, pa.py_buffer(np.array([0, 2, 3, 4], np.int32))]
    maps = pa.Array.from_buffers(kind, 3, buffers, children=[entries.slice(2)])
    wanted = [[("c", 2), ("d", 3)], [("e", 4)], [("f", 5)]]
    assert ak.take(maps, pa.array([2, 0])).to_pylist() == [wanted[2], wanted[0]]
    assert ak.filter(maps, pa.array([False, True, True])).to_pylist() == wanted[1:]
    assert ak.concat_arrays([maps, maps]).to_pylist() == wanted * 2
    ds = lk.write_dataset(pa.table({"m": maps}), tmp_path / "d", data_storage_version="2.2")
    assert ds.to_table()["m"].to_pylist() == wanted
