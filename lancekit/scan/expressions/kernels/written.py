"""Casts to text: values as Lance readers write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.arrow_values import scalar_of
from lancekit.casts.kernels import check_local, cut
from lancekit.format.arrow_parts import unit_and_zone, unit_of
from lancekit.scan.expressions.kernels.operators import Value

__all__ = ["write_text"]

#: from here on numbers are written with an exponent, by Arrow and in the language
_EXPONENT_OF_ARROW, _EXPONENT = 1e10, 1e16
#: days from 1970 on whose years Arrow writes: -32767 to 32767
_FIRST_DAY, _LAST_DAY = -12_687_428, 11_248_737


def _check_years(value: Value) -> None:
    """Refuse dates and timestamps whose years Arrow writes as other years."""
    if pt.is_timestamp(value.type):
        check_local(value)
    days = pc.cast(value if pt.is_date32(value.type) else cut(value, pa.date32()), pa.int32())
    beyond = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    if (beyond if isinstance(beyond, pa.Scalar) else pc.any(beyond)).as_py():
        raise pa.ArrowInvalid(f"a value of type {value.type} is not within years -32767 to 32767")


def _seconds_text(value: Value, form: str) -> Value:
    """Write a moment in ISO 8601, with no more digits of the second than it has."""
    text = pc.strftime(value, format=form)
    for zeros, kept in ((r"\.0+$", ""), (r"(\.\d{3})(000)+$", r"\1"), (r"(\.\d{6})000$", r"\1")):
        text = pc.replace_substring_regex(text, pattern=zeros, replacement=kept)
    return text


def _moment_text(value: Value) -> Value:
    text = _seconds_text(value, "%Y-%m-%dT%H:%M:%S")
    _, zone = unit_and_zone(value.type)
    if not zone:
        return text
    offset = pc.strftime(value, format="%Ez")
    if zone.upper() in ("UTC", "Z"):
        offset = pc.replace_substring(offset, pattern="+00:00", replacement="Z")
    joined: Value = pc.binary_join_element_wise(text, offset, "")
    return joined


def _time_text(value: Value) -> Value:
    unit = unit_of(value.type)
    as_integer = pc.cast(pc.cast(value, pa.int32() if unit in ("s", "ms") else pa.int64()), "int64")
    return _seconds_text(pc.cast(as_integer, pa.timestamp(unit)), "%H:%M:%S")


def _float_text(value: Value) -> Value:
    text = pc.cast(value, pa.string())
    if isinstance(value, pa.Array) and isinstance(text, pa.Array):
        size = pc.abs(value)
        long = pc.and_kleene(pc.greater_equal(size, _EXPONENT_OF_ARROW), pc.less(size, _EXPONENT))
        if pc.any(long).as_py():
            digits = pa.array(map(repr, ak.filter(value, long).to_pylist()), pa.string())
            text = pc.replace_with_mask(text, pc.fill_null(long, False), digits)
    whole = pc.replace_substring_regex(text, pattern=r"^(-?\d+)$", replacement=r"\1.0")
    powers = pc.replace_substring_regex(whole, pattern=r"e\+?(-?)0*(\d)", replacement=r"e\1\2")
    return pc.replace_substring(powers, pattern="nan", replacement="NaN")


def _decimal_text(value: Value) -> Value:
    """Write all digits: Arrow writes small numbers with an exponent."""
    text: Any = pc.cast(value, pa.string())
    if isinstance(value, pa.Scalar):
        plain = None if value.as_py() is None else format(value.as_py(), "f")
        return scalar_of(plain, pa.string())
    short: Any = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(short).as_py():
        return text  # type: ignore[no-any-return]
    digits = [format(one, "f") for one in ak.filter(value, short).to_pylist()]
    whole: Value = pc.replace_with_mask(text, short, pa.array(digits, pa.string()))
    return whole


def _list_text(value: Value, items: Callable[[pa.Array], pa.Array]) -> Value:
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
    texts = pc.coalesce(items(pc.list_flatten(value)), "")
    offsets = np.concatenate(([0], np.cumsum(pc.fill_null(pc.list_value_length(value), 0))))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ", "), "]", "")
    return pc.if_else(pc.is_valid(value), joined, scalar_of(None, pa.string()))


def write_text(value: Value, items: Callable[[pa.Array], pa.Array]) -> Value:
    """Write values as text; `items` writes those of lists."""
    kind = value.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        _check_years(value)
    if pt.is_timestamp(kind):
        return _moment_text(value)
    if pt.is_date64(kind):
        return _moment_text(pc.cast(value, pa.timestamp("ms")))
    if pt.is_decimal(kind):
        return _decimal_text(value)
    if pt.is_time(kind):
        return _time_text(value)
    if pt.is_floating(kind):
        return _float_text(value)
    if pt.is_list(kind):
        return _list_text(value, items)
    return pc.cast(value, pa.string())
