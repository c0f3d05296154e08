"""The functions of the filter language, by name, over Arrow arrays and scalars."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.scan._function import ANY_NUMBER, Function
from lancekit.scan._kernels import COMPARISONS, Value
from lancekit.scan._list_functions import LIST_FUNCTIONS
from lancekit.scan._number_functions import NUMBER_FUNCTIONS
from lancekit.scan._text_functions import TEXT_FUNCTIONS
from lancekit.scan._time_functions import TIME_FUNCTIONS

__all__ = ["CHOICES", "FUNCTIONS"]


def _coalesce(*values: Value) -> Value:
    if any(pt.is_floating(v.type) for v in values):
        values = tuple(v if pt.is_floating(v.type) else pc.cast(v, "double", False) for v in values)
    return pc.coalesce(*values)


def _nullif(value: Value, other: Value) -> Value:
    same = pc.fill_null(COMPARISONS["="](value, other), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)


def _nvl2(value: Value, given: Value, missing: Value) -> Value:
    return pc.if_else(pc.is_valid(value), given, missing)


_COALESCE_TWO = Function(_coalesce, ("",), 2, 2, same=True)

CHOICES: Mapping[str, Function] = {
    "coalesce": Function(_coalesce, ("",), 1, ANY_NUMBER, same=True),
    "ifnull": _COALESCE_TWO,
    "nvl": _COALESCE_TWO,
    "nvl2": Function(_nvl2, ("",), 3, 3),
    "nullif": Function(_nullif, ("",), 2, 2, same=True),
    "greatest": Function(pc.max_element_wise, ("",), 1, ANY_NUMBER, same=True),
    "least": Function(pc.min_element_wise, ("",), 1, ANY_NUMBER, same=True),
}

FUNCTIONS: Mapping[str, Function] = {
    **CHOICES,
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **TIME_FUNCTIONS,
    **LIST_FUNCTIONS,
}
