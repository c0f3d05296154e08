"""Which values are among many, looked up as sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import arrow_compute as pc
from lancekit.arrow_values import numbers_of, scalar_of
from lancekit.file.kernels.bits import pack
from lancekit.format.arrow_parts import decimal_size
from lancekit.scan.expressions.kernels.moments import members_in_unit
from lancekit.scan.expressions.kernels.operators import (
    COMPARISONS,
    Value,
    align,
    as_array,
    family,
)

__all__ = ["is_among"]


def is_among(value: Value, sets: Sequence[pa.Array], has_null: bool) -> Value:
    """Tell where a value is in one of some sets; where it is in none, a null makes that unknown."""
    none: Value = scalar_of(False)
    found = reduce(pc.or_, [_is_in(value, some) for some in sets], none)
    missing = scalar_of(None if has_null else False, pa.bool_())
    told = pc.if_else(found, scalar_of(True), missing)
    return pc.if_else(pc.is_valid(value), told, scalar_of(None, pa.bool_()))


def _is_in(value: Value, some: pa.Array) -> Value:
    """Tell where a value equals one of some others."""
    if value.type != some.type and family(value.type) == family(some.type) == "moment":
        value, some = members_in_unit(value, some)
    left, right = align(value, some)
    left, right = _alike(left, as_array(right, len(some)))
    if left.type != right.type:  # what Arrow compares, and has no sets of
        return reduce(pc.or_, [COMPARISONS["="](value, other) for other in some])
    if pt.is_floating(left.type):
        left, right = pc.add(left, 0.0), pc.add(right, 0.0)  # one zero
    if isinstance(left, pa.Scalar) or not pt.is_integer(left.type) or left.type.bit_width < 16:
        return pc.is_in(left, value_set=right)
    # what is found for nulls does not matter
    return _among_integers(pc.fill_null(left, scalar_of(0, left.type)), right)


#: bytes of a table for each number that is looked up in it, at most
_TABLE_BYTES = 64
#: of fewer members, one after the other is looked for
_FEW_MEMBERS = 48


def _among_integers(left: pa.Array, right: pa.Array) -> pa.Array:
    """Look whole numbers up in a table where they lie close enough, else by their hashes."""
    numbers, members = numbers_of(left), numbers_of(right)
    span = int(members.max()) - int(members.min())
    most = min(_TABLE_BYTES * (len(left) + len(right)), np.iinfo(members.dtype).max)
    few = len(members) < _FEW_MEMBERS
    if span > most and not few:
        return pc.is_in(left, value_set=right)
    found = np.isin(numbers, members, kind=None if few else "table")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(left), [None, pa.py_buffer(pack(found))])


def _alike(left: Value, right: pa.Array) -> tuple[Value, pa.Array]:
    """Bring both to one type, where one holds the values of both."""
    kinds = left.type, right.type
    if kinds[0] == kinds[1]:
        return left, right
    for test, common in ((pt.is_integer, pa.int64()), (pt.is_floating, pa.float64())):
        if all(map(test, kinds)):
            return pc.cast(left, common), right.cast(common)
    if all(map(pt.is_decimal, kinds)):
        sizes = [decimal_size(kind) for kind in kinds]
        scale = max(places for _, places in sizes)
        whole = max(digits - places for digits, places in sizes)
        wide = pa.decimal256(whole + scale, scale)
        return pc.cast(left, wide), right.cast(wide)
    if pt.is_string(kinds[1]) and pt.is_large_string(kinds[0]):
        return left, pc.cast(right, kinds[0])
    if pt.is_timestamp(kinds[1]) and pt.is_date(kinds[0]):
        return pc.cast(left, kinds[1]), right
    if pt.is_date(kinds[1]) and pt.is_timestamp(kinds[0]):
        return left, pc.cast(right, kinds[0])
    return left, right
