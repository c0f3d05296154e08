"""The functions of the filter language, by name, over Arrow arrays and scalars."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.scan._kernels import COMPARISONS, Value, concat

__all__ = ["FUNCTIONS", "Function", "array_element", "like"]


def _constant(value: Value) -> str:
    if not isinstance(value, pa.Scalar):
        raise pa.ArrowNotImplementedError("the pattern has to be a constant")
    return str(value.as_py())


def _with_constant(kernel: Callable[..., Value]) -> Callable[..., Value]:
    """Wrap a kernel whose second argument is an option: null there makes everything null."""

    def call(value: Value, pattern: Value, **options: Any) -> Value:
        text = _constant(pattern)
        if pattern.as_py() is None:
            return pc.and_(pc.is_null(value), pa.scalar(None, pa.bool_()))
        return kernel(value, text, **options)

    return call


def _pattern(escape: str, pattern: str) -> str:
    """Rewrite a pattern to the one escape character that the kernel knows."""
    if escape == "\\":
        # a backslash at the end escapes nothing and stands for itself; the kernel would drop it
        single = (len(pattern) - len(pattern.rstrip("\\"))) % 2
        return pattern + "\\" * single
    quoted = re.escape(escape)
    return re.sub(rf"{quoted}(.)|(\\)", lambda m: "\\" + (m[1] or m[2]), pattern, flags=re.DOTALL)


def like(value: Value, pattern: Value, *, ignore_case: bool, escape: str) -> Value:
    """Match against a constant pattern of ``%`` and ``_``."""
    match = _with_constant(
        lambda v, p: pc.match_like(v, _pattern(escape, p), ignore_case=ignore_case)
    )
    return match(value, pattern)


def _regexp(value: Value, pattern: Value, flags: Value | None = None) -> Value:
    letters = "" if flags is None else _constant(flags)
    inline = f"(?{letters})" if letters else ""
    search = _with_constant(lambda v, p: pc.match_substring_regex(v, inline + p))
    return search(value, pattern)


def _regexp_match(value: Value, pattern: Value, flags: Value | None = None) -> Value:
    """Give null where there is no match: the reference returns what matched, read as true."""
    found = _regexp(value, pattern, flags)
    return pc.if_else(found, True, pa.scalar(None, pa.bool_()))


def _strpos(value: Value, wanted: Value) -> Value:
    return pc.add(pc.find_substring(value, pattern=_constant(wanted)), 1)


def _left(value: Value, count: Value) -> Value:
    return pc.utf8_slice_codeunits(value, start=0, stop=int(_constant(count)))


def _array_has(lists: Value, item: Value) -> Value:
    """Tell for each list whether it holds the item: look at all elements, then per list."""
    if isinstance(item, pa.Scalar) and not item.is_valid:
        return pa.scalar(None, pa.bool_())
    parents = pc.list_parent_indices(lists)
    wanted = item if isinstance(item, pa.Scalar) else item.take(parents)
    hits = pc.fill_null(COMPARISONS["="](pc.list_flatten(lists), wanted), False)
    found = np.zeros(len(lists), bool)
    found[parents.filter(hits).to_numpy()] = True
    known = pc.and_(pc.is_valid(lists), pc.is_valid(item))
    return pc.if_else(known, pa.array(found), pa.scalar(None, pa.bool_()))


def _array_has_any(lists: Value, items: Value) -> Value:
    hits = [_array_has(lists, item) for item in _items(items)]
    return reduce(pc.or_, hits, _where_valid(lists, False))


def _array_has_all(lists: Value, items: Value) -> Value:
    hits = [_array_has(lists, item) for item in _items(items)]
    return reduce(pc.and_, hits, _where_valid(lists, True))


def _where_valid(lists: Value, value: bool) -> Value:
    return pc.if_else(pc.is_valid(lists), value, pa.scalar(None, pa.bool_()))


def _items(items: Value) -> list[pa.Scalar]:
    if not isinstance(items, pa.Scalar):
        raise pa.ArrowNotImplementedError("the items have to be constants")
    return list(items.values) if items.is_valid else []


def array_element(lists: Value, place: Value) -> Value:
    """Return an element of each list: counted from 1, or from the end by negative numbers.

    It is null where a list has no such element.
    """
    if not isinstance(place, pa.Scalar) or not pt.is_integer(place.type):
        raise pa.ArrowNotImplementedError("the place has to be a constant whole number")
    wanted = place.as_py() or 0
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    at = starts + (wanted - 1 if wanted > 0 else lengths + wanted)
    missing = (lengths < abs(wanted)) | (wanted == 0)
    return pc.list_flatten(lists).take(pa.array(np.where(missing, 0, at), mask=missing))


def _is_empty(lists: Value) -> Value:
    return pc.equal(pc.list_value_length(lists), 0)


def _round(value: Value, digits: Value | None = None) -> Value:
    places = 0 if digits is None else int(_constant(digits))
    return pc.round(value, places, round_mode="half_towards_infinity")


def _date_part(part: Value, value: Value) -> Value:
    return pc.cast(_PARTS[_constant(part).lower()](value), pa.int32())


def _date_trunc(part: Value, value: Value) -> Value:
    return pc.floor_temporal(value, unit=_constant(part).lower())


_PARTS: Mapping[str, Callable[[Value], Value]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "dow": partial(pc.day_of_week, week_start=7),
    "doy": pc.day_of_year,
}


def _isnan(value: Value) -> Value:
    return pc.is_nan(pc.cast(value, pa.float64()))


def _length(value: Value) -> Value:
    return pc.utf8_length(value)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the filter language.

    ``families`` are those that each argument may be of, the last one standing for all further
    arguments; an empty string allows any.  ``same`` marks arguments that share one type.
    """

    kernel: Callable[..., Value]
    families: tuple[str, ...]
    least: int
    most: int
    same: bool = False


def _unary(kernel: Callable[..., Value], wanted: str) -> Function:
    return Function(kernel, (wanted,), 1, 1)


def _text2(kernel: Callable[..., Value]) -> Function:
    return Function(_with_constant(kernel), ("text",), 2, 2)


FUNCTIONS: Mapping[str, Function] = {
    "lower": _unary(pc.utf8_lower, "text"),
    "upper": _unary(pc.utf8_upper, "text"),
    "length": _unary(_length, "text"),
    "char_length": _unary(_length, "text"),
    "character_length": _unary(_length, "text"),
    "octet_length": _unary(pc.binary_length, "text"),
    "reverse": _unary(pc.utf8_reverse, "text"),
    "btrim": _unary(pc.utf8_trim_whitespace, "text"),
    "trim": _unary(pc.utf8_trim_whitespace, "text"),
    "ltrim": _unary(pc.utf8_ltrim_whitespace, "text"),
    "rtrim": _unary(pc.utf8_rtrim_whitespace, "text"),
    "starts_with": _text2(pc.starts_with),
    "ends_with": _text2(pc.ends_with),
    "contains": _text2(pc.match_substring),
    "regexp_like": Function(_regexp, ("text",), 2, 3),
    "regexp_match": Function(_regexp_match, ("text",), 2, 3),
    "concat": Function(
        lambda *v: concat(*(pc.coalesce(pc.cast(x, pa.string()), "") for x in v)), ("",), 1, 99
    ),
    "replace": Function(
        lambda v, old, new: pc.replace_substring(
            v, pattern=_constant(old), replacement=_constant(new)
        ),
        ("text",),
        3,
        3,
    ),
    "left": Function(_left, ("text", "number"), 2, 2),
    "repeat": Function(pc.binary_repeat, ("text", "number"), 2, 2),
    "strpos": Function(_strpos, ("text",), 2, 2),
    "abs": _unary(pc.abs_checked, "number"),
    "round": Function(_round, ("number",), 1, 2),
    "floor": _unary(pc.floor, "number"),
    "ceil": _unary(pc.ceil, "number"),
    "trunc": _unary(pc.trunc, "number"),
    "power": Function(
        lambda v, e: pc.power(pc.cast(v, pa.float64()), pc.cast(e, pa.float64())),
        ("number", "number"),
        2,
        2,
    ),
    "sqrt": _unary(pc.sqrt, "number"),
    "exp": _unary(pc.exp, "number"),
    "ln": _unary(pc.ln, "number"),
    "log2": _unary(pc.log2, "number"),
    "log10": _unary(pc.log10, "number"),
    "isnan": _unary(_isnan, "number"),
    "coalesce": Function(pc.coalesce, ("",), 1, 99, same=True),
    "ifnull": Function(pc.coalesce, ("",), 2, 2, same=True),
    "nvl": Function(pc.coalesce, ("",), 2, 2, same=True),
    "nullif": Function(
        lambda v, other: pc.if_else(
            pc.fill_null(COMPARISONS["="](v, other), False), pa.scalar(None, v.type), v
        ),
        ("",),
        2,
        2,
        same=True,
    ),
    "greatest": Function(pc.max_element_wise, ("",), 1, 99, same=True),
    "least": Function(pc.min_element_wise, ("",), 1, 99, same=True),
    "array_has": Function(_array_has, ("list", ""), 2, 2),
    "array_contains": Function(_array_has, ("list", ""), 2, 2),
    "array_has_any": Function(_array_has_any, ("list", "list"), 2, 2),
    "array_has_all": Function(_array_has_all, ("list", "list"), 2, 2),
    "empty": _unary(_is_empty, "list"),
    "array_empty": _unary(_is_empty, "list"),
    "array_length": _unary(lambda v: pc.cast(pc.list_value_length(v), pa.uint64()), "list"),
    "cardinality": _unary(lambda v: pc.cast(pc.list_value_length(v), pa.uint64()), "list"),
    "date_part": Function(_date_part, ("text", "moment"), 2, 2),
    "date_trunc": Function(_date_trunc, ("text", "moment"), 2, 2),
}
