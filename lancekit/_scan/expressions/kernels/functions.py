"""The functions of the filter language, by name, over Arrow arrays and scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._casts import nearest
from lancekit._format.arrow_parts import decimal_size, unit_and_zone
from lancekit._scan.expressions.kernels import sizes
from lancekit._scan.expressions.kernels.function import ANY_NUMBER, Function
from lancekit._scan.expressions.kernels.json_values import JSON_FUNCTIONS
from lancekit._scan.expressions.kernels.lists import LIST_FUNCTIONS, NUMBER_FUNCTIONS
from lancekit._scan.expressions.kernels.moments import UNITS, in_common_zone
from lancekit._scan.expressions.kernels.operators import COMPARISONS, Value, family
from lancekit._scan.expressions.kernels.temporal import TIME_FUNCTIONS
from lancekit._scan.expressions.kernels.text import TEXT_FUNCTIONS


def _typed(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Cast values to one type that can hold every value; Arrow's own coercion refuses some."""
    kinds = [value.type for value in values]
    families = {family(kind) for kind in kinds} - {"null"}
    zoned = next((v for v in values if pt.is_timestamp(v.type) and v.type.tz), None)
    if zoned is not None:
        values = tuple(in_common_zone(value, zoned)[0] for value in values)
        unit = max((unit_and_zone(v.type)[0] for v in values), key=UNITS.index)
        moment = pa.timestamp(unit, unit_and_zone(zoned.type)[1])
        return tuple(pc.cast(value, moment) for value in values)
    if families and families <= {"text", "bytes"} and len(set(kinds)) > 1:
        name = "binary" if "bytes" in families else "string"
        large = any(pt.is_large_string(kind) or pt.is_large_binary(kind) for kind in kinds)
        return tuple(pc.cast(value, f"large_{name}" if large else name) for value in values)
    if any(map(pt.is_floating, kinds)):
        return tuple(v if pt.is_floating(v.type) else nearest(v, pa.float64()) for v in values)
    signs = any(map(pt.is_uint64, kinds)) and any(map(pt.is_signed_integer, kinds))
    if not (signs or any(map(pt.is_decimal128, kinds))):
        return values
    values = tuple(pc.cast(v, pa.decimal128(20)) if pt.is_integer(v.type) else v for v in values)
    sizes_of = [decimal_size(v.type) for v in values]
    scale = max(places for _, places in sizes_of)
    digits = max(precision - places for precision, places in sizes_of)
    kind = pa.decimal128(min(38, digits + scale), scale)
    return tuple(ak.cast_decimals(v, kind) for v in values)


def _of_one_type(kernel: Callable[..., Value], most: int = ANY_NUMBER) -> Function:
    least = 2 if most == 2 else 1
    return Function(
        lambda *values: kernel(*_typed(values)), ("",), least, most, same=True, size=sizes.joined
    )


def _extreme(kernel: Callable[..., Value], *values: Value) -> Value:
    kind = values[0].type
    if not (pt.is_timestamp(kind) and kind.tz):
        return kernel(*values)
    counts = (pc.cast(value, pa.int64()) for value in values)  # Arrow compares no zoned timestamps
    return pc.cast(kernel(*counts), kind)


def _greatest(*values: Value) -> Value:
    found = _extreme(ak.max_element_wise, *values)
    if pt.is_floating(found.type):
        for value in values:
            # NaN is greater than every number, and Arrow skips it
            found = pc.if_else(pc.fill_null(pc.is_nan(value), False), value, found)
    return found


def _nullif(value: Value, other: Value) -> Value:
    same = pc.fill_null(COMPARISONS["="](value, other), False)
    return pc.if_else(same, scalar_of(None, value.type), value)


def _nvl2(value: Value, given: Value, missing: Value) -> Value:
    return pc.if_else(pc.is_valid(value), given, missing)


CHOICES: Mapping[str, Function] = {
    "coalesce": _of_one_type(pc.coalesce),
    **dict.fromkeys(("ifnull", "nvl"), _of_one_type(pc.coalesce, 2)),
    "nvl2": Function(_nvl2, ("",), 3, 3, size=sizes.joined),
    "nullif": Function(_nullif, ("",), 2, 2, same=True),
    "greatest": _of_one_type(_greatest),
    "least": _of_one_type(partial(_extreme, ak.min_element_wise)),
}

FUNCTIONS: Mapping[str, Function] = {
    **CHOICES,
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **TIME_FUNCTIONS,
    **LIST_FUNCTIONS,
    **JSON_FUNCTIONS,
}
