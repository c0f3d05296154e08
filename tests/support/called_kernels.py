"""The kernels and array methods of Arrow that lancekit calls, each as a function of three arrays.

Every function gets values of some type, a mask and whole numbers, as many of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from tests.support.arrow_columns import LEAVES

__all__ = ["ACCESSORS", "COLUMNS", "FUNCTIONS", "METHODS", "NOT_REACHED", "UNORDERED"]

Call = Callable[[Any, Any, Any], Any]

# ---- columns of every type that a dataset may have

_NUMBERS = [3, 1, None, 2, 1, 0, None, 5]
_TEXTS = ["b", "Aa", None, "", "a\u00e4", "b", "  c", "aXa"]
_LISTS = [[0, 1], None, [], [2], [3, 4, 5], None, [6], [7]]
_PAIRS = [[0, 1], None, [2, 3], [4, 5], None, [6, 7], [1, 2], [3, 4]]


def _leaf(kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        return pa.array([None if n is None else n % 2 == 1 for n in _NUMBERS])
    if kind == pa.binary(3):
        return pa.array([None if t is None else t.encode().ljust(3)[:3] for t in _TEXTS], kind)
    if kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return pa.array(_TEXTS).cast(kind)
    if pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array(_NUMBERS, pa.int8()).cast(kind)
    if kind == pa.time64("ns"):  # Python's times have no nanoseconds
        return pa.array(_NUMBERS, pa.int64()).cast(pa.time64("us")).cast(kind)
    if kind == pa.date64():
        return pa.array(_NUMBERS, pa.int32()).cast(pa.date32()).cast(kind)
    return pa.array(_NUMBERS, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def _masked(array: pa.Array) -> pa.Array:
    return array.take(pa.array([0, 1, 2, None, 4, 5, 6, 7]))


def _structs(*parts: pa.Array) -> pa.Array:
    mask = pa.array([at == 3 for at in range(8)])
    return pa.StructArray.from_arrays(parts, names=list("xyz")[: len(parts)], mask=mask)


_CODED = pa.array(_TEXTS).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
_PATCHES = pa.FixedSizeListArray.from_arrays(
    pa.FixedSizeListArray.from_arrays(pa.array(range(32), pa.int16()), 2), 2
)
_NESTED_LISTS = pa.array([[[1, None], None], None, [], [[]], [[2], [3]], [None], [[4]], None])

COLUMNS: Mapping[str, pa.Array] = {
    **{str(kind): _leaf(kind) for kind in LEAVES},
    "null": pa.nulls(8),
    "uuid": pa.uuid().wrap_array(pa.array([b"a" * 16, None, *[b"b" * 16] * 6], pa.binary(16))),
    "json": pa.json_().wrap_array(pa.array(["{}", None, "1", "[]"] * 2)),
    "bool8": pa.bool8().wrap_array(pa.array([0, None, 1, 1] * 2, pa.int8())),
    "dictionary": _CODED,
    "dictionary of numbers": _leaf(pa.int64()).dictionary_encode(),
    "list": pa.array(_LISTS, pa.list_(pa.int32())),
    "large list": pa.array(_LISTS, pa.large_list(pa.int64())),
    "list of texts": pa.array([[t, None] if t else None for t in _TEXTS]),
    "list of half floats": pa.array(_LISTS, pa.list_(pa.int8())).cast(pa.list_(pa.float16())),
    "list of nulls": pa.array([[None] * len(some or []) for some in _LISTS], pa.list_(pa.null())),
    "list of lists": _NESTED_LISTS,
    "list of dictionaries": pa.ListArray.from_arrays(
        pa.array([0, 1, 1, 3, 4, 5, 6, 7, 8], pa.int32()), _CODED
    ),
    "list of patches": pa.ListArray.from_arrays(
        pa.array([0, 1, 1, 3, 4, 5, 6, 7, 8], pa.int32()), _PATCHES
    ),
    "vectors": pa.array(_PAIRS, pa.list_(pa.float32(), 2)),
    "patches": _PATCHES,
    "patches with nulls": _masked(_PATCHES),
    "patches of bytes": pa.FixedSizeListArray.from_arrays(
        pa.FixedSizeListArray.from_arrays(pa.array([b"ab", b"cd"] * 8, pa.binary(2)), 2), 1
    ),
    "fixed-size list of booleans": pa.array([[True, False], None] * 4, pa.list_(pa.bool_(), 2)),
    "fixed-size list of nulls": pa.array([[None] * 2] * 8, pa.list_(pa.null(), 2)),
    "fixed-size list of texts": pa.array([["a", None], None] * 4, pa.list_(pa.string(), 2)),
    "struct": _structs(pa.array(_NUMBERS), pa.array(_TEXTS), _leaf(pa.float16())),
    "struct of patches": _structs(_PATCHES, _CODED),
    "struct of lists": _structs(pa.array(_LISTS), _NESTED_LISTS),
    "struct of nulls": _structs(pa.nulls(8)),
    "map": pa.array([[("k", 1)], None, [], [("l", None), ("m", 2)]] * 2, pa.map_("string", "int8")),
}

# ---- calls

_PATTERN = {"pattern": "a"}
_CHANGE = {"pattern": "a", "replacement": "Q"}
_LETTERS = {"characters": "a "}
_OPTIONS: Mapping[str, dict[str, Any]] = {
    **dict.fromkeys(("ends_with", "match_substring", "starts_with"), _PATTERN),
    **dict.fromkeys(("find_substring_regex", "match_substring_regex"), _PATTERN),
    "match_like": {"pattern": "%a%"},
    **dict.fromkeys(("replace_substring", "replace_substring_regex"), _CHANGE),
    **dict.fromkeys(("utf8_ltrim", "utf8_rtrim", "utf8_trim"), _LETTERS),
    "utf8_slice_codeunits": {"start": 0, "stop": 2},
    "strftime": {"format": "%Y-%m-%d %H:%M"},
    "floor_temporal": {"unit": "hour"},
    "assume_timezone": {"timezone": "UTC"},
    "round": {"ndigits": 1, "round_mode": "half_towards_infinity"},
    "struct_field": {"indices": [0]},
    "binary_repeat": {},
}


def _unary(name: str) -> Call:
    kernel, options = getattr(pc, name), _OPTIONS.get(name, {})
    return lambda values, mask, numbers: kernel(values, **options)


def _binary(name: str) -> Call:
    kernel = getattr(pc, name)
    return lambda values, mask, numbers: kernel(values, values)


def _logical(name: str) -> Call:
    kernel = getattr(pc, name)
    return lambda values, mask, numbers: kernel(mask, values.is_null())


def _places(values: Any, numbers: Any) -> pa.Array:
    """Return places of the values, and nulls."""
    places = numbers.to_pylist()[: len(values)]
    return pa.array([n if n is None or n < len(values) else 0 for n in places], pa.int64())


def _some(values: Any) -> pa.Scalar:
    return next((one for one in values if one.is_valid), pa.scalar(None, values.type))


def _new(values: Any, mask: Any) -> Any:
    wanted = sum(bool(one) for one in mask.to_pylist())
    return values.take(pa.array([0] * wanted, pa.int64()))


def _joined(values: Any) -> pa.Array:
    return ak.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


def _numbers(values: Any) -> pa.Array:
    if not pa.types.is_primitive(values.type) or pa.types.is_temporal(values.type):
        raise TypeError(values.type)
    return pa.array(values.to_numpy(zero_copy_only=False), pa.float64(), from_pandas=True)


def _side_by_side(name: str) -> Call:
    kernel = getattr(ak, name)
    return lambda values, mask, numbers: kernel(values, values)


_UNARY = """
    abs abs_checked acos acosh all any asin asinh assume_timezone atan atanh binary_length ceil
    cos cosh count_distinct day day_of_week day_of_year dictionary_encode ends_with exp
    find_substring_regex floor
    floor_temporal hour invert is_finite is_inf is_nan is_null is_valid iso_week iso_year
    list_flatten list_value_length ln local_timestamp log10 log2 match_like match_substring
    match_substring_regex max microsecond millisecond min min_max minute month nanosecond
    negate_checked quarter replace_substring replace_substring_regex round second sign sin sinh
    sqrt starts_with strftime string_is_ascii struct_field sum tan tanh trunc unique utf8_length
    utf8_lower utf8_ltrim utf8_reverse utf8_rtrim utf8_slice_codeunits utf8_trim
    utf8_trim_whitespace year
"""
_BINARY = """
    add add_checked atan2 divide divide_checked equal greater greater_equal less less_equal logb
    multiply multiply_checked not_equal power bit_wise_and bit_wise_or shift_left
    shift_right subtract subtract_checked coalesce
"""
_LOGICAL = "and_ and_kleene and_not or_ or_kleene xor"

#: functions of `pc`, by name; those that are not right for every array as lancekit calls them
FUNCTIONS: Mapping[str, Call] = {
    **{name: _unary(name) for name in _UNARY.split()},
    **{name: _binary(name) for name in _BINARY.split()},
    **{name: _logical(name) for name in _LOGICAL.split()},
    "ascii_lower": lambda values, mask, numbers: ak.ascii_lower(values),
    "ascii_upper": lambda values, mask, numbers: ak.ascii_upper(values),
    "max_element_wise": _side_by_side("max_element_wise"),
    "min_element_wise": _side_by_side("min_element_wise"),
    "binary_join": lambda values, mask, numbers: pc.binary_join(values, "-"),
    "binary_join_element_wise": lambda values, mask, numbers: pc.binary_join_element_wise(
        values, values, pa.scalar("-").cast(values.type)
    ),
    "binary_repeat": lambda values, mask, numbers: pc.binary_repeat(values, numbers),
    "cast": lambda values, mask, numbers: ak.cast(values, values.type),
    "fill_null": lambda values, mask, numbers: pc.fill_null(values, _some(values)),
    "if_else": lambda values, mask, numbers: pc.if_else(mask, values, _some(values)),
    "index": lambda values, mask, numbers: pc.index(values, _some(values)),
    "index_in": lambda values, mask, numbers: pc.index_in(values, value_set=_joined(values)),
    "is_in": lambda values, mask, numbers: pc.is_in(values, value_set=_joined(values)[1:3]),
    "list_parent_indices": lambda values, mask, numbers: ak.list_parents(values),
    "rank": lambda values, mask, numbers: ak.rank(values, "dense"),
    "replace_with_mask": lambda values, mask, numbers: pc.replace_with_mask(
        values, _joined(mask), _joined(_new(values, mask))
    ),
    "sort_indices": lambda values, mask, numbers: ak.sort_indices(values),
}

#: methods of arrays, chunked arrays and tables that look at values
METHODS: Mapping[str, Call] = {
    "cast": lambda values, mask, numbers: values.cast(pa.string()),
    "combine_chunks": lambda values, mask, numbers: (
        ak.combine_chunks(values) if isinstance(values, pa.ChunkedArray) else values
    ),
    "concat_arrays": lambda values, mask, numbers: ak.concat_arrays([_joined(values)] * 2),
    "dictionary_decode": lambda values, mask, numbers: values.dictionary_decode(),
    "dictionary_encode": lambda values, mask, numbers: values.dictionary_encode(),
    "drop_null": lambda values, mask, numbers: ak.drop_null(values),
    "equals": lambda values, mask, numbers: pa.array([values.equals(values)]),
    "fill_null": lambda values, mask, numbers: values.fill_null(_some(values)),
    "filter": lambda values, mask, numbers: ak.filter(values, mask),
    "flatten": lambda values, mask, numbers: _joined(values).flatten(),
    "group_by": lambda values, mask, numbers: (
        pa.table([values, numbers], ["k", "v"])
        .group_by("k", use_threads=False)
        .aggregate([("v", "sum"), ("v", "max"), ("v", "min")])
    ),
    "index": lambda values, mask, numbers: values.index(_some(values)),
    "is_null": lambda values, mask, numbers: values.is_null(),
    "is_valid": lambda values, mask, numbers: values.is_valid(),
    "null_count": lambda values, mask, numbers: pa.scalar(ak.null_count(values)),
    "sort_by": lambda values, mask, numbers: ak.sort_by(
        pa.table([values, numbers], ["v", "k"]), "k"
    ),
    "sum": lambda values, mask, numbers: values.sum(),
    "take": lambda values, mask, numbers: ak.take(values, _places(values, numbers)),
    "to_numpy": lambda values, mask, numbers: _numbers(values),
    "to_struct_array": lambda values, mask, numbers: pa.table([values], ["v"]).to_struct_array(),
    "unique": lambda values, mask, numbers: values.unique(),
    "value_counts": lambda values, mask, numbers: values.value_counts(),
}
#: methods that give parts of arrays away, or make some of others
ACCESSORS = {
    *("append_column", "buffers", "chunk", "column", "copy_to", "diff", "drop", "drop_columns"),
    *("field", "from_arrays", "from_batches", "from_buffers", "from_numpy", "from_numpy_ndarray"),
    *("from_pandas", "from_pylist", "from_storage", "get_total_buffer_size", "join"),
    *("rename_columns", "replace_schema_metadata", "select", "serialize", "set_column", "slice"),
    *("to_batches", "to_numpy_ndarray", "to_pandas", "to_pylist", "to_reader", "to_string"),
    "tolist",
    *("validate", "view", "child", "format", "sort"),  # of other objects, some of these
}
#: results whose order Arrow does not promise
UNORDERED = frozenset({"unique", "value_counts", "group_by"})
#: what Arrow gets wrong, and where lancekit never has such arrays
NOT_REACHED: Mapping[tuple[str, str], str] = {
    **{
        (name, kind): "nulls and repeated values of dictionaries: callers decode these first"
        for name in ("fill_null", "group_by", "unique", "value_counts", "pc.fill_null", "pc.unique")
        for kind in ("dictionary", "dictionary of numbers")
    },
    **{
        (name, "struct of patches"): "chunks whose dictionaries differ: kernels get arrays"
        for name in ("pc.coalesce", "pc.if_else")
    },
}
